"""Predict published kernels from their own source, and compare the predictions with the published times.

    python benchmarks/published_rows.py                       prints the saved table
    python benchmarks/published_rows.py --sources DIR --save  predicts every row and saves the table

DIR contains checkouts of the repositories, `DIR/OWNER/REPOSITORY`, at the commits listed in
`runtime/measure/published.csv`. The kernels are migrated as by `trninfer migrate`, and only the constants that their
authors changed are edited. If a published time was measured with a program other than the source, the last column
explains why.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from statistics import mean

from trninfer.benchmarks.error_statistics import percentage_error
from trninfer.benchmarks.measurements import DATA
from trninfer.runtime.measure.published import PublishedKernel, predict_published, published_kernels

SAVED = DATA / "published-kernels.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, metavar="DIR", help="predict again, from checkouts in this folder")
    parser.add_argument("--save", action="store_true", help="save the predictions to data/published-kernels.csv")
    options = parser.parse_args()
    if options.sources is None:
        predicted = saved()
    else:
        kernels = [kernel for kernel in published_kernels() if kernel.is_predicted]
        predicted = {key_of(kernel): predict_published(kernel, options.sources) for kernel in kernels}
        if options.save:
            save(predicted)
    print("\n".join(table(predicted)))


def key_of(published: PublishedKernel) -> str:
    """Return the name under which a row is saved: its id, or the case of a suite."""
    return published.row or f"{published.suite}: {published.case}"


def saved() -> dict[str, float]:
    """Return the saved predictions in microseconds."""
    with SAVED.open(newline="", encoding="utf-8") as file:
        return {record["row"]: float(record["predicted_us"]) for record in csv.DictReader(file)}


def save(predicted: dict[str, float]) -> None:
    lines = ["row,predicted_us", *(f"{row},{microseconds:.3f}" for row, microseconds in predicted.items())]
    SAVED.write_text("\n".join(lines) + "\n", encoding="utf-8")


def table(predicted: dict[str, float]) -> list[str]:
    """Return the lines of a Markdown table, and the mean error over the rows that can be compared."""
    lines = ["| row | published kernel | published us | predicted us | error % | |", "|---|---|---|---|---|---|"]
    errors = []
    for kernel in published_kernels():
        microseconds = predicted.get(key_of(kernel))
        shown, error = "", "not counted"
        if microseconds is not None:
            shown = f"{microseconds:,.1f}"
        if microseconds is not None and kernel.is_comparable:
            errors.append(abs(percentage_error(microseconds, kernel.published_us)))
            error = f"{percentage_error(microseconds, kernel.published_us):+.1f}"
        options = ("" if kernel.dge else ", --disable-dge") + ("" if kernel.cores == 1 else f", {kernel.cores} cores")
        constants = "".join(f", {name} = {value}" for name, value in kernel.constants.items())
        description = f"{kernel.repository} {kernel.file}: {kernel.kernel}{constants}{options}"
        row = kernel.row or "-"
        lines.append(f"| {row} | {description} | {kernel.published_us:g} | {shown} | {error} | {kernel.note} |")
    return [*lines, "", f"Mean absolute error over {len(errors)} published kernels: {mean(errors):.1f} %."]


if __name__ == "__main__":
    main()
