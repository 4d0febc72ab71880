"""Reports for people: tables that fit 80 columns, wider where there is room, in ASCII for terminals of any kind."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

from rich.box import Box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from .errors import printable
from .report import LayerTable, Report

if TYPE_CHECKING:
    from ..runtime.timing import LayerTiming

NARROW = 80
WIDE = 200  # of a file or a pipe, which have no width of their own
SHOWN_ROWS = 10  # of a feature batch

_BOX = Box("    \n    \n -- \n    \n    \n -- \n    \n    \n", ascii=True)


def render(report: Report, quiet: bool, stream: IO[str] | None) -> str:
    """Answers, checks and (unless quiet) layers as text for `stream`, or for a file where it is None."""

    def fill(console: Console) -> None:
        if report.predictions:
            _print_predictions(console, report)
        if report.score is not None:
            score = report.score
            _line(console, f"score: {score.correct} of {score.total} right, {100 * score.accuracy:.2f} %")
        if report.suite is not None:
            _print_suite(console, report)
        if not quiet:
            _print_layers(console, report)
        _print_verdict(console, report)

    return _to_text(fill, stream)


def render_layers(report: Report, stream: IO[str] | None) -> str:
    """The layer tables and checks alone, for beside a machine format."""

    def fill(console: Console) -> None:
        _print_layers(console, report)
        _print_verdict(console, report)

    return _to_text(fill, stream)


def render_records(title: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]], stream: IO[str] | None) -> str:
    """A plain table of records, whose last column takes the room that is left."""

    def fill(console: Console) -> None:
        table = _table(title)
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(_text(str(value)) for value in row))
        console.print(table)

    return _to_text(fill, stream)


def _to_text(fill: Callable[[Console], None], stream: IO[str] | None) -> str:
    """What `fill` prints, coloured where `stream` is a terminal and NO_COLOR is not set."""
    text = io.StringIO()
    terminal = stream is not None and stream.isatty()
    if os.environ.get("COLUMNS", "").isdigit():
        width = int(os.environ["COLUMNS"])
    elif terminal and stream is not None:
        width = os.get_terminal_size(stream.fileno()).columns
    else:
        width = WIDE
    console = Console(
        file=text,
        width=max(width, NARROW),
        force_terminal=terminal,
        color_system="auto" if terminal else None,
        highlight=False,
        legacy_windows=False,
    )
    fill(console)
    if terminal:
        return text.getvalue()
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def _table(title: str) -> Table:
    return Table(
        title=_text(title, "bold"),
        title_justify="left",
        box=_BOX,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
    )


def _text(value: str, style: str = "") -> Text:
    """Text as it is: no markup, no control characters."""
    return Text(printable(value), style)


def _line(console: Console, message: str, style: str = "") -> None:
    console.print(_text(message, style))


def _print_predictions(console: Console, report: Report) -> None:
    batch = report.command == "ffnn"
    shown = report.predictions[:SHOWN_ROWS] if batch else report.predictions
    table = Table(box=_BOX, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("row" if batch else "input", overflow="fold", justify="right" if batch else "left")
    table.add_column("label", overflow="fold")
    table.add_column("probability", justify="right")
    for answer in shown:
        table.add_row(_text(str(answer.input)), _text(answer.label, "bold"), f"{answer.probability:.4f}")
    console.print(table)
    if len(shown) < len(report.predictions):
        _line(console, f"... and {len(report.predictions) - len(shown)} more rows (--format csv has them all)")
    console.print()


def _print_suite(console: Console, report: Report) -> None:
    table = _table(f"{report.model}: predicted time of our kernels beside published figures")
    table.add_column("case", overflow="fold")
    for column in ("predicted us", "published us", "ratio"):
        table.add_column(column, justify="right")
    table.add_column("published kind")
    for row in report.suite or ():
        published = "-" if row.published_us is None else _microseconds(row.published_us)
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        table.add_row(_text(row.name), _microseconds(row.predicted_us), published, ratio, _text(row.published_kind))
    console.print(table)


def _print_layers(console: Console, report: Report) -> None:
    shown = [table for table in report.tables if table.layers]
    for table in shown:
        wide = _layer_table(table, report.latency_kind, wide=True)
        unlimited = console.options.update(max_width=10_000)
        fits = Measurement.get(console, unlimited, wide).maximum <= console.width
        console.print(wide if fits else _layer_table(table, report.latency_kind, wide=False))
        total = _microseconds(table.total_us)
        _line(console, f"total {report.latency_kind} {total} us on {report.target} in {report.dtype}")
        console.print()
    if report.latency_note and (shown or report.suite):
        _line(console, report.latency_note)
    if shown:
        _line(console, f"backend {report.backend}: {report.host_seconds:.2f} s on this machine")


def _layer_table(layers: LayerTable, latency_kind: str, wide: bool) -> Table:
    """A layer a line where there is room, else two, each column with another one below it."""
    table = _table(layers.title)
    headers = [
        ("layer", "kernel", False),
        ("input", "-> output", False),
        (f"{latency_kind} us", "bound by", True),
        ("share", "MFU", True),
        ("HBM bytes", "bandwidth", True),
    ]
    for above, below, right in headers:
        for header in (above, below) if wide else (f"{above}\n{below}",):
            table.add_column(header, justify="right" if right else "left", overflow="fold")
    for layer in layers.layers:
        pairs = _cells(layer)
        if wide:
            table.add_row(*(text for pair in pairs for text in pair))
        else:
            table.add_row(*(Text("\n").join(pair) for pair in pairs))
    return table


def _cells(layer: LayerTiming) -> list[tuple[Text, Text]]:
    """The columns of a layer in the pairs that share one in a narrow table."""
    seconds = layer.latency_us / 1e6
    bandwidth = f"{_quantity(layer.hbm_bytes / seconds)}B/s" if seconds else "-"
    mfu = "-" if layer.mfu is None else f"{100 * layer.mfu:.1f} %"
    return [
        (_text(layer.name, "bold"), _text(layer.kernel)),
        (_text(_shape(layer.input_shape)), _text(f"-> {_shape(layer.output_shape)}")),
        (_text(_microseconds(layer.latency_us), "bold"), _text(layer.bound_by or "-")),
        (_text(f"{100 * layer.share:.1f} %"), _text(mfu)),
        (_text(f"{_quantity(layer.hbm_bytes)}B"), _text(bandwidth)),
    ]


def _print_verdict(console: Console, report: Report) -> None:
    verdict = report.verify
    if verdict is None:
        return
    near = f", {verdict.near_ties} near-ties not counted" if verdict.near_ties else ""
    _line(
        console,
        f"verify {'passed' if verdict.passed else 'FAILED'}: largest error {verdict.max_abs_error:.2g} "
        f"(tolerance {verdict.tolerance:.2g}), {verdict.disagreements} disagreements{near}",
        "green" if verdict.passed else "bold red",
    )


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _microseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def _quantity(value: float) -> str:
    """Three digits and a decimal prefix."""
    for prefix in ("", "K", "M", "G"):
        if value < 999.5:
            return f"{value:.0f} {prefix}" if value >= 100 or not prefix else f"{value:.3g} {prefix}"
        value /= 1000
    return f"{value:.3g} T"
