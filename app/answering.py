"""Run inputs in batches, write or display the predictions, and report the results, for `classify`, `detect` and
`ffnn`."""

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

TOP_LABELS = 5  # number of most probable labels shown per prediction without --top-k


class Inputs(Protocol):
    """The inputs of a command: pictures or rows of features."""

    command: str
    progress_title: str

    @property
    def count(self) -> int | None:
        """Return the number of inputs, or None if it is not known before they are read."""

    @property
    def prepare(self) -> Prepare | None:
        """Return the function that workers call to read a batch of sources, or None if the batches are already
        arrays."""

    @property
    def problems(self) -> list[InputProblem]:
        """Return the inputs that have been unusable so far."""

    @property
    def states(self) -> States | None:
        """Return the states of the inputs, from which a resumed run determines whether an earlier prediction is still
        valid, or None if `identity` covers them."""

    def describe(self, answered: int) -> str:
        """Return the number of inputs for the title of the table, such as `3 pictures`."""

    def identity(self) -> Identity:
        """Return the part of the run's identity that does not depend on the model or the options."""

    def leave_out(self, answered: set[str | int], reported: set[str | int]) -> int:
        """Skip the inputs that already have a prediction and return the number of remaining inputs. `reported` contains
        names in the spelling used in reports."""

    def batches(self, size: int) -> Iterable[Batch] | Iterable[SourceBatch]:
        """Yield the remaining inputs in batches."""

    def refuse(self, name: str | int, reason: str) -> None:
        """Record an input for which no prediction could be made, with the reason."""


@dataclass(frozen=True)
class Task:
    """The work of a command whose predictions are not labels.

    `make` builds predictions from the network's outputs. `identity` holds everything that the predictions depend on,
    except the model and the options. `watch` is called with every prediction, including those of an earlier run, and
    `complete` adds the results of the task to the report.
    """

    make: MakePredictions
    identity: Identity
    watch: Callable[[Prediction], None]
    complete: Callable[[Report], None]


@dataclass(frozen=True)
class RunContext:
    """A run whose options have been checked: its start time, and the reason for the choice of its backend."""

    options: AnswerOptions
    started: float
    choice_note: str | None

    @property
    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self.started


def begin(options: AnswerOptions, started: float) -> RunContext:
    """Check the options before any input is read. Raises UsageError or BackendUnavailable."""
    if options.compare_backends:
        options = replace(options, backend="neuron")
    note = choice_note(options.backend) if options.cluster is None else None  # a cluster reports its backend later
    return RunContext(options, started, note)


def answer_task(context: RunContext, model: Model, inputs: Inputs, task: Task) -> int:
    """Run the inputs of a task whose predictions are not labels, write the report, and return the exit status."""
    return _answer(context, model, inputs, 0, _AnswerCounter(None, None, "", task.watch), task).exit_status


def answer_inputs(context: RunContext, model: Model, inputs: Inputs, right_class: RightClass | None = None) -> int:
    """Predict labels or values for the inputs, write the report, and return the exit status.

    `right_class` returns the index of the correct class of a prediction, or None if it is unknown. If it is given, the
    predictions are scored.
    """
    labels = max((output.answer_labels for output in model.network.named_outputs), key=len)
    top_k = _top_k(context.options.top_k, labels)
    if context.options.fail_under is not None and right_class is None:
        raise UsageError("--fail-under checks the accuracy, so it requires --labels")
    if right_class is not None and not model.network.answer_labels:
        raise UsageError(
            f"--labels requires a model that outputs classes, but model {model.network.name!r} outputs values"
        )
    scorer = None if right_class is None else Scorer(model.network.answer_labels, top_k)
    counter = _AnswerCounter(scorer, right_class, model.network.output.none)
    report = (_compare if context.options.compare_backends else _answer)(context, model, inputs, top_k, counter)
    return report.exit_status


