"""Common part of `classify`, `detect` and `ffnn`: run inputs in batches, keep or show answers, report the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..inference.predictions import MakePredictions, Prediction, PredictionSink, make_predictions
from ..inference.scoring import Score, Scorer
from ..inference.search import InputProblem
from ..inference.stream import Batch, SourceBatch, answer_batches
from ..models.files import Model
from ..models.network import Network
from ..runtime.timing import LayerTiming, Totals
from .backends import choice_note, cores_of, open_session
from .calibration import agreement_of, is_compared, read_calibration
from .errors import UsageError
from .journal.answers import open_answers
from .journal.identity import Identity, identify
from .journal.states import States
from .options import AnswerOptions
from .progress import progress_bar
from .reports.emit import emit
from .reports.html import write_report
from .reports.report import SHOWN_ANSWERS, LayerTable, Nones, Report
from .reports.trace import write_trace
from .text import count

if TYPE_CHECKING:
    from ..runtime.session import BatchSession
    from ..runtime.workers.worker import Prepare

RightClass = Callable[[Prediction], "int | None"]

TOP_LABELS = 5  # of an answer, the most probable ones, unless --top-k says otherwise


class Inputs(Protocol):
    """The inputs of a command: pictures, or rows of features."""

    command: str
    progress_title: str

    @property
    def prepare(self) -> Prepare | None:
        """Return a function that makes inputs of a batch of sources, for workers; None if batches are arrays."""

    @property
    def problems(self) -> list[InputProblem]:
        """Return the inputs that could not be used so far."""

    @property
    def states(self) -> States | None:
        """The states of the inputs, by which an earlier run's answers are known to hold still; None where `identity`
        says it all."""

    def describe(self, answered: int) -> str:
        """`3 pictures`, for the title of the table."""

    def identity(self) -> Identity:
        """Return the parts of a run's identity beside model and options."""

    def leave_out(self, answered: set[str | int], reported: set[str | int]) -> int:
        """Leave out the inputs that are answered already; how many are left. The names of those `reported` are as
        reports write them."""

    def batches(self, size: int) -> Iterable[Batch] | Iterable[SourceBatch]:
        """The inputs that are left."""

    def refuse(self, name: str | int, reason: str) -> None:
        """An input that could not be answered, and why."""


@dataclass(frozen=True)
class Task:
    """The work of a command that does not answer in labels.

    `make` makes its answers of a network's numbers, and `identity` says what they depend on beside model and options.
    `watch` is called with each answer, those of an earlier run too, and `complete` adds to the report what it gathered.
    """

    make: MakePredictions
    identity: Identity
    watch: Callable[[Prediction], None]
    complete: Callable[[Report], None]


@dataclass(frozen=True)
class Begun:
    """A run whose options were checked: they, when it began, and why its backend is the one."""

    options: AnswerOptions
    started: float
    choice_note: str | None

    @property
    def seconds(self) -> float:
        """The time that it has taken so far."""
        return time.perf_counter() - self.started


def begin(options: AnswerOptions, started: float) -> Begun:
    """Check what can be checked before anything is read. UsageError and BackendUnavailable say what is wrong."""
    if options.compare_backends:
        options = replace(options, backend="neuron")
    note = choice_note(options.backend) if options.cluster is None else None  # a cluster reports its backend later
    return Begun(options, started, note)


def answer_task(begun: Begun, model: Model, inputs: Inputs, task: Task) -> int:
    """Answer the inputs of a command whose answers are no labels, write its report, and return the exit status."""
    return _answer(begun, model, inputs, 0, _Noting(None, None, "", task.watch), task).exit_status


def answer_inputs(begun: Begun, model: Model, inputs: Inputs, right_class: RightClass | None = None) -> int:
    """Answer the inputs of a command in labels or values, write its report, and return the exit status.

    `right_class` returns the index of the class that an answer should have, None where that is not known; with it the
    answers are scored.
    """
    labels = max((named.answer_labels for named in model.network.named_outputs), key=len)
    top_k = _top_k(begun.options.top_k, labels)
    if begun.options.fail_under is not None and right_class is None:
        raise UsageError("--fail-under compares the accuracy; it needs --labels")
    if right_class is not None and not model.network.answer_labels:
        raise UsageError(f"--labels: model {model.network.name!r} outputs values, not classes")
    scorer = None if right_class is None else Scorer(model.network.answer_labels, top_k)
    noted = _Noting(scorer, right_class, model.network.output.none)
    report = (_compare if begun.options.compare_backends else _answer)(begun, model, inputs, top_k, noted)
    return report.exit_status


