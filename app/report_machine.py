"""Reports for programs: JSON (schema_version 1, report.schema.json), NDJSON and CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from typing import Any

from .errors import printable
from .options import Format
from .report import Report

SCHEMA_VERSION = 1

_LAYER_COLUMNS = (
    "name",
    "kernel",
    "input_shape",
    "output_shape",
    "flops",
    "hbm_bytes",
    "latency_us",
    "latency_us_p99",
    "share",
    "bound_by",
    "mfu",
)
_PREDICTION_COLUMNS = ("input", "label", "class_index", "probability", "error")
_SUITE_COLUMNS = ("name", "predicted_us", "published_us", "published_kind", "ratio")


def render(report: Report, form: Format) -> str:
    """A report as JSON (one document), NDJSON (an object a line, by `type`) or CSV (its answers, or its layers)."""
    document = to_document(report)
    if form is Format.json:
        return json.dumps(document, indent=2) + "\n"
    if form is Format.ndjson:
        return _ndjson(document)
    if report.suite is not None:
        return _csv(_SUITE_COLUMNS, document["suite"])
    if report.command == "bench":
        return _csv(_LAYER_COLUMNS, document["layers"])
    answers = [{**prediction, "error": None} for prediction in document["predictions"]]
    problems = [{"input": problem["input"], "error": problem["message"]} for problem in document["errors"]]
    return _csv(_PREDICTION_COLUMNS, answers + problems)


def render_rows(rows: list[dict[str, Any]], command: str, form: Format) -> str:
    """Plain records: in JSON as the field that is named like the command, else a record a line."""
    if form is Format.json:
        return json.dumps({"schema_version": SCHEMA_VERSION, "command": command, command: rows}, indent=2) + "\n"
    if form is Format.ndjson:
        return "".join(json.dumps(row) + "\n" for row in rows)
    return _csv(tuple(rows[0]) if rows else (), rows)


def to_document(report: Report) -> dict[str, Any]:
    """The report as the JSON document of schema_version 1."""
    total_us = report.total_us
    layers = []
    for table in report.tables:
        for layer in table.layers:
            row = dataclasses.asdict(layer)
            row["name"] = f"{table.prefix}{layer.name}"
            row["share"] = layer.latency_us / total_us if total_us else 0.0
            layers.append(row)
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "command": report.command,
        "model": report.model,
        "backend": report.backend,
        "target": report.target,
        "dtype": report.dtype,
        "latency_kind": report.latency_kind,
        "latency_note": report.latency_note,
        "predictions": [_named(dataclasses.asdict(prediction)) for prediction in report.predictions],
        "layers": layers,
        "total_us": total_us,
        "host_seconds": report.host_seconds,
        "verify": dataclasses.asdict(report.verify) if report.verify is not None else None,
        "errors": [_named(dataclasses.asdict(problem)) for problem in report.errors],
    }
    if report.score is not None:
        document["score"] = {**dataclasses.asdict(report.score), "accuracy": report.score.accuracy}
    if report.suite is not None:
        document["suite"] = [dataclasses.asdict(row) for row in report.suite]
    return document


def _named(record: dict[str, Any]) -> dict[str, Any]:
    """A record whose `input` is a name that JSON can hold: bytes that are no UTF-8 are spelled out."""
    name = record["input"]
    if isinstance(name, str):
        record["input"] = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if "message" in record:
        record["message"] = printable(record["message"])
    return record


def _ndjson(document: dict[str, Any]) -> str:
    """Answers, layers, errors and suite rows a line each, and a last line with everything else."""
    lists = {"prediction": "predictions", "layer": "layers", "error": "errors", "suite": "suite"}
    lines = [{"type": kind, **row} for kind, key in lists.items() for row in document.get(key, [])]
    lines.append({"type": "summary", **{key: value for key, value in document.items() if key not in lists.values()}})
    return "".join(json.dumps(line) + "\n" for line in lines)


def _csv(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Shapes as 1x64x32; everything else as it is."""
    if isinstance(value, (list, tuple)) and all(isinstance(item, int) for item in value):
        return "x".join(map(str, value))
    return value
