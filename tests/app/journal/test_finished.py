"""Reading answers back from a report."""

import csv
import os
from pathlib import Path

import pytest
from trninfer.app.errors import UsageError
from trninfer.app.journal.finished import read_finished
from trninfer.app.reports.cells import unguard
from trninfer.app.reports.machine import render
from trninfer.app.reports.report import Report
from trninfer.inference.predictions import LabelProbability, Prediction
from trninfer.inference.search import InputProblem

LABELS = ("a", "b")
IDENTITY = {"command": "classify", "model": "m", "dtype": "float32", "top_k": 2}
HEAD = "input,label,class_index,probability,error\n"


def answer(name: str | int, label: str = "b") -> Prediction:
    other = LabelProbability("a" if label == "b" else "b", 1 - LABELS.index(label), 0.25)
    return Prediction(
        name, label, LABELS.index(label), 0.75, (LabelProbability(label, LABELS.index(label), 0.75), other)
    )


def read(path: Path, form: str, labels: tuple[str, ...] = LABELS, **identity: object) -> list[Prediction]:
    return list(read_finished(path, form, {**IDENTITY, **identity}, labels))  # type: ignore[arg-type]


def write(path: Path, form: str, *answers: Prediction, command: str = "classify") -> Path:
    report = Report(command, "m", "sim", "trn2", "float32", "predicted", predictions=list(answers))
    report.errors = [InputProblem("bad.png", "truncated")]
    path.write_text(render(report, form), encoding="utf-8", newline="")  # type: ignore[arg-type]
    return path


def test_answers_are_restored_and_errors_are_tried_again(tmp_path: Path) -> None:
    given = [answer("x,\r\n.png"), answer("y.png", "a")]
    assert read(write(tmp_path / "a.ndjson", "ndjson", *given), "ndjson") == given
    found = read(write(tmp_path / "a.csv", "csv", *given), "csv")
    assert [(each.input, each.label, each.class_index, each.probability, each.top) for each in found] == [
        ("x,\r\n.png", "b", 1, 0.75, ()), ("y.png", "a", 0, 0.75, ()),
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_rows_have_numbers_and_values_no_label(tmp_path: Path, form: str) -> None:
    values = Prediction(3, None, None, None, (), (0.5, -1e-9))
    path = write(tmp_path / "a", form, values, command="ffnn")
    (found,) = read(path, form, (), command="ffnn", top_k=0)
    assert (found.input, found.values, found.label) == (3, (0.5, -1e-9), None) and type(found.input) is int


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    for form in ("csv", "ndjson"):
        path = write(tmp_path / "a", form, answer("x.png"), answer("y.png"))
        whole = path.read_bytes()
        head = whole.index(b"y.png")
        for cut in (head, head + 1, head + 9):
            path.write_bytes(whole[:cut])
            assert [each.input for each in read(path, form)] == ["x.png"]


def test_cells_for_spreadsheets_are_read_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEAD + "'=x.png,b,1,0.75,\n")
    (found,) = read_finished(tmp_path / "a.csv", "csv", IDENTITY, LABELS, unguard)
    assert found.input == "=x.png"


@pytest.mark.parametrize(
    ("form", "content", "message"),
    [
        ("csv", "a,b\n1,2\n", "not a csv report"),
        ("csv", "", "not a csv report"),
        ("csv", HEAD + "x.png,9,1,0.5,\n", "line 2 is not an answer of this model in csv"),
        ("csv", HEAD + "x.png,b,1,nan,\n", "line 2 is not an answer of this model"),
        ("csv", HEAD + 'y.png,b,1,0.5,\n"a\nb",b,0,0.5,\n', "line 4 is not an answer of this model"),
        ("csv", HEAD + "x.png,b\n", "line 2 is not an answer of this model"),
        ("csv", HEAD + "\xff,b,1,0.5,\n", "a.csv"),
        ("ndjson", "[]\n", "line 1 is not an answer of this model in ndjson"),
        ("ndjson", "{\n", "line 1 is not an answer of this model"),
        ("ndjson", "[" * 100_000 + "\n", "line 1 is not an answer of this model"),
        ("ndjson", '{"type": "summary", "dtype": "float16"}\n', "were computed with dtype float16, not float32"),
        ("json", "{}", "reports can be extended, not --format json"),
        ("parquet", "", "only csv and ndjson"),
    ],
)
def test_file_that_is_not_a_report_is_refused(tmp_path: Path, form: str, content: str, message: str) -> None:
    (tmp_path / f"a.{form}").write_bytes(content.encode("latin-1"))
    with pytest.raises(UsageError, match=r"^--resume: ") as error:
        read(tmp_path / f"a.{form}", form)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_other_labels_and_another_number_of_them(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", "ndjson", answer("x.png"))
    with pytest.raises(UsageError, match=r"were computed with --top-k 2; use it again$"):
        read(path, "ndjson", top_k=1)
    assert len(read(path, "ndjson", top_k=9)) == 1  # top_k is limited to the number of labels
    with pytest.raises(UsageError, match="line 1 is not an answer of this model"):
        read(path, "ndjson", ("b", "a"))
    with pytest.raises(UsageError, match="no such file"):
        read(tmp_path / "none.csv", "csv")


def test_a_refused_report_is_left_as_it_was(cli, pictures, picture_model, tmp_path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    words = ("classify", pictures, "--model", picture_model, "--format", "csv", "--output", tmp_path / "a.csv")
    outcome = cli(*words, "--resume", "--quiet")
    assert outcome.status == 2 and "not a csv report" in outcome.err and len(outcome.err.splitlines()) == 1
    assert (tmp_path / "a.csv").read_text() == "a,b\n1,2\n" and not (tmp_path / "a.csv.partial").exists()


@pytest.mark.parametrize("name", ["a\rb.png", "a\r\nb.png", "a\nb.png", 'a",\rb.png'])
def test_any_name_is_one_field_of_the_csv(cli, pictures, picture_model, tmp_path, name) -> None:
    path = str(pictures / name)
    os.rename(pictures / "0.png", path)
    command = ["classify", "--model", picture_model, "--quiet", "--output", tmp_path / "a.csv", "--format", "csv", path]
    assert cli(*command).status == 0
    before = (tmp_path / "a.csv").read_bytes()
    with (tmp_path / "a.csv").open(newline="") as file:
        assert [row[0] for row in csv.reader(file)] == ["input", path]
    assert cli(*command, "--resume").status == 0 and (tmp_path / "a.csv").read_bytes() == before
