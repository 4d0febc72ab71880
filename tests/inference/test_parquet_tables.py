"""Features from Parquet files."""

from __future__ import annotations

import builtins
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trninfer.inference.features import read_features
from trninfer.models.errors import InputError

ROWS = np.arange(12, dtype=np.float64).reshape(3, 4)


def pyarrow() -> Any:
    return pytest.importorskip("pyarrow")


def write(path: Path, columns: dict[str, Any]) -> Path:
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def test_columns_of_any_numbers(tmp_path: Path) -> None:
    arrow = pyarrow()
    types = (arrow.float32(), arrow.int8(), arrow.uint64(), arrow.float64())
    columns = {f"c{i}": arrow.array(ROWS[:, i].astype(int).tolist(), kind) for i, kind in enumerate(types)}
    with read_features(write(tmp_path / "x.parquet", columns), 4) as rows:
        assert np.array_equal(np.concatenate(list(rows.batches(2))), ROWS) and rows.notes == ()


def test_one_column_of_lists(tmp_path: Path) -> None:
    arrow = pyarrow()
    for kind in (arrow.list_(arrow.float32()), arrow.list_(arrow.float32(), 4)):
        path = write(tmp_path / "x.parquet", {"embedding": arrow.array(ROWS.tolist(), kind)})
        with read_features(path, 4) as rows:
            assert np.array_equal(next(rows.batches(9)), ROWS)


def test_the_index_of_pandas_is_left_out_and_told(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pyarrow()
    pandas.DataFrame(ROWS, columns=list("abcd"), index=[7, 8, 9]).to_parquet(tmp_path / "x.parquet")
    with read_features(tmp_path / "x.parquet", 4) as rows:
        assert np.array_equal(next(rows.batches(9)), ROWS)
        assert rows.notes == ("left out as pandas' index: __index_level_0__",)


def test_tables_that_are_refused(tmp_path: Path) -> None:
    arrow = pyarrow()
    path = tmp_path / "x.parquet"
    for columns, message in (
        ({"a": ["x", "y"]}, "column 'a' is of type string; numbers are needed"),
        ({"a": [1, None], "b": [1, 2]}, "column 'a' has missing values"),
        ({"a": arrow.array([[1, 2], [1]])}, "missing values or different lengths|different lengths"),
        ({"a": arrow.array([[1, 2, 3], [1]])}, "different lengths"),
        ({"a": [1, 2]}, r"shape \\[2, 1\\]; the network takes \\[rows, 2\\]".replace("\\\\", "\\")),
        ({"a": [1.0], "b": arrow.array([[1.0]])}, "column 'b' is of type list"),
    ):
        with pytest.raises(InputError, match=message):
            read_features(write(path, columns), 2)


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    load = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return load(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InputError, match=r"pyarrow, which is not installed \(pip install pyarrow\)"):
        read_features(tmp_path / "x.parquet", 4)


def test_any_content_is_read_or_told(tmp_path: Path) -> None:
    pyarrow()
    whole = write(tmp_path / "whole.parquet", {name: ROWS[:, i] for i, name in enumerate("abcd")}).read_bytes()
    rng = random.Random(0)
    path = tmp_path / "x.parquet"
    for _ in range(100):
        content = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(content[: rng.choice([len(content), rng.randrange(len(content))])])
        try:
            read_features(path, 4).close()
        except InputError as error:
            assert "\n" not in str(error) and len(str(error)) < 300 + len(str(path))
