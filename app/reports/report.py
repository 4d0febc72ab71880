"""The report of a command, independent of its format."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...inference.predictions import Prediction
from ...inference.scoring import Score
from ...inference.search import InputProblem
from ..errors import BAD_USAGE, CHECK_FAILED

if TYPE_CHECKING:
    from ...inference.boxes import Limits
    from ...inference.coco import Annotations, BoxScore
    from ...inference.map_scoring import MapScore
    from ...runtime.advice import Advice, WhatIf
    from ...runtime.backend import BackendInfo
    from ...runtime.calibration import Agreement
    from ...runtime.floor import Floor
    from ...runtime.launches import ShownLaunch
    from ...runtime.measure.compare import BackendComparison
    from ...runtime.measure.suites import SuiteRow
    from ...runtime.sweep import SweepPoint
    from ...runtime.timing import LayerTiming
    from ...runtime.verify import Verification


SHOWN_ANSWERS = 200  # maximum number of predictions on an HTML page


def plus_minus(error: float | None) -> str:
    """Format the expected error of a predicted time: " ± 22 %", or ", not validated" if no measured kernel has the same
    bound; "" if no error is known."""
    if error is None:
        return ""
    return ", not validated" if error == math.inf else f" \u00b1 {100 * error:.0f} %"


@dataclass(frozen=True)
class Nones:
    """The number of predictions with the label that means "not one of the network's classes"."""

    label: str
    count: int
    total: int


@dataclass(frozen=True)
class LayerTable:
    """The rows of one network or kernel, with a title that states what was run."""

    title: str
    prefix: str  # prefix of row names when several tables are merged into one list
    layers: tuple[LayerTiming, ...]
    floor: Floor | None = None  # lower bound of the network's time

    @property
    def times_floor(self) -> float | None:
        """Return the ratio of the total to the floor."""
        return None if self.floor is None else self.total_us / self.floor.latency_us

    @property
    def total_us(self) -> float:
        """Return the time of all rows."""
        return sum(layer.latency_us for layer in self.layers)

    @property
    def critical(self) -> dict[str, float]:
        """Return the time on the critical path in microseconds, keyed by resource, or an empty mapping if it is unknown
        for any row."""
        from ...runtime.timing import add_critical

        total = add_critical(layer.critical for layer in self.layers)
        return total if round(sum(total.values()) - self.total_us, 3) == 0 else {}

    @property
    def mfu(self) -> float | None:
        """Return the MFU over the total time, or None if it is unknown for any row."""
        return self._utilization[0]

    @property
    def hfu(self) -> float | None:
        """Return the HFU over the total time, or None if it is unknown for any row."""
        return self._utilization[1]

    @property
    def _utilization(self) -> tuple[float | None, float | None]:
        from ...runtime.timing import total_utilization

        return total_utilization(self.layers, self.total_us)

    @property
    def latency_error(self) -> float | None:
        """Return the expected relative error of the predicted total."""
        from ...runtime.timing import widest_error

        return widest_error((layer.latency_us, layer.latency_error) for layer in self.layers)


@dataclass(frozen=True)
class Cores:
    """Workers that run concurrently on one NeuronCore each: their number, the time of the busiest worker, and the time
    of each worker that ran a batch, in microseconds."""

    count: int
    elapsed_us: float
    worker_us: tuple[float, ...] = ()


@dataclass(frozen=True)
class NetworkAdvice:
    """Advice on making a network that currently takes `total_us` faster, and the effect of faster hardware."""

    network: str
    total_us: float
    what_ifs: list[WhatIf]
    advice: list[Advice]


@dataclass(frozen=True)
class NetworkLowering:
    """The launches of one batch of a network, with their graphs after each pass."""

    network: str
    dtype: str
    batch_size: int
    target: str
    launches: list[ShownLaunch]


@dataclass
class Report:
    """Everything that a command reports: the fields of the JSON document, with layers in tables."""

    command: str
    model: str | None
    backend: str
    target: str
    dtype: str
    latency_kind: str
    latency_note: str | None = None
    latency_label: str | None = None  # description of the times; None: use latency_kind
    choice_note: str | None = None  # reason for the choice of the backend
    assumed: tuple[str, ...] = ()  # preprocessing assumed during import; shown only on HTML pages
    cores: Cores | None = None
    comparison: BackendComparison | None = None  # comparison of the chip with the simulator
    tables: list[LayerTable] = field(default_factory=list)
    predictions: list[Prediction] = field(default_factory=list)
    answer_count: int | None = None  # number of predictions if `predictions` holds only the first; None: all
    suite: list[SuiteRow] | None = None
    sweep: list[SweepPoint] | None = None
    latency_limit_us: float | None = None  # latency limit for the best points of a sweep
    advice: list[NetworkAdvice] | None = None
    lowering: list[NetworkLowering] | None = None
    host_seconds: float = 0.0
    verify: Verification | None = None
    agreement: Agreement | None = None  # agreement of an 8-bit network with float32 on calibration inputs
    score: Score | None = None
    box_score: BoxScore | None = None  # set if the network outputs boxes
    map_score: MapScore | None = None  # set if the network outputs class maps
    map_labels: tuple[str, ...] = ()  # classes of class maps
    coco: Annotations | None = None  # ids of classes and pictures for results in COCO's format
    limits: Limits | None = None  # limits that selected the reported boxes
    fail_under: float | None = None  # minimum accuracy for exit status 0
    none: Nones | None = None  # set if the network has a "none" label
    errors: list[InputProblem] = field(default_factory=list)
    max_errors: int = 0  # number of failed inputs allowed for exit status 0
    lnc: int = 1  # NeuronCores per logical core
    wide: bool = False  # tables on a terminal show all columns, regardless of its width
    answered_earlier: int = 0  # number of predictions from an interrupted run; not included in the layers' times

    @classmethod
    def on(cls, command: str, model: str | None, backend: BackendInfo, dtype: str) -> Report:
        """Return an empty report of a run on a backend."""
        from ...runtime.backend import latency_note

        return cls(
            command=command,
            model=model,
            backend=backend.name,
            target=backend.target,
            dtype=dtype,
            latency_kind=backend.latency_kind,
            latency_note=latency_note(backend),
            latency_label=backend.latency_label,
            lnc=backend.lnc,
        )

    @property
    def chip(self) -> str:
        """Return a description of the target, including the logical core if that consists of two cores."""
        return self.target if self.lnc == 1 else f"{self.target} with LNC {self.lnc}"

    @property
    def total_us(self) -> float:
        """Return the total time of all layers."""
        return sum(table.total_us for table in self.tables)

    @property
    def critical(self) -> dict[str, float]:
        """Return the time on the critical paths of all tables in microseconds, keyed by resource, or an empty mapping
        if any is unknown."""
        from ...runtime.timing import add_critical

        parts = [table.critical for table in self.tables]
        return add_critical(parts) if all(parts) else {}

    @property
    def utilization(self) -> tuple[float | None, float | None]:
        """Return the MFU and HFU over the total time of all tables. Each is None if it is unknown."""
        from ...runtime.timing import total_utilization

        return total_utilization([layer for table in self.tables for layer in table.layers], self.total_us)

    @property
    def latency_error(self) -> float | None:
        """Return the expected relative error of the predicted total time."""
        from ...runtime.timing import widest_error

        return widest_error((table.total_us, table.latency_error) for table in self.tables)

    @property
    def is_below(self) -> bool:
        """Return True if the accuracy, mAP or mean IoU is below --fail-under."""
        if self.fail_under is None:
            return False
        if self.box_score is not None:
            return (self.box_score.map or 0.0) < self.fail_under
        if self.map_score is not None:
            return self.map_score.mean_iou < self.fail_under
        return self.score is not None and self.score.accuracy < self.fail_under

    @property
    def exit_status(self) -> int:
        """Return 1 if a check failed, 2 if more inputs failed than allowed, and 0 otherwise."""
        checks = (self.verify, self.comparison)
        if self.is_below or any(check is not None and not check.passed for check in checks):
            return CHECK_FAILED
        return BAD_USAGE if len(self.errors) > self.max_errors else 0
