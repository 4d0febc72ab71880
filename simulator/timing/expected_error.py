"""How far a prediction is likely to be off, by what bounds it.

Two thirds of the published rows that nothing was fitted to, or that were left out with their family, lie within these
shares of the measurement (benchmarks/latency_accuracy.py prints them by what bounds each; docs/predictions.md).
"""

from __future__ import annotations

# What bounds a kernel: a share of its time. Rows are those of benchmarks/data/, at their families' errors left out.
ERRORS = {
    "tensor": 0.06,  # the array is busy: convolutions and matrix products of 0.8 ms and more
    "issue": 0.06,  # triggers and descriptors by hardware
    "gpsimd": 0.10,  # descriptors by software
    "dma": 0.12,  # bytes and elements
    "latency": 0.12,  # one thing waits for another
}
LAUNCH_ERROR = 0.05  # where most of the time is the launch itself
SHORT_ERROR = 0.20  # of kernels under SHORT_US beside their launch that no DMA bounds: what a compiler adds shows
SHORT_US = 100.0


def expected_error(target: str, bound_by: str, issue_bound: bool, launch_us: float, latency_us: float) -> float | None:
    """The share of a prediction within which two measurements of three lie; None for a target that nobody measured."""
    if target == "trn3":
        return None
    work = latency_us - launch_us
    if launch_us > work:
        return LAUNCH_ERROR
    if bound_by == "dma":
        return ERRORS["issue" if issue_bound else "dma"]
    if work < SHORT_US:
        return SHORT_ERROR
    return ERRORS.get(bound_by, ERRORS["latency"])
