"""Machine-readable reports: JSON (schema_version 1, report.schema.json), NDJSON and CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from ...inference.detections import answer_record
from ...inference.map_scoring import MapScore
from ...inference.predictions import InputNames, Prediction
from ...inference.scoring import Score
from ...runtime.timing import LayerTiming
from ..options import Format, ReportFormat
from ..text import printable, spell
from .area_table import AREA_COLUMNS, area_lines
from .box_rows import BOX_COLUMNS, box_lines, coco_chunks
from .cells import Change, as_is
from .layer_columns import markdown_table
from .report import LayerTable, Report

if TYPE_CHECKING:
    from ...runtime.measure.compare import BackendComparison

SCHEMA_VERSION = 1

PREDICTION_COLUMNS = ("input", "label", "class_index", "probability", "error")


def render(report: Report, form: ReportFormat, change: Change = as_is) -> str:
    """Return a report as JSON (one document), NDJSON (one object per line, with a `type`), CSV (predictions, or layers)
    or Markdown (tables of layers).

    `change` is applied to text cells of a CSV.
    """
    if form == "markdown":
        label = report.latency_label or report.latency_kind
        return "\n".join(markdown_table(table, label) for table in report.tables)
    return "".join(chunks(report, form, report.predictions, change))


def chunks(
    report: Report, form: Format | Literal["coco"], answers: Iterable[Prediction], change: Change = as_is
) -> Iterator[str]:
    """Yield the report in pieces, with `answers` instead of the predictions in the report; each prediction is in memory
    only while it is written."""
    if form == "coco":
        assert report.coco is not None
        yield from coco_chunks(answers, report.coco)
    elif form == "json":
        yield from _json_chunks(to_document(report), answers)
    elif form == "csv" and report.suite is not None:
        from ...runtime.measure.suites import SuiteRow

        yield _csv(_names(SuiteRow), to_document(report)["suite"], change)
    elif form == "csv" and report.sweep is not None:
        from ...runtime.sweep import SweepPoint

        yield _csv(_names(SweepPoint), to_document(report)["sweep"], change)
    elif form == "csv" and report.comparison is not None:
        yield report.comparison.to_csv()
    elif form == "csv" and report.command == "bench":
        yield _csv(_names(LayerTiming), to_document(report)["layers"], change)
    else:
        yield begin(form, report.command)
        yield from (answer_lines((answer,), form, change) for answer in answers)
        yield end(report, form, change)


def begin(form: Format, command: str) -> str:
    """Return the text that precedes the predictions in CSV and NDJSON."""
    return _csv(_columns(command), []) if form == "csv" else ""


def _columns(command: str) -> tuple[str, ...]:
    """Return the columns of a command's predictions in CSV."""
    return {"detect": BOX_COLUMNS, "segment": AREA_COLUMNS}.get(command, PREDICTION_COLUMNS)


def answer_lines(answers: Iterable[Prediction], form: Format, change: Change = as_is) -> str:
    """Return predictions in CSV or NDJSON, one per line; in CSV, one line per box or area."""
    answers = tuple(answers)
    if form != "csv":
        return "".join(json.dumps({"type": "prediction", **prediction_record(answer)}) + "\n" for answer in answers)
    columns: tuple[str, ...] = PREDICTION_COLUMNS
    lines_of = _prediction_lines
    if any(answer.boxes is not None for answer in answers):
        columns, lines_of = BOX_COLUMNS, box_lines
    elif any(answer.map is not None for answer in answers):
        columns, lines_of = AREA_COLUMNS, area_lines
    lines = [line for answer in answers for line in lines_of(answer, _input_text(answer.input))]
    return _csv(columns, lines, change, header=False)


def _prediction_lines(answer: Prediction, name: str | int) -> list[dict[str, Any]]:
    return [{**prediction_record(answer), "label": answer.text, "input": name}]


def end(report: Report, form: Format, change: Change = as_is) -> str:
    """Return the text that follows the predictions in CSV and NDJSON: errors and, in NDJSON, layers and a summary."""
    document = to_document(report)
    if form == "csv":
        problems = [{"input": problem["input"], "error": problem["message"]} for problem in document["errors"]]
        return _csv(_columns(report.command), problems, change, header=False)
    lists = {
        "prediction": "predictions",
        "layer": "layers",
        "error": "errors",
        "suite": "suite",
        "sweep": "sweep",
        "advice": "advice",
        "lowering": "lowering",
    }
    lines = [
        {"type": kind, **row} for kind, key in lists.items() if kind != "prediction" for row in document.get(key, [])
    ]
    lines.append({"type": "summary", **{key: value for key, value in document.items() if key not in lists.values()}})
    return "".join(json.dumps(line) + "\n" for line in lines)


