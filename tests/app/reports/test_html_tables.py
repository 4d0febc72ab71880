"""The tables of a page: columns, totals, and sort keys."""

from pathlib import Path

import pytest
from report_pages import Page, layer, make_report
from small_inputs import draw_picture
from trninfer.app.reports import html_tables as tables
from trninfer.app.reports.regression import BaselineComparison, ComparedRow
from trninfer.app.reports.report import Cores, LayerTable, NetworkAdvice
from trninfer.inference.predictions import Prediction
from trninfer.inference.search import InputProblem
from trninfer.runtime.advice import WhatIf
from trninfer.runtime.measure.suites import SuiteRow
from trninfer.runtime.sweep import SweepPoint


def rows_of(source: str) -> list[list[str]]:
    """Return the cells of each row as shown to the reader."""
    rows: list[list[str]] = []

    class Cells(Page):
        def handle_starttag(self, tag, attrs) -> None:
            super().handle_starttag(tag, attrs)
            if tag == "tr":
                rows.append([])
            elif tag in ("td", "th"):
                rows[-1].append("")

        def handle_data(self, data) -> None:
            super().handle_data(data)
            if "tr" in self.open:
                rows[-1][-1] += data

    Cells(source)
    return rows


def test_a_cell_is_sorted_by_all_its_digits() -> None:
    assert tables.cell("0.33", 1 / 3) == '<td class="num" data-value="0.33333333333333331">0.33</td>'
    assert (
        tables.cell("<") == "<td>&lt;</td>"
        and tables.cell("x", 2.0, "code") == '<td class="code" data-value="2">x</td>'
    )


def test_layers_with_their_shares_and_a_total() -> None:
    rows = (
        layer("a", latency_us=30.0, active_us=40.0, hfu=0.5),
        layer("b", latency_us=10.0, bound_by=None, mfu=None, flops=0, hbm_bytes=0),
    )
    head, first, second, total = rows_of(tables.layer_table(LayerTable("net", "p/", rows), "predicted"))
    assert head == [
        "layer", "predicted us", "share", "bound by", "active us", "MFU", "HFU", "HBM traffic", "bandwidth",
        "operations", "input", "output", "kernel",
    ]  # fmt: skip
    kernel = ["1\u00d73\u00d78\u00d78", "1\u00d74\u00d74\u00d74", "fused_conv2d_maxpool_packed"]
    assert first == [
        "a", "30.00", "75.0 %", "tensor", "40.00", "25.0 %", "50.0 %", "20 kB", "500 MB/s", "4 MFLOP", *kernel,
    ]  # fmt: skip
    dash = "\u2013"
    assert second == ["b", "10.00", "25.0 %", "-", dash, dash, dash, "0 B", "0 B/s", "0 FLOP", *kernel]
    assert [cell for cell in total if cell] == ["total", "40.00", "20 kB", "4 MFLOP"]


def spans_of(source: str) -> list[int]:
    """Return the number of columns that each row spans."""
    counts: list[int] = []
    for tag, attributes in Page(source).elements:
        if tag == "tr":
            counts.append(0)
        elif tag in ("td", "th"):
            counts[-1] += int(attributes.get("colspan") or 1)
    return counts


@pytest.mark.parametrize("label", ["predicted", "measured, host round trip"])
@pytest.mark.parametrize("changes", [{}, {"latency_us_p99": 12.0}, {"device_us": 4.0}, {"input_shape": ()}])
def test_every_row_has_a_cell_a_column(label: str, changes: dict) -> None:
    """Only measured times of the device yield a bandwidth; a column is present if any row has a value."""
    rows = (layer("a", **changes), layer("b", **({} if "input_shape" not in changes else changes)))
    source = tables.layer_table(LayerTable("net", "", rows), label)
    assert len(set(spans_of(source))) == 1, spans_of(source)
    head = rows_of(source)[0]
    assert ("bandwidth" in head) == (label == "predicted" or "device_us" in changes)
    assert ("p99 us" in head) == ("latency_us_p99" in changes) and ("measured, device us" in head) == (
        "device_us" in changes
    )
    assert ("launch" in head) == ("input_shape" in changes)


def test_changes_against_a_baseline() -> None:
    rows = (
        ComparedRow("a", "regression", 10.0, 12.0, 0.2, {"tensor": 2.5, "launch": -0.5}),
        ComparedRow("b", "same", 1.0, 1.0, 0.0, {"tensor": 0.5}),
        ComparedRow("c", "added", None, 5.0, None),
    )
    total = ComparedRow("total", "regression", 11.0, 18.0, 0.63636)
    source = tables.comparison_table(BaselineComparison("base<.json", 0.05, rows, total))
    assert rows_of(source)[1:] == [
        ["a", "10.00", "12.00", "+20.00 %", "regression: tensor +2.50 us, launch -0.50"],
        ["b", "1.00", "1.00", "+0.00 %", "same"],
        ["c", "\u2013", "5.00", "\u2013", "added"],
        ["total", "11.00", "18.00", "+63.64 %", "regression"],
    ]
    assert [row.get("class") for row in Page(source).all("tr")][1:] == ["regression", "same", "added", "regression"]


