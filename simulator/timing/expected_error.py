"""Likely error of a prediction, by what bounds the kernel.

The shares are computed, not chosen. Take the published rows of a target with the same bound, each predicted with its
own family left out of all fits: two thirds of every repository's rows lie within the share.
benchmarks/expected_errors.py computes the shares from benchmarks/data/left-out.csv, and a test compares them
(docs/predictions.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

KINDS = ("launch", "short", "tensor", "issue", "gpsimd", "dma", "latency")
REST = (
    "rest"  # for kinds with few rows or one repository: two thirds of the families lie within, each with its worst row
)
NOT_VALIDATED = math.inf  # the error of a kind without a measured kernel on that target
ERRORS: dict[str, dict[str, float]] = {
    "trn1": {"launch": 0.3, "short": 0.3, "dma": 0.76, REST: 0.3},
    "trn2": {"launch": 0.49, "short": 0.32, "tensor": 0.09, "issue": 0.21, "gpsimd": 0.21, "dma": 0.21, REST: 0.21},
    "trn3": {"short": 0.3, REST: 0.3},
}
DIFFERENCES = {"trn2": 0.11}
"""How far the ratio of the times of two kernels of one family is likely to be off: two ratios of three lie within, also
where any one family is not counted. Targets with a few measured families only are left out."""
SHORT_US = 100.0  # shorter kernels, launch excluded, show what the compiler adds


def kind_of(bound_by: str, issue_bound: bool, launch_us: float, latency_us: float) -> str:
    """Return what bounds a kernel, one of KINDS: "launch" or "short", else the Tensor Engine, triggers and descriptors
    by hardware ("issue") or by GpSimd, DMA bytes and elements, or latency (one thing waiting for another)."""
    work = latency_us - launch_us
    if launch_us > work:
        return "launch"
    if work < SHORT_US:
        return "short"
    if bound_by == "dma":
        return "issue" if issue_bound else "dma"
    return bound_by if bound_by in ("tensor", "gpsimd") else "latency"


KIND_OF_RESOURCE = {"launch": "launch", "tensor": "tensor", "gpsimd": "gpsimd", "dma_issue": "issue"}
KIND_OF_RESOURCE |= {"dma_bandwidth": "dma"}  # the others: latency
COUNTS = 1 / 6  # share of the critical path from which on a kind of time widens the error of a kernel


def expected_error(target: str, kind: str) -> float | None:
    """Return the share of a prediction within which two of three measurements lie: NOT_VALIDATED for a kind without a
    measured kernel, None for a target without measurements."""
    errors = ERRORS.get(target)
    return None if errors is None else errors.get(kind, NOT_VALIDATED)


def weakest_error(target: str, kind: str, by_resource: Mapping[str, float]) -> float | None:
    """Return the expected error of a kernel: the largest among its own kind and the kinds of time that take much of its
    critical path (`by_resource`). Kinds that were not measured alone count as REST."""
    own = expected_error(target, kind)
    if own is None or own == NOT_VALIDATED:
        return own
    errors, total = ERRORS[target], sum(by_resource.values())
    kinds = [KIND_OF_RESOURCE.get(name, "latency") for name, time in by_resource.items() if time >= COUNTS * total]
    return max([own, *[errors.get(found, errors[REST]) for found in kinds]])
