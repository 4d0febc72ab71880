"""Answers in a Parquet file."""

import json
import sys
from pathlib import Path

import pytest
from trninfer.app.errors import UsageError
from trninfer.app.reports import parquet as report_parquet
from trninfer.app.reports.parquet import import_pyarrow, write_parquet
from trninfer.inference.predictions import InputNames, OutputAnswer, Prediction
from trninfer.inference.search import InputProblem

pytest.importorskip("pyarrow")


def read(path: Path) -> tuple[dict[str, str], list[dict]]:
    """Return the types of the columns, and the rows."""
    table = import_pyarrow().parquet.read_table(path)
    return {field.name: str(field.type) for field in table.schema}, table.to_pylist()


def test_labels_and_what_could_not_be_answered(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(report_parquet, "_ROWS_AT_ONCE", 2)
    answers = [Prediction(f"{n}\udcff.png", "a\x1b", n, 0.25, ()) for n in range(5)]
    write_parquet(tmp_path / "x.parquet", iter(answers), [InputProblem("bad.png", "cut\nshort")])
    types, rows = read(tmp_path / "x.parquet")
    assert types == {
        "input": "string", "label": "string", "class_index": "int32", "probability": "float", "error": "string",
    }  # fmt: skip
    assert [row["class_index"] for row in rows] == [0, 1, 2, 3, 4, None]
    assert rows[4] == {
        "input": r"4\xff.png", "label": r"a\x1b", "class_index": 4, "probability": 0.25, "error": None,
    }  # fmt: skip
    assert (rows[5]["input"], rows[5]["label"], rows[5]["error"]) == ("bad.png", None, r"cut\nshort")


def test_values_of_rows(tmp_path: Path) -> None:
    write_parquet(tmp_path / "x.parquet", [Prediction(7, None, None, None, (), (0.5, -2.0))], [InputProblem(9, "nan")])
    types, rows = read(tmp_path / "x.parquet")
    assert list(types) == ["input", "values", "error"] and types["input"] == "int64" and "float" in types["values"]
    assert rows == [
        {"input": 7, "values": [0.5, -2.0], "error": None}, {"input": 9, "values": None, "error": "nan"},
    ]  # fmt: skip


def test_several_inputs_and_outputs(tmp_path: Path) -> None:
    output = OutputAnswer(None, None, None, (), (1.5,), "size", "values", (1,))
    names = InputNames({"left": "a.png", "bias": "1,2"})
    write_parquet(tmp_path / "x.parquet", [Prediction(names, "a", 0, 0.5, (), None, (output,))])
    _, (row,) = read(tmp_path / "x.parquet")
    assert json.loads(row["input"]) == {"left": "a.png", "bias": "1,2"}
    assert json.loads(row["outputs"])["size"]["values"] == [1.5]


@pytest.mark.parametrize(("name", "kind"), [(3, "int64"), ("a.png", "string"), (None, "string")])
def test_errors_alone_or_nothing(tmp_path: Path, name, kind: str) -> None:
    write_parquet(tmp_path / "x.parquet", [], [] if name is None else [InputProblem(name, "bad")])
    types, rows = read(tmp_path / "x.parquet")
    assert types["input"] == kind and [row["input"] for row in rows] == ([] if name is None else [name])


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"before")

    def broken():
        yield Prediction(0, "a", 0, 0.5, ())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_parquet(tmp_path / "x.parquet", broken())
    assert [path.name for path in tmp_path.iterdir()] == ["x.parquet"]
    assert (tmp_path / "x.parquet").read_bytes() == b"before"
    with pytest.raises(UsageError, match=r"^--answers .*: cannot be written: No such file or directory$"):
        write_parquet(tmp_path / "no" / "x.parquet", [], option="--answers")


def test_missing_pyarrow_is_reported_with_the_package_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pyarrow, which is not installed \(pip install .*\)"):
        import_pyarrow()
