"""Likely error of a prediction, by what bounds the kernel.

The shares are computed, not chosen: of the published rows of a target that are bound alike, two thirds of those of each
repository are predicted within them while their own family is left out of all fits (benchmarks/expected_errors.py
computes them from benchmarks/data/left-out.csv, a test compares; docs/predictions.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

KINDS = ("launch", "short", "tensor", "issue", "gpsimd", "dma", "latency")
REST = "rest"  # of few rows or one repository: two thirds of the measured families lie within, with all their rows
NOT_VALIDATED = math.inf  # the error of a kind of which nobody has measured a kernel on that target
ERRORS: dict[str, dict[str, float]] = {
    "trn1": {"launch": 0.3, "short": 0.3, "dma": 0.76, REST: 0.3},
    "trn2": {"launch": 0.49, "short": 0.32, "tensor": 0.09, "issue": 0.21, "gpsimd": 0.21, "dma": 0.21, REST: 0.21},
    "trn3": {"short": 0.3, REST: 0.3},
}
DIFFERENCES = {"trn2": 0.11}
"""How far the ratio of the times of two kernels of one family is likely to be off: two ratios of three lie within, also
where any one family is not counted. Targets with a few measured families only are left out."""
SHORT_US = 100.0  # kernels that take less beside their launch: what a compiler adds shows


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
    """The share of a prediction within which two measurements of three lie; NOT_VALIDATED for a kind that nobody has
    measured, None for a target without measurements."""
    errors = ERRORS.get(target)
    return None if errors is None else errors.get(kind, NOT_VALIDATED)


def weakest_error(target: str, kind: str, by_resource: Mapping[str, float]) -> float | None:
    """Return the error of a kernel of a kind whose critical path spends these times, by resource: that of the weakest
    kind of time that counts. A kind that is not measured alone counts as the rest."""
    own = expected_error(target, kind)
    if own is None or own == NOT_VALIDATED:
        return own
    errors, total = ERRORS[target], sum(by_resource.values())
    kinds = [KIND_OF_RESOURCE.get(name, "latency") for name, time in by_resource.items() if time >= COUNTS * total]
    return max([own, *[errors.get(found, errors[REST]) for found in kinds]])
