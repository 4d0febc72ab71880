"""Time a single kernel at a shape, and optionally compare its result with NumPy's."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..backend import NETWORK_DTYPES, ArraySpec, Backend, LaunchResult
from ..timing import LayerTiming, Row, Totals
from ..tolerances import kernel_tolerance
from ..verify import Verification
from .kernel_cases import MAX_VALUES, KernelCase, ShapeError


class KernelBench(NamedTuple):
    """A kernel's row, its timeline if the backend keeps timelines, and the comparison with NumPy if requested."""

    row: LayerTiming
    timeline: object | None
    verification: Verification | None


def time_kernel(name: str, case: KernelCase, backend: Backend, dtype: str) -> KernelBench:
    """Time a kernel from its shapes alone."""
    data = NETWORK_DTYPES[dtype]
    specs = [ArraySpec(shape, case.dtype_of(position, data)) for position, shape in enumerate(case.shapes)]
    return _timed(name, case, backend.time(_kernel(case), *specs, **case.parameters), None)


def run_kernel(name: str, case: KernelCase, backend: Backend, dtype: str) -> KernelBench:
    """Time a kernel on random operands and compare its result with NumPy's.

    Raises ShapeError if the values would exceed the memory limit.
    """
    if case.values > MAX_VALUES:
        raise ShapeError(
            f"{name}: too large to be checked: its arrays have {case.values:,} numbers; the limit is {MAX_VALUES:,}"
        )
    arrays = case.arrays(NETWORK_DTYPES[dtype])
    launch = backend.launch(_kernel(case), *arrays, **case.parameters)
    expected = case.expected(arrays)
    output = case.found(launch.outputs[0])
    if expected.dtype.kind == "i":
        wrong = int((output != expected).sum())
        return _timed(name, case, launch, Verification(wrong == 0, 0.0, wrong, 0, 0.0))
    error = float(np.abs(output.astype(np.float32) - expected).max())
    measured = backend.info.latency_kind == "measured"
    tolerance = kernel_tolerance(dtype, measured) * float(np.abs(expected).max())
    return _timed(name, case, launch, Verification(error <= tolerance, error, 0, 0, tolerance))


def _kernel(case: KernelCase) -> Any:
    from ... import kernels  # only after the backend is chosen

    return kernels.kernel(case.kernel)


def _timed(name: str, case: KernelCase, launch: LaunchResult, verification: Verification | None) -> KernelBench:
    totals = Totals([Row(name, case.kernel, case.shapes[0], case.output_shape)])
    totals.add(1, [launch.time])
    return KernelBench(totals.layers()[0], launch.timeline, verification)
