"""A pytest plugin that runs the kernels of tests on the simulator. `--nki-simulator` or a setting enables it.

# pytest.ini: nki_simulator = true
def test_softmax_is_right_and_fast(nki_run):
    x = np.random.default_rng(0).standard_normal((256, 512)).astype(np.float32)
    run = nki_run(softmax, x)
    np.testing.assert_allclose(run.outputs[0], reference(x), rtol=1e-4)
    assert run.memory.sbuf_bytes < 64 * 1024

def test_softmax_stays_fast(nki_run):  # a failure shows which lines take the time
    nki_run(softmax, np.ones((256, 512), np.float32), max_us=60)

def test_softmax_gets_no_slower(nki_run):  # than baselines.json says, which `pytest --nki-update-baselines` writes
    nki_run(softmax, np.ones((256, 512), np.float32), baseline="baselines.json")
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .running.run import Run

SHOWN_LINES = 5  # number of source lines shown for a kernel that is too slow
TOLERANCE = 0.01  # allowed slowdown relative to the baseline
LACKING = (
    "pass --nki-simulator, or set nki_simulator = true in pytest's settings: `import nki` then finds the simulator"
)
_counts = pytest.StashKey[dict[str, int]]()  # number of launches that were compared with a baseline, keyed by test


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command-line options and the setting of the plugin."""
    group = parser.getgroup("trninfer")
    text = "make `import nki` find trninfer's simulator; the fixture nki_run runs kernels on it"
    group.addoption("--nki-simulator", action="store_true", help=text)
    updates = "write the predicted times of nki_run(..., baseline=FILE) to their files instead of comparing them"
    group.addoption("--nki-update-baselines", action="store_true", help=updates)
    parser.addini("nki_simulator", text, type="bool", default=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, Any, Any]:
    """Install the simulator before any conftest.py or test is imported."""
    if is_on(early_config):
        from . import install

        install()
    try:
        return (yield)
    except Exception as error:
        if lacks_nki(error):
            raise pytest.UsageError(f"{error}\n{LACKING}") from None
        raise


def pytest_configure(config: pytest.Config) -> None:
    """Install the simulator if conftest.py itself loads this plugin."""
    if is_on(config):
        from . import install

        install()
    if config.getoption("--nki-update-baselines") and getattr(config.option, "numprocesses", None):
        raise pytest.UsageError(
            "--nki-update-baselines cannot be combined with -n, because all tests write to the same files"
        )


def is_on(config: pytest.Config) -> bool:
    """Return True if the option or the setting enables the plugin."""
    options = config.known_args_namespace
    return bool(getattr(options, "nki_simulator", False) or config.getini("nki_simulator"))


def pytest_exception_interact(
    node: Any, call: pytest.CallInfo[Any], report: pytest.CollectReport | pytest.TestReport
) -> None:
    """Add an explanation of how to make `import nki` work to the report of an import error for `nki`."""
    if call.excinfo is not None and lacks_nki(call.excinfo.value) and not is_on(node.config):
        report.sections.append(("trninfer", LACKING))


def lacks_nki(error: BaseException | None) -> bool:
    """Return True for an import error because `nki` was not found, and for errors caused by such an error."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name == "nki":
            return True
        error = error.__cause__ or error.__context__
    return False


@pytest.fixture
def nki_run(request: pytest.FixtureRequest) -> Callable[..., Run]:
    """Provide `simulator.run` as a fixture.

    Its result has outputs, latency_us and memory.

    The test fails if the sanitizer reports errors, unless `sanitize=False` is passed. If `max_us` is given, the test
    fails if the kernel is predicted to take longer; the message shows the resources and lines of the kernel that take
    the most time. If `baseline`, a path relative to the folder of the test, is given, the test fails if the kernel is
    slower than recorded in that file by more than the fraction `tolerance`; the message shows the resources and lines
    that became slower. `pytest --nki-update-baselines` writes the file.
    """
    if not is_on(request.config):
        pytest.fail(
            "nki_run requires --nki-simulator, or nki_simulator = true in pytest's configuration", pytrace=False
        )
    from .machine.errors import NkiValidationError, without_ours
    from .running.launch import run

    def checked(
        kernel: Callable[..., Any],
        *arrays: Any,
        max_us: float | None = None,
        baseline: str | Path | None = None,
        tolerance: float = TOLERANCE,
        **options: Any,
    ) -> Run:
        __tracebackhide__ = True
        try:
            result = run(kernel, *arrays, **{"sanitize": True, **options})
        except NkiValidationError as error:
            raise error.with_traceback(without_ours(error)) from None
        if result.findings:
            pytest.fail("\n".join(map(str, result.findings)), pytrace=False)
        if max_us is not None and result.latency_us > max_us:
            pytest.fail(_too_slow(result, max_us), pytrace=False)
        if baseline is not None and (why := _against_baseline(request, result, Path(baseline), tolerance)):
            pytest.fail(why, pytrace=False)
        return result

    return checked


def _too_slow(run: Run, max_us: float) -> str:
    """Describe where the time is spent in a kernel that takes longer than allowed."""
    from .timing.by_line import describe_critical, describe_line

    head = f"{run.name} is predicted to take {run.latency_us:.2f} us on {run.target}; the limit is {max_us:g} us"
    lines = [describe_line(line) for line in run.lines[:SHOWN_LINES]]
    return "\n".join([head, f"critical path: {describe_critical(run)}", *lines, *run.advice])


def _against_baseline(request: pytest.FixtureRequest, run: Run, path: Path, tolerance: float) -> str:
    """Compare a launch with its baseline, or write the baseline. Return the failure message, or "" if there is none."""
    from .search.baseline import BaselineError, entry_of, read, slower, write

    path = request.path.parent / path
    counts = request.node.stash.setdefault(_counts, {})
    name = f"{request.path.name}::{request.node.nodeid.partition('::')[2]} {run.name} on {run.target}"
    counts[name] = counts.get(name, 0) + 1
    name += f" #{counts[name]}" if counts[name] > 1 else ""
    try:
        if request.config.getoption("--nki-update-baselines"):
            write(path, {name: entry_of(run)})
            return ""
        entry = read(path).get(name)
    except BaselineError as error:
        return str(error)
    if entry is None:
        return f"{path} has no baseline of {name}: run pytest --nki-update-baselines"
    return slower(entry, run, tolerance)
