"""Benchmarks of a published suite."""

import pytest
from trninfer.app.bench.suite import bench_suite
from trninfer.app.options import RunOptions
from trninfer.app.reports.report import Report
from trninfer.runtime.measure import suites
from trninfer.runtime.simulated import SimulatedBackend


def test_a_suite(cli, monkeypatch) -> None:
    sides: dict[str, int | str] = {"m": 64, "n": 64}
    cases = (
        suites.SuiteCase("s", "old", "transpose", sides, "float32", "trn1", "benchmark", 10.0, "student", ""),
        suites.SuiteCase("s", "new", "transpose", sides, "float16", "trn2", "benchmark", None, "none", ""),
    )
    monkeypatch.setattr(suites, "_cases", lambda: cases)
    outcome = cli("bench", "--suite", "s", "--format", "json")
    report = outcome.json()
    first, second = report["suite"]
    assert (report["model"], report["target"], report["dtype"]) == ("s", "trn1,trn2", "float32,float16")
    assert first["ratio"] == pytest.approx(first["predicted_us"] / 10) and second["ratio"] is None
    table = cli("bench", "--suite", "s")
    assert "published us" in table.out and max(map(len, table.out.splitlines())) <= 80
    ignoring = cli("bench", "--suite", "s", "--target", "trn3", "--batch-size", 2, "--dtype", "float16")
    assert ignoring.status == 0 and ignoring.out.split("backend sim")[0] == table.out.split("backend sim")[0]
    assert (
        "--dtype, --batch-size, --target: ignored, because the cases of a suite define these settings" in ignoring.err
    )
    assert [row["metric"] for row in report["suite"]] == ["benchmark", "benchmark"] and "metric" in table.out
    assert cli("bench", "--suite", "s", "--format", "csv").out.startswith("name,predicted_us,published_us,")


def test_targets_and_dtypes_are_those_of_the_cases(monkeypatch) -> None:
    sides: dict[str, int | str] = {"m": 1, "n": 3}
    cases = tuple(
        suites.SuiteCase("s", f"{number}", "transpose", sides, dtype, target, "benchmark", 10.0, "student", "")
        for number, (dtype, target) in enumerate(
            [("float32", "trn2"), ("bfloat16", "trn1"), ("float32", "trn2"), ("bfloat16", "trn2")]
        )
    )
    monkeypatch.setattr(suites, "_cases", lambda: cases)
    report = Report.on("bench", None, SimulatedBackend("trn3").info, "float16")
    assert report.latency_note is not None
    bench_suite(report, "s", RunOptions())
    assert (report.model, report.target, report.dtype) == ("s", "trn2,trn1", "float32,bfloat16")
    assert report.latency_note is None  # the note was about trn3
    assert report.suite is not None and [row.name for row in report.suite] == ["0", "1", "2", "3"]
    assert report.suite[0] != report.suite[1] and report.suite[0].predicted_us == report.suite[2].predicted_us
    with pytest.raises(suites.UnknownSuite, match="unknown suite 'x'; allowed: s"):
        bench_suite(report, "x", RunOptions())
