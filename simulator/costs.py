"""What an instruction costs on its engine: the issue interval and the latency, from the constants of the target.

`interval` is how long the engine is taken before it can start its next instruction, `latency` how long until the
result can be read; both in nanoseconds with the Tensor Engine at its full clock. Instructions say how many elements
or columns they stream; everything else about time is here.
"""

from __future__ import annotations

from typing import NamedTuple

from .dtypes import DType
from .targets import Target

MINIMUM_CYCLES = 64  # no instruction takes an engine for less [nki.api.shared.rst, MIN_II; perf guide]


class Cost(NamedTuple):
    interval: float
    latency: float


class Costs:
    """The costs of one target."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def vector(self, cycles: float) -> Cost:
        """A Vector Engine instruction that streams for `cycles`."""
        busy = max(MINIMUM_CYCLES, cycles) / self.target.vector_ghz
        return Cost(busy, busy)

    def scalar(self, cycles: float) -> Cost:
        busy = max(MINIMUM_CYCLES, cycles) / self.target.scalar_ghz
        return Cost(busy, busy)

    def gpsimd(self, cycles: float) -> Cost:
        busy = max(MINIMUM_CYCLES, cycles) / self.target.gpsimd_ghz
        return Cost(busy, busy)

    def matmul(
        self,
        rows: int,
        stationary_columns: int,
        moving_columns: int,
        dtype: DType,
        stationary_stride: int,
        transpose: bool,
    ) -> Cost:
        """A Tensor Engine instruction: the stationary tile is loaded, then the moving columns stream through.

        `stationary_stride` is the byte distance of neighbouring stationary elements.
        """
        passes = 4 if dtype.itemsize == 4 and dtype.name != "tfloat32" else 1
        busy = passes * max(min(MINIMUM_CYCLES, stationary_columns), moving_columns) / self.target.tensor_ghz
        return Cost(busy, busy)


class Transfer(NamedTuple):
    """A DMA: `bytes` moved in `descriptors` pieces, over `partitions` of SBUF; `load` is towards SBUF."""

    bytes: int
    descriptors: int
    partitions: int
    load: bool
    dge: bool
    transpose: bool = False
    casts: bool = False
