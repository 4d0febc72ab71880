"""The predictions of a run as Python objects, with conversions to JSON, tables, HTML pages and files."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..inference.arguments import RunArguments
from ..inference.predictions import Prediction
from ..inference.scoring import Score
from ..inference.search import InputProblem
from ..models.errors import ArgumentError
from ..models.files import Model
from ..runtime.backend import BackendInfo
from ..runtime.timing import LayerTiming

if TYPE_CHECKING:
    import pandas

    from ..app.reports.report import Report

SAVED = (".json", ".csv", ".ndjson", ".parquet", ".html")
SHOWN = 20  # maximum number of predictions shown in a notebook


@dataclass(frozen=True)
class Run:
    """The run that created an `Answers` object, from which its report is generated."""

    command: str
    model: Model
    info: BackendInfo
    arguments: RunArguments
    host_seconds: float


@dataclass(frozen=True, repr=False)
class Answers:
    """The predictions of a network for its inputs, and the time of each layer.

    `predictions` are in the order of the inputs; `errors` lists the inputs without a prediction if `on_error` is
    "collect". `layers` has a row for each layer (or kernel launch), with times summed over all batches; `total_us` is
    their total in microseconds, and `latency_kind` is "predicted" or "measured". `notes` report how files were read,
    such as which line is the header. If labels were given, `score` contains the accuracy, the top-5 accuracy, the F1
    score of each class and the confusions.

    The object is a sequence of its predictions.
    """

    predictions: tuple[Prediction, ...]
    layers: tuple[LayerTiming, ...]
    total_us: float
    latency_kind: str
    model: str
    backend: str
    target: str
    dtype: str
    errors: tuple[InputProblem, ...] = ()
    notes: tuple[str, ...] = ()
    score: Score | None = None
    run: Run | None = field(default=None, compare=False)

    @property
    def labels(self) -> tuple[str | None, ...]:
        """Return the label of each input; None for a network that outputs values."""
        return tuple(prediction.label for prediction in self.predictions)

    @property
    def classes(self) -> npt.NDArray[np.int32]:
        """Return the class of each input as an int32 array of shape [N], computed by an on-chip argmax. For a
        network that outputs values rather than classes, each entry is -1."""
        indices = [-1 if answer.class_index is None else answer.class_index for answer in self.predictions]
        return np.array(indices, np.int32)

    @property
    def probabilities(self) -> npt.NDArray[np.float32]:
        """Return the probability of each input's label, float32 [N]; NaN for a network that outputs values."""
        values = [np.nan if answer.probability is None else answer.probability for answer in self.predictions]
        return np.array(values, np.float32)

    @property
    def values(self) -> npt.NDArray[np.float32]:
        """Return the outputs of a network that outputs values, float32 [N, C]; raise ArgumentError for a classifier."""
        if any(answer.values is None for answer in self.predictions):
            raise ArgumentError(f"{self.model} outputs classes, not values; see predictions and probabilities")
        return np.array([answer.values for answer in self.predictions], np.float32)

    def __len__(self) -> int:
        return len(self.predictions)

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self.predictions)

    def __getitem__(self, position: int) -> Prediction:
        return self.predictions[position]

    def __repr__(self) -> str:
        failed = f", {len(self.errors)} errors" if self.errors else ""
        time = f"{self.latency_kind} {self.total_us:,.1f} us"
        where = f"{self.target} in {self.dtype} ({self.backend})"
        return f"<Answers: {len(self)} of {self.model}{failed}, {time} on {where}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document that `--format json` prints (schema_version 1; app/reports/report.schema.json), as
        plain values."""
        document: dict[str, Any] = json.loads(self.to_json(None))
        return document

    def to_json(self, indent: int | None = 2) -> str:
        """Return the document of `to_dict` as text."""
        from ..app.reports.machine import to_document

        return json.dumps(to_document(self._report()), indent=indent, allow_nan=False)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with a row for each input: input, label, class_index, probability, error.

        For a network that outputs values, columns value_0, value_1 and so on replace label, class and probability; for
        a detector, there is a row for each box, with its confidence, x1, y1, x2 and y2. Inputs without a prediction
        come last, with the reason as error. Raises ArgumentError if pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ArgumentError("to_pandas requires pandas, which is not installed (pip install pandas)") from None
        from ..app.reports.box_rows import box_lines

        rows: list[dict[str, Any]] = []
        for answer in self.predictions:
            lines = [_row(answer)] if answer.boxes is None else box_lines(answer, answer.input)
            rows += [{**line, "error": None} for line in lines]
        rows += [{"input": problem.input, "error": problem.message} for problem in self.errors]
        names = list(dict.fromkeys(name for row in rows for name in row if name != "error"))
        table = pandas.DataFrame(rows, columns=[*(names or ["input"]), "error"])
        return table.astype({"class_index": "Int64"}) if "class_index" in names else table

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the predictions to a file, atomically, in the format given by its suffix.

        .json, .csv and .ndjson are the formats of the command line, .parquet has the same columns as .csv, and .html is
        the page written by `report`. Raises ArgumentError for other suffixes and for files that are not writable.
        """
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix not in SAVED:
            raise ArgumentError(
                f"{target}: answers can be saved as {', '.join(SAVED)}, not as {suffix or 'such a file'}"
            )
        if suffix == ".html":
            self.report(target)
            return
        from ..app.errors import UsageError

        try:
            if suffix == ".parquet":
                from ..app.reports.parquet import write_parquet

                write_parquet(target, self.predictions, self.errors, "save")
                return
            from ..app.output import write_output
            from ..app.reports.machine import render

            write_output(render(self._report(), suffix.removeprefix(".")), target)  # type: ignore[arg-type]
        except UsageError as error:
            raise ArgumentError(str(error).replace("--output ", "")) from None

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the same page as `--report`: predictions, layers, and (on the simulator) the timeline of one batch.

        Raises ArgumentError if the file is not writable.
        """
        from ..app.errors import UsageError
        from ..app.reports.html import write_report

        try:
            write_report(Path(path), self._report(), self._timelines())
        except UsageError as error:
            raise ArgumentError(str(error).replace("--report ", "")) from None

    def _timelines(self) -> tuple[tuple[str, object], ...]:
        """Return the timeline of one batch, which the simulator recomputes from shapes."""
        run = self.run
        if run is None or run.info.name != "sim" or not self.predictions:
            return ()
        session = run.arguments.session(run.model, keep_timelines=True)
        return session.time(min(len(self.predictions), run.arguments.batch_size)).timelines

    def _report(self) -> Report:
        from ..app.reports.report import LayerTable, Report

        if self.run is None:
            raise ArgumentError("these answers were not created by a run of trninfer, so there is no report to save")
        run = self.run
        report = Report.on(run.command, self.model, run.info, self.dtype)
        title = f"{self.model}: {len(self)} in batches of at most {run.arguments.batch_size}"
        report.tables = [LayerTable(title, "", self.layers)]
        report.predictions = list(self.predictions)
        report.errors = list(self.errors)
        report.score = self.score
        report.host_seconds = run.host_seconds
        return report

    def _repr_html_(self) -> str:
        """Return the first predictions and the time of each layer as HTML, for notebooks."""
        rows = [
            f"<tr><td>{_cell(answer.input)}</td><td>{_cell(answer.text[:80])}</td>"
            f"<td>{'' if answer.probability is None else f'{answer.probability:.4f}'}</td></tr>"
            for answer in self.predictions[:SHOWN]
        ]
        rows += [
            f'<tr><td>{_cell(problem.input)}</td><td colspan="2">{_cell(problem.message)}</td></tr>'
            for problem in self.errors[:SHOWN]
        ]
        left = len(self) - min(len(self), SHOWN)
        more = f"<p>and {left} more</p>" if left else ""
        layers = [
            f"<tr><td>{_cell(layer.name)}</td><td>{layer.latency_us:,.1f}</td><td>{100 * layer.share:.1f} %</td>"
            f"<td>{_cell(layer.bound_by or '')}</td></tr>"
            for layer in self.layers
        ]
        kind = f"{self.latency_kind} us"
        return (
            f"<p>{_cell(repr(self)[1:-1])}</p><table><thead><tr><th>input</th><th>answer</th><th>probability</th></tr>"
            f"</thead><tbody>{''.join(rows)}</tbody></table>{more}<table><thead><tr><th>layer</th><th>{kind}</th>"
            f"<th>share</th><th>bound by</th></tr></thead><tbody>{''.join(layers)}</tbody></table>"
        )


def _cell(value: object) -> str:
    return html.escape(str(value).encode("utf-8", "backslashreplace").decode("utf-8"))


def _row(answer: Prediction) -> dict[str, Any]:
    """Return the columns of a prediction without boxes."""
    row: dict[str, Any] = {"input": answer.input if isinstance(answer.input, int) else str(answer.input)}
    if answer.values is None:
        return row | {"label": answer.label, "class_index": answer.class_index, "probability": answer.probability}
    return row | {f"value_{number}": value for number, value in enumerate(answer.values)}
