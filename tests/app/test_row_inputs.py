"""The rows of `ffnn`: where a run resumes, and which answers are correct."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from trninfer.app import row_inputs
from trninfer.app.errors import UsageError
from trninfer.app.row_inputs import RowInputs
from trninfer.inference.columns import Sides
from trninfer.inference.feature_rows import FeatureRows
from trninfer.models.errors import InputError


def test_resume_of_rows(cli, feature_model, tmp_path) -> None:
    rows = np.random.default_rng(2).standard_normal((30, 6)).astype("<f4")
    rows.tofile(tmp_path / "X.bin")
    np.zeros(30, "<i4").tofile(tmp_path / "Y.bin")
    target = tmp_path / "a.ndjson"
    options = ("ffnn", "--data", tmp_path / "X.bin", "--model", feature_model, "--labels", tmp_path / "Y.bin",
               "--format", "ndjson", "--output", target, "--resume")  # fmt: skip
    assert cli(*options).status == 0
    whole = target.read_text().splitlines(True)
    target.write_text("".join(whole[:13]))
    assert cli(*options).status == 0
    again = target.read_text().splitlines(True)
    assert again[:30] == whole[:30] and json.loads(again[-1])["score"] == json.loads(whole[-1])["score"]
    target.write_text("".join(whole[3:7]))
    assert cli(*options).status == 0
    assert sorted(target.read_text().splitlines(True)[:30]) == sorted(whole[:30])
    target.write_text(whole[3].replace('"input": 3', '"input": 30'))
    assert "do not match these 30 rows" in cli(*options).err


def rows_at(folder: Path, count: int = 5, header: str = "auto") -> RowInputs:
    values = np.arange(2.0 * count, dtype=np.float32).reshape(count, 2)
    np.save(folder / "x.npy", values)
    return RowInputs(folder / "x.npy", FeatureRows.in_memory("x.npy", values), header)


def numbers_of(inputs: RowInputs, size: int) -> list[list[int]]:
    return [list(map(int, names)) for names, _ in inputs.batches(size)]


def test_rows_that_are_left_in_batches(tmp_path: Path) -> None:
    inputs = rows_at(tmp_path)
    assert numbers_of(inputs, 2) == [[0, 1], [2, 3], [4]] and inputs.describe(1) == "1 row of 2 features"
    assert inputs.leave_out({0, 1, 3}, set()) == 2 and numbers_of(inputs, 9) == [[2, 4]]
    assert [row.tolist() for _, batch in inputs.batches(8) for row in batch] == [[4.0, 5.0], [8.0, 9.0]]
    assert inputs.leave_out(set(range(5)), set()) == 0 and sum(map(len, numbers_of(inputs, 2))) == 0


@pytest.mark.parametrize("answered", [{5}, {-1}, {0, "a.png"}])
def test_answers_to_other_rows(tmp_path: Path, answered: set) -> None:
    with pytest.raises(UsageError, match=rf"^--resume: the {len(answered)} answered rows do not match these 5 rows$"):
        rows_at(tmp_path).leave_out(answered, set())


def test_the_identity_of_a_file(tmp_path: Path) -> None:
    inputs = rows_at(tmp_path)
    before = inputs.identity()
    path, size, changed_ns = before["data"]
    assert (path, size) == (str((tmp_path / "x.npy").resolve()), (tmp_path / "x.npy").stat().st_size)
    assert changed_ns == (tmp_path / "x.npy").stat().st_mtime_ns and before["header"] == "auto"
    assert rows_at(tmp_path, header="no").identity()["header"] == "no"
    os.utime(tmp_path / "x.npy", ns=(1, 1))
    assert inputs.identity()["data"] == [path, size, 1]
    (tmp_path / "x.npy").unlink()
    with pytest.raises(UsageError, match=r"x\.npy: no such file"):
        inputs.identity()


def test_a_file_of_something_else_ends_the_run(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(row_inputs, "MAX_REFUSED", 2)
    inputs = rows_at(tmp_path)
    inputs.refuse(0, "nan")
    inputs.refuse(3, "inf")
    assert [problem.input for problem in inputs.problems] == [0, 3]
    with pytest.raises(InputError, match=r"x\.npy: more than 2 rows cannot be used; row 4: nan$"):
        inputs.refuse(4, "nan")


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_resume_of_rows_with_ids(cli, feature_model, tmp_path, form: str) -> None:
    rows = np.random.default_rng(2).standard_normal((30, 6))
    lines = [f"{100 - number}," + ",".join(map(str, row)) for number, row in enumerate(rows)]
    (tmp_path / "x.csv").write_text("\n".join(["name,a,b,c,d,e,f", *lines]))
    target = tmp_path / f"a.{form}"
    options = ("ffnn", "--data", tmp_path / "x.csv", "--model", feature_model, "--id", "name", "--top-k", 1,
               "--format", form, "--output", target, "--resume")  # fmt: skip
    assert cli(*options).status == 0
    whole = target.read_text().splitlines(True)
    first = 1 if form == "csv" else 0
    target.write_text("".join(whole[: first + 12]))
    assert cli(*options).status == 0
    assert target.read_text().splitlines(True)[: first + 30] == whole[: first + 30]
    target.write_text("".join(whole[: first + 1]).replace("100", "x"))
    assert "do not match these 30 rows" in cli(*options).err


def test_ids_name_rows_that_cannot_be_used(tmp_path: Path) -> None:
    values = np.array([[1, 2], [np.nan, 3], [4, 5]], np.float32)
    rows = FeatureRows.in_memory("x.csv", values)
    rows.sides = Sides("doc", ["x", "y", "z"], None)
    inputs = RowInputs(tmp_path / "x.csv", rows)
    assert [names for names, _ in inputs.batches(2)] == [["x"], ["z"]]
    assert [problem.input for problem in inputs.problems] == ["y"]
    assert inputs.leave_out({"x"}, set()) == 2 and [names for names, _ in inputs.batches(3)] == [["z"]]
