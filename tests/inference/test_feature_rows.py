"""Rows of features that are read from their file and checked one batch at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from trninfer.inference.feature_rows import FeatureRows, numbered
from trninfer.inference.features import read_features

ROWS = np.arange(40, dtype=np.float32).reshape(10, 4)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the first row of each part that is read from a file."""
    found: list[int] = []
    read = FeatureRows._read
    monkeypatch.setattr(
        FeatureRows, "_read", lambda self, first, count: (found.append(first), read(self, first, count))[1]
    )
    return found


def no_refusal(row: int, reason: str) -> None:
    raise AssertionError((row, reason))


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".bin"])
def test_the_first_batch_is_read_before_the_rest(tmp_path: Path, reads: list[int], suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    {".npy": np.save, ".npz": np.savez, ".bin": lambda path, rows: rows.tofile(path)}[suffix](path, ROWS)
    with read_features(path, 4) as rows:
        batches = numbered(rows, 3, no_refusal)
        assert reads == []
        assert next(batches)[0] == [0, 1, 2] and reads == [0]
        assert [numbers for numbers, _ in batches] == [[3, 4, 5], [6, 7, 8], [9]] and reads == [0, 3, 6, 9]


def test_a_file_larger_than_any_memory_begins_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    with path.open("wb") as file:
        file.truncate(1 << 42)  # a sparse file of 4 TiB
    with read_features(path, 4) as rows:
        numbers, batch = next(numbered(rows, 5, no_refusal))
        assert len(rows) == 1 << 38 and numbers == list(range(5)) and not batch.any()


def test_rows_that_are_not_finite_are_refused_one_by_one(tmp_path: Path) -> None:
    values = ROWS.astype(np.float64)
    values[1, 2], values[3, 0], values[8, 3] = np.nan, -np.inf, 1e300
    np.save(tmp_path / "x.npy", values)
    refused: dict[int, str] = {}
    with read_features(tmp_path / "x.npy", 4) as rows:
        found = list(numbered(rows, 4, refused.__setitem__, first=1, answered={5, 9}))
    assert [numbers for numbers, _ in found] == [[2, 4], [6, 7]]
    assert all(np.array_equal(batch, ROWS[numbers]) for numbers, batch in found)
    says = "all values must be finite in float32"
    assert refused == {1: f"column 2 is nan; {says}", 3: f"column 0 is -inf; {says}", 8: f"column 3 is 1e+300; {says}"}


def test_a_number_that_is_spoiled_while_the_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    np.zeros((10_000, 4), "<f4").tofile(path)
    refused: dict[int, str] = {}
    with read_features(path, 4) as rows:
        batches = numbered(rows, 5000, refused.__setitem__)
        assert next(batches)[0] == list(range(5000))
        with path.open("r+b") as file:
            file.seek(9000 * 16)
            file.write(np.float32(np.nan).tobytes())
        assert next(batches)[0] == [row for row in range(5000, 10_000) if row != 9000]
    assert refused == {9000: "column 0 is nan; all values must be finite in float32"}
