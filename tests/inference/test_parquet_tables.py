"""Features from Parquet files."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from trninfer.inference import parquet_tables
from trninfer.inference.columns import Columns
from trninfer.inference.features import read_feature_bytes, read_features
from trninfer.inference.parquet_tables import ParquetReader
from trninfer.models.errors import InputError
from trninfer.runtime.workers.process import WorkerProcess
from watched import peak_bytes

ROWS = np.arange(12, dtype=np.float64).reshape(3, 4)


def pyarrow() -> Any:
    return pytest.importorskip("pyarrow")


def write(path: Path, columns: dict[str, Any]) -> Path:
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


class Here:
    """The reader in this process, without its memory limit, because a process for each file takes a second."""

    def __init__(self, kind: type[ParquetReader]) -> None:
        self.reader = kind()
        self.ask_next = self.reader.begin

    def ask(self, message: Any) -> Any:
        reply, self.ask_next = self.ask_next(message), self.reader.answer
        if reply.error is not None:
            raise reply.error
        return reply.value

    def kill(self) -> None:
        pass

    close = kill


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_tables, "limit_memory", lambda size: None)
    monkeypatch.setattr(parquet_tables, "WorkerProcess", Here)


def test_columns_of_any_numbers(tmp_path: Path) -> None:
    arrow = pyarrow()
    types = (arrow.float32(), arrow.int8(), arrow.uint64(), arrow.float64())
    columns = {f"c{i}": arrow.array(ROWS[:, i].astype(int).tolist(), kind) for i, kind in enumerate(types)}
    with read_features(write(tmp_path / "x.parquet", columns), 4) as rows:
        assert np.array_equal(np.concatenate(list(rows.batches(2))), ROWS) and rows.notes == ()


def test_one_column_of_lists(tmp_path: Path, here: None) -> None:
    arrow = pyarrow()
    for kind in (arrow.list_(arrow.float32()), arrow.list_(arrow.float32(), 4)):
        path = write(tmp_path / "x.parquet", {"embedding": arrow.array(ROWS.tolist(), kind)})
        with read_features(path, 4) as rows:
            assert np.array_equal(next(rows.batches(9)), ROWS)


def test_the_index_of_pandas_is_left_out_and_reported(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pyarrow()
    pandas.DataFrame(ROWS, columns=list("abcd"), index=[7, 8, 9]).to_parquet(tmp_path / "x.parquet")
    with read_features(tmp_path / "x.parquet", 4) as rows:
        assert np.array_equal(next(rows.batches(9)), ROWS)
        assert rows.notes == ("skipped as the pandas index:  __index_level_0__",)


def test_tables_that_are_refused(tmp_path: Path, here: None) -> None:
    arrow = pyarrow()
    path = tmp_path / "x.parquet"
    for columns, message in (
        ({"a": ["x", "y"]}, "column 'a' is of type string; expected numbers"),
        ({"a": [1, None], "b": [1, 2]}, "column 'a' has missing values"),
        ({"a": arrow.array([[1, 2], [1]])}, "missing values or different lengths|different lengths"),
        ({"a": arrow.array([[1, 2, 3], [1]])}, "different lengths"),
        ({"a": [1, 2]}, r"shape \\[2, 1\\], but the network expects \\[rows, 2\\]".replace("\\\\", "\\")),
        ({"a": [1.0], "b": arrow.array([[1.0]])}, "column 'b' is of type list"),
    ):
        with pytest.raises(InputError, match=message):
            read_features(write(path, columns), 2)


def test_missing_column_or_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr(parquet_tables, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pyarrow, which is not installed \(pip install pyarrow\)"):
        read_features(tmp_path / "x.parquet", 4)


def test_any_content_is_read_or_refused(tmp_path: Path, here: None) -> None:
    pyarrow()
    whole = write(tmp_path / "whole.parquet", {name: ROWS[:, i] for i, name in enumerate("abcd")}).read_bytes()
    rng = random.Random(0)
    for _ in range(100):
        content = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        try:
            read_feature_bytes("x", bytes(content[: rng.choice([len(content), rng.randrange(len(content))])]), 4)
        except InputError as error:
            assert "\n" not in str(error) and len(str(error)) < 300


def test_rows_keep_the_type_of_their_columns(tmp_path: Path, here: None) -> None:
    arrow = pyarrow()
    path = write(tmp_path / "x.parquet", {"pixels": arrow.array([[0, 255], [7, 8]], arrow.list_(arrow.uint8()))})
    with read_features(path, 2) as rows:
        batch = next(rows.batches(2))
        assert batch.dtype == np.uint8 and batch.tolist() == [[0, 255], [7, 8]]


def varint(value: int, length: int = 0) -> bytes:
    """Encode an integer as Thrift does, in at least `length` bytes."""
    value, found = 2 * value, b""
    while value > 127 or len(found) < length - 1:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


LENGTH = 100_000_000


@pytest.mark.slow
@pytest.mark.parametrize("claimed", [LENGTH, 1], ids=["told", "hidden"])
def test_a_list_of_a_few_hundred_bytes_that_unpacks_to_gigabytes(tmp_path: Path, claimed: int, monkeypatch) -> None:
    """The metadata states the length of the list correctly, or is forged; both are rejected, using little memory."""
    arrow = pyarrow()
    values = arrow.array(np.zeros(LENGTH, np.int8))
    path = write(tmp_path / "x.parquet", {"x": arrow.ListArray.from_arrays([0, LENGTH], values)})
    content = path.read_bytes()
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little")  # of the metadata
    told = content[begin:].replace(varint(LENGTH), varint(claimed, len(varint(LENGTH))))
    path.write_bytes(content[:begin] + told)
    assert len(content) < 1000 and varint(LENGTH) in content[begin:]
    monkeypatch.setattr(parquet_tables, "WorkerProcess", Watched)
    with pytest.raises(InputError, match="takes" if claimed > 1 else "unpacking it takes more than"):
        read_features(path, 4)
    assert Watched.peaks[-1] < 1 << 30


class Watched(WorkerProcess):
    """A process whose memory is measured before it ends."""

    peaks: ClassVar[list[int]] = []

    def kill(self) -> None:
        self.peaks.append(peak_bytes(self._process.pid))
        super().kill()


@pytest.mark.usefixtures("here")
def test_ids_and_classes_beside_features(tmp_path: Path) -> None:
    arrow = pyarrow()
    path = write(tmp_path / "x.parquet", {"doc": ["x", "y"], "a": [1, 2], "b": [3.5, 4], "class": ["cat", None]})
    named = Columns(("b", "a"), id_column="doc", label_column="class")
    with read_features(path, 2, columns=named) as rows:
        assert rows.sides is not None and (rows.sides.ids, rows.sides.labels) == (["x", "y"], ["cat", ""])
        assert next(rows.batches(2)).tolist() == [[3.5, 1], [4, 2]]
    with read_features(path, 2, columns=Columns(drop=("class",))) as rows:
        assert rows.sides is not None and rows.sides.ids == ["x", "y"] and "'doc' contains text" in rows.notes[0]
    lists = arrow.array([[1.0, 2, 3], [4, 5, 6]], arrow.list_(arrow.float32()))
    path = write(tmp_path / "y.parquet", {"number": [7, 8], "doc": ["x", "y"], "all": lists})
    with read_features(path, 3, columns=Columns(("all",), id_column="number")) as rows:
        assert rows.sides is not None and rows.sides.ids == ["7", "8"]
        assert next(rows.batches(2)).tolist() == [[1, 2, 3], [4, 5, 6]]
    with pytest.raises(InputError, match=r"has no column 'z'; its columns are:  number, doc, all$"):
        read_features(path, 3, columns=Columns(drop=("z",)))
    with pytest.raises(InputError, match=r"column 'doc' is of type string; expected numbers; exclude columns"):
        read_features(path, 3, columns=Columns(("doc",)))
    path = write(tmp_path / "z.parquet", {"doc": ["x", "x"], "a": [1, 2]})
    with pytest.raises(InputError, match="rows 0 and 1 have the same id 'x'"):
        read_features(path, 1, columns=Columns())
    path = write(tmp_path / "i.parquet", {"__index_level_0__": ["x", "y"], "a": [1, 2]})
    with read_features(path, 1, columns=Columns(id_column="__index_level_0__")) as rows:
        assert rows.sides is not None and rows.sides.ids == ["x", "y"] and rows.notes == ()


def test_types_of_many_columns_are_listed_once() -> None:
    pyarrow = pytest.importorskip("pyarrow")

    class Schema:
        names: ClassVar[list[str]] = [f"c{number}" for number in range(100)]
        lists = 0

        @property
        def types(self) -> list[Any]:
            self.lists += 1
            return [pyarrow.float64()] * len(self.names)

    schema = Schema()
    assert len(parquet_tables._select(pyarrow.types, schema, Columns()).features) == 100 and schema.lists == 1
