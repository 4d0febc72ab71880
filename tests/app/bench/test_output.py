"""The report of a benchmark in every format, including the sections that only benchmarks have."""

import csv
import io
import json
from pathlib import Path

import pytest
from trninfer.app.bench.output import bench_section, write_bench
from trninfer.app.bench.subject import BenchSubject
from trninfer.app.options import RunOptions
from trninfer.app.reports.machine import to_document
from trninfer.app.reports.regression import BaselineComparison, compare_documents
from trninfer.app.reports.report import LayerTable, Report
from trninfer.runtime.timing import LayerTiming


def test_csv_has_the_layers(cli, feature_model) -> None:
    outcome = cli("bench", "--model", feature_model, "--format", "csv", "--batch-size", 3)
    first = next(csv.DictReader(io.StringIO(outcome.out)))
    assert (first["name"], first["input_shape"], first["latency_us_p99"]) == ("launch", "3x6", "")


SECTION = {"kernel": None, "shape": None, "batch_size": 4}


def report_of(latency_us: float) -> Report:
    report = Report("bench", "net", "sim", "trn2", "float32", "predicted")
    row = LayerTiming("fc", "dense", (4, 6), (4, 3), 144, 168, latency_us, None, 1.0, "tensor", 0.5)
    report.tables = [LayerTable("net: a batch of 4", "", (row,))]
    return report


def comparison_of(latency_us: float, baseline_us: float) -> BaselineComparison:
    now, baseline = ({**to_document(report_of(time)), "bench": SECTION} for time in (latency_us, baseline_us))
    return compare_documents(now, json.loads(json.dumps(baseline)), Path("base.json"), 0.05)


def test_the_section_contains_the_requested_figures() -> None:
    options = RunOptions(batch_size=7)
    assert bench_section(BenchSubject(model="m"), options) == {"kernel": None, "shape": None, "batch_size": 7}
    assert bench_section(BenchSubject(suite="s"), options) == {"kernel": None, "shape": None, "batch_size": None}
    kernel = BenchSubject(kernel="transpose", shape="m=1,n=2")
    assert bench_section(kernel, options) == {
        "kernel": "transpose", "shape": {"m": "1", "n": "2"}, "batch_size": None,
    }  # fmt: skip


def test_sections_in_json_and_ndjson(capsys: pytest.CaptureFixture[str]) -> None:
    comparison = comparison_of(10.0, 8.0)
    write_bench(report_of(10.0), SECTION, comparison, RunOptions(form="json", quiet=True))
    document = json.loads(capsys.readouterr().out)
    assert document["bench"] == SECTION and document["compare"]["change"] == pytest.approx(0.25)
    assert list(document)[:2] == ["schema_version", "command"] and document["total_us"] == 10.0
    write_bench(report_of(10.0), SECTION, comparison, RunOptions(form="ndjson", quiet=True))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["type"] for line in lines] == ["layer", "summary", "bench", "compare"]
    assert lines[2] == {"type": "bench", **SECTION} and lines[3]["passed"] is False
    write_bench(report_of(10.0), SECTION, None, RunOptions(form="json", quiet=True))
    assert "compare" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("form", ["json", "ndjson", "csv"])
def test_a_machine_format_leaves_tables_to_standard_error(form, capsys: pytest.CaptureFixture[str]) -> None:
    write_bench(report_of(10.0), SECTION, comparison_of(10.0, 8.0), RunOptions(form=form))
    streams = capsys.readouterr()
    assert "compare FAILED" in streams.err and "net: a batch of 4" in streams.err and "FAILED" not in streams.out
    write_bench(report_of(10.0), SECTION, comparison_of(10.0, 8.0), RunOptions(form=form, quiet=True))
    assert capsys.readouterr().err == ""


def test_the_comparison_is_written_to_the_file_with_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = RunOptions(output=tmp_path / "o.txt")
    write_bench(report_of(10.0), SECTION, comparison_of(10.0, 10.0), options)
    told = (tmp_path / "o.txt").read_text()
    assert told.index("net: a batch of 4") < told.index("compare passed") and capsys.readouterr() == ("", "")
