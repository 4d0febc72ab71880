"""The least time in which a network could be computed: what no form that we may run can undercut on this machine.

A launch loads something first and stores its result last, which takes both DMAs' latencies. Between these lies the
longer of two. Memory: the filters and matrices and what is read of the input, once, at the rate that the DMA engines
sustain. The Tensor Engine: the multiplications whose operands are not padding, on a full array at its full clock; those
of 3x3 filters at the least that minimal filtering leaves of them (kernels/convolution/forms.py). What other engines may
multiply (depthwise convolutions) is left out. The derivation is in docs/predictions.md.
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

_FLOAT32_PASSES = 4  # of the Tensor Engine, whose full clock is for 16 bits (trainium2_arch)
_DOUBLE_ROWS = 0.5  # of a pass, of two rows of 8 bits at a time from NeuronCore-v3 on (trainium2_arch)
_FILTERED = 3  # taps along an axis that minimal filtering combines


@dataclass(frozen=True)
class Floor:
    """Microseconds of one launch that computes a batch, and which of both bounds it: "hbm" or "tensor"."""

    latency_us: float
    bound_by: str


def floor_of(network: Network, dtype: str, batch: int, target: str, lnc: int = 1) -> Floor:
    """The floor of a network for a batch in a dtype on a target ("trn1", "trn2" or "trn3"), on `lnc` cores."""
    constants, chip = machine(target), find_target(target)
    is_narrow, is_old = dtype == EIGHT_BITS, chip.generation == 2
    itemsize = 1 if is_narrow else DTYPES[dtype].itemsize
    first, last = _latencies(constants)
    rate = constants.dma_sustained if lnc == 1 else lnc * of_two_cores(constants)["dma_sustained"]
    moved_ns = itemsize * _elements(network, batch) / rate
    least = 1.0 if is_narrow else _filtering_share(is_old, itemsize)
    shapes = network.shapes()
    work = sum(_multiplications(layer, [shapes[name] for name in layer.inputs], least) for layer in network.layers)
    passes = _FLOAT32_PASSES if dtype == "float32" else _DOUBLE_ROWS if is_narrow and not is_old else 1
    computed_ns = batch * work * passes / (lnc * PARTITIONS**2 * chip.tensor_ghz)
    longer = max(moved_ns, computed_ns)
    floor_ns = constants.launch_ns + first + longer + last
    return Floor(floor_ns / 1000, "hbm" if moved_ns >= computed_ns else "tensor")


def _latencies(m: Machine) -> tuple[float, float]:
    """Nanoseconds from the first trigger to its data, and from the last result to its place in HBM, by the quicker of
    prepared and generated descriptors."""
    return (
        min(m.load_first_byte_static_ns, m.load_first_byte_ns) + m.load_landing_ns,
        min(m.store_first_byte_static_ns, m.store_first_byte_ns) + m.store_landing_ns,
    )


def _elements(network: Network, batch: int) -> int:
    """Numbers that must come from HBM: filters and matrices, and of the input what the first layer reads of it."""
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
    """The least share of a 3x3 filter's products that a form leaves, of those that are taken unasked."""
    steps = _FILTERED**2
    outputs = {Form.PAIRS: 2, Form.SQUARES: 4}
    shares = {form: matrices(form, steps) / (count * steps) for form, count in outputs.items()}
    return min([1.0, *(shares[form] for form in worthwhile(gen2, itemsize))])


def _multiplications(layer: Layer, shapes: Sequence[tuple[int, ...]], filtering: float) -> float:
    """Multiply-accumulates of a layer that the Tensor Engine cannot do without, for one example."""
    if not isinstance(layer, Conv2d):
        return layer.multiply_accumulates(*shapes)
    if layer.groups == layer.in_channels > 1:
        return 0.0
    pairs = math.prod(_axis(layer, shapes[0], axis)[0] for axis in (0, 1))
    filtered = layer.stride == (1, 1) and _FILTERED in layer.kernel_size
    return pairs * layer.out_channels * (layer.in_channels // layer.groups) * (filtering if filtered else 1.0)


def _axis(layer: Conv2d, shape: tuple[int, ...], axis: int) -> tuple[int, int]:
    """Along an axis (0 down, 1 across): taps of all outputs that meet no padding, and rows of the input that they meet.
    Outputs that pooling drops do not count."""
    side, count = shape[1 + axis], layer.output_shape(shape)[1 + axis] * layer.pool_size
    step, apart, before = layer.stride[axis], layer.dilation[axis], layer.padding[axis]
    met = [
        place
        for output in range(count)
        for tap in range(layer.kernel_size[axis])
        if 0 <= (place := output * step + tap * apart - before) < side
    ]
    return len(met), len(set(met))
