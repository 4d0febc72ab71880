"""`trninfer bench --compare-archive`: compare a self-test archive with current predictions."""

from __future__ import annotations

from ..errors import UsageError
from ..options import RunOptions
from .subject import BenchSubject


def bench_archive(subject: BenchSubject, options: RunOptions, is_alone: bool) -> None:
    """Print predictions, AWS's estimates and measured times in separate columns, by kernel and by engine.

    `is_alone` is True if no other option specifies something to time. Raises UsageError if it is False, or if the file
    is not an archive.
    """
    from ...runtime.selftest.archive import ArchiveError, compare_archive
    from ..output import stream_of, write_output
    from ..reports.compared import render_compared, rows_of
    from ..reports.emit import emit_rows

    path = subject.compare_archive
    assert path is not None
    if not is_alone or subject != BenchSubject(compare_archive=path):
        raise UsageError("--compare-archive cannot be combined with other options except --format")
    try:
        compared = compare_archive(path)
    except ArchiveError as error:
        raise UsageError(f"--compare-archive {error}") from None
    if options.form == "markdown":
        raise UsageError("--format markdown is not available with --compare-archive, which prints no tables of layers")
    if options.form != "table":
        emit_rows(rows_of(compared), "compare_archive", options.form, options.output)
        return
    title = f"{path}, compared with current predictions"
    write_output(render_compared(title, compared, stream_of(options.output)), options.output)