def _answer(
    context: RunContext, model: Model, inputs: Inputs, top_k: int, counter: _AnswerCounter, task: Task | None = None
) -> Report:
    options, network = context.options, model.network
    calibration = read_calibration(options.calibrate, model)
    largest = min(options.batch_size, inputs.count or options.batch_size)  # a larger batch need not be planned
    with open_session(model, replace(options, batch_size=largest), inputs.prepare, calibration) as session:
        identity = identify(inputs.command, model, session.info, options.dtype, top_k) | inputs.identity()
        identity |= task.identity if task is not None else {}
        with open_answers(options, identity, network.answer_labels, inputs.states) as answers:
            left = inputs.leave_out(answers.answered(), answers.reported())
            counter.sink = answers
            counter.note(answers)
            with progress_bar(inputs.progress_title, left, options.quiet or answers.on_screen) as progress:
                result = answer_batches(
                    session=_patient(session),
                    batches=inputs.batches(options.batch_size),
                    answers=counter,
                    make=partial(make_predictions, top_k=top_k) if task is None else task.make,
                    progress=lambda done: progress(done + len(inputs.problems)),
                    verify_as=options.dtype if options.verify else None,
                    refuse=inputs.refuse,
                )
            report = Report.on(inputs.command, network.name, session.info, options.dtype)
            title = f"{network.name}: {inputs.describe(result.count)} in batches of at most {options.batch_size}"
            report.answered_earlier = answers.earlier
            if answers.earlier:
                title += f"; the times do not include the {count(answers.earlier, 'answer')} of an earlier run"
            report.choice_note, report.assumed, report.wide = context.choice_note, model.assumed, options.wide
            report.cores = cores_of(session, result.worker_us)
            layers = result.layers
            if answers.earlier and not result.count:
                title = (
                    f"{network.name}: timed on one input of zeros; all {count(answers.earlier, 'answer')} come from an "
                    "earlier run"
                )
                layers = _time_zeros(session, network)
            report.tables = [LayerTable(title, "", layers)]
            report.host_seconds = context.seconds
            report.verify = result.verification
            if is_compared(options):
                report.agreement = agreement_of(session, calibration, options.batch_size)
            report.score, report.none = counter.score, counter.none
            report.fail_under, report.max_errors = options.fail_under, options.max_errors
            report.errors = inputs.problems
            if task is not None:
                task.complete(report)
            write_trace(options.trace, result.timelines, session.info.name)
            shown_report = replace(report, predictions=counter.first, answer_count=counter.total)
            write_report(options.report_file, shown_report, result.timelines)
            answers.finish(report, options.quiet, options.top_k)
    return report


def _time_zeros(session: BatchSession, network: Network) -> tuple[LayerTiming, ...]:
    """Time each layer on an input of zeros, so that the report also lists the layers if a run has no new inputs."""
    totals = Totals(session.rows)
    for answer in session.stream([np.zeros((1, *network.input.shape), np.float32)]):
        totals.add(answer.size, answer.times, answer.worker)
    return totals.layers()


def _patient(session: BatchSession) -> BatchSession:
    """Wrap a session of this process so that, if one input overflows, the rest of its batch is still answered."""
    from ..inference.running import PatientSession
    from ..runtime.session import Session

    return PatientSession(session) if isinstance(session, Session) else session


def _compare(context: RunContext, model: Model, inputs: Inputs, top_k: int, counter: _AnswerCounter) -> Report:
    """Run all inputs on both the chip and the simulator, instead of streaming the predictions."""
    from .compare_backends import run_comparison

    options = context.options
    report = run_comparison(inputs.command, model, inputs.batches(options.batch_size), options, top_k)
    counter.note(report.predictions)
    report.assumed, report.wide = model.assumed, options.wide
    report.score, report.none = counter.score, counter.none
    report.fail_under, report.max_errors = options.fail_under, options.max_errors
    report.errors = inputs.problems
    report.host_seconds = context.seconds
    write_report(options.report_file, report)
    assert options.form != "parquet"  # refused earlier for comparisons
    emit(report, options.form, options.output, options.quiet, options.csv_safe)
    return report


class _AnswerCounter:
    """Counts and scores predictions before they are passed to `sink`."""

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
        self.first: list[Prediction] = []  # the first predictions, shown on the HTML page

    @property
    def none(self) -> Nones | None:
        """Return the number of predictions with the label "none", or None if the network has no such label."""
        return Nones(self._none_label, self._nones, self.total) if self._none_label else None

    @property
    def score(self) -> Score | None:
        """Return the score of the predictions so far, or None if there are no labels."""
        return None if self._scorer is None else self._scorer.score

    def note(self, predictions: Iterable[Prediction]) -> None:
        """Count and score predictions that are already in the sink."""
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
        """Count and score predictions, and pass them to the sink."""
        self.note(predictions)
        return self.sink is None or self.sink.add(predictions)


def _top_k(asked: int | None, labels: Sequence[str]) -> int:
    """Return the number of labels per prediction, by default up to TOP_LABELS. Raises UsageError if more labels are
    requested than exist."""
    if asked is None:
        return min(TOP_LABELS, len(labels))
    if not labels:
        raise UsageError(f"--top-k {asked}: this model outputs values, so there are no classes to rank")
    if asked > len(labels):
        raise UsageError(f"--top-k {asked}: this model has only {count(len(labels), 'label')}")
    return asked
