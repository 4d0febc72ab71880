"""Reports as text: answers, layers, checks and their wording."""

import io

import numpy as np
import pytest
from report_pages import layer, make_report
from trninfer.app.reports.report import Cores, LayerTable, Nones
from trninfer.app.reports.table import render, render_layers, slow_rows
from trninfer.inference.predictions import OutputAnswer, Prediction
from trninfer.inference.scoring import Score
from trninfer.runtime.calibration import Agreement
from trninfer.runtime.floor import Floor
from trninfer.runtime.measure.compare import BackendComparison, ComparedLaunch
from trninfer.runtime.measure.suites import SuiteRow
from trninfer.runtime.session import Result
from trninfer.runtime.sweep import SweepPoint
from trninfer.runtime.verify import Verification


def lines_of(report, quiet: bool = True) -> list[str]:
    return render(report, quiet, None).splitlines()


def answers(*found: Prediction, command: str = "classify"):
    return make_report(tables=[], command=command, predictions=list(found))


def test_answers_by_file_or_by_row() -> None:
    label = Prediction("a\x1b.png", "[red]seven", 7, 0.98765, ())
    assert [line.split() for line in lines_of(answers(label))] == [
        ["input", "label", "probability"], ["-" * 36],
        [r"a\x1b.png", "[red]seven", "0.9877"], [],
    ]  # fmt: skip
    rows = [Prediction(n, "b", 1, 0.5, ()) for n in range(12)]
    lines = lines_of(answers(*rows, command="ffnn"))
    assert lines[0].split()[0] == "row" and [line.split()[0] for line in lines[2:12]] == [str(n) for n in range(10)]
    assert lines[12] == "... and 2 more rows (--format json contains all)"
    assert len(lines_of(answers(*rows))) == 15  # no file is omitted


def test_values_in_place_of_labels() -> None:
    short = Prediction("a", None, None, None, (), (0.5, -1.0 / 3))
    long = Prediction("b", None, None, None, (), tuple(map(float, range(9))))
    head, _, first, second, _ = lines_of(answers(short, long))
    assert head.split() == ["input", "values"] and first.split() == ["a", "0.5", "-0.333333"]
    assert second.split(maxsplit=1)[1] == "0 1 2 3 4 5 6 7 ... (9 in all; use --format json to print them)"


def test_several_outputs_beside_the_leading_one() -> None:
    def output(name: str, values: tuple[float, ...] | None) -> OutputAnswer:
        label = None if values else "x"
        return OutputAnswer(label, None if values else 0, None if values else 0.25, (), values, name, "values", (2, 2))

    outputs = tuple(
        output(f"o{n}", values) for n, values in enumerate([None, None, (1.0,), (1.0, 2.0, 3.0, 4.0), (1.0,)])
    )
    lines = lines_of(answers(Prediction("a", "b", 1, 0.5, (), None, outputs)))
    assert lines[0].split() == ["input", "label", "probability", "o1", "o2", "o3"]
    assert lines[2].split() == ["a", "b", "0.5000", "x", "0.2500", "1", "1", "2", "3", "...", "2x2"]
    assert lines[3] == "... and 1 more output (--format json contains all)"


def test_counts_scores_and_checks() -> None:
    report = make_report(tables=[], none=Nones("neither", 1, 3), score=Score(2, 3))
    report.verify = Verification(False, 0.0123, 4, 2, 0.005)
    report.agreement = Agreement(7, 8, 0.0625, "its samples")
    assert lines_of(report) == [
        "1 of 3 is not a class of the network (label neither)",
        "score: 2 of 3 correct, 66.67 %",
        "verify FAILED: largest error 0.012 (tolerance 0.005), 4 disagreements, 2 near-ties not counted",
        "agrees with float32 on 7 of 8: its samples, largest difference 0.062",
    ]
    report = make_report(tables=[], none=Nones("neither", 0, 3), verify=Verification(True, 0.0, 0, 0, 0.005))
    assert lines_of(report) == ["verify passed: largest error 0 (tolerance 0.005), 0 disagreements"]


def test_predicted_layers_and_their_total() -> None:
    rows = (
        layer("launch", latency_us=10.0, critical={"launch": 10.0}, active_us=12.0, mfu=0.0, hfu=0.01, share=0.25,
              latency_error=0.2, form=None),
        layer("conv", latency_us=30.0, critical={"tensor": 29.0, "dma_issue": 1.0}, active_us=40.0, mfu=0.25, hfu=0.5,
              share=0.75, latency_error=0.2, form="2x2", hbm_bytes=123_456),
        layer("fc", latency_us=0.0, critical={}, active_us=0.0, mfu=0.0, hfu=0.0, share=0.0, latency_error=0.2,
              form="direct"),
    )  # fmt: skip
    report = make_report(latency_note="a note", choice_note="why", host_seconds=1.5)
    report.tables = [LayerTable("net: a batch of 1", "", rows, Floor(16.0, "tensor")), LayerTable("none", "", ())]
    lines = lines_of(report, quiet=False)
    conv = next(line for line in lines if line.startswith("conv"))
    assert conv.split() == [
        "conv", "30.00", "75.0", "%", "tensor", "40.00", "25.0", "%", "50.0", "%", "123", "kB", "3.09", "GB/s", "4",
        "MFLOP", "1x3x8x8", "1x4x4x4", "fused_conv2d_maxpool_packed",
    ]  # fmt: skip
    assert next(line for line in lines if line.startswith("fc")).split()[-6:-3] == ["-", "4", "MFLOP"]
    assert lines[lines.index(next(line for line in lines if line.startswith("total"))) :] == [
        "total predicted 40.00 us \u00b1 20 % on trn2 in float32: MFU 25.0 %, HFU 50.3 %",
        "critical path: tensor 29.00 us, launch 10.00, DMA issue 1.00",
        "2.50 x floor (16.00 us, a launch and multiply-accumulates at full clock)",
        "2x2: conv",
        "",
        "a note",
        "backend sim: 1.50 s on this machine",
        "why",
    ]
    assert lines_of(report) == [] and not any(line.startswith("none") for line in lines)


