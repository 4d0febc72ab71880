"""Pass predictions from the network to the report without holding all of them in memory.

CSV and NDJSON are streamed to standard output. Other formats are stored in an `AnswerLog` until the report is complete.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from ...inference.predictions import Prediction
from ..errors import UsageError, complain, reason
from ..options import AnswerFormat, AnswerOptions, Format
from ..output import is_special, open_output, write_chunks, write_stderr
from ..reports.cells import Change, as_is, change_of, unguard
from ..reports.emit import emit
from ..reports.report import Report
from ..text import count
from .answer_log import AnswerLog, open_log
from .identity import Identity
from .states import States


class AnswerOutput(Protocol):
    """Destination of predictions."""

    earlier: int  # number of predictions reused from an interrupted run
    on_screen: bool  # predictions are streamed to a terminal, so no progress bar can be drawn

    def add(self, predictions: Sequence[Prediction]) -> bool:
        """Add predictions; return True if more are accepted."""

    def answered(self) -> set[str | int]:
        """Return the inputs for which an interrupted run made predictions."""

    def reported(self) -> set[str | int]:
        """Return the subset of `answered` that was read from a report, by their names in reports."""

    def __iter__(self) -> Iterator[Prediction]:
        """Iterate over all predictions, if they are stored."""

    def finish(self, report: Report, quiet: bool, shown: int | None) -> None:
        """Write the report with all predictions. If `shown` is given, tables show at most that many labels for each."""


@contextlib.contextmanager
def open_answers(
    options: AnswerOptions, identity: Identity, labels: tuple[str, ...], states: States | None
) -> Iterator[AnswerOutput]:
    """Open the destination of a run's predictions. `states` identifies inputs that are unchanged since an earlier run.

    If the run ends before its report is written, predictions that are being written to a file are kept. Raises
    UsageError if --resume is impossible.
    """
    form, output = options.form, options.output
    if output is None or is_special(output):
        if options.resume:
            raise UsageError("--resume continues from the answers in a file, so it requires --output FILE")
        if form == "csv" or form == "ndjson":
            with open_output(output) as write:
                change = change_of(form, output, options.csv_safe)
                on_screen = output is None and sys.stdout is not None and sys.stdout.isatty()
                yield _StreamedPredictions(form, write, change, on_screen, identity["command"])
        else:
            with contextlib.closing(AnswerLog.temporary()) as log:
                yield _StoredPredictions(form, output, log, options.csv_safe)
        return
    with _interruptible(_open_log(options, identity, labels, states), options.quiet) as log:
        yield _StoredPredictions(form, output, log, options.csv_safe)


class _StreamedPredictions:
    """Predictions that are written as they arrive and not stored."""

    earlier = 0

    def __init__(
        self, form: Format, write: Callable[[str], bool], change: Change, on_screen: bool, command: str
    ) -> None:
        from ..reports import machine as report_machine

        self.on_screen = on_screen
        self._machine = report_machine
        self._form = form
        self._command = command
        self._change = change
        self._write = write
        self._wanted = True
        self._begun = False

    def add(self, predictions: Sequence[Prediction]) -> bool:
        begin = "" if self._begun else self._machine.begin(self._form, self._command)
        self._begun = True
        self._wanted = self._wanted and self._write(
            begin + self._machine.answer_lines(predictions, self._form, self._change)
        )
        return self._wanted

    def answered(self) -> set[str | int]:
        return set()

    def reported(self) -> set[str | int]:
        return set()

    def __iter__(self) -> Iterator[Prediction]:
        return iter(())

    def finish(self, report: Report, quiet: bool, shown: int | None) -> None:
        if self.add(()):
            self._write(self._machine.end(report, self._form, self._change))
        _print_beside(report, quiet)


class _StoredPredictions:
    """Predictions that are stored in a file until the report is complete."""

    on_screen = False

    def __init__(self, form: AnswerFormat, output: Path | None, log: AnswerLog, csv_safe: bool) -> None:
        self._form = form
        self._output = output
        self._log = log
        self._csv_safe = csv_safe
        self.earlier = log.earlier

    def add(self, predictions: Sequence[Prediction]) -> bool:
        try:
            self._log.append(predictions)
        except OSError as error:
            location = f"--output {self._output}" if self._log.path else f"temporary folder {tempfile.gettempdir()}"
            raise UsageError(f"{location}: cannot be written: {reason(error)}") from None
        return True

    def answered(self) -> set[str | int]:
        return self._log.answered

    def reported(self) -> set[str | int]:
        return self._log.reported

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self._log)

    def finish(self, report: Report, quiet: bool, shown: int | None) -> None:
        if self._form == "table":
            # The rows are printed together, because column widths depend on all of them.
            report.predictions = [row for answer in self._log for row in (_rows(answer) if shown else [answer])]
            emit(report, self._form, self._output, quiet)
            return
        if self._form == "parquet":
            from ..reports.parquet import write_parquet

            assert self._output is not None
            write_parquet(self._output, self._log, report.errors)
        else:
            from ..reports import machine as report_machine

            change = change_of(self._form, self._output, self._csv_safe)
            write_chunks(report_machine.chunks(report, self._form, self._log, change), self._output)
        _print_beside(report, quiet)


def _rows(answer: Prediction) -> list[Prediction]:
    """Return the table rows of a prediction, one per label; only the first row contains the input's name."""
    names = (answer.input, *[""] * (len(answer.top) - 1))
    return [
        Prediction(name, chance.label, chance.class_index, chance.probability, ())
        for name, chance in zip(names, answer.top)
    ]


def _print_beside(report: Report, quiet: bool) -> None:
    """Print tables and unusable inputs to standard error, in addition to a machine-readable format."""
    from ..reports import table as report_table

    if not quiet:
        write_stderr(report_table.render_layers(report, sys.stderr))
    for problem in report.errors:
        complain(str(problem))


def _open_log(options: AnswerOptions, identity: Identity, labels: tuple[str, ...], states: States | None) -> AnswerLog:
    assert options.output is not None
    target = Path(options.output).resolve()
    log = open_log(target, identity, labels, options.resume, states)
    try:
        if options.resume and not log.count and target.exists():
            from .finished import read_finished

            change = unguard if options.csv_safe else as_is
            written = target.stat().st_mtime_ns
            log.take_over(read_finished(target, options.form, identity, labels, change), written)
        return log
    except BaseException:
        log.close()
        raise


@contextlib.contextmanager
def _interruptible(log: AnswerLog, quiet: bool) -> Iterator[AnswerLog]:
    """Remove the log on success; otherwise keep it and print its name."""
    if log.earlier and not quiet:
        complain(f"continuing from {count(log.earlier, 'answer')} in {log.path}")
    if log.changed and not quiet:
        complain(f"{count(log.changed, 'input')} changed since an earlier run; processing them again")
    try:
        yield log
    except BaseException:
        keep = log.count > log.copied  # copied predictions are still in the report
        log.close(keep)
        if keep:
            complain(
                f"{count(log.count, 'answer')} saved in {log.path}; to continue, run the same command with --resume"
            )
        raise
    log.close()
