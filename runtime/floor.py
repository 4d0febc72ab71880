"""A lower bound on a network's time on this machine, independent of how its layers are implemented.

A launch begins by loading data and ends by storing its result, so the latencies of both DMAs count. The work between
them takes at least the larger of two times. Memory: the time to load all filters and matrices, and the pixels that the
first layer reads, once, at the sustained DMA rate. Tensor Engine: the time to multiply all operands that are not
padding, on a fully used array at the full clock rate; for 3x3 filters, the smallest number of products that minimal
filtering requires (kernels/convolution/forms.py). Depthwise convolutions are excluded, because other engines may
compute them. The derivation is in docs/predictions.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..kernels.convolution.forms import Form, matrices, worthwhile
from ..models.checks import INPUT
from ..models.layers import Conv2d, Layer
from ..models.network import Network
from ..simulator.machine.chip import PARTITIONS, find_target
from ..simulator.timing.constants import Machine, machine
from ..simulator.timing.pair_schedule import of_two_cores
from .backend import DTYPES, EIGHT_BITS

_FLOAT32_PASSES = 4  # passes of the Tensor Engine in float32; its full rate applies to 16 bits (trainium2_arch)
_DOUBLE_ROWS = 0.5  # passes in 8 bits: since NeuronCore-v3, two rows are contracted at once (trainium2_arch)
_FILTERED = 3  # number of taps along an axis to which minimal filtering applies


@dataclass(frozen=True)
class Floor:
    """The lower bound for one launch that computes a batch, in microseconds, and the limiting resource: "hbm" or
    "tensor"."""

    latency_us: float
    bound_by: str


def floor_of(network: Network, dtype: str, batch: int, target: str, lnc: int = 1) -> Floor:
    """Return the lower bound for a network, a batch size and a dtype on `lnc` cores of a target ("trn1", "trn2" or
    "trn3")."""
    constants = machine(target)
    itemsize = 1 if dtype == EIGHT_BITS else DTYPES[dtype].itemsize
    rate = constants.dma_sustained if lnc == 1 else lnc * of_two_cores(constants)["dma_sustained"]
    moved_ns = itemsize * _elements(network, batch) / rate
    computed_ns = sum(multiplying_ns(network, dtype, batch, target).values()) / lnc
    floor_ns = empty_launch_ns(constants) + max(moved_ns, computed_ns)
    return Floor(floor_ns / 1000, "hbm" if moved_ns >= computed_ns else "tensor")


def multiplying_ns(network: Network, dtype: str, batch: int, target: str) -> dict[str, float]:
    """Return the minimum time in nanoseconds that the Tensor Engine of a core spends on each layer, keyed by name."""
    chip = find_target(target)
    is_narrow, is_old = dtype == EIGHT_BITS, chip.generation == 2
    least = 1.0 if is_narrow else _filtering_share(is_old, DTYPES[dtype].itemsize)
    passes = _FLOAT32_PASSES if dtype == "float32" else _DOUBLE_ROWS if is_narrow and not is_old else 1
    ns_per_multiplication, shapes = batch * passes / (PARTITIONS**2 * chip.tensor_ghz), network.shapes()
    return {
        layer.name: ns_per_multiplication * _multiplications(layer, [shapes[name] for name in layer.inputs], least)
        for layer in network.layers
    }


def empty_launch_ns(m: Machine) -> float:
    """Return the minimum time in nanoseconds that a launch takes in addition to its work.

    It consists of the start, the latency of the first load and the latency of the last store, each for prepared or
    generated descriptors, whichever is less.
    """
    loading = min(m.load_first_byte_static_ns, m.load_first_byte_ns) + m.load_landing_ns
    storing = min(m.store_first_byte_static_ns, m.store_first_byte_ns) + m.store_landing_ns
    return m.launch_ns + loading + storing


def _elements(network: Network, batch: int) -> int:
    """Count the elements that must be loaded from HBM: filters, matrices, and the part of the input that the first
    layer reads."""
    weights, shapes = 0, network.shapes()
    for layer in network.layers:
        if layer.multiply_accumulates(*[shapes[name] for name in layer.inputs]):
            weights += sum(math.prod(shape) for shape in layer.tensors().values() if len(shape) > 1)
    readers = [layer for layer in network.layers if INPUT in layer.inputs]
    shape = network.input.shape
    if len(readers) != 1:
        return weights
    (reader,) = readers
    if isinstance(reader, Conv2d) and len(shape) == 3:
        down, across = (_axis(reader, shape, axis)[1] for axis in (0, 1))
        return weights + batch * shape[0] * down * across
    return weights + batch * math.prod(shape) * (reader.kind in ("dense", "flatten"))


def _filtering_share(gen2: bool, itemsize: int) -> float:
    """Return the smallest fraction of the products of a 3x3 filter that an automatically selected form computes."""
    steps = _FILTERED**2
    outputs = {Form.PAIRS: 2, Form.SQUARES: 4}
    shares = {form: matrices(form, steps) / (count * steps) for form, count in outputs.items()}
    return min([1.0, *(shares[form] for form in worthwhile(gen2, itemsize))])


def _multiplications(layer: Layer, shapes: Sequence[tuple[int, ...]], filtering: float) -> float:
    """Count the multiply-accumulates of a layer, for one example, that the Tensor Engine must perform."""
    if not isinstance(layer, Conv2d):
        return layer.multiply_accumulates(*shapes)
    if layer.groups == layer.in_channels > 1:
        return 0.0
    pairs = math.prod(_axis(layer, shapes[0], axis)[0] for axis in (0, 1))
    filtered = layer.stride == (1, 1) and _FILTERED in layer.kernel_size
    return pairs * layer.out_channels * (layer.in_channels // layer.groups) * (filtering if filtered else 1.0)


def _axis(layer: Conv2d, shape: tuple[int, ...], axis: int) -> tuple[int, int]:
    """Count, along an axis (0: rows, 1: columns), the taps of all outputs that do not read padding, and the input rows
    that they read. Outputs that pooling drops are not counted."""
    side, count = shape[1 + axis], layer.output_shape(shape)[1 + axis] * layer.pool_size
    step, apart, before = layer.stride[axis], layer.dilation[axis], layer.padding[axis]
    rows = [
        row
        for output in range(count)
        for tap in range(layer.kernel_size[axis])
        if 0 <= (row := output * step + tap * apart - before) < side
    ]
    return len(rows), len(set(rows))
