"""The columns of a table of layers for the terminal, the page and Markdown.

CSV and JSON contain the fields of `LayerTiming` directly, without units or rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...runtime.backend import DEVICE_LABEL
from .columns import ReportColumn, bound_column, filled, number_column
from .html_markup import microseconds, percent, quantity, shape_text

if TYPE_CHECKING:
    from ...runtime.timing import LayerTiming
    from .report import LayerTable

    LayerColumn = ReportColumn[LayerTiming]


def layer_columns(table: LayerTable, label: str) -> list[LayerColumn]:
    """Return the columns of a table whose times are of kind `label`: "predicted", or "measured, host round trip".

    Columns without a value in any row are omitted. Measured times have a bandwidth only if the time on the device is
    known.
    """
    total = table.total_us
    is_predicted = label.startswith("predicted")

    def span(row: LayerTiming) -> float | None:
        if row.device_us is not None or not is_predicted:
            return row.device_us
        return row.latency_us if row.active_us is None else row.active_us

    def share(row: LayerTiming) -> float:
        return row.latency_us / total if total else 0.0

    def bound(row: LayerTiming) -> str | None:
        return row.bound_by

    def bandwidth(row: LayerTiming) -> float | None:
        time = span(row)
        return row.hbm_bytes / time * 1e6 if time else None

    columns: list[LayerColumn] = [
        ReportColumn(
            "layer" if any(row.input_shape for row in table.layers) else "launch", lambda row: row.name, "name"
        ),
        number_column(f"{label} us", lambda row: row.latency_us, microseconds, 0, "time", lambda rows: total),
        number_column("p99 us", lambda row: row.latency_us_p99, microseconds, 3),
        number_column(f"{DEVICE_LABEL} us", lambda row: row.device_us, microseconds, 1),
        number_column("share", share, percent, 1, "share", resource=bound),
        bound_column("bound by", bound, 2),
        number_column("active us", lambda row: row.active_us, microseconds, 9),
        number_column("MFU", lambda row: row.mfu, percent, 4),
        number_column("HFU", lambda row: row.hfu, percent, 6),
        number_column(
            "HBM traffic", lambda row: row.hbm_bytes, _bytes, 5, total=lambda rows: sum(r.hbm_bytes for r in rows)
        ),
        number_column("bandwidth", bandwidth, _rate, 7),
        number_column(
            "operations", lambda row: row.flops, _flops, 11, total=lambda rows: sum(row.flops for row in rows)
        ),
        ReportColumn("input", lambda row: shape_text(row.input_shape), rank=10),
        ReportColumn("output", lambda row: shape_text(row.output_shape), rank=8),
        ReportColumn("kernel", lambda row: row.kernel, "code", rank=12),
    ]
    return filled(columns, table.layers)


def markdown_table(table: LayerTable, label: str) -> str:
    """Return a table of layers in GitHub-flavoured Markdown, with its title above and the total below."""
    columns = layer_columns(table, label)
    last = [_total(column, table.layers) for column in columns]
    rows = [[column.text(row) for column in columns] for row in table.layers]
    lines = [[column.heading for column in columns], *rows, ["**total**", *last[1:]]]
    rule = ["---:" if column.is_number else "---" for column in columns]
    text = [f"| {' | '.join(map(_escaped, line))} |" for line in lines]
    return "\n".join([f"**{_escaped(table.title)}**", "", text[0], f"| {' | '.join(rule)} |", *text[1:], ""])


def _total(column: LayerColumn, rows: Sequence[LayerTiming]) -> str:
    return "" if column.total is None else column.unit(column.total(rows))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _bytes(value: float) -> str:
    return quantity(value, "B")


def _rate(value: float) -> str:
    return quantity(value, "B/s")


def _flops(value: float) -> str:
    return quantity(value, "FLOP")
