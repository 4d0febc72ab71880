"""The columns of a table of layers, defined once for the terminal, the page and Markdown.

CSV and JSON contain the fields of `LayerTiming` directly, without units or rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...runtime.backend import DEVICE_LABEL
from .html_markup import microseconds, percent, quantity, shape_text
from .resources import short

if TYPE_CHECKING:
    from ...runtime.timing import LayerTiming
    from .report import LayerTable

NO_VALUE = "\u2013"

Kind = Literal["name", "time", "share", "bound", "number", "shape", "code"]


@dataclass(frozen=True)
class LayerColumn:
    """A column of a table of layers."""

    heading: str
    kind: Kind
    text: Callable[[LayerTiming], str]
    value: Callable[[LayerTiming], float | None] | None = None  # sort key on the page; None: sort by the text
    rank: int = 0  # on a narrow terminal, columns with the highest rank are dropped first
    total: Callable[[Sequence[LayerTiming]], float] | None = None  # value in the totals row, if the column has a total
    unit: Callable[[float], str] = microseconds

    @property
    def is_number(self) -> bool:
        """Return True if cells are right-aligned."""
        return self.value is not None


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

    def bandwidth(row: LayerTiming) -> float | None:
        time = span(row)
        return row.hbm_bytes / time * 1e6 if time else None

    found = [
        LayerColumn(
            "layer" if any(row.input_shape for row in table.layers) else "launch", "name", lambda row: row.name
        ),
        _number(f"{label} us", lambda row: row.latency_us, microseconds, 0, "time", lambda rows: total),
        _number("p99 us", lambda row: row.latency_us_p99, microseconds, 3),
        _number(f"{DEVICE_LABEL} us", lambda row: row.device_us, microseconds, 1),
        _number("share", share, percent, 1, "share"),
        LayerColumn("bound by", "bound", lambda row: short(row.bound_by), rank=2),
        _number("active us", lambda row: row.active_us, microseconds, 9),
        _number("MFU", lambda row: row.mfu, percent, 4),
        _number("HFU", lambda row: row.hfu, percent, 6),
        _number("HBM traffic", lambda row: row.hbm_bytes, _bytes, 5, total=lambda rows: sum(r.hbm_bytes for r in rows)),
        _number("bandwidth", bandwidth, _rate, 7),
        _number("operations", lambda row: row.flops, _flops, 11, total=lambda rows: sum(row.flops for row in rows)),
        LayerColumn("input", "shape", lambda row: shape_text(row.input_shape), rank=10),
        LayerColumn("output", "shape", lambda row: shape_text(row.output_shape), rank=8),
        LayerColumn("kernel", "code", lambda row: row.kernel, rank=12),
    ]
    return [column for column in found if _is_filled(column, table.layers)]


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


def _is_filled(column: LayerColumn, rows: Sequence[LayerTiming]) -> bool:
    if column.kind == "shape":
        return any(row.input_shape for row in rows)
    if column.kind == "bound":
        return any(row.bound_by for row in rows)
    return column.value is None or any(column.value(row) is not None for row in rows)


def _number(
    heading: str,
    value: Callable[[LayerTiming], float | None],
    unit: Callable[[float], str],
    rank: int,
    kind: Kind = "number",
    total: Callable[[Sequence[LayerTiming]], float] | None = None,
) -> LayerColumn:
    def text(row: LayerTiming) -> str:
        number = value(row)
        return NO_VALUE if number is None else unit(number)

    return LayerColumn(heading, kind, text, value=value, rank=rank, total=total, unit=unit)


def _bytes(value: float) -> str:
    return quantity(value, "B")


def _rate(value: float) -> str:
    return quantity(value, "B/s")


def _flops(value: float) -> str:
    return quantity(value, "FLOP")
