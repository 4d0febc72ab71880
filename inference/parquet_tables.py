"""Read rows of features from Parquet files with pyarrow, if it is installed. Raises ValueError if a file is not a table
of numbers.

A file of a few hundred bytes may expand to gigabytes, and its metadata may be wrong. The metadata is therefore checked
first, and the file is read in a process with limited memory.
"""

from __future__ import annotations

import io
import math
import os
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import IO, Any

import numpy as np

from ..models.budget import MIN_BYTES, Budget, OverBudget
from ..models.regular_files import file_size, open_regular
from ..runtime.workers.process import WorkerEnded, WorkerProcess
from ..runtime.workers.worker import Reply, WorkerFault
from .columns import HINT, Columns, Sides
from .feature_rows import FeatureRows

INSTALL_HINT = "pip install pyarrow"
INDEX = "__index_level_"  # prefix of pandas' index columns
BATCH_BYTES = 16 << 20  # number of bytes of rows read at once
TEXT_BYTES = 57  # bytes of an id in Python in addition to its characters, including its list entry
LIMIT_BYTES = MIN_BYTES  # bytes that the process may allocate after its start


@dataclass(frozen=True)
class _Table:
    """The shape and dtype of the rows, notes for the user, and the names of the id and class columns."""

    rows: int
    width: int
    dtype: np.dtype[Any]
    notes: tuple[str, ...]
    id_name: str | None
    label_name: str | None


@dataclass(frozen=True)
class _Part:
    """A part of the rows, with their ids and classes if there are any."""

    values: np.ndarray
    ids: list[str]
    labels: list[str]


def parquet_rows(name: str, file: IO[bytes], columns: Columns | None = None) -> FeatureRows:
    """Return the rows of a Parquet file with columns of numbers, or with one column of lists of numbers. The file is
    closed. By default, all columns are features."""
    with file:
        content = file.getvalue() if isinstance(file, io.BytesIO) else None
        size = file_size(file) if content is None else len(content)
    if find_spec("pyarrow") is None:
        raise ValueError(f"reading Parquet files requires pyarrow, which is not installed ({INSTALL_HINT})")
    process = WorkerProcess(ParquetReader)
    try:
        table: _Table = process.ask((name if content is None else content, columns))
        values, ids, labels = _read_parts(process, table, Budget.for_file(size))
    except WorkerEnded:
        raise _over_limit() from None
    finally:
        process.kill()
        process.close()
    rows = FeatureRows.in_memory(name, values)
    rows.notes = table.notes
    if table.id_name is not None or table.label_name is not None:
        has_ids, has_labels = table.id_name is not None, table.label_name is not None
        rows.sides = Sides(table.id_name or "", ids if has_ids else None, labels if has_labels else None)
    return rows


def _read_parts(process: WorkerProcess, table: _Table, budget: Budget) -> tuple[np.ndarray, list[str], list[str]]:
    """Return all values of a table with its ids and labels, which a process reads part by part."""
    shape = (table.rows, table.width)
    budget.take(math.prod(shape) * table.dtype.itemsize, f"an array of shape {list(shape)}")
    values = np.empty(shape, table.dtype)
    filled = 0
    ids: list[str] = []
    labels: list[str] = []
    while (part := process.ask(None)) is not None:
        if part.values.shape[1] != table.width or filled + len(part.values) > table.rows:
            raise ValueError("contains lists of different lengths, or more rows than its metadata states")
        values[filled : filled + len(part.values)] = part.values
        filled += len(part.values)
        budget.take(sum(TEXT_BYTES + len(text) for text in (*part.ids, *part.labels)), "a table with its ids")
        ids += part.ids
        labels += part.labels
    if filled < table.rows:
        raise ValueError(f"contains {filled} rows, but its metadata states {table.rows}")
    return values, ids, labels


