"""The likely error of a prediction, depending on the resource that bounds the kernel.

The errors are computed, not chosen. Each published row of a target is predicted with its family excluded from all fits.
The error for a bound is a value that the errors of two thirds of every repository's rows with that bound do not exceed.
benchmarks/expected_errors.py computes the errors from benchmarks/data/left-out.csv, and a test checks that they agree
(docs/predictions.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

KINDS = ("launch", "short", "tensor", "issue", "gpsimd", "dma", "latency")
REST = (
    # For kinds with few rows or a single repository, this is the error that two thirds of the families stay below; the
    # worst row of a family counts.
    "rest"
)
NOT_VALIDATED = math.inf  # error of a kind for which no kernel was measured on the target
ERRORS: dict[str, dict[str, float]] = {
    "trn1": {"launch": 0.3, "short": 0.3, "dma": 0.76, REST: 0.3},
    "trn2": {"launch": 0.49, "short": 0.24, "tensor": 0.09, "issue": 0.21, "gpsimd": 0.2, "dma": 0.2, REST: 0.2},
    "trn3": {"short": 0.3, REST: 0.3},
}
DIFFERENCES = {"trn2": 0.14}
"""The expected error of the ratio between the times of two kernels of one family: two thirds of the ratios are within
it, even if any one family is excluded. Targets with few measured families are omitted."""
SHORT_US = 100.0  # shorter kernels (excluding the launch) are dominated by instructions that the compiler adds


def kind_of(bound_by: str, issue_bound: bool, launch_us: float, latency_us: float) -> str:
    """Return the bound of a kernel, one of KINDS.

    Kernels that are neither "launch" nor "short" are bound by the Tensor Engine ("tensor"), by DMA triggers and
    hardware descriptors ("issue"), by GpSimd descriptors ("gpsimd"), by the bytes and elements of DMAs ("dma"), or by
    dependencies ("latency").
    """
    work = latency_us - launch_us
    if launch_us > work:
        return "launch"
    if work < SHORT_US:
        return "short"
    if bound_by == "dma":
        return "issue" if issue_bound else "dma"
    return bound_by if bound_by in ("tensor", "gpsimd") else "latency"


KIND_OF_RESOURCE = {"launch": "launch", "tensor": "tensor", "gpsimd": "gpsimd", "dma_issue": "issue"}
KIND_OF_RESOURCE |= {"dma_bandwidth": "dma"}  # all other resources are of the kind "latency"
COUNTS = 1 / 6  # a kind is included in the error of a kernel if it has at least this share of the critical path


def expected_error(target: str, kind: str) -> float | None:
    """Return the relative error that two out of three measurements do not exceed.

    The result is NOT_VALIDATED if no kernel of this kind was measured on the target, and None if no kernel of any kind
    was.
    """
    errors = ERRORS.get(target)
    return None if errors is None else errors.get(kind, NOT_VALIDATED)


def weakest_error(target: str, kind: str, by_resource: Mapping[str, float]) -> float | None:
    """Return the expected error of a kernel.

    The result is the largest error of the kernel's kind and the kinds that dominate its critical path (`by_resource`).
    For kinds on the critical path that have no measurements, the error of REST is used.
    """
    error = expected_error(target, kind)
    if error is None or error == NOT_VALIDATED:
        return error
    errors, total = ERRORS[target], sum(by_resource.values())
    kinds = [KIND_OF_RESOURCE.get(name, "latency") for name, time in by_resource.items() if time >= COUNTS * total]
    return max([error, *[errors.get(other_kind, errors[REST]) for other_kind in kinds]])
