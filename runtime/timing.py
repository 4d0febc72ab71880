"""Sum the times of each row of a network over all batches, whether they are run in one process or by workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .backend import LaunchTime

BATCH = -1  # placeholder for the batch size in a row's shapes


@dataclass(frozen=True)
class Row:
    """A row of a network's table: its name, its kernel, and its shapes, with BATCH as the size of the batch axis.

    `layers` are the layers of the network whose operations are counted in the row.
    """

    name: str
    kernel: str
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    layers: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayerTiming:
    """A row of the table, over all batches.

    The batch axis of each shape has the total number of inputs. Flops, bytes, microseconds and the parts of `critical`
    are sums over the batches; `bound_by` is the largest part. `share` is the row's share of the total, and `mfu` and
    `hfu` are relative to `active_us`, the time during which the row's own instructions and DMAs ran. `device_us` is the
    time on the device alone, if its measurement was requested, and `device_by` names the tool that measured it;
    `latency_us` is then the round trip of the host. `latency_error` is the expected relative error of a predicted time,
    and `form` is the convolution algorithm. Both values are taken from the batch with the longest time.
    """

    name: str
    kernel: str
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    flops: int
    hbm_bytes: int
    latency_us: float
    latency_us_p99: float | None
    share: float
    bound_by: str | None
    mfu: float | None
    device_us: float | None = None
    latency_error: float | None = None
    form: str | None = None
    device_by: str | None = None
    hardware_flops: int = 0
    hfu: float | None = None
    active_us: float | None = None
    critical: Mapping[str, float] = field(default_factory=dict)
    sbuf_peak_bytes: int | None = None


class Totals:
    """Sums the times of batches for each row and each worker.

    Its memory use does not depend on the number of batches.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = tuple(rows)
        self._sums: list[LaunchTime] = []
        # the longest time of each row; `bound_by` and `form` are taken from that batch
        self._longest: list[float] = []
        self._worker_us: dict[int, float] = {}
        self.count = 0  # number of inputs so far

    def add(self, size: int, times: Sequence[LaunchTime], worker: int = 0) -> None:
        """Add a batch of `size` inputs with a time for each row, run by the worker with this number."""
        if len(times) != len(self._rows):
            raise ValueError(f"{len(times)} times for {len(self._rows)} rows")
        self.count += size
        self._worker_us[worker] = self._worker_us.get(worker, 0.0) + sum(time.latency_us for time in times)
        if not self._sums:
            self._sums, self._longest = list(times), [time.latency_us for time in times]
            return
        for position, time in enumerate(times):
            longer = time.latency_us > self._longest[position]
            longest = time if longer else self._sums[position]
            self._sums[position] = _sum(self._sums[position], time, longest)
            self._longest[position] = max(self._longest[position], time.latency_us)

    @property
    def total_us(self) -> float:
        """The total of all rows, in microseconds."""
        return sum(time.latency_us for time in self._sums)

    @property
    def worker_us(self) -> dict[int, float]:
        """The microseconds of each worker. Workers run concurrently, so the maximum is the elapsed time."""
        return dict(sorted(self._worker_us.items()))

    def layers(self) -> tuple[LayerTiming, ...]:
        """Return a timing for each row; empty if nothing ran."""
        total = self.total_us
        return tuple(
            LayerTiming(
                name=row.name,
                kernel=row.kernel,
                input_shape=with_batch(row.input_shape, self.count),
                output_shape=with_batch(row.output_shape, self.count),
                flops=time.flops,
                hbm_bytes=time.hbm_bytes,
                latency_us=time.latency_us,
                latency_us_p99=time.latency_us_p99,
                share=time.latency_us / total if total else 0.0,
                bound_by=time.bound_by,
                mfu=time.mfu,
                device_us=time.device_us,
                device_by=time.device_by,
                latency_error=time.latency_error,
                form=time.form,
                hardware_flops=time.hardware_flops,
                hfu=time.hfu,
                active_us=time.active_us,
                critical=dict(time.critical),
                sbuf_peak_bytes=time.sbuf_peak_bytes,
            )
            for row, time in zip(self._rows, self._sums)
        )


