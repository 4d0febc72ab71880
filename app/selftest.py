"""`trninfer doctor --selftest`: check every kernel and the bundled networks against the golden models, and write the
archive."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import io
import itertools
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..inference.pictures import PictureBatches, ignore_warnings
from ..models.bundled import SAMPLES
from ..models.files import Model, load_model
from ..models.inputs import ImageInput
from ..runtime.backend import Backend, BackendUnavailable
from ..runtime.neuron.compile_cache import FAILURE_LOG, CompileCache, cache_folder
from ..runtime.neuron.compile_only import CompileOnlyBackend, open_compile_only
from ..runtime.neuron.compiled import DEFAULT_COMPILE_SECONDS
from ..runtime.neuron.compiled import RunOptions as KernelOptions
from ..runtime.selftest.run import check_kernels, check_network, count_checks
from ..runtime.simulated import SimulatedBackend
from .backends import open_backend, progress_printer
from .errors import Terminated, complain
from .options import RunOptions
from .output import check_output, stream_of, write_bytes, write_output
from .progress import progress_bar
from .redact import Redactor
from .reports.selftest import SelfTest, document_of, join_documents, render, render_machine

FEATURE_ROWS = 8  # number of rows used from samples/digits-X.bin
COMPILE_TARGETS = ("trn2", "trn3")  # targets supported by the compiler of NKI 0.7
_DATE = (2026, 1, 1, 0, 0, 0)  # timestamp of every file in the archive; the report contains the actual time


def run_selftest(options: RunOptions, archive: Path | None, machine: list[dict[str, Any]]) -> int:
    """Run all checks, write the report and the archive, and return the exit status. `machine` contains the checks of
    `doctor`.

    The archive is always written, even if the chip is lost partway through.
    """
    folder = cache_folder()
    log = None if folder is None else folder / FAILURE_LOG
    before = _written(log)
    backend = open_backend(dataclasses.replace(options, device_times=options.backend != "sim"))
    test = SelfTest(backend.info, options.dtype)
    path = archive or Path(f"trninfer-selftest-{backend.info.target}-{test.place}-{test.dtype}.zip")
    check_output(path, "--archive")
    ended = _run(test, backend, options.quiet)
    more = {}
    if log is not None and _written(log) != before:
        more["compiler.log"] = log.read_text(encoding="utf-8", errors="replace")
    status = _finish([test], options, path, machine, more)
    if ended is not None:
        raise ended
    return status


def run_compile_only(options: RunOptions, archive: Path | None, machine: list[dict[str, Any]]) -> int:
    """Compile every kernel and the bundled networks for the given target, or by default for trn2 and trn3. Otherwise
    identical to `run_selftest`."""
    targets = (options.target,) if options.target else COMPILE_TARGETS
    path = archive or Path(f"trninfer-selftest-{'-'.join(targets)}-compiler-{options.dtype}.zip")
    check_output(path, "--archive")
    seconds = options.compile_timeout or DEFAULT_COMPILE_SECONDS
    kernel_options = KernelOptions(
        compile_seconds=seconds, cache=CompileCache(None), progress=progress_printer(options), warn=complain
    )
    tests: list[SelfTest] = []
    ended: BaseException | None = None
    for target in targets:
        backend = open_compile_only(target, kernel_options)
        tests.append(SelfTest(backend.info, options.dtype))
        try:
            ended = _run(tests[-1], backend, options.quiet)
        finally:
            backend.close()
        if ended is not None:
            break
    status = _finish(tests, options, path, machine, {})
    if ended is not None:
        raise ended
    return status


def _run(test: SelfTest, backend: Backend, quiet: bool) -> BaseException | None:
    """Run the checks and the networks and add their results to `test`. Return the exception that interrupted them, if
    any; results obtained before it are still useful."""
    simulator = SimulatedBackend(backend.info.target) if test.on_chip else None
    verb = "compiling" if isinstance(backend, CompileOnlyBackend) else "checking"
    try:
        with progress_bar(f"{verb} kernels", count_checks(test.dtype), quiet) as progress:
            for checked in check_kernels(backend, test.dtype, simulator):
                test.kernels.append(checked)
                progress(len(test.kernels))
        for model, names, x in _samples():
            for outcome in check_network(model, names, x, backend, test.dtype, simulator):
                test.networks.append((model, outcome))
    except BackendUnavailable as error:
        test.stopped = str(error)
    except (KeyboardInterrupt, Terminated) as error:
        test.stopped = "interrupted"
        return error
    return None


def _finish(
    tests: list[SelfTest], options: RunOptions, path: Path, machine: list[dict[str, Any]], more: dict[str, str]
) -> int:
    """Write the archive and the report, and return the worst exit status of the tests."""
    folder = cache_folder()
    redactor = Redactor({str(folder): "<cache>"} if folder is not None else None)
    document = redactor.value(join_documents([document_of(test, machine) for test in tests]))
    files = {
        "selftest.json": render_machine(document, "json"),
        "selftest.txt": "\n".join(render(test, None) for test in tests),
        "pip.txt": _installed(),
        **more,
    }
    files |= {
        f"measured-{model.network.name}.csv": outcome.comparison.to_csv()
        for model, outcome in itertools.chain.from_iterable(test.networks for test in tests)
        if outcome.comparison is not None
    }
    write_bytes(_zip({name: redactor.text(text) for name, text in files.items()}), path, "--archive")
    if options.form == "table" or options.form == "markdown":
        text = "\n".join(render(test, stream_of(options.output)) for test in tests)
    else:
        text = render_machine(document, options.form)
    write_output(text, options.output)
    for reason in filter(None, (test.stopped for test in tests)):
        complain(f"the self-test did not finish: {reason}")
    complain(f"{path}: {tests[0].what_to_do}")
    return max(test.status for test in tests)


def _written(log: Path | None) -> float:
    try:
        return log.stat().st_mtime if log is not None else 0.0
    except OSError:
        return 0.0


def _installed() -> str:
    """Return the list of installed packages in pip's format."""
    packages = {
        (distribution.metadata["Name"], distribution.version) for distribution in importlib.metadata.distributions()
    }
    return "".join(f"{name}=={version}\n" for name, version in sorted(packages, key=lambda item: str(item[0]).lower()))


def _samples() -> Iterator[tuple[Model, tuple[str, ...], np.ndarray]]:
    """Yield the bundled networks with their sample inputs."""
    ignore_warnings()
    for name, folder in (("digits-cnn", SAMPLES), ("digits-detect", SAMPLES / "several-digits")):
        model = load_model(name)
        assert isinstance(model.network.input, ImageInput)
        paths = sorted(str(path) for path in folder.iterdir() if path.suffix in (".png", ".jpg"))
        ((_, x),) = PictureBatches(paths, model.network.input, len(paths))
        yield model, tuple(Path(path).name for path in paths), x
    model = load_model("digits-ffnn")
    rows = np.fromfile(SAMPLES / "digits-X.bin", "<f4").reshape(-1, *model.network.input.shape)[:FEATURE_ROWS]
    yield model, tuple(f"digits-X.bin[{row}]" for row in range(len(rows))), rows


def _zip(files: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), text, zipfile.ZIP_DEFLATED)
    return content.getvalue()
