"""Read predictions back from a finished report, for `--resume`."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...inference.predictions import Prediction
from ...models.regular_files import describe, open_regular
from ..errors import UsageError
from ..options import AnswerFormat
from ..reports.cells import Change, as_is
from ..reports.machine import PREDICTION_COLUMNS
from .answer_log import check_prediction
from .identity import Identity, check_identity

_MAX_LINE = 1 << 28  # maximum number of bytes per line


def read_finished(
    path: Path, form: AnswerFormat, identity: Identity, labels: tuple[str, ...], change: Change = as_is
) -> Iterator[Prediction]:
    """Yield the predictions in a CSV or NDJSON report of a network with these labels; `change` is applied to CSV cells.

    A truncated last line is ignored, and so are errors, since their inputs are processed again. A CSV file contains
    only the first label of a prediction. Raises UsageError for other files, and for the report of a run with different
    options.
    """
    allowed = ("ndjson",) if identity["command"] in ("detect", "segment") else ("csv", "ndjson")
    if form not in allowed:  # CSV contains neither pictures without boxes nor masks
        raise UsageError(
            f"--resume: {path} exists, but only {' and '.join(allowed)} reports can be extended, not --format {form}; "
            "use another --output"
        )
    records = _csv_records(path, identity, change) if form == "csv" else _ndjson_records(path, identity)
    try:
        for number, record in records:
            answer = check_prediction(record, labels)
            if answer is None:
                raise UsageError(f"--resume: {path}: line {number} is not an answer of this model in {form}")
            if form == "ndjson" and len(answer.top) != min(identity["top_k"], len(labels)):
                raise UsageError(
                    f"--resume: the answers in {path} were computed with --top-k {len(answer.top)}; use it again"
                )
            yield answer
    except csv.Error as error:
        raise UsageError(f"--resume: {path}: not a csv report: {error}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"--resume: {path}: {describe(error)}") from None


def _ndjson_records(path: Path, identity: Identity) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(_whole_lines(path), 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        kind = record.pop("type", None) if isinstance(record, dict) else None
        if kind == "summary":
            check_identity(str(path), record, identity)
        if kind not in ("layer", "error", "summary"):
            yield number, record


def _csv_records(path: Path, identity: Identity, change: Change) -> Iterator[tuple[int, Any]]:
    limit = csv.field_size_limit(_MAX_LINE)  # since embeddings are long
    try:
        reader = csv.reader(line.decode() for line in _whole_lines(path))
        if next(reader, None) != list(PREDICTION_COLUMNS):
            raise ValueError("not a csv report")
        for row in reader:
            try:
                record = _csv_record(*map(change, row), rows=_is_numbered(identity))
                if record is not None:
                    yield reader.line_num, record
            except (TypeError, ValueError):
                yield reader.line_num, None
    finally:
        csv.field_size_limit(limit)


def _is_numbered(identity: Identity) -> bool:
    """Return True if inputs are rows without ids."""
    return identity["command"] == "ffnn" and identity.get("id") is None


def _csv_record(
    name: str, label: str, index: str, probability: str, error: str, *, rows: bool
) -> dict[str, Any] | None:
    """Return the fields of a prediction, whose input is a number if `rows` is True, or None for an error."""
    if error:
        return None
    values = not index  # the network outputs values rather than labels
    return {
        "input": int(name) if rows else name,
        "label": None if values else label,
        "class_index": None if values else int(index),
        "probability": None if values else float(probability),
        "top": [],
        "values": [float(word) for word in label.split()] if values else None,
    }


def _whole_lines(path: Path) -> Iterator[bytes]:
    with open_regular(path) as file:
        while (line := file.readline(_MAX_LINE)).endswith(b"\n"):
            yield line
