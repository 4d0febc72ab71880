"""Time one kernel for a given shape."""

from __future__ import annotations

from collections.abc import Mapping

from ...runtime.backend import EIGHT_BITS, Backend
from ...runtime.measure.float8_cases import float8_case
from ...runtime.measure.kernel_bench import run_kernel, time_kernel
from ...runtime.measure.kernel_cases import kernel_case
from ..reports.report import LayerTable, Report


def bench_kernel(
    report: Report, name: str, sizes: Mapping[str, str], backend: Backend, verify: bool
) -> list[tuple[str, object]]:
    """Add the row of a kernel to the report and return its timeline. With `verify`, compare its result with the NumPy
    result."""
    case = (float8_case if report.dtype == EIGHT_BITS else kernel_case)(name, dict(sizes))
    timed = (run_kernel if verify else time_kernel)(name, case, backend, report.dtype)
    title = f"{name} {' '.join(f'{key}={size}' for key, size in sizes.items())}"
    report.tables.append(LayerTable(title, "", (timed.row,)))
    report.verify = timed.verification
    return [(name, timed.timeline)] if timed.timeline is not None else []