def _answer(begun: Begun, model: Model, inputs: Inputs, top_k: int, noted: _Noting, task: Task | None = None) -> Report:
    options, network = begun.options, model.network
    calibration = read_calibration(options.calibrate, model)
    with open_session(model, options, inputs.prepare, calibration) as session:
        identity = identify(inputs.command, model, session.info, options.dtype, top_k) | inputs.identity()
        identity |= task.identity if task is not None else {}
        with open_answers(options, identity, network.answer_labels, inputs.states) as answers:
            left = inputs.leave_out(answers.answered(), answers.reported())
            noted.sink = answers
            noted.note(answers)
            with progress_bar(inputs.progress_title, left, options.quiet or answers.on_screen) as progress:
                result = answer_batches(
                    session=_patient(session),
                    batches=inputs.batches(options.batch_size),
                    answers=noted,
                    make=partial(make_predictions, top_k=top_k) if task is None else task.make,
                    progress=lambda done: progress(done + len(inputs.problems)),
                    verify_as=options.dtype if options.verify else None,
                    refuse=inputs.refuse,
                )
            report = Report.on(inputs.command, network.name, session.info, options.dtype)
            title = f"{network.name}: {inputs.describe(result.count)} in batches of at most {options.batch_size}"
            report.answered_earlier = answers.earlier
            if answers.earlier:
                title += f"; the {count(answers.earlier, 'answer')} of an earlier run took no time here"
            report.choice_note, report.assumed, report.wide = begun.choice_note, model.assumed, options.wide
            report.cores = cores_of(session, result.worker_us)
            layers = result.layers
            if answers.earlier and not result.count:
                title = f"{network.name}: 1 input of zeros; all {count(answers.earlier, 'answer')} are earlier"
                layers = _time_zeros(session, network)
            report.tables = [LayerTable(title, "", layers)]
            report.host_seconds = begun.seconds
            report.verify = result.verification
            if is_compared(options):
                report.agreement = agreement_of(session, calibration, options.batch_size)
            report.score, report.none = noted.score, noted.none
            report.fail_under, report.max_errors = options.fail_under, options.max_errors
            report.errors = inputs.problems
            if task is not None:
                task.complete(report)
            write_trace(options.trace, result.timelines, session.info.name)
            shown = replace(report, predictions=noted.first, answer_count=noted.total)
            write_report(options.report_file, shown, result.timelines)
            answers.finish(report, options.quiet, options.top_k)
    return report


def _time_zeros(session: BatchSession, network: Network) -> tuple[LayerTiming, ...]:
    """Return the time of each layer for an input of zeros: reports of finished runs have layers too."""
    totals = Totals(session.rows)
    for answer in session.stream([np.zeros((1, *network.input.shape), np.float32)]):
        totals.add(answer.size, answer.times, answer.worker)
    return totals.layers()


def _patient(session: BatchSession) -> BatchSession:
    """Return a session of this process as one in which an input that overflows costs the others nothing."""
    from ..inference.running import PatientSession
    from ..runtime.session import Session

    return PatientSession(session) if isinstance(session, Session) else session


def _compare(begun: Begun, model: Model, inputs: Inputs, top_k: int, noted: _Noting) -> Report:
    """The chip beside the simulator, in place of answers that come one by one."""
    from .compare_backends import run_comparison

    options = begun.options
    report = run_comparison(inputs.command, model, inputs.batches(options.batch_size), options, top_k)
    noted.note(report.predictions)
    report.assumed, report.wide = model.assumed, options.wide
    report.score, report.none = noted.score, noted.none
    report.fail_under, report.max_errors = options.fail_under, options.max_errors
    report.errors = inputs.problems
    report.host_seconds = begun.seconds
    write_report(options.report_file, report)
    assert options.form != "parquet"  # which is refused for comparisons
    emit(report, options.form, options.output, options.quiet, options.csv_safe)
    return report


class _Noting:
    """Passes answers on to `sink`, scores them, and counts those labelled none."""

    def __init__(
        self,
        scorer: Scorer | None,
        right_class: RightClass | None,
        none_label: str,
        watch: Callable[[Prediction], None] | None = None,
    ) -> None:
        self._watch = watch
        self.sink: PredictionSink | None = None
        self._scorer = scorer
        self._right_class = right_class
        self._none_label = none_label
        self._nones = self.total = 0
        self.first: list[Prediction] = []  # for a page, which shows no more

    @property
    def none(self) -> Nones | None:
        """Return the number of noted answers labelled none; None if the network has no such label."""
        return Nones(self._none_label, self._nones, self.total) if self._none_label else None

    @property
    def score(self) -> Score | None:
        """Return the score of the noted answers; None without labels."""
        return None if self._scorer is None else self._scorer.score

    def note(self, predictions: Iterable[Prediction]) -> None:
        """Count and score answers that are in the sink already."""
        for prediction in predictions:
            self.total += 1
            self._nones += prediction.label == self._none_label
            if len(self.first) < SHOWN_ANSWERS:
                self.first.append(prediction)
            if self._scorer is not None and self._right_class is not None:
                self._scorer.add(prediction, self._right_class(prediction))
            if self._watch is not None:
                self._watch(prediction)

    def add(self, predictions: Sequence[Prediction]) -> bool:
        """Note the answers and pass them on."""
        self.note(predictions)
        return self.sink is None or self.sink.add(predictions)


def _top_k(asked: int | None, labels: Sequence[str]) -> int:
    """Return the number of labels per answer, at most all. UsageError if more were asked for."""
    if asked is None:
        return min(TOP_LABELS, len(labels))
    if not labels:
        raise UsageError(f"--top-k {asked}: this model outputs values, not classes")
    if asked > len(labels):
        raise UsageError(f"--top-k {asked}: this model has {count(len(labels), 'label')}")
    return asked