def test_workers_beside_the_busiest() -> None:
    source = tables.worker_table(Cores(4, 80.0, (80.0, 20.0)), "predicted")
    assert rows_of(source)[1:] == [["worker 1", "80.00", "100.0 %"], ["worker 2", "20.00", "25.0 %"]]
    assert "2 of 4 workers ran batches concurrently" in source
    assert rows_of(tables.worker_table(Cores(1, 0.0, (0.0,)), "predicted"))[1][2] == "\u2013"


def test_a_suite_beside_published_times() -> None:
    rows = [SuiteRow("x", 1500.0, 750.0, "student", 2.0, "p99"), SuiteRow("y", 3.0, None, "none", None, "total")]
    assert rows_of(tables.suite_table("s", rows))[1:] == [
        ["x", "1,500", "750.0", "2.00", "trninfer's", "student", "p99", ""],
        ["y", "3.00", "\u2013", "\u2013", "trninfer's", "none", "total", ""],
    ]  # fmt: skip


def test_resources_twice_as_fast() -> None:
    source = tables.what_if_table(NetworkAdvice("net", 20.0, [WhatIf("dma_issue", 8.0, 15.0, 5.0)], []))
    assert rows_of(source)[1] == ["DMA issue", "8.00", "15.00", "25.0 %"] and "swatch dma_issue" in source


def test_a_sweep_with_and_without_cores() -> None:
    one = SweepPoint("n", 1, "trn2", "float32", 20.0, 20.0, 50_000.0, 0.25, None, 2048, "tensor", 1.5)
    best = SweepPoint("n", 8, "trn2", "float32", 40.0, 5.0, 200_000.0, None, None, None, best=True)
    source = tables.sweep_table(make_report(sweep=[one, best]))
    head, *rows = rows_of(source)
    assert rows == [
        ["1", "n", "trn2", "float32", "20.00", "20.00", "50,000", "tensor", "25.0 %", "2.0 KiB", "1.50"],
        ["8 \u2605", "n", "trn2", "float32", "40.00", "5.00", "200,000", "-", *["\u2013"] * 3],
    ]
    assert [row.get("class") for row in Page(source).all("tr")] == [None, None, "best"]
    assert [span["style"] for span in Page(source).all("span") if "style" in span] == ["width:25.00%", "width:100.00%"]
    cores = SweepPoint(**{**vars(one), "cores": 4, "cores_total_us": 25.0, "cores_inputs_per_second": 160_000.0})
    head, row = rows_of(tables.sweep_table(make_report(sweep=[cores])))
    assert head[-2:] == ["us on 4 cores", "inputs/s on 4"] and row[-2:] == ["25.00", "160,000"]
    assert len(rows_of(tables.sweep_table(make_report(sweep=[])))) == 1


def test_answers_beside_their_pictures(tmp_path: Path) -> None:
    picture = draw_picture(tmp_path / "0.png")
    answers = [Prediction(str(picture), "seven", 7, 0.75, ()), Prediction("gone.png", None, None, None, (), (1.0, 2.0))]
    report = make_report(command="classify", predictions=answers, errors=[InputProblem("bad.png", "cut")])
    source = tables.answer_table(report)
    head, *rows = rows_of(source)
    assert head == ["", "input", "label", "probability"] and set(spans_of(source)) == {4}
    assert rows == [["", str(picture), "seven", "0.7500"], ["", "gone.png", "1 2", ""], ["", "bad.png", "cut"]]
    (image,) = Page(source).all("img")
    assert (image["src"] or "").startswith("data:image/png;base64,") and "width:75.00%" in source


def test_answers_of_rows_and_the_first_of_many() -> None:
    report = make_report(command="ffnn", predictions=[Prediction(n, "a", 0, 2.0, ()) for n in range(201)])
    source = tables.answer_table(report)
    assert rows_of(source)[0] == ["row", "label", "probability"] and len(rows_of(source)) == 201
    assert "Answers, 200 of 201" in source and "width:100.00%" in source  # even for an invalid probability above 1
    report.answer_count = 1234
    assert "Answers, 200 of 1,234" in tables.answer_table(report)
    assert "<caption>Answers</caption>" in tables.answer_table(make_report(predictions=report.predictions[:3]))