def with_batch(shape: tuple[int, ...], batch: int) -> tuple[int, ...]:
    """Return the shape of a row, with a number of inputs as its batch size."""
    return tuple(batch if size == BATCH else size for size in shape)


def add_times(batches: Sequence[Sequence[LaunchTime]]) -> tuple[LaunchTime, ...]:
    """Sum the times of several batches, each with one time for each row. The result is empty if there is no batch."""
    if not batches:
        return ()
    totals = Totals([Row("", "", (), ()) for _ in batches[0]])
    for times in batches:
        totals.add(0, times)
    return tuple(totals._sums)


def named_timelines(rows: Sequence[Row], timelines: Iterable[object | None]) -> tuple[tuple[str, object], ...]:
    """Return the row and timeline of each launch that has a timeline."""
    return tuple((row.name, timeline) for row, timeline in zip(rows, timelines, strict=True) if timeline is not None)


def _sum(one: LaunchTime, other: LaunchTime, longest: LaunchTime) -> LaunchTime:
    critical = add_critical((one.critical, other.critical))
    return LaunchTime(
        latency_us=one.latency_us + other.latency_us,
        latency_us_p99=_plus(one.latency_us_p99, other.latency_us_p99),
        device_us=_plus(one.device_us, other.device_us),
        device_us_p99=_plus(one.device_us_p99, other.device_us_p99),
        device_by=longest.device_by,
        flops=one.flops + other.flops,
        hbm_bytes=one.hbm_bytes + other.hbm_bytes,
        bound_by=max(critical, key=lambda name: critical[name]) if critical else longest.bound_by,
        mfu=_utilization([(_active(time), time.mfu) for time in (one, other)]),
        latency_error=widest_error([(one.latency_us, one.latency_error), (other.latency_us, other.latency_error)]),
        form=longest.form,
        hardware_flops=one.hardware_flops + other.hardware_flops,
        hfu=_utilization([(_active(time), time.hfu) for time in (one, other)]),
        active_us=_plus(one.active_us, other.active_us),
        critical=critical,
        sbuf_peak_bytes=max((t.sbuf_peak_bytes for t in (one, other) if t.sbuf_peak_bytes is not None), default=None),
    )


def add_critical(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Sum the microseconds of each resource, rounded to whole picoseconds."""
    total: dict[str, float] = {}
    for part in parts:
        for name, time in part.items():
            total[name] = round(total.get(name, 0.0) + time, 6)
    return total


def total_utilization(layers: Iterable[LayerTiming], total_us: float) -> tuple[float | None, float | None]:
    """Return MFU and HFU of all rows over the total time, or None if the value of any row is unknown or no time
    passed."""
    rows = list(layers)
    spans = [row.latency_us if row.active_us is None else row.active_us for row in rows]
    utilizations: list[float | None] = []
    for values in ([row.mfu for row in rows], [row.hfu for row in rows]):
        known = [value * span for value, span in zip(values, spans) if value is not None]
        utilizations.append(sum(known) / total_us if total_us and len(known) == len(rows) else None)
    return utilizations[0], utilizations[1]


def _active(time: LaunchTime) -> float:
    return time.latency_us if time.active_us is None else time.active_us


def _utilization(parts: Iterable[tuple[float, float | None]]) -> float | None:
    """Combine spans (microseconds, utilization). Return None if any utilization is unknown or no time passed."""
    total = busy = 0.0
    for span, share in parts:
        if share is None:
            return None
        total += span
        busy += span * share
    return busy / total if total else None


def widest_error(parts: Iterable[tuple[float, float | None]]) -> float | None:
    """Return the expected error of a sum of times (microseconds, error).

    It is the largest error of any part, since one model predicted all parts. None if any error is unknown or there are
    no parts.
    """
    widest = None
    for latency, error in parts:
        if error is None:
            return None
        if latency > 0:
            widest = error if widest is None else max(widest, error)
    return widest


def _plus(one: float | None, other: float | None) -> float | None:
    """Return the sum, or None if either part is unknown."""
    return None if one is None or other is None else one + other
