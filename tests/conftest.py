"""Fixtures shared by all tests: the simulator installed as `import nki`, the command line run in this process, and
inputs for it.

Hypothesis has no deadline, because no test asserts a time. By default, it draws the same examples in each run, so that
the result of a run depends on the code and the versions of the packages alone. `pytest --hypothesis-profile exploring`
draws others in each run, to look for new faults.
"""

from __future__ import annotations

import json
import os
import re

# One BLAS thread: the tiles of a kernel are too small for more, and threads that wait for a busy core slow each other
# down.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import atexit
import gc
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from report_schema import SCHEMA, check_schema
from reproducible_draws import draw_no_constants_of_modules
from small_inputs import draw_picture, write_model
from trninfer import simulator
from trninfer.app.main import GARBAGE_THRESHOLDS, run
from trninfer.models import Conv2d, Dense, FeatureInput, Flatten, ImageInput, Network, Softmax

# the cache of plans and compiled kernels is shared only by the processes of this test run
if "TRNINFER_CACHE" not in os.environ:
    os.environ["TRNINFER_CACHE"] = tempfile.mkdtemp(prefix="trninfer-tests-")
    atexit.register(shutil.rmtree, os.environ["TRNINFER_CACHE"], ignore_errors=True)
    # otherwise each of hundreds of child processes compiles the package
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        os.environ["PYTHONPYCACHEPREFIX"] = os.path.join(os.environ["TRNINFER_CACHE"], "bytecode")

