"""Tables of an HTML page. The tables are readable without JavaScript; with it, a click on a heading sorts the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...inference.class_maps import class_color
from .advice_table import what_if_columns
from .columns import ReportColumn, Row
from .html_markup import Markup, element, fragment, microseconds, percent
from .layer_columns import layer_columns
from .report import SHOWN_ANSWERS
from .suite_lines import suite_columns
from .sweep_table import sweep_columns
from .thumbnails import map_thumbnail, thumbnail

if TYPE_CHECKING:
    from ...inference.class_maps import ClassMap
    from ...inference.predictions import Prediction
    from ...runtime.measure.suites import SuiteRow
    from .regression import BaselineComparison, ComparedRow
    from .report import Cores, LayerTable, NetworkAdvice, Report

SHOWN_AREAS = 6  # maximum number of areas shown per picture

Heading = tuple[str, bool]  # heading text, and True for a column of numbers


def cell(text: str | Markup, value: float | None = None, class_: str | None = None) -> Markup:
    """Return a cell; a cell with a number is right-aligned and sorted by the number."""
    number = None if value is None else f"{value:.17g}"
    return element("td", text, class_="num" if class_ is None and number else class_, data_value=number)


def table(
    caption: str,
    headings: Sequence[Heading],
    rows: Sequence[Markup],
    foot: Markup | None = None,
    class_: str = "scroll",
) -> Markup:
    """Return a table that scrolls horizontally in a narrow window."""
    head = [element("th", text, scope="col", class_="num" if number else None) for text, number in headings]
    return element(
        "div",
        element(
            "table",
            element("caption", caption),
            element("thead", element("tr", head)),
            element("tbody", rows),
            element("tfoot", foot) if foot is not None else None,
        ),
        class_=class_,
        tabindex=0,
        role="region",
        aria_label=caption,
    )


def column_table(
    caption: str,
    columns: Sequence[ReportColumn[Row]],
    rows: Sequence[Row],
    foot: Markup | None = None,
    class_of: Callable[[Row], str | None] = lambda row: None,
    launch_of: Callable[[Row], str | None] = lambda row: None,
) -> Markup:
    """Return a table of rows, whose names are links to the launch of the row on the timeline, if it has one."""
    most = {
        column.heading: max((column.value(row) or 0.0 for row in rows), default=0.0)
        for column in columns
        if column.value
    }
    lines = []
    for row in rows:
        name = element("th", _content(columns[0], row), scope="row", data_launch=launch_of(row))
        lines.append(element("tr", name, [_cell(column, row, most) for column in columns[1:]], class_=class_of(row)))
    return table(caption, [(column.heading, column.is_number) for column in columns], lines, foot)


def _cell(column: ReportColumn[Row], row: Row, most: Mapping[str, float]) -> Markup:
    value = None if column.value is None else column.value(row)
    if column.kind in ("share", "rate"):
        share = (value or 0.0) / ((most[column.heading] or 1.0) if column.kind == "rate" else 1.0)
        colour = "plain" if column.kind == "rate" else column.resource(row) or "unknown"
        bar = element("span", class_=f"meter {colour}", style=f"width:{100 * share:.2f}%")
        return element(
            "td", bar, element("span", column.text(row)), class_="num share", data_value=f"{value or 0:.17g}"
        )
    return cell(_content(column, row), value, "num" if column.is_number else "code" if column.kind == "code" else None)


def _content(column: ReportColumn[Row], row: Row) -> Markup:
    colour = f"swatch {column.resource(row) or 'unknown'}" if column.kind == "bound" else None
    return fragment(element("span", class_=colour) if colour else None, column.text(row))


def layer_table(layers: LayerTable, label: str) -> Markup:
    """Return a table with one row per kernel launch. `label` states the kind of the times."""
    columns = layer_columns(layers, label)
    foot = [element("th", "total", scope="row")]
    for column in columns[1:]:
        total = None if column.total is None else column.total(layers.layers)
        foot.append(element("td") if total is None else cell(column.unit(total), total))
    return column_table(
        layers.title,
        columns,
        layers.layers,
        element("tr", foot),
        launch_of=lambda row: f"{layers.prefix}{row.name}",
    )


def comparison_table(comparison: BaselineComparison) -> Markup:
    """Return a table of the change of each row relative to the baseline."""
    headings: list[Heading] = [
        ("layer", False), ("baseline us", True), ("now us", True), ("change", True), ("", False),
    ]  # fmt: skip
    rows = [_compared(row) for row in comparison.rows]
    return table(f"Compared with {comparison.baseline}", headings, rows, _compared(comparison.total))


def _compared(row: ComparedRow) -> Markup:
    def time(value: float | None) -> Markup:
        return cell("\u2013") if value is None else cell(f"{value:,.2f}", value)

    change = cell("\u2013") if row.change is None else cell(f"{100 * row.change:+.2f} %", row.change)
    return element(
        "tr",
        element("th", row.name, scope="row"),
        time(row.baseline_us),
        time(row.latency_us),
        change,
        element("td", f"{row.status}: {row.why}" if row.why and row.status != "same" else row.status),
        class_=row.status,
    )


def worker_table(cores: Cores, label: str) -> Markup:
    """Return a table of the workers that ran batches, with their times, absolute and relative to the busiest worker."""
    lines = [
        element(
            "tr",
            element("th", f"worker {number}", scope="row"),
            cell(microseconds(time), time),
            cell(percent(time / cores.elapsed_us) if cores.elapsed_us else "\u2013", time),
        )
        for number, time in enumerate(cores.worker_us, 1)
    ]
    title = f"{len(cores.worker_us)} of {cores.count} workers ran batches concurrently"
    return table(title, [("worker", False), (f"{label} us", True), ("of the busiest", True)], lines)


def suite_table(name: str, rows: Sequence[SuiteRow]) -> Markup:
    """Return a table of predicted and published times."""
    return column_table(f"Suite {name}", [*suite_columns(), ReportColumn("note", lambda row: row.note)], rows)


def what_if_table(advice: NetworkAdvice) -> Markup:
    """Return a table that shows how doubling the speed of each resource would affect the time."""
    title = f"{advice.network}: with a resource twice as fast, rescheduled"
    return column_table(title, what_if_columns(advice), advice.what_ifs)


def sweep_table(report: Report) -> Markup:
    """Return a table with one row per batch size, target and dtype."""
    points = report.sweep or []
    columns = sweep_columns(report, points)
    return column_table(
        "One batch of each size", columns, points, class_of=lambda point: "best" if point.best else None
    )


def answer_table(report: Report) -> Markup:
    """Return the first SHOWN_ANSWERS predictions, with thumbnails if the inputs are pictures, followed by the inputs
    for which no prediction could be made."""
    predictions = report.predictions[:SHOWN_ANSWERS]
    pictures = report.command in ("classify", "segment")
    rows = [
        element(
            "tr",
            _picture(answer, report) if pictures else None,
            element("th", str(answer.input), scope="row", class_="wrap"),
            cell(answer.text) if answer.map is None else _areas(answer.map, report),
            _probability(answer.probability) if answer.map is None else None,
        )
        for answer in predictions
    ]
    rows += [
        element(
            "tr",
            element("td") if pictures else None,
            element("th", str(problem.input), scope="row", class_="wrap"),
            element("td", problem.message, colspan=2, class_="wrap"),
            class_="regression",
        )
        for problem in report.errors[:SHOWN_ANSWERS]
    ]
    total = len(report.predictions) if report.answer_count is None else report.answer_count
    caption = f"Answers, {len(predictions)} of {total:,}" if len(predictions) < total else "Answers"
    first: list[Heading] = [("", False)] if pictures else []
    name = "row" if report.command == "ffnn" else "input"
    columns = [("classes", False)] if report.command == "segment" else [("label", False), ("probability", True)]
    return table(caption, [*first, (name, False), *columns], rows, class_="scroll tall")


def _picture(answer: Prediction, report: Report) -> Markup:
    name = str(answer.input)
    if answer.map is not None:
        source = map_thumbnail(name, answer.map, report.map_labels)
        return element("td", element("img", src=source, alt="") if source else None, class_="picture map")
    source = thumbnail(name)
    return element("td", element("img", src=source, alt="") if source else None, class_="picture")


def _areas(found: ClassMap, report: Report) -> Markup:
    """Return the largest classes of a picture, each preceded by its colour."""
    items = []
    for area in found.areas[:SHOWN_AREAS]:
        swatch = element("i", style=f"background:{class_color(area.class_index, report.map_labels)}")
        items.append(element("li", swatch, f"{area.label} {100 * area.share:.1f} %"))
    return element("td", element("ul", items, class_="areas"))


def _probability(value: float | None) -> Markup:
    """Return a probability with a bar."""
    if value is None:
        return cell("")
    bar = element("span", class_="meter plain", style=f"width:{100 * min(max(value, 0.0), 1.0):.2f}%")
    return element("td", bar, element("span", f"{value:.4f}"), class_="num share", data_value=f"{value:.17g}")
