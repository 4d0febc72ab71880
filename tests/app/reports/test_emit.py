"""Reports in the requested format and location."""

import json

import pytest
from report_pages import layer, make_report
from trninfer.app.errors import UsageError
from trninfer.app.reports.emit import emit, emit_rows
from trninfer.inference.predictions import Prediction
from trninfer.inference.search import InputProblem


def test_a_table_and_what_went_wrong(capsys) -> None:
    report = make_report(layer(), errors=[InputProblem("a\n.png", "truncated"), InputProblem(3, "nan")])
    emit(report, "table", None, quiet=False)
    streams = capsys.readouterr()
    assert "net: a batch of 1" in streams.out
    assert streams.err == "trninfer: a\\n.png: truncated\ntrninfer: row 3: nan\n"
    emit(report, "table", None, quiet=True)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("form", ["json", "ndjson", "csv"])
def test_a_machine_format_has_standard_output_to_itself(capsys, form) -> None:
    report = make_report(layer())
    emit(report, form, None, quiet=False)
    streams = capsys.readouterr()
    assert "net: a batch of 1" in streams.err and "a batch of" not in streams.out and "conv" in streams.out
    emit(report, form, None, quiet=True)
    assert capsys.readouterr() == (streams.out, "")


def test_files_and_cells_for_spreadsheets(tmp_path, capsys) -> None:
    report = make_report(tables=[], command="classify")
    report.predictions = [Prediction("=1+1", "a", 0, 0.5, ())]
    for safe, cell in ((False, "=1+1"), (True, "'=1+1")):
        emit(report, "csv", tmp_path / "x.csv", quiet=True, csv_safe=safe)
        assert (tmp_path / "x.csv").read_text().splitlines()[1].split(",")[0] == cell
    assert capsys.readouterr() == ("", "")
    with pytest.raises(UsageError, match=r"^--output .*: cannot be written"):
        emit(report, "csv", tmp_path / "no" / "x.csv", quiet=True)


def test_records(tmp_path, capsys) -> None:
    rows = [{"name": "a", "bytes": 3}]
    emit_rows(rows, "models", "csv", None)
    assert capsys.readouterr().out == "name,bytes\na,3\n"
    emit_rows(rows, "models", "json", tmp_path / "x.json")
    assert json.loads((tmp_path / "x.json").read_text())["models"] == rows and capsys.readouterr().out == ""
