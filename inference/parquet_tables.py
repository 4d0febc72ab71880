"""Parquet files: rows of features in, by pyarrow where it is installed. ValueError for what is no table of numbers."""

from __future__ import annotations

from typing import IO, Any

import numpy as np

from .feature_rows import MAX_LOADED_BYTES, FeatureRows

INSTALL_HINT = "pip install pyarrow"
INDEX = "__index_level_"  # how pandas names the columns of an index
_ROWS_AT_ONCE = 1 << 16


def parquet_rows(name: str, file: IO[bytes]) -> FeatureRows:
    """The rows of a Parquet file, whose columns are numbers, or one column of lists of numbers; the file is closed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ValueError(f"Parquet files are read by pyarrow, which is not installed ({INSTALL_HINT})") from None
    with file:
        try:
            table = pyarrow.parquet.ParquetFile(file)
            schema = table.schema_arrow
            columns = [column for column in schema.names if not column.startswith(INDEX)]
            _check_columns(pyarrow, schema, columns)
            values = _read(table, columns)
        except (pyarrow.ArrowException, OSError, KeyError) as error:
            told = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ValueError(f"not a Parquet file that can be read: {told[:100]}") from None
    rows = FeatureRows.in_memory(name, values)
    left_out = [column for column in schema.names if column not in columns]
    if left_out:
        rows.notes = (f"left out as pandas' index: {', '.join(left_out)}",)
    return rows


def _check_columns(pyarrow: Any, schema: Any, columns: list[str]) -> None:
    """ValueError unless the columns are numbers, or one of lists of numbers."""
    types = pyarrow.types
    if len(set(columns)) < len(columns) or not columns:
        raise ValueError("holds no columns, or several of the same name")
    for column in columns:
        kind = schema.field(column).type
        if len(columns) == 1 and (types.is_list(kind) or types.is_fixed_size_list(kind) or types.is_large_list(kind)):
            kind = kind.value_type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise ValueError(f"column {column[:40]!r} is of type {kind}; numbers are needed")


def _read(table: Any, columns: list[str]) -> np.ndarray:
    """The values as float64 [rows, columns]."""
    size = 8 * table.metadata.num_rows * len(columns)
    if size > MAX_LOADED_BYTES:
        raise ValueError(f"{table.metadata.num_rows} rows take {size} bytes; at most {MAX_LOADED_BYTES} are held")
    parts: list[np.ndarray] = []
    width = len(columns)
    for batch in table.iter_batches(_ROWS_AT_ONCE, columns=columns):
        for column in columns:
            if batch.column(column).null_count:
                raise ValueError(f"column {column[:40]!r} has missing values; all must be numbers")
        if hasattr(batch.column(columns[0]), "flatten") and hasattr(batch.column(columns[0]).type, "value_type"):
            part = _rows_of_lists(batch.column(columns[0]))
            width = part.shape[1]
        else:
            part = np.column_stack([np.asarray(batch.column(column), np.float64) for column in columns])
        if parts and part.shape[1] != parts[0].shape[1]:
            raise ValueError(f"rows of {parts[0].shape[1]} and of {part.shape[1]} values")
        parts.append(part)
        if sum(part.nbytes for part in parts) > MAX_LOADED_BYTES:
            raise ValueError(f"more numbers than fit {MAX_LOADED_BYTES} bytes")
    return np.concatenate(parts) if parts else np.empty((0, width))


def _rows_of_lists(column: Any) -> np.ndarray:
    """A column of lists as float64 [rows, values]."""
    flat = column.flatten()
    if flat.null_count or not len(column) or len(flat) % len(column):
        raise ValueError("the lists have missing values or different lengths")
    widths = {len(item) for item in column}
    if len(widths) != 1:
        raise ValueError("the lists have different lengths")
    return np.asarray(flat, np.float64).reshape(len(column), -1)
