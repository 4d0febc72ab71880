"""What a command reports, whatever form it is written in, and the choice of the form."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import BAD_USAGE, CHECK_FAILED, complain
from .inputs import InputProblem
from .options import Format
from .output import write_output, write_stderr, write_stdout

if TYPE_CHECKING:
    from ..runtime.compare import BackendComparison
    from ..runtime.suites import SuiteRow
    from ..runtime.timing import LayerTiming
    from ..runtime.verify import Verification

TOP_LABELS = 5  # of a prediction, the most probable ones


@dataclass(frozen=True)
class LabelProbability:
    """A label with the probability that the network gives it."""

    label: str
    class_index: int
    probability: float


@dataclass(frozen=True)
class Prediction:
    """The answer for an input: a file's name, or the number of a row."""

    input: str | int
    label: str
    class_index: int
    probability: float
    top: tuple[LabelProbability, ...]


@dataclass(frozen=True)
class Score:
    """Answers that agree with the labels given."""

    correct: int
    total: int

    @property
    def accuracy(self) -> float:
        """0..1."""
        return self.correct / self.total


@dataclass(frozen=True)
class LayerTable:
    """The rows of one network or kernel, with what was run as its title."""

    title: str
    prefix: str  # tells the rows of several tables apart where they come in one list
    layers: tuple[LayerTiming, ...]

    @property
    def total_us(self) -> float:
        """The time of all rows."""
        return sum(layer.latency_us for layer in self.layers)


@dataclass(frozen=True)
class Cores:
    """NeuronCores that worked at the same time: how many, and the microseconds that passed on the busiest."""

    count: int
    elapsed_us: float


@dataclass
class Report:
    """Everything a command has to tell; the fields of the JSON document, but that layers come in tables."""

    command: str
    model: str | None
    backend: str
    target: str
    dtype: str
    latency_kind: str
    latency_note: str | None = None
    latency_label: str | None = None  # what the times are, in words; None: the latency_kind
    choice_note: str | None = None  # why the backend is the one
    cores: Cores | None = None
    comparison: BackendComparison | None = None  # the chip beside the simulator
    tables: list[LayerTable] = field(default_factory=list)
    predictions: list[Prediction] = field(default_factory=list)
    suite: list[SuiteRow] | None = None
    host_seconds: float = 0.0
    verify: Verification | None = None
    score: Score | None = None
    errors: list[InputProblem] = field(default_factory=list)

    @property
    def total_us(self) -> float:
        """The time of all layers."""
        return sum(table.total_us for table in self.tables)

    @property
    def exit_status(self) -> int:
        """0, 1 where a check failed, else 2 where an input could not be used."""
        checks = (self.verify, self.comparison)
        if any(check is not None and not check.passed for check in checks):
            return CHECK_FAILED
        return BAD_USAGE if self.errors else 0


def count(number: int, noun: str) -> str:
    """`1 picture`, `2 pictures`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def predictions(
    inputs: Sequence[str | int], labels: Sequence[str], classes: np.ndarray, probabilities: np.ndarray
) -> list[Prediction]:
    """A prediction an input from classes int32 [N] and probabilities [N, C]."""
    answers = []
    top = np.argsort(-probabilities, axis=1, kind="stable")[:, :TOP_LABELS]
    for name, index, row, best in zip(inputs, classes.tolist(), probabilities, top.tolist(), strict=True):
        chances = tuple(LabelProbability(labels[i], i, float(row[i])) for i in best)
        answers.append(Prediction(name, labels[index], index, float(row[index]), chances))
    return answers


def emit(report: Report, form: Format, output: Path | None, quiet: bool) -> None:
    """Write a report to `output` or standard output in its form, and beside a machine format its tables to stderr."""
    from . import report_machine, report_table

    if form is not Format.table:
        write_output(report_machine.render(report, form), output)
        if not quiet:
            write_stderr(report_table.render_layers(report, sys.stderr))
    elif output is None:
        write_stdout(report_table.render(report, quiet, sys.stdout))
    else:
        write_output(report_table.render(report, quiet, None), output)
    for problem in report.errors:
        complain(f"{problem.input}: {problem.message}")


def emit_rows(rows: list[dict[str, Any]], command: str, form: Format, output: Path | None) -> None:
    """Write a list of plain records (models, checks of this machine) in a machine format."""
    from . import report_machine

    write_output(report_machine.render_rows(rows, command, form), output)