# children that are started as `python3`, such as stand-ins for AWS's tools, have the packages of this interpreter
os.environ["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))

gc.disable()  # until the tests are collected, because what collection creates lives until the process ends
simulator.install()
# A slow machine is no fault of a test, and in CI the default profile would be another one.
STEADY = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("trninfer", settings.get_profile("default"), derandomize=True, max_examples=30, **STEADY)
settings.register_profile(
    "exploring", settings.get_profile("default"), derandomize=False, max_examples=300, print_blob=True, **STEADY
)
settings.load_profile("trninfer")  # --hypothesis-profile is read later
draw_no_constants_of_modules()


@pytest.fixture(autouse=True)
def no_planner_faults(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail a test if a planner raises an exception: users then get layer-by-layer execution, but the exception is a
    bug."""
    yield
    faults = [record for record in caplog.get_records("call") if record.levelname == "ERROR" and record.exc_info]
    names = {record.name: record.getMessage() for record in faults}
    assert not [name for name in names if name.startswith("trninfer") and name != "trninfer.serving"], names


@pytest.fixture
def one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the planned launches even if running layer by layer may be faster."""
    monkeypatch.setattr("trninfer.runtime.launches.quicker", lambda *arguments: arguments[4])


@pytest.fixture
def first_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the first launch that fits, for tests that check only answers; other tests do not see these plans."""
    monkeypatch.setattr("trninfer.lowering.search.search.WALKED_INSTRUCTIONS", 0)
    monkeypatch.setattr("trninfer.lowering.search.search.FEWEST_WALKED", 1)
    monkeypatch.setenv("TRNINFER_CACHE", os.path.join(os.environ["TRNINFER_CACHE"], "first"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--told-skips FILE`: a test skipped for a reason that matches no line of the file counts as a failure.
    `--networks N`, `--all-combinations`: the scope of test_batches.py."""
    parser.addoption("--told-skips", type=Path, help="file of the reasons for which a test may skip, one a line")
    parser.addoption("--networks", type=int, default=10, help="random networks that test_batches.py draws")
    parser.addoption("--all-combinations", action="store_true", help="every dtype, target and batch in test_batches.py")


class FolderAboveTests:
    """Collect the repository's folder as a plain folder: since it is also the package `trninfer`, pytest would import
    it under the folder's name, which may contain a hyphen. Hooks in this file itself apply only to the folders in
    `tests`."""

    @staticmethod
    def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        return pytest.Dir.from_parent(parent, path=path) if path == Path(__file__).parents[1] else None


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(FolderAboveTests())


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Exempt the objects created by collection from garbage collection, and collect as rarely as the program does.

    Keep pytest's own line width, because tests set COLUMNS, also to invalid values.
    """
    if session.config.pluginmanager.has_plugin("terminalreporter"):
        writer = session.config.get_terminal_writer()
        writer.fullwidth = writer.fullwidth
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the session if a test was skipped unexpectedly."""
    told: Path | None = session.config.getoption("--told-skips")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if told is None or reporter is None:
        return
    lines = [line.partition("  #")[0].strip() for line in told.read_text(encoding="utf-8").splitlines()]
    reasons = [re.compile(line) for line in lines if line and not line.startswith("#")]
    for report in reporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(pattern.search(reason) for pattern in reasons):
            reporter.write_line(f"skipped, and {told.name} does not tell why: {report.nodeid}: {reason}", red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Escape lone surrogates, which xdist cannot send from a worker: the whole run would end there."""
    return _whole((yield))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_whole(key): _whole(each) for key, each in value.items()}
    return type(value)(map(_whole, value)) if type(value) in (list, tuple) else value


class Outcome(NamedTuple):
    """The result of a command line."""

    status: int
    out: str
    err: str

    @property
    def messages(self) -> int:
        """Return the messages on standard error; long messages continue on indented lines."""
        return sum(not line.startswith("  ") for line in self.err.splitlines())

    def json(self) -> Any:
        """Return standard output as a report that conforms to the schema."""
        document = json.loads(self.out)
        check_schema(document, SCHEMA)
        return document


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Run a command line in this process."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)

    def call(*arguments: object) -> Outcome:
        capfd.readouterr()
        monkeypatch.delenv("TRNINFER_BACKEND", raising=False)  # an earlier command line may have set it
        status = run([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Outcome(status, captured.out, captured.err)

    return call


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """Return a folder owned by a user without access to everything; if root runs the tests, they become nobody in the
    meantime."""
    folder = Path(tempfile.mkdtemp())
    root, nobody = os.geteuid(), 65534
    try:
        if root == 0:
            os.chown(folder, nobody, -1)
            os.seteuid(nobody)
        yield folder
    finally:
        os.seteuid(root)
        for path in (folder, *folder.iterdir()):
            path.chmod(0o700)
        shutil.rmtree(folder)


@pytest.fixture
def process() -> Callable[..., subprocess.Popen[bytes]]:
    """Start a command line in a separate process."""

    def start(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "COLUMNS": "80", "OMP_NUM_THREADS": "1", **options.pop("env", {})}
        command = [sys.executable, "-m", "trninfer", *map(str, arguments)]
        # A process that ignores Ctrl-C, like a shell for its background jobs, passes this on to the tests.
        options.setdefault("preexec_fn", lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env=environment, **{**pipes, **options})

    return start


@pytest.fixture(scope="session")
def picture_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small network for pictures of digits."""
    layers = (
        Conv2d("conv", 1, 4, (3, 3), (1, 1, 1, 1), 2, "relu"),
        Flatten("flatten"),
        Dense("head", 4 * 8 * 8, 10),
        Softmax("softmax"),
    )
    network = Network("tiny-cnn", ImageInput(1, 16, 16, "digit", (0.0,), (1.0,)), layers, tuple("0123456789"))
    return write_model(tmp_path_factory.mktemp("models") / "tiny-cnn.safetensors", network)


@pytest.fixture(scope="session")
def feature_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small network for rows of six features."""
    layers = (Dense("hidden", 6, 8, "relu"), Dense("output", 8, 3), Softmax("softmax"))
    network = Network("tiny-ffnn", FeatureInput(6), layers, ("red", "green", "blue"))
    return write_model(tmp_path_factory.mktemp("models") / "tiny-ffnn.safetensors", network)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Return a folder of three pictures."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(3):
        draw_picture(folder / f"{number}.png", number)
    return folder