def render_rows(rows: list[dict[str, Any]], command: str, form: Format, change: Change = as_is) -> str:
    """Return plain records: in JSON under the name of the command, otherwise one record per line."""
    if form == "json":
        return json.dumps({"schema_version": SCHEMA_VERSION, "command": command, command: rows}, indent=2) + "\n"
    if form == "ndjson":
        return "".join(json.dumps(row) + "\n" for row in rows)
    return _csv(
        tuple(rows[0]) if rows else (),
        [{key: json.dumps(value) if _is_nested(value) else value for key, value in row.items()} for row in rows],
        change,
    )


def to_document(report: Report) -> dict[str, Any]:
    """Return the report as the JSON document of schema_version 1."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "command": report.command,
        "model": report.model,
        "backend": report.backend,
        "target": report.target,
        "lnc": report.lnc,
        "dtype": report.dtype,
        "latency_kind": report.latency_kind,
        "latency_label": report.latency_label or report.latency_kind,
        "latency_note": report.latency_note,
        "predictions": [prediction_record(prediction) for prediction in report.predictions],
        "layers": [_layer(table, layer, report.total_us) for table in report.tables for layer in table.layers],
        "total_us": report.total_us,
        "critical": report.critical,
        "mfu": report.utilization[0],
        "hfu": report.utilization[1],
        "latency_error": None if report.latency_error == math.inf else report.latency_error,
        "host_seconds": report.host_seconds,
        "verify": dataclasses.asdict(report.verify) if report.verify is not None else None,
        "errors": [_named(dataclasses.asdict(problem)) for problem in report.errors],
    }
    return document | _run_sections(report) | _scores(report) | _network_sections(report)


def _layer(table: LayerTable, layer: LayerTiming, total_us: float) -> dict[str, Any]:
    share = layer.latency_us / total_us if total_us else 0.0
    return dataclasses.asdict(layer) | {"name": f"{table.prefix}{layer.name}", "share": share}


def _run_sections(report: Report) -> dict[str, Any]:
    """Return the optional sections that describe the run."""
    document: dict[str, Any] = {}
    floors = [table for table in report.tables if table.floor is not None]
    if floors:
        document["floors"] = [_floor(table) for table in floors]
    if report.agreement is not None:
        document["agreement"] = report.agreement._asdict()
    if report.answered_earlier:
        document["answered_earlier"] = report.answered_earlier
    if report.cores is not None:
        document["cores"] = dataclasses.asdict(report.cores)
    if report.comparison is not None:
        document["compare_backends"] = _comparison(report.comparison)
    if report.limits is not None:
        document |= dataclasses.asdict(report.limits)
    return document


def _network_sections(report: Report) -> dict[str, Any]:
    """Return the optional sections that consist of records: the predictions labelled "none", advice, lowering, sweep
    and suite."""
    document: dict[str, Any] = {} if report.none is None else {"none": dataclasses.asdict(report.none)}
    for name in ("advice", "lowering", "sweep", "suite"):
        records = getattr(report, name)
        if records is not None:
            document[name] = [dataclasses.asdict(record) for record in records]
    return document


def _scores(report: Report) -> dict[str, Any]:
    """Return the score of labels, boxes or maps under its field name."""
    document: dict[str, Any] = {}
    if report.score is not None:
        document["score"] = _score(report.score)
    if report.box_score is not None:
        document["box_score"] = dataclasses.asdict(report.box_score)
    if report.map_score is not None:
        document["map_score"] = _map_score(report.map_score)
    return document


def _floor(table: LayerTable) -> dict[str, Any]:
    """Return the lower bound on a network's time, and the ratio of its time to that bound."""
    floor = table.floor
    assert floor is not None
    network = table.prefix.removesuffix("/") or None
    return {
        "network": network,
        "floor_us": floor.latency_us,
        "bound_by": floor.bound_by,
        "total_us": table.total_us,
        "times_floor": table.times_floor,
    }


