"""Reports of commands: table totals and exit statuses."""

import pytest
from report_pages import layer, make_report
from trninfer.app.reports.report import LayerTable, Nones, Report
from trninfer.inference.scoring import Score
from trninfer.inference.search import InputProblem
from trninfer.runtime.backend import BackendInfo
from trninfer.runtime.floor import Floor
from trninfer.runtime.measure.compare import BackendComparison, ComparedLaunch
from trninfer.runtime.verify import Verification


def table(*rows, floor: Floor | None = None) -> LayerTable:
    return LayerTable("t", "", rows, floor)


def test_the_totals_of_a_table() -> None:
    rows = (
        layer("a", latency_us=30.0, active_us=60.0, mfu=0.5, hfu=0.5, latency_error=0.1),
        layer("b", latency_us=10.0, mfu=0.2, hfu=None, latency_error=0.5),
    )
    found = table(*rows, floor=Floor(16.0, "hbm"))
    assert (found.total_us, found.times_floor) == (40.0, 2.5)
    assert found.mfu == pytest.approx((0.5 * 60 + 0.2 * 10) / 40) and found.hfu is None
    assert found.latency_error == 0.5  # the error of the least accurate part
    assert table(*rows).times_floor is None and table(layer(latency_error=None), *rows).latency_error is None


def test_a_critical_path_is_reported_only_if_it_adds_up() -> None:
    rows = (
        layer("a", latency_us=30.0, critical={"tensor": 20.0, "launch": 10.0}),
        layer("b", latency_us=10.0004, critical={"tensor": 10.0}),
    )
    assert table(*rows).critical == {"tensor": 30.0, "launch": 10.0}
    assert table(*rows, layer("c", latency_us=1.0)).critical == {}
    report = make_report(*rows)
    report.tables.append(table(layer(latency_us=5.0, critical={"launch": 5.0})))
    assert report.critical == {"tensor": 30.0, "launch": 15.0}
    report.tables.append(table(layer(latency_us=5.0)))
    assert report.critical == {}


def test_the_totals_of_all_tables() -> None:
    report = make_report(layer(latency_us=30.0, mfu=0.4, hfu=0.8, latency_error=0.1))
    report.tables.append(table(layer(latency_us=10.0, mfu=0.0, hfu=0.0, latency_error=0.3)))
    assert report.total_us == 40 and report.utilization == pytest.approx((0.3, 0.6))
    assert report.latency_error == 0.3
    nothing = make_report(tables=[])
    assert (nothing.total_us, nothing.utilization, nothing.latency_error) == (0, (None, None), None)


def test_a_report_on_a_backend() -> None:
    info = BackendInfo("neuron", "trn2", "measured", "measured, host round trip", lnc=2)
    report = Report.on("classify", "net", info, "bfloat16")
    assert (report.command, report.model, report.backend, report.target) == ("classify", "net", "neuron", "trn2")
    assert (report.dtype, report.latency_kind, report.latency_label) == ("bfloat16", "measured", info.latency_label)
    assert report.chip == "trn2 with LNC 2" and make_report().chip == "trn2"
    assert "scaled from trn2" in (
        Report.on("b", None, BackendInfo("sim", "trn3", "predicted", "p"), "").latency_note or ""
    )


def comparison(error: float) -> BackendComparison:
    row = ComparedLaunch("a", "k", ((1,),), "float32", {}, 1.0, None, None, None, 1.0, error, 1e-3)
    return BackendComparison(None, (row,), "trn2", "measured, host round trip")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 0),
        ({"verify": Verification(True, 0.0, 0, 0, 1.0)}, 0),
        ({"verify": Verification(False, 9.0, 0, 0, 1.0)}, 1),
        ({"comparison": comparison(1e-4)}, 0),
        ({"comparison": comparison(1.0), "verify": Verification(True, 0.0, 0, 0, 1.0)}, 1),
        ({"errors": [InputProblem("a", "b")]}, 2),
        ({"errors": [InputProblem("a", "b")], "verify": Verification(False, 9.0, 0, 0, 1.0)}, 1),
        ({"score": Score(0, 1), "none": Nones("none", 1, 1)}, 0),
    ],
)
def test_the_exit_status(changes, status) -> None:
    assert make_report(**changes).exit_status == status


@pytest.mark.parametrize(("allowed", "status"), [(0, 2), (1, 2), (2, 0), (3, 0)])
def test_max_errors_permits_failures(allowed: int, status: int) -> None:
    problems = [InputProblem(name, "no picture") for name in ("a.png", "b.png")]
    assert make_report(errors=problems, max_errors=allowed).exit_status == status


@pytest.mark.parametrize(("least", "status"), [(None, 0), (0.75, 0), (0.76, 1), (0.0, 0), (1.0, 1)])
def test_an_accuracy_below_the_least_is_a_check_that_failed(least: float | None, status: int) -> None:
    report = make_report(score=Score(3, 4), fail_under=least)
    assert (report.exit_status, report.is_below) == (status, bool(status))


def test_a_score_is_a_share() -> None:
    assert Score(3, 4).accuracy == 0.75
