"""`trninfer doctor --selftest`: every kernel and the bundled networks against the golden models, and what to send."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from ..inference.pictures import PictureBatches, ignore_warnings
from ..models.bundled import SAMPLES
from ..models.files import Model, load_model
from ..models.inputs import ImageInput
from ..runtime.backend import BackendUnavailable
from ..runtime.neuron.compile_cache import FAILURE_LOG, cache_folder
from ..runtime.selftest.run import check_kernels, check_network, count_checks
from ..runtime.simulated import SimulatedBackend
from .backends import open_backend
from .errors import complain
from .options import RunOptions
from .output import check_output, stream_of, write_bytes, write_output
from .progress import progress_bar
from .redact import Redactor
from .reports.selftest import SelfTest, document_of, render, render_machine

FEATURE_ROWS = 8  # of samples/digits-X.bin
_DATE = (2026, 1, 1, 0, 0, 0)  # of every file in the archive: when it ran is in it


def run_selftest(options: RunOptions, archive: Path | None, machine: list[dict[str, Any]]) -> int:
    """Run it all, write report and archive, and return the exit status. `machine` is what doctor found.

    The archive is written whatever comes out, also where the chip is lost on the way.
    """
    log = cache_folder() / FAILURE_LOG
    before = _written(log)
    backend = open_backend(dataclasses.replace(options, device_times=options.backend != "sim"))
    test = SelfTest(backend.info, options.dtype)
    path = archive or Path(f"trninfer-selftest-{backend.info.target}-{test.place}-{test.dtype}.zip")
    check_output(path, "--archive")
    with ExitStack() as stack:
        try:
            beside = SimulatedBackend(backend.info.target) if test.on_chip else None
            progress = stack.enter_context(progress_bar("checking kernels", count_checks(test.dtype), options.quiet))
            for checked in check_kernels(backend, test.dtype, beside):
                test.kernels.append(checked)
                progress(len(test.kernels))
            for model, names, x in _samples():
                test.networks.append((model, check_network(model, names, x, backend, test.dtype, beside)))
        except BackendUnavailable as error:
            test.stopped = str(error)
    redactor = Redactor({str(cache_folder()): "<cache>"})
    document = redactor.value(document_of(test, machine))
    files = {"selftest.json": render_machine(document, "json"), "selftest.txt": render(test, None)}
    for model, outcome in test.networks:
        if outcome.comparison is not None:
            files[f"measured-{model.network.name}.csv"] = outcome.comparison.to_csv()
    if _written(log) != before:
        files["compiler.log"] = log.read_text(encoding="utf-8", errors="replace")
    write_bytes(_zip({name: redactor.text(text) for name, text in files.items()}), path, "--archive")
    if options.form != "table":
        write_output(render_machine(document, options.form), options.output)
    else:
        write_output(render(test, stream_of(options.output)), options.output)
    if test.stopped:
        complain(f"the self-test did not come to its end: {test.stopped}")
    complain(f"{path}: {test.what_to_do}")
    return test.status


def _written(log: Path) -> float:
    try:
        return log.stat().st_mtime
    except OSError:
        return 0.0


def _samples() -> Iterator[tuple[Model, tuple[str, ...], np.ndarray]]:
    """The bundled networks with samples for them."""
    ignore_warnings()
    model = load_model("digits-cnn")
    assert isinstance(model.network.input, ImageInput)
    paths = sorted(str(path) for path in SAMPLES.iterdir() if path.suffix in (".png", ".jpg"))
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
