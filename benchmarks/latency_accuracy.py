"""Compute the errors of predicted latencies relative to published measurements.

    python benchmarks/latency_accuracy.py [--markdown]            prints the saved predictions of kernels
    python benchmarks/latency_accuracy.py --sources DIR --save    predicts every kernel and saves data/left-out.csv

DIR holds checkouts of the repositories, `DIR/OWNER/REPOSITORY`, at the commits listed in
`runtime/measure/published.csv`. Every row of `data/latency-kernels*.csv` is predicted from the published source of its
kernel; rows that cannot be compared are listed with the reason, and are not counted. Every row of
`data/latency-instructions.csv` is predicted from a kernel that runs the instruction back to back. The output contains
the error of each row, also with its family left out (one author's variants of one kernel on one chip). It summarizes
errors by file, by device, by kernel, and by whether a constant of the model depends on the row. It also compares the
order of the versions of a kernel and the ratios between them. Rows with large errors are included.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from statistics import median

from trninfer.benchmarks.error_statistics import ErrorSummary, summarize
from trninfer.benchmarks.expected_errors import Record, coverage_line, load, records_of, save
from trninfer.benchmarks.instruction_rows import InstructionPrediction, predict_instructions
from trninfer.benchmarks.leave_out import leave_out
from trninfer.benchmarks.measured_rows import MeasuredRow, compare_measured
from trninfer.benchmarks.measurements import (
    Measurement,
    family,
    is_others,
    kernel_name,
    load_all_kernel_rows,
    load_instruction_rows,
)
from trninfer.benchmarks.predictions import SOURCES_VARIABLE, PredictedRow, fitted_to, predict_all
from trninfer.benchmarks.version_pairs import changes_table, families_table
from trninfer.runtime.measure.published import find_row
from trninfer.simulator.timing.constants import TARGETS, constants
from trninfer.simulator.timing.expected_error import expected_error

Table = tuple[Sequence[str], list[Sequence[str]]]  # header and rows

# Known reasons for the error of a kernel row.
REMARKS = {
    "k21": "published runs disagree: benchmarks take as long as FREE_DIM=2000 (k20), profiles 5 us less (k25, k26)",
    "k28": "half of the time is unexplained in the profile: the Tensor Engine waits for 9.3 of 16.6 us",
    "k29": "as k28",
    "o17": "two cores shared the HBM and its DMA engines",
}
FILES = {"k": "latency-kernels.csv", "o": "latency-kernels-others.csv", "p": "latency-kernels-attention.csv"}
_ROW_HEADER = ("row", "what ran", "variant", "shapes", "dtype", "device", "metric", "measured us", "predicted us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--sources", metavar="DIR", help="predict the kernels again, from checkouts in this folder")
    parser.add_argument("--save", action="store_true", help="save the predictions of kernels to data/left-out.csv")
    options = parser.parse_args()
    markdown = options.markdown

    records = load() if options.sources is None else predicted_records(options.sources)
    if options.save:
        save(records)
    measured_rows = {row.id: row for row in load_all_kernel_rows()}
    rows = [predicted_row(measured_rows[record.id], record) for record in records]
    without = [record.error for record in records]
    instructions = predict_instructions(load_instruction_rows())
    measured = compare_measured()

    show = _markdown if markdown else _plain
    for title, table in (
        ("Kernels", kernel_table(rows, without)),
        ("Kernels, summary", summary_table(rows, without)),
        ("Versions of one kernel", families_table(rows)),
        ("Changes from version to version", changes_table(rows)),
        ("Constants that depend on kernel rows", constant_table()),
        ("Instructions", instruction_table(instructions)),
        ("Instructions of 57 profiles", measured_table(measured)),
    ):
        print(f"### {title}\n" if markdown else title)
        print(show(*table))
        print()
    compared = [(p.predicted_us, p.row.latency_us) for p in instructions if p.predicted_us is not None]
    statistics = summarize(*zip(*compared))
    print(f"instructions compared: {statistics.rows} of {len(instructions)}, largest error {statistics.largest:.1f} %")
    print(f"instructions, mean absolute percentage error: {statistics.mean:.2f} %")
    errors = [abs(row.error) for row in measured if row.predicted_ns is not None]
    print(f"measured instructions compared: {len(errors)} of {len(measured)}, median error: {median(errors):.1f} %")
    others = [p for p in rows if is_others(p.row)]
    ours = [p for p in rows if not is_others(p.row)]
    print(f"kernels, leave-one-family-out mean absolute percentage error: {_mean_magnitude(without):.2f} %")
    print(coverage_line(records))
    print(f"kernels by others, after tuning to them, mean absolute percentage error: {_summary(others).mean:.2f} %")
    print(f"mean absolute percentage error: {_summary(ours).mean:.2f} %")


def predicted_records(sources: str) -> list[Record]:
    """Predict every comparable row from checkouts of the published sources, with constants fitted with and without its
    family."""
    os.environ[SOURCES_VARIABLE] = sources
    predictions = predict_all([row for row in load_all_kernel_rows() if find_row(row.id).is_comparable])
    return records_of(predictions, leave_out(predictions, lambda p: family(p.row)))


def predicted_row(row: Measurement, record: Record) -> PredictedRow:
    """Return the prediction that a record stores."""
    return PredictedRow(row, record.predicted_us, fitted_to(row), expected_error(row.device, record.kind), record.kind)


def kernel_table(predictions: Sequence[PredictedRow], families: Sequence[float]) -> Table:
    """Return a line for each kernel row: first the rows that were compared, then the rows that were not, with the
    reason."""
    header = (
        *_ROW_HEADER,
        "error %",
        "expected %",
        "family left out %",
        "constants that depend on it",
        "remark",
    )
    lines: list[Sequence[str]] = []
    for prediction, without in zip(predictions, families):
        row = prediction.row
        lines.append(
            (
                *_described(row),
                _number(prediction.predicted_us),
                f"{prediction.error:+.1f}",
                "" if prediction.expected_error is None else f"{100 * prediction.expected_error:.0f}",
                f"{without:+.1f}",
                ", ".join(prediction.fitted),
                REMARKS.get(row.id, ""),
            )
        )
    for row in load_all_kernel_rows():
        published = find_row(row.id)
        if not published.is_comparable:
            lines.append((*_described(row), *[""] * 5, f"not counted; {published.note}"))
    return header, lines


def summary_table(predictions: Sequence[PredictedRow], families: Sequence[float]) -> Table:
    """Return the errors over all rows, for each file, device and kernel, and separately for rows on which a constant
    depends and for all others."""
    splits: list[Callable[[PredictedRow], str]] = [
        lambda p: "all",
        lambda p: FILES[p.row.id[0]],
        lambda p: p.row.device,
        lambda p: kernel_name(p.row),
        lambda p: "a constant depends on the row" if p.fitted else "no constant depends on the row",
    ]
    lines: list[Sequence[str]] = []
    for label in splits:
        groups: dict[str, list[int]] = {}
        for i, prediction in enumerate(predictions):
            groups.setdefault(label(prediction), []).append(i)
        for name, members in groups.items():
            statistics = _summary([predictions[i] for i in members])
            without = _mean_magnitude([families[i] for i in members])
            order = "" if statistics.rows == 1 else f"{statistics.rank_correlation:.3f}"
            figures = (f"{statistics.mean:.1f}", f"{statistics.largest:.1f}", order)
            lines.append((name, str(statistics.rows), *figures, f"{without:.1f}"))
    errors = ("mean absolute error %", "largest %", "Spearman's rank correlation")
    return ("rows", "number", *errors, "family left out, mean %"), lines


def constant_table() -> Table:
    """Return the constants of the model that depend on kernel rows (whether or not they are marked as fitted), and
    these rows."""
    rows = {row.id: row for row in load_all_kernel_rows()}
    lines: list[Sequence[str]] = []
    for target in TARGETS:
        for name, constant in constants(target).items():
            rows_of_target = [
                i for i in constant.rows if constant.mark != "scaled" and i in rows and rows[i].device == target
            ]
            if rows_of_target:
                value = f"{constant.value:g} {constant.unit}".strip()
                lines.append((target, name, value, constant.mark, ", ".join(rows_of_target), constant.source))
    return ("device", "constant", "value", "mark", "depends on", "source"), lines


def instruction_table(predictions: Iterable[InstructionPrediction]) -> Table:
    """Return a line for each instruction row, with a remark if it cannot be compared or must differ."""
    lines: list[Sequence[str]] = []
    for p in predictions:
        predicted, error = ("", "") if p.predicted_us is None else (_number(p.predicted_us), f"{p.error:+.1f}")
        lines.append((*_described(p.row), predicted, error, p.remark))
    return (*_ROW_HEADER, "error %", "remark"), lines


def measured_table(rows: Iterable[MeasuredRow]) -> Table:
    """Return a line for each quantity in data/measured/instruction-timings.csv."""
    lines: list[Sequence[str]] = []
    for row in rows:
        figures = ("", "", "")
        if row.predicted_ns is not None:
            figures = (f"{row.measured_ns:.1f}", f"{row.predicted_ns:.1f}", f"{row.error:+.1f}")
        lines.append((row.name, row.what, *figures, row.remark))
    return ("instruction", "what", "measured ns", "predicted ns", "error %", "remark"), lines


def _summary(predictions: Sequence[PredictedRow]) -> ErrorSummary:
    return summarize([p.predicted_us for p in predictions], [p.row.latency_us for p in predictions])


def _mean_magnitude(errors: Sequence[float]) -> float:
    return sum(abs(error) for error in errors) / len(errors)


def _described(row: Measurement) -> tuple[str, ...]:
    """Return the columns of a measured row up to its latency."""
    kernel = row.kernel.removeprefix("micro: ")
    return row.id, kernel, row.variant, row.shapes, row.dtype, row.device, row.metric, _number(row.latency_us)


def _number(microseconds: float) -> str:
    """Format four significant digits without an exponent."""
    return f"{microseconds:.0f}" if microseconds >= 1000 else f"{microseconds:.4g}"


def _plain(header: Sequence[str], lines: list[Sequence[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(header, *lines)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in (header, *lines)
    )


def _markdown(header: Sequence[str], lines: list[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


if __name__ == "__main__":
    main()
