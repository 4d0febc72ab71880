"""The columns of a suite, and the lines below its table: the mean error over published kernels, and notes on cases."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING

from .columns import ReportColumn, number_column

if TYPE_CHECKING:
    from ...runtime.measure.suites import SuiteRow


def suite_columns() -> list[ReportColumn[SuiteRow]]:
    """Return the columns of predicted and published times."""
    return [
        ReportColumn("case", lambda row: row.name, "name"),
        number_column("predicted us", lambda row: row.predicted_us),
        number_column("published us", lambda row: row.published_us),
        number_column("ratio", lambda row: row.ratio, "{:.2f}".format),
        ReportColumn("kernel", lambda row: row.kernel),
        ReportColumn("published kind", lambda row: row.published_kind),
        ReportColumn("metric", lambda row: row.metric),
    ]


def suite_lines(rows: Sequence[SuiteRow]) -> list[str]:
    """Return lines with the mean error over the published kernels that were predicted, and with the notes on cases."""
    from ...runtime.measure.suites import OURS, THEIRS

    errors = [abs(row.ratio - 1) for row in rows if row.kernel == THEIRS and row.ratio is not None]
    lines = []
    if errors:
        count = "1 published kernel" if len(errors) == 1 else f"{len(errors)} published kernels"
        lines.append(f"mean absolute error over {count}: {100 * mean(errors):.1f} %")
    lines += [f"{row.name}: {row.note}" for row in rows if row.note]
    unread = sorted(
        {row.source.rpartition(" with ")[0] or row.source for row in rows if row.kernel == OURS and row.source}
    )
    lines += [f"--sources DIR predicts the published kernel itself: {source}" for source in unread]
    return lines
