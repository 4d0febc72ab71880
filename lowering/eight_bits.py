"""Store weights and values in 8 bits (float8_e4m3): select the tensors and choose their scales.

Weights have one scale per output channel, which maps the largest magnitude of its filter to the largest number of the
dtype. A value has a single scale, derived from the largest magnitude observed during calibration: HEADROOM times this
magnitude maps to the largest number of the dtype, to allow for inputs that exceed the calibrated range. As e4m3 is a
floating-point format with three mantissa bits, the headroom costs no precision except for numbers below 1 / 1,920 of
the largest.

If the activation commutes with scaling, the kernel multiplies each sum by a scale that combines the scales of the
operands and of the value; the bounds of a clip are divided by the value's scale and applied afterwards. For other
activations, no instruction can scale the result: the value is stored with a scale of 1 if the magnitudes observed
during calibration permit it.

For some tensors, 8-bit storage may cost more time than it saves. They are stored in 8 bits only if that is faster
(passes/store_as_fp8.py): values that follow a clip or an activation that cannot be scaled, weights of grouped layers,
and the values that these layers compute and read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from ..kernels.program import Memory, WeightsAt
from ..models.network import Network
from .graph.graph import Graph, Node
from .graph.lazy import LazyArray

FP8 = np.dtype(ml_dtypes.float8_e4m3)
LARGEST = float(ml_dtypes.finfo(FP8).max)  # type: ignore[no-untyped-call]
HEADROOM = 8.0
SCALABLE = ("identity", "relu", "leaky_relu", "abs")  # activations for which f(a x) = a f(x) for a > 0
# values with a smaller peak are scaled; near 0, the step of unscaled numbers is 1 / 128 of this peak
LEAST_UNSCALED = 0.25
FLOAT32 = float(np.finfo(np.float32).max)

Largest = Callable[[str], float]  # returns the largest magnitude of a layer's value, given its name


@dataclass(frozen=True)
class EightBits:
    """The tensors that are stored in 8 bits: weights and, depending on the target, values."""

    largest: Largest  # returns the largest magnitude of a layer's value
    values: bool  # also store the values of layers in 8 bits
    are_all: bool = False  # include the weights of the first and the last layer


def quantize_graph(graph: Graph, network: Network, layers: dict[int, str], eight_bits: EightBits) -> Graph:
    """Return the graph of a network with weights and values in 8 bits.

    `layers`: for each node whose value is the value of a layer, the name of the layer. The weights of convolutions and
    dense layers are stored in 8 bits; for grouped layers, this is optional. The value of a convolution is stored in 8
    bits if all of its consumers have, or may have, 8-bit weights.
    """
    names = layers_with_weights(network)
    kinds = {layer.name: layer.kind for layer in network.layers}
    quantized = {
        number: _with_narrow_weights(graph.nodes[number], eight_bits.values)
        for number in _with_weights(graph, names if eight_bits.are_all else names[1:-1])
        if graph.nodes[number].kind == kinds[graph.nodes[number].name]  # excludes rearranged channels
    }
    narrow = graph.replacing(quantized)
    if not eight_bits.values:
        return narrow
    return narrow.replacing(
        {
            number: _narrow_value(narrow, number, largest)
            for number, name in layers.items()
            if fp8_together(narrow, number) == {number}
            and (largest := _largest(eight_bits, narrow.nodes[number], name)) is not None
        }
    )


def _with_narrow_weights(node: Node, are_optional: bool) -> Node:
    """Return a node with its weights in 8 bits. If it has groups, 8-bit weights are marked as optional or not used."""
    if node.operation.filtered is None or node.operation.filtered.filter_groups == 1:
        return node.changed(weights=WeightsAt(is_fp8=True))
    return replace(node, may_have_fp8_weights=are_optional)


def _narrow_value(graph: Graph, number: int, largest: LazyArray) -> Node:
    """Return a node whose value is stored in 8 bits if that costs nothing; otherwise, 8-bit storage is marked as
    optional."""
    node = graph.nodes[number]
    is_free = node.convolution.groups == 1 and node.convolution.activation.name in SCALABLE
    if is_free and not any(graph.nodes[reader].may_have_fp8_weights for reader, _ in graph.readers(number)):
        return replace(node, largest=largest).changed(is_fp8=True)
    return replace(node, largest=largest, may_be_fp8=True)


def _largest(eight_bits: EightBits, node: Node, name: str) -> LazyArray | None:
    """Return the largest magnitude of a value, which determines its scale, or None if there is no suitable scale."""
    activation = node.convolution.activation
    if activation.name in SCALABLE:
        return LazyArray((), lambda: np.asarray(eight_bits.largest(name), np.float32))
    if activation.name == "clip":  # values beyond the bounds of a clip cannot occur, so no headroom is needed
        bound = max(map(abs, activation.parameters)) / HEADROOM
        return LazyArray((), lambda: np.asarray(min(eight_bits.largest(name), bound), np.float32))
    unscaled = LARGEST / HEADROOM
    if not LEAST_UNSCALED <= eight_bits.largest(name) <= unscaled:
        return None
    return LazyArray.of(np.asarray(unscaled, np.float32))


def scales_of_weights(filters: np.ndarray) -> np.ndarray:
    """Return the scale of each output channel's filter, float32 [Cout], for filters [Cout, ...]."""
    return _usable(np.abs(filters.reshape(len(filters), -1)).max(axis=1).astype(np.float32) / np.float32(LARGEST))


