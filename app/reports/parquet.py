"""Write predictions to a Parquet file with pyarrow, if it is installed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ...inference.parquet_tables import INSTALL_HINT
from ...inference.predictions import InputNames, Prediction
from ...inference.search import InputProblem
from ..errors import UsageError
from ..output import open_binary
from ..text import printable, spell
from .machine import prediction_record

_ROWS_AT_ONCE = 10_000


def import_pyarrow() -> Any:
    """Return the module `pyarrow`, with `parquet` imported. Raises UsageError with an installation hint if it is
    missing."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(f"writing Parquet files requires pyarrow, which is not installed ({INSTALL_HINT})") from None
    return pyarrow


def write_parquet(
    path: Path, answers: Iterable[Prediction], errors: Sequence[InputProblem] = (), option: str = "--output"
) -> None:
    """Write predictions atomically, one row each, followed by one row for each input for which no prediction could be
    made.

    Columns: input (text, or the number of a row), label, class_index, probability, error; values (a list) instead of
    label, class_index and probability if the network outputs values; outputs (JSON) if it has several outputs. Raises
    UsageError if the file is not writable.
    """
    pyarrow = import_pyarrow()
    remaining = iter(answers)
    first = next(remaining, None)
    schema = pyarrow.schema(_fields(pyarrow, first, errors))
    with open_binary(path, option) as file, pyarrow.parquet.ParquetWriter(file, schema) as writer:
        predictions = chain(() if first is None else (first,), remaining)
        rows = chain(map(_row, predictions), map(_lost, errors))
        while part := list(islice(rows, _ROWS_AT_ONCE)):
            writer.write_table(pyarrow.Table.from_pylist(part, schema=schema))


def _fields(pyarrow: Any, first: Prediction | None, errors: Sequence[InputProblem]) -> list[Any]:
    input_name = first.input if first is not None else errors[0].input if errors else ""
    fields = [("input", pyarrow.int64() if isinstance(input_name, int) else pyarrow.string())]
    if first is not None and first.values is not None:
        fields.append(("values", pyarrow.list_(pyarrow.float32())))
    else:
        fields += [("label", pyarrow.string()), ("class_index", pyarrow.int32()), ("probability", pyarrow.float32())]
    if first is not None and first.outputs:
        fields.append(("outputs", pyarrow.string()))
    return [*fields, ("error", pyarrow.string())]


def _row(answer: Prediction) -> dict[str, Any]:
    label = None if answer.label is None else printable(answer.label)
    return {
        "input": _name(answer.input),
        "label": label,
        "class_index": answer.class_index,
        "probability": answer.probability,
        "values": answer.values,
        "outputs": json.dumps(prediction_record(answer).get("outputs")) if answer.outputs else None,
    }


def _lost(problem: InputProblem) -> dict[str, Any]:
    return {"input": _name(problem.input), "error": printable(problem.message)}


def _name(name: str | int) -> str | int:
    if isinstance(name, InputNames):
        return json.dumps({key: spell(source) for key, source in name.sources.items()})
    return spell(name) if isinstance(name, str) else name
