"""Human-readable reports: predictions, times and verdicts as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

from rich.console import Console

from ...inference.predictions import OutputAnswer, Prediction
from ...runtime.backend import DEVICE_LABEL
from ..text import count
from .advice_table import print_advice
from .area_table import print_areas, print_map_score
from .box_table import print_box_score, print_boxes
from .console import Column, cell, figures, new_table, print_line, print_rows, print_table, to_text
from .html_markup import microseconds, percent
from .layer_columns import layer_columns
from .report import LayerTable, Report, plus_minus
from .resources import by_size, short
from .score_table import print_score
from .suite_lines import suite_columns, suite_lines
from .sweep_table import print_sweep

if TYPE_CHECKING:
    from ...runtime.measure.compare import BackendComparison, ComparedLaunch
    from ...runtime.timing import LayerTiming
    from ...runtime.verify import Verification

SHOWN_ROWS = 10  # maximum number of rows of features
SHOWN_VALUES = 8  # maximum number of values per prediction
SHOWN_OUTPUTS = 3  # maximum number of further outputs per prediction
SHOWN_BESIDE = 3  # maximum number of values per further output


def render(report: Report, quiet: bool, stream: IO[str] | None) -> str:
    """Return predictions, checks and (unless quiet) layers as text for `stream`, or for a file if it is None."""

    def fill(console: Console) -> None:
        if report.command == "detect":
            print_boxes(console, report)
        elif report.command == "segment":
            print_areas(console, report)
        elif report.predictions:
            _print_predictions(console, report)
        _print_none(console, report)
        print_score(console, report, quiet)
        print_box_score(console, report, quiet)
        print_map_score(console, report, quiet)
        if report.suite is not None:
            _print_suite(console, report)
        if report.sweep is not None:
            print_sweep(console, report)
        if not quiet:
            _print_times(console, report)
        if report.advice is not None:
            print_advice(console, report.advice)
        _print_verdict(console, report)

    return to_text(fill, stream)


def render_layers(report: Report, stream: IO[str] | None) -> str:
    """Return only the tables of layers and the checks, for standard error in addition to a machine-readable format."""

    def fill(console: Console) -> None:
        _print_none(console, report)
        print_score(console, report, quiet=True)
        print_box_score(console, report, quiet=True)
        print_map_score(console, report, quiet=True)
        if report.sweep is not None:
            print_sweep(console, report)
        _print_times(console, report)
        if report.advice is not None:
            print_advice(console, report.advice)
        _print_verdict(console, report)

    return to_text(fill, stream)


def _print_predictions(console: Console, report: Report) -> None:
    batch = report.command == "ffnn"
    predictions = report.predictions[:SHOWN_ROWS] if batch else report.predictions
    table = new_table(gap=2)
    table.add_column("row" if batch else "input", overflow="fold", justify="right" if batch else "left")
    values = any(answer.values is not None for answer in predictions)
    table.add_column("values" if values else "label", overflow="fold")
    if not values:
        table.add_column("probability", justify="right")
    others = [output.name for output in predictions[0].outputs[1:]]
    for name in others[:SHOWN_OUTPUTS]:
        table.add_column(cell(name), overflow="fold")
    for answer in predictions:
        chance = [] if answer.probability is None else [f"{answer.probability:.4f}"]
        other_cells = [cell(_beside(output)) for output in answer.outputs[1 : 1 + SHOWN_OUTPUTS]]
        table.add_row(cell(str(answer.input)), cell(_shortened(answer), "bold"), *chance, *other_cells)
    console.print(table)
    if len(predictions) < len(report.predictions):
        left = count(len(report.predictions) - len(predictions), "more row")
        print_line(console, f"... and {left} (--format json contains all)")
    if len(others) > SHOWN_OUTPUTS:
        left = count(len(others) - SHOWN_OUTPUTS, "more output")
        print_line(console, f"... and {left} (--format json contains all)")
    console.print()


def _beside(output: OutputAnswer) -> str:
    """Format an additional output: its label and probability, or its first few values."""
    if output.values is None:
        return f"{output.label} {output.probability:.4f}"
    if len(output.values) <= SHOWN_BESIDE:
        return " ".join(f"{value:.4g}" for value in output.values)
    first = " ".join(f"{value:.4g}" for value in output.values[:SHOWN_BESIDE])
    return f"{first} ... {'x'.join(map(str, output.shape))}"


def _shortened(answer: Prediction) -> str:
    """Return the label of a prediction, or its first few values."""
    if answer.values is None or len(answer.values) <= SHOWN_VALUES:
        return answer.text if answer.values is None else " ".join(f"{value:.6g}" for value in answer.values)
    first = " ".join(f"{value:.6g}" for value in answer.values[:SHOWN_VALUES])
    return f"{first} ... ({len(answer.values)} in all; use --format json to print them)"


def _print_none(console: Console, report: Report) -> None:
    none = report.none
    if none is not None and none.count:
        verb = "is" if none.count == 1 else "are"
        print_line(console, f"{none.count} of {none.total} {verb} not a class of the network (label {none.label})")


def _print_suite(console: Console, report: Report) -> None:
    rows = report.suite or []
    print_table(console, f"{report.model}: predicted times beside published figures", suite_columns(), rows)
    for line in suite_lines(rows):
        print_line(console, line)


def _print_times(console: Console, report: Report) -> None:
    """Print the tables of times, and notes on them."""
    tables = [table for table in report.tables if table.layers]
    if report.comparison is not None:
        _print_comparison(console, report.comparison, report.wide)
    else:
        _print_layers(console, report, tables)
    if report.latency_note and (tables or report.suite or report.sweep):
        print_line(console, report.latency_note)
    if tables or report.sweep:
        print_line(console, f"backend {report.backend}: {report.host_seconds:.2f} s on this machine")
        if report.choice_note is not None:
            print_line(console, report.choice_note)


def _print_layers(console: Console, report: Report, shown: list[LayerTable]) -> None:
    for table in shown:
        columns = layer_columns(table, report.latency_label or report.latency_kind)
        print_rows(console, table.title, figures(columns, table.layers, slow_rows(table)), report.wide)
        print_line(console, f"total {_total(table, report)} on {report.chip} in {report.dtype}{_utilization(table)}")
        if table.critical:
            print_line(console, f"critical path: {_critical(table)}")
        if table.floor is not None:
            bound = {"hbm": "the minimum HBM traffic", "tensor": "multiply-accumulates at full clock"}
            least = f"{_microseconds(table.floor.latency_us)} us, a launch and {bound[table.floor.bound_by]}"
            print_line(console, f"{table.times_floor:.2f} x floor ({least})")
        for line in _form_lines(table):
            print_line(console, line)
        if report.cores is not None:
            elapsed = _microseconds(report.cores.elapsed_us)
            print_line(
                console,
                f"elapsed {elapsed} us: {report.cores.count} cores ran concurrently; the total is the sum of "
                f"their times",
            )
        console.print()


def _form_lines(table: LayerTable) -> list[str]:
    """Return one line for each form other than "direct", with the layers that use this form for their filters."""
    forms: dict[str, list[str]] = {}
    for layer in table.layers:
        if layer.form is not None:
            forms.setdefault(layer.form, []).append(layer.name)
    return [f"{form}: {', '.join(names)}" for form, names in forms.items() if form != "direct"]


def slow_rows(layers: LayerTable) -> list[LayerTiming]:
    """Return the longest rows that together account for half of the time."""
    slow, time = [], 0.0
    for row in sorted(layers.layers, key=lambda row: -row.latency_us):
        if 2 * time >= layers.total_us:
            break
        slow.append(row)
        time += row.latency_us
    return slow


def _total(table: LayerTable, report: Report) -> str:
    kind, _, detail = (report.latency_label or report.latency_kind).partition(", ")
    error = plus_minus(table.latency_error)
    total = f"{kind} {_microseconds(table.total_us)} us{error}{f' ({detail})' if detail else ''}"
    device = [layer.device_us for layer in table.layers if layer.device_us is not None]
    if len(device) == len(table.layers):
        means = ", ".join(sorted({layer.device_by for layer in table.layers if layer.device_by}))
        by = f", by {means}" if means else ""
        total += f", {_microseconds(sum(device))} us ({DEVICE_LABEL.partition(', ')[2]}{by})"
    return total


def _utilization(table: LayerTable) -> str:
    """Format the MFU and HFU over the total time, if known."""
    if table.mfu is None or table.hfu is None:
        return ""
    return f": MFU {_percent(table.mfu)}, HFU {_percent(table.hfu)}"


def _critical(table: LayerTable) -> str:
    """Format the time by resource as `tensor 53.9 us, vector 18.3, ...`."""
    parts = [f"{short(name)} {_microseconds(time)}" for name, time in by_size(table.critical)]
    return f"{parts[0]} us, {', '.join(parts[1:])}" if len(parts) > 1 else f"{parts[0]} us"


def _print_comparison(console: Console, comparison: BackendComparison, wide: bool) -> None:
    """Print the times of the chip and the simulator side by side, one row per launch."""
    rows = comparison.rows
    if not rows:
        return
    errors = [f"{row.error:.2g}{'' if row.passed else ' DIFFERS'}" for row in rows]
    columns = [
        Column("launch", [cell(row.name, "bold") for row in rows], False),
        _times(f"{comparison.measured_label} us", [row.measured_us for row in rows], 2),
        _times("p99 us", [row.measured_us_p99 for row in rows], 5),
        _times(f"{comparison.device_label} us", [row.device_us for row in rows], 0),
        _times("p99 us", [row.device_us_p99 for row in rows], 6),
        _times(f"{comparison.predicted_label} us", [row.predicted_us for row in rows], 0),
        Column("/ device", [cell("-" if row.ratio is None else f"{row.ratio:.2f}") for row in rows], rank=1),
        Column("error", [cell(error, _verdict_style(row)) for error, row in zip(errors, rows)], rank=1),
        Column("operand", [cell(_shape(row.shapes[0])) for row in rows], False, 8),
        Column("kernel", [cell(row.kernel) for row in rows], False, 7),
    ]
    title = f"a launch on the chip and on the simulator: {comparison.target}, {rows[0].dtype}"
    print_rows(console, title, columns, wide)
    console.print()


def _times(heading: str, times: Sequence[float | None], rank: int) -> Column:
    return Column(heading, [cell(_microseconds(time)) for time in times], rank=rank)


def _verdict_style(check: Verification | ComparedLaunch | BackendComparison) -> str:
    return "green" if check.passed else "bold red"


def _percent(part: float | None) -> str:
    return "-" if part is None else percent(part)


def _print_verdict(console: Console, report: Report) -> None:
    """Print the results of the requested checks."""
    verdict, comparison = report.verify, report.comparison
    if verdict is not None:
        near = f", {verdict.near_ties} near-ties not counted" if verdict.near_ties else ""
        print_line(
            console,
            f"verify {'passed' if verdict.passed else 'FAILED'}: largest error {verdict.max_abs_error:.2g} "
            f"(tolerance {verdict.tolerance:.2g}), {verdict.disagreements} disagreements{near}",
            _verdict_style(verdict),
        )
    if report.agreement is not None:
        same, total, error, source = report.agreement
        agreement = f"agrees with float32 on {same} of {total}: {source}, largest difference {error:.2g}"
        print_line(console, agreement)
    if comparison is not None:
        wrong = dict.fromkeys(row.name for row in comparison.rows if not row.passed)
        agreement = (
            f"FAILED: outputs differ in {', '.join(wrong)}" if wrong else "passed: outputs are equal within tolerance"
        )
        print_line(console, f"compare-backends {agreement}", _verdict_style(comparison))


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _microseconds(value: float | None) -> str:
    return "-" if value is None else microseconds(value)
