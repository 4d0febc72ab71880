"""Parquet files: rows of features in, by pyarrow where it is installed. ValueError for what is no table of numbers.

A file of some hundred bytes may unpack to gigabytes, and its own figures may be wrong. So these are checked before
anything is unpacked, and the file is read in a process of its own whose memory is limited.
"""

from __future__ import annotations

import io
import math
import os
import sys
import traceback
from dataclasses import dataclass
from importlib.util import find_spec
from typing import IO, Any

import numpy as np

from ..models.budget import MIN_BYTES, Budget, OverBudget
from ..models.regular_files import file_size, open_regular
from ..runtime.cluster.worker import Reply, WorkerFault
from ..runtime.worker_process import WorkerEnded, WorkerProcess
from .feature_rows import FeatureRows

INSTALL_HINT = "pip install pyarrow"
INDEX = "__index_level_"  # how pandas names the columns of an index
BATCH_BYTES = 16 << 20  # of rows that are read at once
LIMIT_BYTES = MIN_BYTES  # that the process may allocate beside what it begins with


@dataclass(frozen=True)
class _Table:
    """Shape and type of the rows, and the columns that are left out as pandas' index."""

    rows: int
    width: int
    dtype: np.dtype[Any]
    left_out: tuple[str, ...]


def parquet_rows(name: str, file: IO[bytes]) -> FeatureRows:
    """Return the rows of a Parquet file, whose columns are numbers, or one column of lists of numbers; the file is
    closed."""
    with file:
        content = file.getvalue() if isinstance(file, io.BytesIO) else None
        size = file_size(file) if content is None else len(content)
    if find_spec("pyarrow") is None:
        raise ValueError(f"Parquet files are read by pyarrow, which is not installed ({INSTALL_HINT})")
    process = WorkerProcess(ParquetReader)
    try:
        table: _Table = process.ask(name if content is None else content)
        shape = (table.rows, table.width)
        Budget.for_file(size).take(math.prod(shape) * table.dtype.itemsize, f"an array of shape {list(shape)}")
        values = np.empty(shape, table.dtype)
        filled = 0
        while (part := process.ask(None)) is not None:
            if part.shape[1] != table.width or filled + len(part) > table.rows:
                raise ValueError("holds lists of different lengths, or more rows than it says")
            values[filled : filled + len(part)] = part
            filled += len(part)
    except WorkerEnded:
        raise _over_limit() from None
    finally:
        process.kill()
        process.close()
    if filled < table.rows:
        raise ValueError(f"holds {filled} rows; it says that it has {table.rows}")
    rows = FeatureRows.in_memory(name, values)
    if table.left_out:
        rows.notes = (f"left out as pandas' index: {', '.join(table.left_out)}",)
    return rows


class ParquetReader:
    """Worker in a process of its own: its first message is the path or the content of a file, which it answers with a
    `_Table`; each further one is answered with some rows, at the end with None."""

    def __init__(self) -> None:
        self._batches: Any = iter(())

    def begin(self, setup: str | bytes) -> Reply:
        """Open the file and check its figures."""
        return self._reply(lambda: self._open(setup))

    def answer(self, inputs: None) -> Reply:
        """Read the next rows."""
        return self._reply(lambda: next(self._batches, None))

    def _open(self, source: str | bytes) -> _Table:
        import pyarrow
        import pyarrow.parquet

        pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # others map a gigabyte at once, which counts
        pyarrow.set_cpu_count(1)
        limit_memory(LIMIT_BYTES)
        file: IO[bytes] = io.BytesIO(source) if isinstance(source, bytes) else open_regular(source)
        parquet = pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 16)
        schema = parquet.schema_arrow
        columns = [column for column in schema.names if not column.startswith(INDEX)]
        kinds = _number_types(pyarrow, schema, columns)
        dtype = np.result_type(*(np.dtype(kind.to_pandas_dtype()) for kind in kinds))
        is_list = hasattr(schema.field(columns[0]).type, "value_type")
        width = _list_width(parquet.metadata) if is_list else len(columns)
        Budget(LIMIT_BYTES).take(8 * width, f"a row of {width:,} values")
        batch_rows = max(1, BATCH_BYTES // max(1, 8 * width))
        self._batches = _read(parquet.iter_batches(batch_rows, columns=columns, use_threads=False), columns, dtype)
        return _Table(
            parquet.metadata.num_rows, width, dtype, tuple(column for column in schema.names if column not in columns)
        )

    def _reply(self, work: Any) -> Reply:
        try:
            return Reply(work(), None, (), ())
        except MemoryError:  # pyarrow's is one
            return Reply(None, _over_limit(), (), ())
        except Exception as error:
            if type(error) in (ValueError, OverBudget):
                return Reply(None, error, (), ())
            if isinstance(error, (OSError, KeyError)) or type(error).__module__.startswith("pyarrow"):
                message = (str(error).strip() or type(error).__name__).splitlines()[0][:100]
                return Reply(None, ValueError(f"not a Parquet file that can be read: {message}"), (), ())
            return Reply(None, WorkerFault(traceback.format_exc()), (), ())


def limit_memory(size: int) -> None:
    """Let this process allocate at most `size` bytes more, where the system can do that (Linux)."""
    if not sys.platform.startswith("linux"):
        return
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_DATA, (used + size, resource.RLIM_INFINITY))


def _number_types(pyarrow: Any, schema: Any, columns: list[str]) -> list[Any]:
    """Return the types of the columns, or of the elements of the one column of lists; ValueError unless all are
    numbers."""
    types = pyarrow.types
    if len(set(columns)) < len(columns) or not columns:
        raise ValueError("holds no columns, or several of the same name")
    found = []
    for column in columns:
        kind = schema.field(column).type
        if len(columns) == 1 and (types.is_list(kind) or types.is_fixed_size_list(kind) or types.is_large_list(kind)):
            kind = kind.value_type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise ValueError(f"column {column[:40]!r} is of type {kind}; numbers are needed")
        found.append(kind)
    return found


def _list_width(metadata: Any) -> int:
    """Return the length of the lists of the one column, by the figures of the file."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    sizes = {group.column(0).num_values / group.num_rows for group in groups if group.num_rows}
    if len(sizes) > 1 or any(not size.is_integer() for size in sizes):
        raise ValueError("the lists have missing values or different lengths")
    return int(sizes.pop()) if sizes else 0


def _read(batches: Any, columns: list[str], dtype: np.dtype[Any]) -> Any:
    """Yield the values as arrays [rows, columns]."""
    for batch in batches:
        for column in columns:
            if batch.column(column).null_count:
                raise ValueError(f"column {column[:40]!r} has missing values; all must be numbers")
        first = batch.column(columns[0])
        if hasattr(first.type, "value_type"):
            yield _rows_of_lists(first, dtype)
        else:
            yield np.column_stack([np.asarray(batch.column(column)).astype(dtype, copy=False) for column in columns])


def _rows_of_lists(column: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Return a column of lists as an array [rows, values]."""
    flat = column.flatten()
    if flat.null_count or not len(column) or len(flat) % len(column):
        raise ValueError("the lists have missing values or different lengths")
    offsets = getattr(column, "offsets", None)  # lists of a fixed size have none
    if offsets is not None and len(np.unique(np.diff(np.asarray(offsets)))) != 1:
        raise ValueError("the lists have different lengths")
    return np.asarray(flat).astype(dtype, copy=False).reshape(len(column), -1)


def _over_limit() -> ValueError:
    return ValueError(
        f"unpacking it takes more than {LIMIT_BYTES >> 20} MiB; write it in smaller row groups, or as .npy"
    )
