"""Likely error of a prediction, by what bounds the kernel.

The shares are computed, not chosen: of the published rows of a target that are bound alike, two thirds are predicted
within them while their own family is left out of all fits (benchmarks/expected_errors.py computes them from
benchmarks/data/left-out.csv, a test compares; docs/predictions.md).
"""

from __future__ import annotations

KINDS = ("launch", "short", "tensor", "issue", "gpsimd", "dma", "latency")
REST = "rest"  # kinds of which none was measured: two thirds of the measured families lie within, with all their rows
ERRORS: dict[str, dict[str, float]] = {
    "trn1": {"launch": 0.3, "short": 0.3, "dma": 0.75, REST: 0.3},
    "trn2": {"launch": 0.22, "short": 0.22, "tensor": 0.04, "issue": 0.22, "gpsimd": 0.22, "dma": 0.22, REST: 0.22},
    "trn3": {"short": 0.3, REST: 0.3},
}
DIFFERENCES = {"trn2": 0.13}
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


def expected_error(target: str, kind: str) -> float | None:
    """The share of a prediction within which two measurements of three lie; None for a target without measurements."""
    errors = ERRORS.get(target)
    return None if errors is None else errors.get(kind, errors[REST])
