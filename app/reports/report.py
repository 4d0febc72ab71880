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


SHOWN_ANSWERS = 200  # of a page


def plus_minus(error: float | None) -> str:
    """Return what stands behind a predicted time: " ± 22 %", or ", not validated" where nobody has measured a kernel
    that is bound alike; nothing where no error is known."""
    if error is None:
        return ""
    return ", not validated" if error == math.inf else f" \u00b1 {100 * error:.0f} %"


@dataclass(frozen=True)
class Nones:
    """Answers that say that the input is none of a network's classes, and the label that says it."""

    label: str
    count: int
    total: int


@dataclass(frozen=True)
class LayerTable:
    """The rows of one network or kernel, with what was run as its title."""

    title: str
    prefix: str  # distinguishes the rows of several tables in one list
    layers: tuple[LayerTiming, ...]
    floor: Floor | None = None  # of a network: the least time that it could take

    @property
    def times_floor(self) -> float | None:
        """The total over the floor."""
        return None if self.floor is None else self.total_us / self.floor.latency_us

    @property
    def total_us(self) -> float:
        """The time of all rows."""
        return sum(layer.latency_us for layer in self.layers)

    @property
    def critical(self) -> dict[str, float]:
        """Microseconds of the critical path by resource; empty where it is not known of every row."""
        from ...runtime.timing import add_critical

        total = add_critical(layer.critical for layer in self.layers)
        return total if round(sum(total.values()) - self.total_us, 3) == 0 else {}

    @property
    def mfu(self) -> float | None:
        """MFU over the whole time; None where it is not known of every row."""
        return self._utilization[0]

    @property
    def hfu(self) -> float | None:
        """HFU over the whole time; None where it is not known of every row."""
        return self._utilization[1]

    @property
    def _utilization(self) -> tuple[float | None, float | None]:
        from ...runtime.timing import total_utilization

        return total_utilization(self.layers, self.total_us)

    @property
    def latency_error(self) -> float | None:
        """The expected error of the predicted total, as a share of it."""
        from ...runtime.timing import widest_error

        return widest_error((layer.latency_us, layer.latency_error) for layer in self.layers)


@dataclass(frozen=True)
class Cores:
    """Workers with a NeuronCore each, at the same time: how many, the microseconds that passed on the busiest, and
    those of each that answered."""

    count: int
    elapsed_us: float
    worker_us: tuple[float, ...] = ()


@dataclass(frozen=True)
class NetworkAdvice:
    """Advice on making a network faster, which takes `total_us` now, and the effect of faster machines."""

    network: str
    total_us: float
    what_ifs: list[WhatIf]
    advice: list[Advice]


@dataclass(frozen=True)
class NetworkLowering:
    """The launches that a batch of a network takes, with their graphs after each pass."""

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
    latency_label: str | None = None  # what the times are, in words; None: the latency_kind
    choice_note: str | None = None  # why the backend is the one
    assumed: tuple[str, ...] = ()  # of pictures, when the network was imported; on a page alone
    cores: Cores | None = None
    comparison: BackendComparison | None = None  # the chip beside the simulator
    tables: list[LayerTable] = field(default_factory=list)
    predictions: list[Prediction] = field(default_factory=list)
    answer_count: int | None = None  # number of answers, if `predictions` are only the first; None: they are all
    suite: list[SuiteRow] | None = None
    sweep: list[SweepPoint] | None = None
    latency_limit_us: float | None = None  # of a sweep's best points
    advice: list[NetworkAdvice] | None = None
    lowering: list[NetworkLowering] | None = None
    host_seconds: float = 0.0
    verify: Verification | None = None
    agreement: Agreement | None = None  # with float32 on calibration inputs, of a network in 8 bits
    score: Score | None = None
    box_score: BoxScore | None = None  # of a network of boxes
    map_score: MapScore | None = None  # of a network of maps
    map_labels: tuple[str, ...] = ()  # its classes
    coco: Annotations | None = None  # the ids of classes and pictures, of a network of boxes
    limits: Limits | None = None  # of the boxes that are answered
    fail_under: float | None = None  # the least accuracy with which a scored run succeeds
    none: Nones | None = None  # of a network that can say so
    errors: list[InputProblem] = field(default_factory=list)
    max_errors: int = 0  # inputs that may fail in a run that succeeds
    lnc: int = 1  # NeuronCores of the logical core that a launch runs on
    wide: bool = False  # tables in a terminal show all columns, whatever its width
    answered_earlier: int = 0  # of the predictions, those of an interrupted run, which the layers' times leave out

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
        """The target in words, with the logical core where that has two cores."""
        return self.target if self.lnc == 1 else f"{self.target} with LNC {self.lnc}"

    @property
    def total_us(self) -> float:
        """The time of all layers."""
        return sum(table.total_us for table in self.tables)

    @property
    def critical(self) -> dict[str, float]:
        """Microseconds of the critical paths of all tables by resource; empty where one is not known."""
        from ...runtime.timing import add_critical

        parts = [table.critical for table in self.tables]
        return add_critical(parts) if all(parts) else {}

    @property
    def utilization(self) -> tuple[float | None, float | None]:
        """MFU and HFU over the whole time of all tables; None where one is not known."""
        from ...runtime.timing import total_utilization

        return total_utilization([layer for table in self.tables for layer in table.layers], self.total_us)

    @property
    def latency_error(self) -> float | None:
        """The expected error of the predicted total, as a share of it."""
        from ...runtime.timing import widest_error

        return widest_error((table.total_us, table.latency_error) for table in self.tables)

    @property
    def is_below(self) -> bool:
        """True if the accuracy, the mAP of boxes or the mean IoU of maps is below the one that was asked for."""
        if self.fail_under is None:
            return False
        if self.box_score is not None:
            return (self.box_score.map or 0.0) < self.fail_under
        if self.map_score is not None:
            return self.map_score.mean_iou < self.fail_under
        return self.score is not None and self.score.accuracy < self.fail_under

    @property
    def exit_status(self) -> int:
        """0, 1 where a check failed, else 2 where more inputs than are allowed could not be used."""
        checks = (self.verify, self.comparison)
        if self.is_below or any(check is not None and not check.passed for check in checks):
            return CHECK_FAILED
        return BAD_USAGE if len(self.errors) > self.max_errors else 0
