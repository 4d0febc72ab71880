"""`trninfer.bench`: time each layer of a network, like `trninfer bench`."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..inference.arguments import RunArguments
from ..models.errors import ArgumentError
from ..models.files import Model
from ..runtime.floor import floor_of
from ..runtime.launch_options import BackendName, Dtype, EightBitLayers, Per, Target
from ..runtime.timing import LayerTiming
from ..runtime.verify import Verification, Verifier

if TYPE_CHECKING:
    import pandas


class _Source(NamedTuple):
    """The report of a benchmark, and its timelines."""

    report: Any
    timelines: tuple[tuple[str, object], ...]


@dataclass(frozen=True, repr=False)
class Benchmark:
    """The time of one batch of a network, layer by layer.

    `layers` has a row for each layer or launch; `total_us` is their total in microseconds, and `latency_kind` is
    "predicted" or "measured". `floor_us` is the lower bound of the time on a NeuronCore. `verify` is the comparison
    with the NumPy reference, if requested. `str()` returns the table printed by the command.
    """

    layers: tuple[LayerTiming, ...]
    total_us: float
    floor_us: float
    latency_kind: str
    model: str
    backend: str
    target: str
    dtype: str
    batch_size: int
    verify: Verification | None
    _source: _Source = field(compare=False)

    @property
    def inputs_per_second(self) -> float:
        """Return the number of inputs per second if batches are processed one after the other."""
        return self.batch_size / self.total_us * 1e6 if self.total_us else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document that `trninfer bench --format json` prints, as plain values."""
        from ..app.reports.machine import to_document

        section = {"kernel": None, "shape": None, "batch_size": self.batch_size}
        document: dict[str, Any] = json.loads(json.dumps({**to_document(self._source.report), "bench": section}))
        return document

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with a row for each layer and the fields of `LayerTiming`. Raises ArgumentError without
        pandas."""
        try:
            import pandas
        except ImportError:
            raise ArgumentError("to_pandas requires pandas, which is not installed (pip install pandas)") from None
        return pandas.DataFrame([vars(layer) for layer in self.layers])

    def to_markdown(self) -> str:
        """Return the table of layers in Markdown, like `--format markdown`."""
        from ..app.reports.machine import render

        return render(self._source.report, "markdown")

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write an HTML page with a layer table, a timeline and a roofline plot, like `--report`. Raises ArgumentError
        if the file is not writable."""
        from ..app.errors import UsageError
        from ..app.reports.html import write_report

        try:
            write_report(Path(path), self._source.report, self._source.timelines)
        except UsageError as error:
            raise ArgumentError(str(error).replace("--report ", "")) from None

    def __str__(self) -> str:
        from ..app.reports.table import render

        return render(self._source.report, False, None)

    def __repr__(self) -> str:
        time_us = f"{self.latency_kind} {self.total_us:,.1f} us"
        return f"<Benchmark: {self.model}, a batch of {self.batch_size}, {time_us} on {self.target} in {self.dtype}>"


def bench(
    model: str | os.PathLike[str] | Model = "digits-cnn",
    *,
    batch_size: int = 1,
    dtype: Dtype = "float32",
    target: Target | None = None,
    backend: BackendName = "auto",
    lnc: int = 1,
    launches: Per = "network",
    eight_bits: EightBitLayers = "inner",
    calibrate: str | os.PathLike[str] | None = None,
    verify: bool = False,
) -> Benchmark:
    """Time one batch of a network, layer by layer, like `trninfer bench`.

    `model` is a bundled name, the path of a .safetensors or an ONNX file, or a loaded model; see `classify` for the
    other arguments. On the simulator, times are predicted from shapes alone. If `verify` is True, the outputs for
    random inputs (in float8_e4m3, for the inputs of `calibrate`) are also computed and compared with the golden NumPy
    model; the result is stored in `verify`.

    Raises ArgumentError, ModelError, TargetError, BackendUnavailable or KernelError, all of which are subclasses of
    TrninferError.
    """
    began = time.perf_counter()
    arguments = RunArguments(
        dtype=dtype,
        target=target,
        backend=backend,
        batch_size=batch_size,
        lnc=lnc,
        launches=launches,
        eight_bits=eight_bits,
        calibrate=calibrate,
    )
    return _bench(arguments.load(model), arguments, verify, began)


def _bench(loaded: Model, arguments: RunArguments, verify: bool, began: float) -> Benchmark:
    batch_size, dtype = arguments.batch_size, arguments.dtype
    session = arguments.session(loaded, keep_timelines=True)
    verdict = None
    if verify:
        verifier = Verifier(loaded, dtype, session.info.latency_kind == "measured")
        inputs = _inputs(loaded, arguments)
        result = session.run(inputs)
        verifier.check(inputs, result.classes, result.probabilities)
        verdict = verifier.verdict
    else:
        result = session.time(batch_size)
    floor = floor_of(loaded.network, dtype, batch_size, session.info.target, arguments.lnc)

    from ..app.reports.report import LayerTable, Report

    name = loaded.network.name
    report = Report.on("bench", name, session.info, dtype)
    report.tables = [LayerTable(f"{name}: a batch of {batch_size}", "", result.layers, floor)]
    report.verify = verdict
    report.host_seconds = time.perf_counter() - began
    return Benchmark(
        layers=result.layers,
        total_us=report.total_us,
        floor_us=floor.latency_us,
        latency_kind=session.info.latency_kind,
        model=name,
        backend=session.info.name,
        target=session.info.target,
        dtype=dtype,
        batch_size=batch_size,
        verify=verdict,
        _source=_Source(report, result.timelines),
    )


def _inputs(model: Model, arguments: RunArguments) -> np.ndarray:
    """Return random inputs for a batch or, for 8-bit networks, the calibration inputs, since random inputs may exceed
    the scales."""
    from ..runtime.backend import EIGHT_BITS
    from ..runtime.calibration import own_calibration

    if arguments.dtype == EIGHT_BITS:
        known = (arguments.launch_options(model).calibration or own_calibration(model.network)).inputs
        return known[np.arange(arguments.batch_size) % len(known)]
    return np.random.default_rng(0).standard_normal((arguments.batch_size, *model.network.input.shape), np.float32)
