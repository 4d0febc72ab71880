"""Times of the rows of a network, added up over batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .backend import Launch
from .plan import Step, with_batch


@dataclass(frozen=True)
class LayerTiming:
    """A row of the table: one step of the network over all batches.

    Shapes have all inputs on their batch axis; flops, bytes and microseconds are sums over the launches. `share` is of
    the whole time, `bound_by` that of the longest launch, `mfu` the one that the sums give. `device_us` is the time on
    the device alone where a chip's backend was asked for it; `latency_us` is then the host round trip.
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


class Stopwatch:
    """Collects the launches of a network's steps, batch by batch."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._launches: list[list[Launch]] = [[] for _ in steps]
        self.count = 0  # inputs so far

    def add_batch(self, size: int, launches: Sequence[Launch]) -> None:
        """Note the launches of one batch of `size` inputs, one a step. Their outputs are not kept."""
        self.count += size
        for collected, launch in zip(self._launches, launches, strict=True):
            collected.append(replace(launch, outputs=()))

    def timelines(self) -> tuple[tuple[str, object], ...]:
        """Step and timeline of each launch of the first batch, where the backend keeps timelines."""
        first = [(step.name, launches[0].timeline) for step, launches in zip(self._steps, self._launches) if launches]
        return tuple((name, timeline) for name, timeline in first if timeline is not None)

    def rows(self) -> tuple[LayerTiming, ...]:
        """A row a step; none where nothing ran."""
        if not self.count:
            return ()
        total = sum(launch.latency_us for launches in self._launches for launch in launches)
        return tuple(
            add_up(
                step.name,
                step.kernel,
                with_batch(step.input_shape, self.count),
                with_batch(step.output_shape, self.count),
                launches,
                total,
            )
            for step, launches in zip(self._steps, self._launches, strict=True)
        )


def add_up(
    name: str,
    kernel: str,
    input_shape: tuple[int, ...],
    output_shape: tuple[int, ...],
    launches: Sequence[Launch],
    total_us: float,
) -> LayerTiming:
    """One row from the launches of one step; `total_us` is what its share is of."""
    latency = sum(launch.latency_us for launch in launches)
    slowest = [launch.latency_us_p99 for launch in launches if launch.latency_us_p99 is not None]
    device = [us for us in (getattr(launch, "device_us", None) for launch in launches) if us is not None]
    used = [launch.mfu * launch.latency_us for launch in launches if launch.mfu is not None]
    return LayerTiming(
        name=name,
        kernel=kernel,
        input_shape=input_shape,
        output_shape=output_shape,
        flops=sum(launch.flops for launch in launches),
        hbm_bytes=sum(launch.hbm_bytes for launch in launches),
        latency_us=latency,
        latency_us_p99=sum(slowest) if len(slowest) == len(launches) else None,
        share=latency / total_us if total_us else 0.0,
        bound_by=max(launches, key=lambda launch: launch.latency_us).bound_by,
        mfu=sum(used) / latency if len(used) == len(launches) and latency else None,
        device_us=sum(device) if len(device) == len(launches) else None,
    )