class ParquetReader:
    """The worker in the reader process.

    The first message contains the path or content of a file and the named columns; the reply is a `_Table`. The reply
    to each subsequent message is a `_Part`, or None after the last part.
    """

    def __init__(self) -> None:
        self._batches: Any = iter(())

    def begin(self, setup: tuple[str | bytes, Columns | None]) -> Reply:
        """Open the file and check its metadata."""
        return self._reply(lambda: self._open(*setup))

    def answer(self, inputs: None) -> Reply:
        """Read the next rows."""
        return self._reply(lambda: next(self._batches, None))

    def _open(self, source: str | bytes, named: Columns | None) -> _Table:
        import pyarrow
        import pyarrow.parquet

        # other memory pools map a gigabyte at once, which counts towards the limit
        pyarrow.set_memory_pool(pyarrow.system_memory_pool())
        pyarrow.set_cpu_count(1)
        limit_memory(LIMIT_BYTES)
        file: IO[bytes] = io.BytesIO(source) if isinstance(source, bytes) else open_regular(source)
        parquet = pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 16)
        schema = parquet.schema_arrow
        selection = _select(pyarrow.types, schema, named)
        columns = selection.features
        kinds = _number_types(pyarrow, schema, columns, "" if named is None else HINT)
        dtype = np.result_type(*(np.dtype(kind.to_pandas_dtype()) for kind in kinds))
        is_list = hasattr(schema.field(columns[0]).type, "value_type")
        width = _list_width(parquet.metadata, columns[0]) if is_list else len(columns)
        Budget(LIMIT_BYTES).take(8 * width, f"a row of {width:,} values")
        batch_rows = max(1, BATCH_BYTES // max(1, 8 * width))
        names = list(dict.fromkeys((*columns, *selection.texts)))
        self._batches = _read(parquet.iter_batches(batch_rows, columns=names, use_threads=False), selection, dtype)
        return _Table(parquet.metadata.num_rows, width, dtype, selection.notes, selection.id_name, selection.label_name)

    def _reply(self, work: Any) -> Reply:
        try:
            return Reply(work(), None, (), ())
        except MemoryError:  # pyarrow's out-of-memory error is a subclass of MemoryError
            return Reply(None, _over_limit(), (), ())
        except Exception as error:
            if type(error) in (ValueError, OverBudget):
                return Reply(None, error, (), ())
            if isinstance(error, (OSError, KeyError)) or type(error).__module__.startswith("pyarrow"):
                message = (str(error).strip() or type(error).__name__).splitlines()[0][:100]
                return Reply(None, ValueError(f"not a readable Parquet file: {message}"), (), ())
            return Reply(None, WorkerFault(traceback.format_exc()), (), ())


def limit_memory(size: int) -> None:
    """Limit the memory of this process to `size` bytes more than it uses now, on systems that support it (Linux)."""
    if not sys.platform.startswith("linux"):
        return
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        bytes_used = int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_DATA, (bytes_used + size, resource.RLIM_INFINITY))


@dataclass(frozen=True)
class _ColumnSelection:
    """The columns to read, by name, and notes for the user."""

    features: list[str]
    id_name: str | None
    label_name: str | None
    notes: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the names of the id and class columns."""
        return tuple(name for name in (self.id_name, self.label_name) if name is not None)


def _check_texts(types: Any, schema: Any, names: Iterable[str]) -> None:
    """Raise ValueError if a column of ids or labels contains neither text nor numbers."""
    for name in names:
        kind = schema.field(name).type
        if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
            raise ValueError(f"column {name[:40]!r} is of type {kind}; expected text or numbers")


def _select(types: Any, schema: Any, named: Columns | None) -> _ColumnSelection:
    """Select the columns to read. The index columns of pandas are omitted unless they are named."""
    names = list(schema.names)
    notes: list[str] = []
    if named is None:
        selection = _ColumnSelection([name for name in names if not name.startswith(INDEX)], None, None, ())
    else:
        selection, notes = _select_named(types, schema, named)
    _check_texts(types, schema, selection.texts)
    dropped = () if named is None else named.drop
    selected_names = {*selection.features, *selection.texts, *dropped}
    left = [name for name in names if name.startswith(INDEX) and name not in selected_names]
    if left:
        notes.insert(0, f"skipped as the pandas index:  {', '.join(left)}")
    return replace(selection, notes=tuple(notes))


def _select_named(types: Any, schema: Any, named: Columns) -> tuple[_ColumnSelection, list[str]]:
    """Select columns by the user's options; also return a note on the choice, if there is one."""
    names, kinds = list(schema.names), schema.types  # the attribute `types` creates a new list on each access
    selection = named.select(names, lambda at: _is_text(types, kinds[at]), lambda at: names[at].startswith(INDEX))
    features = [names[column] for column in selection.features]
    id_name, label_name = (None if column is None else names[column] for column in (selection.id, selection.label))
    return _ColumnSelection(features, id_name, label_name, ()), list(filter(None, [selection.note(names)]))


