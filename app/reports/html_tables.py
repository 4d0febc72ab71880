"""Tables of an HTML page. They are readable without a script; with one, a click on a heading sorts the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...inference.class_maps import class_color
from .html_charts import bound_class
from .html_markup import Markup, element, microseconds, percent, quantity, shape_text
from .layer_columns import LayerColumn, layer_columns
from .report import SHOWN_ANSWERS
from .resources import short, title
from .thumbnails import map_thumbnail, thumbnail

if TYPE_CHECKING:
    from ...inference.class_maps import ClassMap
    from ...inference.predictions import Prediction
    from ...runtime.measure.suites import SuiteRow
    from ...runtime.sweep import SweepPoint
    from ...runtime.timing import LayerTiming
    from .regression import BaselineComparison, ComparedRow
    from .report import Cores, LayerTable, NetworkAdvice, Report

SHOWN_AREAS = 6  # maximum number of areas shown per picture

Heading = tuple[str, bool]  # heading text, and True for a column of numbers


def cell(text: str, value: float | None = None, class_: str | None = None) -> Markup:
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


def layer_table(layers: LayerTable, label: str) -> Markup:
    """Return a table with one row per kernel launch. `label` states the kind of the times."""
    columns = layer_columns(layers, label)
    rows = [element("tr", [_layer_cell(column, row, layers) for column in columns]) for row in layers.layers]
    foot = []
    for column in columns:
        if column.kind == "name":
            foot.append(element("th", "total", scope="row"))
        elif column.total is None:
            foot.append(element("td"))
        else:
            total = column.total(layers.layers)
            foot.append(cell(column.unit(total), total))
    headings = [(column.heading, column.is_number) for column in columns]
    return table(layers.title, headings, rows, element("tr", foot))


def _layer_cell(column: LayerColumn, layer: LayerTiming, layers: LayerTable) -> Markup:
    text, value = column.text(layer), None if column.value is None else column.value(layer)
    if column.kind == "name":
        return element("th", text, scope="row", data_launch=f"{layers.prefix}{layer.name}")
    if column.kind == "code":
        return cell(text, class_="code")
    if column.kind == "bound":
        return element("td", element("span", class_=f"swatch {bound_class(layer)}"), text)
    if column.kind == "share":
        share = value or 0.0
        bar = element("span", class_=f"meter {bound_class(layer)}", style=f"width:{100 * share:.2f}%")
        return element("td", bar, element("span", text), class_="num share", data_value=f"{share:.17g}")
    return cell(text, value, "num" if column.is_number else None)


def _microseconds_cell(value: float | None) -> Markup:
    return cell("\u2013") if value is None else cell(microseconds(value), value)


def _percent_cell(value: float | None) -> Markup:
    return cell("\u2013") if value is None else cell(percent(value), value)


def _quantity_cell(value: float, unit: str) -> Markup:
    return cell(quantity(value, unit), value)


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
    title = f"{len(cores.worker_us)} of {cores.count} workers answered concurrently"
    return table(title, [("worker", False), (f"{label} us", True), ("of the busiest", True)], lines)


def suite_table(name: str, rows: Sequence[SuiteRow]) -> Markup:
    """Return a table of predicted and published times."""
    headings: list[Heading] = [
        ("problem", False), ("predicted us", True), ("published us", True), ("kernel", False),
        ("published is", False), ("metric", False), ("predicted / published", True), ("note", False),
    ]  # fmt: skip
    lines = []
    for row in rows:
        published = row.published_us
        lines.append(
            element(
                "tr",
                element("th", row.name, scope="row"),
                cell(microseconds(row.predicted_us), row.predicted_us),
                cell("\u2013") if published is None else cell(microseconds(published), published),
                cell(row.kernel),
                cell(row.published_kind),
                cell(row.metric),
                cell("\u2013") if row.ratio is None else cell(f"{row.ratio:.2f}", row.ratio),
                cell(row.note),
            )
        )
    return table(f"Suite {name}", headings, lines)


def what_if_table(advice: NetworkAdvice) -> Markup:
    """Return a table of the effect of doubling the speed of each resource."""
    headings: list[Heading] = [
        ("twice as fast", False), ("critical us", True), ("total would be us", True), ("saves", True),
    ]  # fmt: skip
    rows = [
        element(
            "tr",
            element("th", element("span", class_=f"swatch {what.resource}"), title(what.resource), scope="row"),
            cell(microseconds(what.critical_us), what.critical_us),
            cell(microseconds(what.latency_us), what.latency_us),
            cell(f"{100 * what.saved_us / advice.total_us:.1f} %", what.saved_us),
        )
        for what in advice.what_ifs
    ]
    return table(f"{advice.network}: a resource twice as fast, rescheduled", headings, rows)


def sweep_table(points: Sequence[SweepPoint]) -> Markup:
    """Return a table with one row per batch size, target and dtype, and bars for the throughput."""
    cores = next((point.cores for point in points if point.cores is not None), None)
    shapes = any(point.input_shape for point in points)
    headings: list[Heading] = [
        ("network", False), *([("input", False)] if shapes else []),
        ("target", False), ("dtype", False), ("batch", True), ("us", True),
        ("us an input", True), ("inputs/s", True), ("bound by", False), ("MFU", True), ("HFU", True),
        ("SBUF peak", True), ("\u00d7 floor", True),
        *([(f"us on {cores} cores", True), (f"inputs/s on {cores} cores", True)] if cores is not None else []),
    ]  # fmt: skip
    most = max((point.inputs_per_second for point in points), default=0.0) or 1.0
    rows = []
    for point in points:
        share = point.inputs_per_second / most
        bar = element("span", class_="meter plain", style=f"width:{100 * share:.2f}%")
        rate = element("span", f"{point.inputs_per_second:,.0f}")
        floor = point.times_floor
        rows.append(
            element(
                "tr",
                element("th", point.network, scope="row"),
                cell(shape_text(point.input_shape)) if shapes else None,
                cell(point.target),
                cell(point.dtype),
                cell(_starred(point), point.batch_size),
                cell(microseconds(point.total_us), point.total_us),
                cell(microseconds(point.us_per_input), point.us_per_input),
                element("td", bar, rate, class_="num share", data_value=f"{point.inputs_per_second:.17g}"),
                cell(short(point.bound_by)),
                _percent_cell(point.mfu),
                _percent_cell(point.hfu),
                cell("\u2013") if point.sbuf_peak_bytes is None else _quantity_cell(point.sbuf_peak_bytes, "B"),
                cell("\u2013") if floor is None else cell(f"{floor:.2f}", floor),
                _microseconds_cell(point.cores_total_us) if cores is not None else None,
                cell(f"{point.cores_inputs_per_second or 0.0:,.0f}", point.cores_inputs_per_second)
                if cores is not None
                else None,
                class_="best" if point.best else None,
            )
        )
    return table("One batch of each size", headings, rows)


def _starred(point: SweepPoint) -> str:
    """Format the batch size, with a star for the best one."""
    return f"{point.batch_size} \u2605" if point.best else str(point.batch_size)


def answer_table(report: Report) -> Markup:
    """Return the first SHOWN_ANSWERS predictions, with thumbnails if the inputs are pictures, followed by the inputs
    for which no prediction could be made."""
    shown = report.predictions[:SHOWN_ANSWERS]
    pictures = report.command in ("classify", "segment")
    rows = [
        element(
            "tr",
            _picture(answer, report) if pictures else None,
            element("th", str(answer.input), scope="row", class_="wrap"),
            cell(answer.text) if answer.map is None else _areas(answer.map, report),
            _probability(answer.probability) if answer.map is None else None,
        )
        for answer in shown
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
    caption = f"Answers, {len(shown)} of {total:,}" if len(shown) < total else "Answers"
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
