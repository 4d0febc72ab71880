"""The least time in which a network could be computed: what no kernel, however good, can undercut on this machine."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..kernels.tiling.packing import PARTITIONS
from ..models.network import Network
from ..simulator.chip import find_target
from ..simulator.timing.constants import machine
from .backend import DTYPES

_FLOAT32_PASSES = 4  # of the Tensor Engine, whose full clock is for 16 bits (trainium2_arch)


@dataclass(frozen=True)
class Floor:
    """Microseconds of one launch that computes a batch, and which of both bounds it: "hbm" or "tensor"."""

    latency_us: float
    bound_by: str


def floor_of(network: Network, dtype: str, batch: int, target: str) -> Floor:
    """The launch, and the longer of two: all weights, inputs and outputs crossing HBM once at the rate that DMA
    sustains; all multiply-accumulates on a full array at the full clock."""
    constants = machine(target)
    size = DTYPES[dtype].itemsize
    weights = sum(math.prod(shape) for shape in network.tensor_shapes().values())
    passing = batch * (math.prod(network.input.shape) + network.row_size)
    moved_ns = size * (weights + passing) / constants.dma_sustained
    shapes = network.shapes()
    work = sum(layer.multiply_accumulates(*[shapes[name] for name in layer.inputs]) for layer in network.layers)
    passes = _FLOAT32_PASSES if dtype == "float32" else 1
    computed_ns = batch * work * passes / (PARTITIONS**2 * find_target(target).tensor_ghz)
    longer = max(moved_ns, computed_ns)
    return Floor((constants.launch_ns + longer) / 1000, "hbm" if moved_ns >= computed_ns else "tensor")