def _usable(scales: np.ndarray) -> np.ndarray:
    """Replace scales that cannot be used as divisors (zero, subnormal or not finite) with 1."""
    return np.where((scales >= np.finfo(np.float32).tiny) & np.isfinite(scales), scales, np.float32(1))


def scale_of_value(graph: Graph, part: int) -> np.float32:
    """Return the scale of a node's value, which is 1 if the value is not in 8 bits."""
    if part < 0 or not graph.nodes[part].operation.is_fp8:
        return np.float32(1)
    largest = graph.nodes[part].largest
    assert largest is not None
    return np.float32(_usable(np.asarray(largest.make() * np.float32(HEADROOM / LARGEST), np.float32)))


def scaled(graph: Graph, node: Node) -> list[np.ndarray]:
    """Return the biases of a convolution and, if it has them, the scales of its sums, one per channel, in the order of
    `Columns` (kernels/convolution/sums.py)."""
    operation, bias = node.operation.filtered, node.numbers[0]
    assert operation is not None and node.filters is not None
    if not operation.weights.is_fp8 and not operation.is_fp8:
        return list(node.numbers)
    first, *addend = (scale_of_value(graph, parts[0]) for parts in operation.sources)
    scale = np.float32(1)
    if operation.is_fp8:
        scale = scale_of_value(Graph((node,), graph.image, graph.itemsize), 0)
    weights = np.ones(len(bias), np.float32)
    if operation.weights.is_fp8:
        weights = scales_of_weights(node.filters.make())[: len(bias)]  # rows computed together have the same filters
    sums = weights * first
    columns = [bias / scale, sums / scale]
    if addend:
        (added,) = addend
        columns += [sums / added, np.full(len(bias), added / scale, np.float32), added / sums]
    bounds = node.numbers[1:]
    if not bounds and operation.convolved is not None and operation.convolved.bounds > 0:
        bounds = tuple(np.full(len(bias), bound) for bound in operation.activation.parameters)
    return columns + [np.clip(bound / scale, -FLOAT32, FLOAT32).astype(np.float32) for bound in bounds]


def layers_with_weights(network: Network) -> list[str]:
    """Return the layers that multiply by matrices or filters, in network order."""
    return [layer.name for layer in network.layers if any(len(shape) > 1 for shape in layer.tensors().values())]


def _with_weights(graph: Graph, names: Sequence[str]) -> list[int]:
    """Return the nodes of the named layers that multiply by filters."""
    return [
        number
        for number, node in enumerate(graph.nodes)
        if node.name in names and node.operation.filtered is not None and node.filters is not None
    ]


def fp8_together(graph: Graph, number: int) -> set[int]:
    """Return the convolutions, including `number`, whose values must all be in 8 bits or none, because they are parts
    of one operand. The set is empty if a consumer cannot have 8-bit weights."""
    together = {number}
    left = [number]
    while left:
        last = left.pop()
        node, readers = graph.nodes[last], graph.readers(last)
        if node.operation.convolved is None or node.output is not None or node.memory is not Memory.SBUF:
            return set()
        if not readers or not all(_reads_fp8(graph.nodes[reader]) for reader, _ in readers):
            return set()
        others = {part for reader, operand in readers for part in graph.nodes[reader].sources[operand]} - together
        if any(part < 0 or graph.nodes[part].name != node.name for part in others):
            return set()
        together |= others
        left += others
    return together


def _reads_fp8(node: Node) -> bool:
    """True if a node can read values in 8 bits."""
    return node.has_fp8_weights or (node.may_have_fp8_weights and len(node.sources) == 1)
