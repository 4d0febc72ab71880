"""Compute the errors of predicted latencies relative to published measurements.

    python benchmarks/latency_accuracy.py [--markdown] [--save]

The simulator predicts every row of `data/latency-kernels*.csv` from a kernel of the same structure, and every row of
`data/latency-instructions.csv` from a kernel that runs the instruction back to back. The output contains the error of
each row; summaries for each file, device and kernel, and for rows on which a constant of the model depends; errors with
the row or its family (one author's variants of one kernel on one chip) excluded from the fits; and the order of the
versions of a kernel and the ratios between them. Rows with large errors are included.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from statistics import median

from trninfer.benchmarks.error_statistics import ErrorSummary, summarize
from trninfer.benchmarks.expected_errors import coverage_line, records_of, save
from trninfer.benchmarks.instruction_rows import InstructionPrediction, predict_instructions
from trninfer.benchmarks.leave_out import Study, leave_one_out, leave_out
from trninfer.benchmarks.measured_rows import MeasuredRow, compare_measured
from trninfer.benchmarks.measurements import (
    Measurement,
    family,
    is_others,
    kernel_name,
    load_all_kernel_rows,
    load_instruction_rows,
)
from trninfer.benchmarks.predictions import PredictedRow, predict_all
from trninfer.benchmarks.version_pairs import changes_table, families_table
from trninfer.simulator.timing.constants import TARGETS, constants

Table = tuple[Sequence[str], list[Sequence[str]]]  # header and rows

# Known reasons for the error of a kernel row: its measurement disagrees with others, or our kernel differs from the
# measured one.
REMARKS = {
    "k21": "published runs disagree: benchmarks take as long as FREE_DIM=2000 (k20), profiles 5 us less (k25, k26)",
    "k24": "loads and stores share the engines; in the profile both took 10 % longer than alone",
    "k28": "half of the time is unexplained in the profile: the Tensor Engine waits for 9.3 of 16.6 us",
    "k29": "as k28",
    "o17": "two cores shared the HBM and its DMA engines",
    "k36": "its operands need 320 KiB per partition, which has 224: our blocks are smaller and read HBM less often",
    "k37": "its blocks do not fit in SBUF; it moved 1.82 GB instead of 1.48, so it spilled; our blocks have half of K",
}
FILES = {"k": "latency-kernels.csv", "o": "latency-kernels-others.csv", "p": "latency-kernels-attention.csv"}
# Rows whose published kernel cannot be predicted with the options that users have. They are excluded from means.
NOT_COUNTED = {
    "k01": "not counted: NKI's first beta kept the loop, so this row has its own kernel with hardware descriptors; the "
    "published source unrolls the loop and is predicted to take 7,155 us (benchmarks/published_rows.py)",
}
_ROW_HEADER = ("row", "what ran", "variant", "shapes", "dtype", "device", "metric", "measured us", "predicted us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument(
        "--save", action="store_true", help="save the errors with families left out to data/left-out.csv"
    )
    given = parser.parse_args()
    markdown = given.markdown

    predictions = predict_all(load_all_kernel_rows())
    studies: dict[str, Study] = {}
    left_out = leave_one_out(predictions, studies)
    families = leave_out(predictions, lambda prediction: family(prediction.row), studies)
    records = records_of(predictions, families)
    if given.save:
        save(records)
    instructions = predict_instructions(load_instruction_rows())
    measured = compare_measured()

    counted = [i for i, prediction in enumerate(predictions) if prediction.row.id not in NOT_COUNTED]
    rows, alone, without = ([each[i] for i in counted] for each in (predictions, left_out, families))
    show = _markdown if markdown else _plain
    for title, table in (
        ("Kernels", kernel_table(predictions, left_out, families)),
        ("Kernels, summary", summary_table(rows, alone, without)),
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
    found = summarize(*zip(*compared))
    print(f"instructions compared: {found.rows} of {len(instructions)}, largest error {found.largest:.1f} %")
    print(f"instructions, mean absolute percentage error: {found.mean:.2f} %")
    errors = [abs(row.error) for row in measured if row.predicted_ns is not None]
    print(f"measured instructions compared: {len(errors)} of {len(measured)}, median error: {median(errors):.1f} %")
    others = [p for p in rows if is_others(p.row)]
    ours = [p for p in rows if not is_others(p.row)]
    print(f"kernels, leave-one-out mean absolute percentage error: {_mean_magnitude(alone):.2f} %")
    print(f"kernels, leave-one-family-out mean absolute percentage error: {_mean_magnitude(without):.2f} %")
    print(coverage_line(records))
    print(f"kernels by others, after tuning to them, mean absolute percentage error: {_summary(others).mean:.2f} %")
    print(f"mean absolute percentage error: {_summary(ours).mean:.2f} %")


def kernel_table(predictions: Sequence[PredictedRow], left_out: Sequence[float], families: Sequence[float]) -> Table:
    """Return a line for each kernel row."""
    header = (
        *_ROW_HEADER,
        "error %",
        "expected %",
        "left out %",
        "family left out %",
        "constants that depend on it",
        "remark",
    )
    lines: list[Sequence[str]] = []
    for prediction, alone, without in zip(predictions, left_out, families):
        row = prediction.row
        lines.append(
            (
                *_described(row),
                _number(prediction.predicted_us),
                f"{prediction.error:+.1f}",
                "" if prediction.expected_error is None else f"{100 * prediction.expected_error:.0f}",
                f"{alone:+.1f}",
                f"{without:+.1f}",
                ", ".join(prediction.fitted),
                NOT_COUNTED.get(row.id) or REMARKS.get(row.id, ""),
            )
        )
    return header, lines


def summary_table(predictions: Sequence[PredictedRow], left_out: Sequence[float], families: Sequence[float]) -> Table:
    """Return the errors over all rows, for each file, device and kernel, and for rows with and without a constant that
    depends on them."""
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
            found = _summary([predictions[i] for i in members])
            alone = _mean_magnitude([left_out[i] for i in members])
            without = _mean_magnitude([families[i] for i in members])
            figures = (f"{found.mean:.1f}", f"{found.largest:.1f}", f"{found.rank_correlation:.3f}")
            lines.append((name, str(found.rows), *figures, f"{alone:.1f}", f"{without:.1f}"))
    errors = ("mean absolute error %", "largest %", "Spearman's rank correlation")
    return ("rows", "number", *errors, "left out, mean %", "family left out, mean %"), lines


def constant_table() -> Table:
    """Return the constants of the model that depend on kernel rows, regardless of their mark, and these rows."""
    rows = {row.id: row for row in load_all_kernel_rows()}
    lines: list[Sequence[str]] = []
    for target in TARGETS:
        for name, constant in constants(target).items():
            own = [i for i in constant.rows if constant.mark != "scaled" and i in rows and rows[i].device == target]
            if own:
                value = f"{constant.value:g} {constant.unit}".strip()
                lines.append((target, name, value, constant.mark, ", ".join(own), constant.source))
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
