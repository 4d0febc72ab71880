"""The tables of a page. They can be read without a script; with one, a click on a heading sorts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .html_charts import bound_class
from .html_markup import Markup, element, microseconds, percent, quantity, shape_text
from .report import SHOWN_ANSWERS
from .resources import short, title
from .thumbnails import thumbnail

if TYPE_CHECKING:
    from ...runtime.measure.suites import SuiteRow
    from ...runtime.sweep import SweepPoint
    from ...runtime.timing import LayerTiming
    from .regression import BaselineComparison, ComparedRow
    from .report import Cores, LayerTable, NetworkAdvice, Report

Heading = tuple[str, bool]  # text, whether the column has numbers


def cell(text: str, value: float | None = None, class_: str | None = None) -> Markup:
    """A cell; one with a number is set to the right, and sorted by it."""
    number = None if value is None else f"{value:.17g}"
    return element("td", text, class_="num" if class_ is None and number else class_, data_value=number)


def table(caption: str, headings: Sequence[Heading], rows: Sequence[Markup], foot: Markup | None = None) -> Markup:
    """A table that scrolls by itself where the window is narrow."""
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
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=caption,
    )


def layer_table(layers: LayerTable, label: str, host: bool) -> Markup:
    """A row a launch of a kernel. `label` says what its times are; round trips from a host have no bandwidth."""
    p99 = any(layer.latency_us_p99 is not None for layer in layers.layers)
    device = any(layer.device_us is not None for layer in layers.layers)
    shapes = any(layer.input_shape for layer in layers.layers)
    headings: list[Heading] = [
        ("layer" if shapes else "launch", False),
        ("kernel", False),
        *([("input", False), ("output", False)] if shapes else []),
        (f"{label} us", True),
        *([("p99 us", True)] if p99 else []),
        *([("measured, device us", True)] if device else []),
        ("share", True),
        ("bound by", False),
        ("MFU", True),
        ("HFU", True),
        ("operations", True),
        ("HBM traffic", True),
        *([] if host else [("bandwidth", True)]),
    ]
    total = layers.total_us
    rows = [_layer_row(layers.prefix, layer, total, p99, device, host) for layer in layers.layers]
    foot = element(
        "tr",
        element("th", "total", scope="row", colspan=4 if shapes else 2),
        cell(microseconds(total), total),
        element("td", colspan=4 + p99 + device),
        _quantity_cell(sum(layer.flops for layer in layers.layers), "FLOP"),
        _quantity_cell(sum(layer.hbm_bytes for layer in layers.layers), "B"),
        None if host else element("td"),
    )
    return table(layers.title, headings, rows, foot)


def _layer_row(prefix: str, layer: LayerTiming, total: float, p99: bool, device: bool, host: bool) -> Markup:
    share = layer.latency_us / total if total else 0.0
    span = layer.latency_us if layer.active_us is None else layer.active_us
    bandwidth = layer.hbm_bytes / span * 1e6 if span else None
    bar = element("span", class_=f"meter {bound_class(layer)}", style=f"width:{100 * share:.2f}%")
    return element(
        "tr",
        element("th", layer.name, scope="row", data_launch=f"{prefix}{layer.name}"),
        cell(layer.kernel, class_="code"),
        cell(shape_text(layer.input_shape)) if layer.input_shape else None,
        cell(shape_text(layer.output_shape)) if layer.input_shape else None,
        cell(microseconds(layer.latency_us), layer.latency_us),
        _microseconds_cell(layer.latency_us_p99) if p99 else None,
        _microseconds_cell(layer.device_us) if device else None,
        element("td", bar, element("span", percent(share)), class_="num share", data_value=f"{share:.17g}"),
        element("td", element("span", class_=f"swatch {bound_class(layer)}"), short(layer.bound_by)),
        _percent_cell(layer.mfu),
        _percent_cell(layer.hfu),
        _quantity_cell(layer.flops, "FLOP"),
        _quantity_cell(layer.hbm_bytes, "B"),
        None if host else cell("\u2013") if bandwidth is None else _quantity_cell(bandwidth, "B/s"),
    )


def _microseconds_cell(value: float | None) -> Markup:
    return cell("\u2013") if value is None else cell(microseconds(value), value)


def _percent_cell(value: float | None) -> Markup:
    return cell("\u2013") if value is None else cell(percent(value), value)


def _quantity_cell(value: float, unit: str) -> Markup:
    return cell(quantity(value, unit), value)


def comparison_table(comparison: BaselineComparison) -> Markup:
    """Each row's change against the baseline."""
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
    """The workers side by side: the time of each that answered, and how long the busiest made it wait."""
    lines = [
        element(
            "tr",
            element("th", f"worker {number}", scope="row"),
            cell(microseconds(time), time),
            cell(percent(time / cores.elapsed_us) if cores.elapsed_us else "\u2013", time),
        )
        for number, time in enumerate(cores.worker_us, 1)
    ]
    title = f"{len(cores.worker_us)} of {cores.count} workers answered, at the same time"
    return table(title, [("worker", False), (f"{label} us", True), ("of the busiest", True)], lines)


def suite_table(name: str, rows: Sequence[SuiteRow]) -> Markup:
    """Predicted beside published times."""
    headings: list[Heading] = [
        ("problem", False), ("predicted us", True), ("published us", True), ("published is", False),
        ("metric", False),        ("predicted / published", True),
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
                cell(row.published_kind),
                cell(row.metric),
                cell("\u2013") if row.ratio is None else cell(f"{row.ratio:.2f}", row.ratio),
            )
        )
    return table(f"Suite {name}", headings, lines)


def what_if_table(advice: NetworkAdvice) -> Markup:
    """Each resource twice as fast."""
    headings: list[Heading] = [
        ("twice as fast", False), ("critical us", True), ("all then takes us", True), ("saves", True),
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
    return table(f"{advice.network}: a resource twice as fast, scheduled anew", headings, rows)


def sweep_table(points: Sequence[SweepPoint]) -> Markup:
    """A row each batch size, target and dtype; a bar for the inputs a second."""
    cores = next((point.cores for point in points if point.cores is not None), None)
    headings: list[Heading] = [
        ("network", False), ("target", False), ("dtype", False), ("batch", True), ("us", True),
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
    """The size of a batch, with a star at the best one."""
    return f"{point.batch_size} \u2605" if point.best else str(point.batch_size)


def answer_table(report: Report) -> Markup:
    """Return the first SHOWN_ANSWERS answers, beside small pictures where the inputs are pictures, then the inputs that
    could not be answered."""
    shown = report.predictions[:SHOWN_ANSWERS]
    pictures = report.command == "classify"
    rows = [
        element(
            "tr",
            _picture(str(answer.input)) if pictures else None,
            element("th", str(answer.input), scope="row", class_="wrap"),
            cell(answer.text),
            _probability(answer.probability),
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
    return table(caption, [*first, (name, False), ("label", False), ("probability", True)], rows)


def _picture(name: str) -> Markup:
    source = thumbnail(name)
    return element("td", element("img", src=source, alt="") if source else None, class_="picture")


def _probability(value: float | None) -> Markup:
    """A probability with a bar."""
    if value is None:
        return cell("")
    bar = element("span", class_="meter plain", style=f"width:{100 * min(max(value, 0.0), 1.0):.2f}%")
    return element("td", bar, element("span", f"{value:.4f}"), class_="num share", data_value=f"{value:.17g}")
