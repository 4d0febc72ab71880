"""Human-readable names of the resources on a critical path (simulator/timing/critical_path.py)."""

from __future__ import annotations

from collections.abc import Mapping

TITLES = {
    "launch": "launch",
    "tensor": "Tensor Engine",
    "vector": "Vector Engine",
    "scalar": "Scalar Engine",
    "gpsimd": "GpSimd Engine",
    "dma_issue": "DMA issue",
    "dma_latency": "DMA latency",
    "dma_bandwidth": "DMA bandwidth",
    "semaphore": "semaphores",
    "other_core": "the other core",
}
LEAST_SHARE = 0.005  # smaller shares of the time are summed as "other",
LEAST_US = 0.05  # smaller times are omitted


def short(resource: str | None) -> str:
    """Return a short name for a narrow column, such as `tensor` or `DMA bandwidth`; a dash for None."""
    if resource is None:
        return "-"
    return resource.replace("_", " ").replace("dma", "DMA")


def title(resource: str | None) -> str:
    """Return the name to use in a sentence."""
    return "not known" if resource is None else TITLES.get(resource, short(resource))


def by_size(critical: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the resources with their times in microseconds, largest first; negligible times are combined as
    "other"."""
    total = sum(critical.values())
    large = [(name, time) for name, time in critical.items() if time >= LEAST_SHARE * total]
    rest = total - sum(time for _, time in large)
    ordered = sorted(large, key=lambda pair: -pair[1])
    return [*ordered, ("other", rest)] if rest >= LEAST_US else ordered
