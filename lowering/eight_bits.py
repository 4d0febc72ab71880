"""Weights and values in 8 bits, float8_e4m3: which they are, and by which scales they are shares.

Weights have a scale for each output channel, the largest magnitude of its filter being the largest number of the dtype.
A value has one scale, by the largest magnitude that calibration has seen: HEADROOM times it is the largest number of
the dtype, for inputs that go further. A number of e4m3 has three bits behind its first, however small it is, so that
the room costs no precision but for numbers below 1 / 1,920 of the largest.

The kernel multiplies sums by scales that take the operands' own in and the value's out. A value is in 8 bits where a
scale goes through its activation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from ..kernels.program import Convolution, Memory, Scores, WeightsAt
from ..models.network import Network
from .graph import Graph, Node
from .lazy import LazyArray

NARROW = np.dtype(ml_dtypes.float8_e4m3)
LARGEST = float(ml_dtypes.finfo(NARROW).max)  # type: ignore[no-untyped-call]
HEADROOM = 8.0
SCALABLE = ("identity", "relu")  # activations of which f(a x) = a f(x) for a above 0

Largest = Callable[[str], float]  # the largest magnitude of a layer's value, by its name


@dataclass(frozen=True)
class EightBits:
    """Tensors in 8 bits: weights, of all layers or all but the first and the last, and on a target with `values` also
    what layers compute, by `largest`."""

    largest: Largest
    values: bool
    are_all: bool = False


def narrow_graph(graph: Graph, network: Network, layers: dict[int, str], eight_bits: EightBits) -> Graph:
    """Return the graph of a network with weights and values in 8 bits.

    `layers`: of nodes, the layer whose value theirs is. Convolutions and dense layers have weights in 8 bits, unless
    they have groups. The value of a convolution is in 8 bits where all that reads it are such layers.
    """
    names = layers_with_weights(network)
    chosen = _with_narrow_weights(graph, names if eight_bits.are_all else names[1:-1])
    nodes = [
        node.changed(weights=WeightsAt(narrow=True)) if number in chosen else node
        for number, node in enumerate(graph.nodes)
    ]
    if not eight_bits.values:
        return graph.with_nodes(nodes)
    for number, name in layers.items():
        if _can_be_narrow(graph, number, chosen):
            nodes[number] = replace(nodes[number], largest=_lazy(eight_bits, name)).changed(narrow=True)
    return graph.with_nodes(nodes)


def _lazy(eight_bits: EightBits, name: str) -> LazyArray:
    return LazyArray((), lambda: np.asarray(eight_bits.largest(name), np.float32))


def scales_of_weights(filters: np.ndarray) -> np.ndarray:
    """Return the scale of each output channel's filter, float32 [Cout], of filters [Cout, ...]."""
    largest = np.abs(filters.reshape(len(filters), -1)).max(axis=1).astype(np.float32)
    return np.where(largest > 0, largest / np.float32(LARGEST), np.float32(1))


def scale_of_value(graph: Graph, part: int) -> np.float32:
    """Return the scale of a node's value: 1 of one that is not in 8 bits."""
    if part < 0 or not graph.nodes[part].operation.narrow:
        return np.float32(1)
    largest = graph.nodes[part].largest
    assert largest is not None
    value = float(largest.make())
    return np.float32(HEADROOM * value / LARGEST if value > 0 else 1.0)


def scaled(graph: Graph, node: Node) -> list[np.ndarray]:
    """Return for each channel the bias of a convolution and, if it has any, the scales of its sums, in the order of
    `Columns` (kernels/convolution/sums.py)."""
    operation, bias = node.operation, node.numbers[0]
    assert isinstance(operation, (Convolution, Scores)) and node.filters is not None
    if not operation.weights.narrow and not operation.narrow:
        return [bias]
    first, *addend = (scale_of_value(graph, parts[0]) for parts in operation.sources)
    own = np.float32(1)
    if operation.narrow:
        own = scale_of_value(Graph((node,), graph.image, graph.itemsize), 0)
    weights = np.ones(len(bias), np.float32)
    if operation.weights.narrow:
        weights = scales_of_weights(node.filters.make())[: len(bias)]  # rows computed at once have the same filters
    sums = weights * first
    if not addend:
        return [bias / own, sums / own]
    (added,) = addend
    return [bias / own, sums / own, sums / added, np.full(len(bias), added / own, np.float32), added / sums]


def layers_with_weights(network: Network) -> list[str]:
    """Return the layers that multiply by matrices or filters, in their order."""
    return [layer.name for layer in network.layers if any(len(shape) > 1 for shape in layer.tensors().values())]


def _with_narrow_weights(graph: Graph, names: Sequence[str]) -> Collection[int]:
    """Return the nodes whose weights are in 8 bits; `names`: of the layers that may have such."""
    return {number for number, node in enumerate(graph.nodes) if node.name in names and _is_full(node)}


def _is_full(node: Node) -> bool:
    operation = node.operation
    is_one_group = isinstance(operation, Scores) or (isinstance(operation, Convolution) and operation.groups == 1)
    return is_one_group and node.filters is not None


def _can_be_narrow(graph: Graph, number: int, chosen: Collection[int]) -> bool:
    """True if a node's value can be in 8 bits: a scale goes through it, and all readers multiply by 8-bit weights."""
    node = graph.nodes[number]
    operation = node.operation
    if not isinstance(operation, Convolution) or operation.groups > 1 or operation.activation.name not in SCALABLE:
        return False
    if node.output is not None or node.memory is not Memory.SBUF:
        return False
    readers = graph.readers(number)
    return bool(readers) and all(
        reader in chosen and graph.nodes[reader].sources[operand] == (number,) for reader, operand in readers
    )