def _is_text(types: Any, kind: Any) -> bool:
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _number_types(pyarrow: Any, schema: Any, columns: list[str], hint: str) -> list[Any]:
    """Return the types of the columns, or of the list elements if there is a single column of lists. Raises ValueError
    with a hint unless all are numbers."""
    types = pyarrow.types
    if len(set(columns)) < len(columns) or not columns:
        raise ValueError("must contain at least one column, and column names must be unique")
    types_of_columns = []
    for column in columns:
        kind = schema.field(column).type
        if len(columns) == 1 and (types.is_list(kind) or types.is_fixed_size_list(kind) or types.is_large_list(kind)):
            kind = kind.value_type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise ValueError(f"column {column[:40]!r} is of type {kind}; expected numbers{hint}")
        types_of_columns.append(kind)
    return types_of_columns


def _list_width(metadata: Any, name: str) -> int:
    """Return the length of the lists in the only column, according to the metadata of the file."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    leaf = next((number for number, path in enumerate(paths) if path.startswith(f"{name}.")), 0)
    sizes = {group.column(leaf).num_values / group.num_rows for group in groups if group.num_rows}
    if len(sizes) > 1 or any(not size.is_integer() for size in sizes):
        raise ValueError("the lists have missing values or different lengths")
    return int(sizes.pop()) if sizes else 0


def _read(batches: Any, chosen: _ColumnSelection, dtype: np.dtype[Any]) -> Any:
    """Yield the rows in parts."""
    columns = chosen.features
    for batch in batches:
        for column in columns:
            if batch.column(column).null_count:
                raise ValueError(f"column {column[:40]!r} has missing values; every row must contain a number")
        first = batch.column(columns[0])
        if hasattr(first.type, "value_type"):
            values = _rows_of_lists(first, dtype)
        else:
            values = np.column_stack([np.asarray(batch.column(column)).astype(dtype, copy=False) for column in columns])
        yield _Part(values, _texts(batch, chosen.id_name), _texts(batch, chosen.label_name))


def _texts(batch: Any, name: str | None) -> list[str]:
    """Return a column as text, in which missing values are empty; return an empty list if there is no column."""
    if name is None:
        return []
    values = batch.column(name).to_pylist()
    return ["" if value is None or value != value else str(value) for value in values]


def _rows_of_lists(column: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Return a column of lists as an array [rows, values]."""
    flat = column.flatten()
    if flat.null_count or not len(column) or len(flat) % len(column):
        raise ValueError("the lists have missing values or different lengths")
    offsets = getattr(column, "offsets", None)  # fixed-size lists have no offsets
    if offsets is not None and len(np.unique(np.diff(np.asarray(offsets)))) != 1:
        raise ValueError("the lists have different lengths")
    return np.asarray(flat).astype(dtype, copy=False).reshape(len(column), -1)


def _over_limit() -> ValueError:
    return ValueError(
        f"unpacking it takes more than {LIMIT_BYTES >> 20} MiB; write the file in smaller row groups, or as .npy"
    )