def _comparison(comparison: BackendComparison) -> dict[str, Any]:
    """Return the `compare_backends` section of the document."""
    rows = []
    for row in comparison.rows:
        record = {**dataclasses.asdict(row), "ratio": row.ratio, "passed": row.passed}
        record["error"] = row.error if math.isfinite(row.error) else None  # JSON cannot represent infinity
        rows.append(record)
    return {
        "passed": comparison.passed,
        "measured_label": comparison.measured_label,
        "device_label": comparison.device_label,
        "predicted_label": comparison.predicted_label,
        "rows": rows,
    }


def prediction_record(prediction: Prediction) -> dict[str, Any]:
    """Return a prediction as a record of the document. It contains `outputs`, keyed by name, if there are several, and
    boxes if there are any."""
    record = _named(answer_record(prediction))
    outputs = record.pop("outputs")
    if outputs:
        record["outputs"] = {output.pop("name"): output for output in outputs}
    return record


def _input_text(name: str | int) -> str | int:
    return spell(name) if isinstance(name, str) else name


def _named(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record whose `input` and `message` are valid Unicode; several inputs are represented as an object."""
    name = record["input"]
    if isinstance(name, InputNames):
        record["input"] = {key: spell(source) for key, source in name.sources.items()}
    else:
        record["input"] = _input_text(name)
    if "message" in record:
        record["message"] = printable(record["message"])
    return record


def _json_chunks(document: dict[str, Any], answers: Iterable[Prediction]) -> Iterator[str]:
    """Yield the document as json.dumps would write it, inserting the predictions one by one."""
    head, tail = json.dumps({**document, "predictions": []}, indent=2).split('"predictions": []', 1)
    yield f'{head}"predictions": ['
    separator = "\n    "
    for answer in answers:
        yield separator + json.dumps(prediction_record(answer), indent=2).replace("\n", "\n    ")
        separator = ",\n    "
    yield f"{']' if separator[0] != ',' else chr(10) + '  ]'}{tail}\n"


def _csv(columns: tuple[str, ...], rows: list[dict[str, Any]], change: Change = as_is, header: bool = True) -> str:
    text = io.StringIO()
    plain, quoted = (
        csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n", quoting=quoting)
        for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
    )
    if header:
        plain.writeheader()
    for row in rows:
        cells = {key: _cell(value, change) for key, value in row.items()}
        # Most readers treat a lone carriage return as a line ending, but the csv module does not quote it.
        has_return = any(isinstance(cell, str) and "\r" in cell for cell in cells.values())
        (quoted if has_return else plain).writerow(cells)
    return text.getvalue()


def _names(record: type[Any]) -> tuple[str, ...]:
    """Return the fields of a record, in order."""
    return tuple(field.name for field in dataclasses.fields(record))


def _is_nested(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict))


def _cell(value: Any, change: Change) -> Any:
    """Format shapes as 1x64x32 and records as JSON, apply `change` to text, and return other values unchanged."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, (list, tuple)) and all(isinstance(item, int) for item in value):
        return "x".join(map(str, value))
    return value


def _score(score: Score) -> dict[str, Any]:
    return {
        "correct": score.correct,
        "total": score.total,
        "accuracy": score.accuracy,
        "top_5_accuracy": score.top_5_accuracy,
        "macro_f1": score.macro_f1,
        "unlabelled": score.unlabelled,
        "classes": [
            {
                "label": class_score.label,
                "class_index": class_score.class_index,
                "support": class_score.support,
                "precision": class_score.precision,
                "recall": class_score.recall,
                "f1": class_score.f1,
            }
            for class_score in score.classes
        ],
        "confusion": [dataclasses.asdict(pair) for pair in score.confusion],
    }


def _map_score(score: MapScore) -> dict[str, Any]:
    return {
        "pictures": score.pictures,
        "unlabelled": score.unlabelled,
        "mean_iou": score.mean_iou if score.classes else None,
        "pixel_accuracy": score.pixel_accuracy if score.pixels else None,
        "classes": [
            {
                "label": class_score.label,
                "class_index": class_score.class_index,
                "pixels": class_score.pixels,
                "answered": class_score.answered,
                "iou": class_score.iou,
            }
            for class_score in score.classes
        ],
    }