def test_slow_rows_and_resources_have_colours(monkeypatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    rows = (layer("a", latency_us=8.0, bound_by="vector"), layer("b", latency_us=2.0, bound_by="dma_issue"))

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    report = make_report(*rows)
    assert [row.name for row in slow_rows(report.tables[0])] == ["a"]
    text = render(report, False, Terminal())
    assert "\x1b[1;31m8.00" in text and "\x1b[1;31m2.00" not in text
    assert "\x1b[36mvector" in text and "\x1b[33mDMA issue" in text


def test_bandwidth_of_measured_layers_uses_the_device_time() -> None:
    host = layer(latency_us=50.0, latency_us_p99=60.0, bound_by=None, mfu=None, hbm_bytes=20_000)
    report = make_report(host, latency_kind="measured", latency_label="measured, host round trip")
    lines = lines_of(report, quiet=False)
    assert "bandwidth" not in "".join(lines) and "total measured 50.00 us (host round trip) on trn2 in float32" in lines
    device = layer(latency_us=50.0, latency_us_p99=60.0, device_us=4.0, device_by="a profile", hbm_bytes=20_000)
    report.tables = [LayerTable("t", "", (device, device))]
    lines = lines_of(report, quiet=False)
    assert "5 GB/s" in lines[-4] and "bandwidth" in "".join(lines)
    assert lines[-3].startswith("total measured 100.0 us (host round trip), 8.00 us (device, by a profile) on trn2")
    report.tables = [LayerTable("t", "", (device, host))]  # one row lacks a time on the device
    assert "(device" not in "".join(lines_of(report, quiet=False))
    report.cores = Cores(4, 50.0, (50.0,))
    assert "elapsed 50.00 us: 4 cores ran concurrently; the total is the sum of their times" in lines_of(
        report, quiet=False
    )


@pytest.mark.parametrize("error", [1e-4, 1.0])
def test_the_chip_beside_the_simulator(error: float) -> None:
    row = ComparedLaunch(
        "fc.matmul", "matmul", ((4, 6), (6, 3)), "bfloat16", {}, 50.0, 60.0, 8.0, 9.0, 4.0, error, 1e-3
    )
    result = Result(np.empty(0, np.int32), np.empty((0, 3), np.float32), (), 0.0)
    comparison = BackendComparison(result, (row,), "trn2", "measured, host round trip")
    lines = lines_of(make_report(comparison=comparison, latency_kind="measured"), quiet=False)
    assert lines[0] == "a launch on the chip and on the simulator: trn2, bfloat16"
    differs = ["DIFFERS"] if error == 1.0 else []
    shown = next(line for line in lines if line.startswith("fc.matmul")).split()
    times = ["50.00", "60.00", "8.00", "9.00", "4.00", "0.50"]
    assert shown == ["fc.matmul", *times, f"{error:.2g}", *differs, "4x6", "matmul"]
    told = "FAILED: outputs differ in fc.matmul" if differs else "passed: outputs are equal within tolerance"
    assert lines[-1] == f"compare-backends {told}"


def test_a_suite_and_the_tables_beside_a_machine_format() -> None:
    rows = [SuiteRow("case", 1500.0, 750.0, "student", 2.0, "p99"), SuiteRow("b", 3.0, None, "none", None, "total")]
    report = make_report(tables=[], model="cs149", suite=rows, latency_note="a note")
    lines = lines_of(report, quiet=False)
    assert lines[0] == "cs149: predicted times beside published figures" and lines[-1] == "a note"
    assert [line.split() for line in lines[3:5]] == [
        ["case", "1,500", "750.0", "2.00", "trninfer's", "student", "p99"],
        ["b", "3.00", "-", "-", "trninfer's", "none", "total"],
    ]  # fmt: skip
    point = SweepPoint("n", 1, "trn2", "float32", 20.0, 20.0, 50_000.0, None, None, None)
    report = make_report(layer(), predictions=[Prediction("a.png", "b", 1, 0.5, ())], score=Score(1, 1), sweep=[point])
    beside = render_layers(report, None)
    assert "net: a batch of 1" in beside and "one batch of each size" in beside
    assert "a.png" not in beside and "score: 1 of 1 correct" in beside
