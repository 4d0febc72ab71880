"""`trninfer bench --compare-archive`: an archive of the self-test beside today's predictions."""

from __future__ import annotations

import dataclasses

from ..errors import UsageError
from ..options import RunOptions
from .subject import BenchSubject


def bench_archive(subject: BenchSubject, options: RunOptions, is_alone: bool) -> None:
    """Print predictions, AWS's estimates and measured times, in columns of their own, by kernel and by engine.

    `is_alone`: no other option says what to time. UsageError where there is one, and for a file that is no archive.
    """
    from ...runtime.selftest.archive import ArchiveError, compare_archive
    from ..output import stream_of, write_output
    from ..reports.console import render_records
    from ..reports.emit import emit_rows

    path = subject.compare_archive
    assert path is not None
    if not is_alone or subject != BenchSubject(compare_archive=path):
        raise UsageError("--compare-archive compares the kernels of the archive: give it alone, with --format")
    try:
        compared = compare_archive(path)
    except ArchiveError as error:
        raise UsageError(f"--compare-archive {error}") from None
    if options.form != "table":
        rows = [{**dataclasses.asdict(each), "explanation": each.explanation} for each in compared]
        emit_rows(rows, "compare_archive", options.form, options.output)
        return
    columns = ("kernel", "predicted us", "AWS's estimate us", "measured, device us", "bound by")
    records = [
        (
            f"{each.kernel} {each.variant} {each.size} {each.dtype} {each.target}".replace("  ", " "),
            f"{each.predicted_us:.1f}",
            *("-" if us is None else f"{us:.1f}" for us in (each.aws_estimate_us, each.measured_device_us)),
            each.bound_by,
        )
        for each in compared
    ]
    text = render_records(f"{path} beside today's predictions", columns, records, stream_of(options.output))
    lines = [f"{each.kernel} {each.variant} {each.size}: {each.explanation}".replace("  ", " ") for each in compared]
    write_output(text + "".join(f"{line}\n" for line in lines), options.output)
