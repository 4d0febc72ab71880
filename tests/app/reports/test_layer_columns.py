"""The columns of layers are the same in the terminal, on the page and in Markdown; CSV and JSON contain their
fields."""

from report_pages import layer, make_report
from trninfer.app.reports.html_tables import layer_table
from trninfer.app.reports.layer_columns import layer_columns, markdown_table
from trninfer.app.reports.machine import render as render_for_programs
from trninfer.app.reports.report import LayerTable
from trninfer.app.reports.table import render

ROWS = (
    layer("a|<b>", latency_us=30.0, active_us=40.0, hfu=0.5, critical={"tensor": 30.0}),
    layer("fc", latency_us=10.0, mfu=None, flops=0),
)


def test_all_renderers_have_the_same_columns() -> None:
    report = make_report(*ROWS)
    headings = [column.heading for column in layer_columns(report.tables[0], "predicted")]
    page = layer_table(report.tables[0], "predicted")
    terminal = next(line for line in render(report, False, None).splitlines() if line.startswith("layer"))
    markdown = markdown_table(report.tables[0], "predicted").splitlines()[2]
    assert all(f">{heading}<" in page for heading in headings)
    assert terminal.split() == " ".join(headings).split()
    assert [cell.strip() for cell in markdown.strip("|").split("|")] == headings


def test_markdown_is_a_table_with_a_total() -> None:
    lines = markdown_table(LayerTable("net: a batch of 1", "", ROWS), "predicted").splitlines()
    assert lines[0] == "**net: a batch of 1**" and lines[3].startswith("| --- | ---: |")
    assert lines[4].startswith(r"| a\|&lt;b> | 30.00 | 75.0 % | tensor | 40.00 |")
    assert (
        lines[6].startswith("| **total** | 40.00 |")
        and len({line.replace(r"\|", "").count("|") for line in lines[2:]}) == 1
    )


def test_bench_writes_markdown() -> None:
    report = make_report(*ROWS)
    assert render_for_programs(report, "markdown") == markdown_table(report.tables[0], "predicted")
