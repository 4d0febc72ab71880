"""Time a network at several batch sizes, dtypes and targets: the time per input, and the throughput of several
cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..simulator.machine.chip import find_target
from ..simulator.timing.constants import machine
from .timing import LayerTiming, add_critical, total_utilization


@dataclass(frozen=True)
class SweepPoint:
    """The result for one combination of settings. `sbuf_peak_bytes` is per partition, or None if unknown.

    If `cores` is set, `cores_inputs_per_second` is the total throughput of all cores, each with separate batches and a
    share of the HBM bandwidth; a batch then takes `cores_total_us`. `within_limit` is None if there is no limit. `best`
    marks the highest throughput for an input shape, target and dtype, among the points within the limit if there is
    one. `input_shape` is the shape of one input.
    """

    network: str
    batch_size: int
    target: str
    dtype: str
    total_us: float
    us_per_input: float
    inputs_per_second: float
    mfu: float | None
    hfu: float | None
    sbuf_peak_bytes: int | None
    bound_by: str | None = None
    times_floor: float | None = None
    cores: int | None = None
    cores_total_us: float | None = None
    cores_inputs_per_second: float | None = None
    within_limit: bool | None = None
    best: bool = False
    input_shape: tuple[int, ...] = ()


def sweep_point(
    network: str, target: str, dtype: str, batch: int, layers: Sequence[LayerTiming], floor_us: float | None = None
) -> SweepPoint:
    """Return the sweep point of a batch, computed from the times of its rows."""
    total = round(sum(layer.latency_us for layer in layers), 6)
    mfu, hfu = total_utilization(layers, total)
    critical = add_critical(layer.critical for layer in layers)
    return SweepPoint(
        network=network,
        batch_size=batch,
        target=target,
        dtype=dtype,
        total_us=total,
        us_per_input=total / batch,
        inputs_per_second=1e6 * batch / total if total else 0.0,
        mfu=mfu,
        hfu=hfu,
        sbuf_peak_bytes=max((row.sbuf_peak_bytes for row in layers if row.sbuf_peak_bytes is not None), default=None),
        bound_by=max(critical, key=lambda name: critical[name]) if critical else None,
        times_floor=total / floor_us if floor_us else None,
    )


def with_cores(point: SweepPoint, cores: int, total_us: float) -> SweepPoint:
    """Return the point with the throughput of several cores that each take `total_us` for a batch."""
    per_second = 1e6 * point.batch_size / total_us
    return replace(point, cores=cores, cores_total_us=total_us, cores_inputs_per_second=cores * per_second)


def shared_hbm(target: str, cores: int) -> dict[str, float]:
    """Return the timing constants of a core that shares its HBM stack.

    The rate of its DMA engines is limited to its share of the bandwidth of the stack.
    """
    chip, constants = find_target(target), machine(target)
    sharing = min(cores, chip.cores_per_stack)
    return {"dma_sustained": min(constants.dma_sustained, constants.hbm_stack_rate / sharing)}


def marked(points: Sequence[SweepPoint], limit_us: float | None) -> list[SweepPoint]:
    """Mark the best point of each combination of network, input shape, target and dtype, and the points within a
    limit."""
    compared = [replace(p, within_limit=None if limit_us is None else p.total_us <= limit_us) for p in points]
    best: dict[tuple[object, ...], SweepPoint] = {}
    for point in compared:
        key = point.network, point.target, point.dtype, point.input_shape
        if point.within_limit is not False and (
            key not in best or point.inputs_per_second > best[key].inputs_per_second
        ):
            best[key] = point
    return [replace(point, best=any(point is best_point for best_point in best.values())) for point in compared]
