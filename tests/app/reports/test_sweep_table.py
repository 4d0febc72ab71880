"""A sweep in a terminal: its points, and the best batch size of each target and dtype."""

from dataclasses import replace

from report_pages import make_report
from trninfer.app.reports.console import to_text
from trninfer.app.reports.report import Report
from trninfer.app.reports.sweep_table import best_lines, print_sweep
from trninfer.runtime.sweep import SweepPoint

ONE = SweepPoint("n", 1, "trn2", "float32", 20.0, 20.0, 50_000.0, 0.25, None, 2048, "dma_issue", 1.5)
EIGHT = replace(ONE, batch_size=8, total_us=1234.5, us_per_input=9.87, inputs_per_second=101_317.0, best=True, mfu=None)


def report_of(*points: SweepPoint, limit: float | None = None) -> Report:
    return make_report(tables=[], sweep=list(points), latency_limit_us=limit)


def test_points_with_what_is_known_of_them() -> None:
    lines = to_text(lambda console: print_sweep(console, report_of(ONE, EIGHT)), None).splitlines()
    assert lines[0] == "one batch of each size"
    words = ["n", "trn2", "float32"]
    assert lines[3].split() == [
        "1", *words, "20.00", "20.00", "50,000", "DMA", "issue", "25.0", "%", "2.0", "KiB", "1.50",
    ]  # fmt: skip
    assert lines[4].split()[:2] == ["8", "*"] and "1,234" in lines[4] and "9.87" in lines[4]
    unknown = replace(ONE, sbuf_peak_bytes=None, times_floor=None, bound_by=None)
    heads, *shown = to_text(lambda console: print_sweep(console, report_of(unknown)), None).splitlines()[1:]
    assert "floor" not in heads and "cores" not in "".join(lines)
    shown = to_text(lambda console: print_sweep(console, report_of(ONE, unknown)), None).splitlines()[4].split()
    assert shown[-2:] == ["-", "-"]


def test_columns_of_several_cores() -> None:
    cores = replace(ONE, cores=4, cores_total_us=25.0, cores_inputs_per_second=160_000.0)
    report = report_of(cores)
    report.lnc = 2
    lines = to_text(lambda console: print_sweep(console, report), None).splitlines()
    assert lines[0] == "one batch of each size, LNC 2" and "us on 4 cores" in lines[1]
    assert lines[3].split()[-2:] == ["25.00", "160,000"]


def test_the_best_of_each_target_and_dtype() -> None:
    other = replace(ONE, target="trn1", total_us=30.0)
    assert best_lines(report_of(ONE, EIGHT, replace(other, best=True))) == [
        "* trn2 float32: highest throughput by a batch of 8, 101,317 at 1,234 us per batch",
        "* trn1 float32: highest throughput by a batch of 1, 50,000 at 30.00 us per batch",
    ]
    found = best_lines(
        report_of(ONE, replace(ONE, total_us=25.0), replace(ONE, network="m", best=True), other, limit=12.5)
    )
    assert found == [
        "* n trn2 float32: no batch is within 12.5 us; the fastest takes 20.00 us",
        "* m trn2 float32: highest throughput within 12.5 us by a batch of 1, 50,000 at 20.00 us per batch",
        "* n trn1 float32: no batch is within 12.5 us; the fastest takes 30.00 us",
    ]
    assert best_lines(make_report()) == []
