"""Operators that are replaced with simpler ones during the walk: attention, RMS normalisation, and lists of tensors.

PyTorch's newer exporter writes `Attention` and `RMSNormalization` from opset 23 on, and lists of tensors if its
optimiser is off. The entries of a list are named after it (`_entry`); `Importer.lengths` contains their number.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from ..errors import ModelError
from .importer import Importer
from .onnx_attributes import integer, number
from .onnx_file import Attribute, Node
from .operators.comparing import is_zero_or_one

MASKED = np.finfo(np.float32).min  # added to scores that are masked


class _Nodes:
    """The nodes that replace a node, in order."""

    def __init__(self, importer: Importer, node: Node) -> None:
        self.made: list[Node] = []
        self._importer = importer
        self._node = node

    def add(self, op: str, inputs: Sequence[str], output: str = "", **attributes: Attribute) -> str:
        """Append a node with one output and return the name of the output, a new one unless `output` is given."""
        output = output or f"{self._node.outputs[0]}, step {len(self.made) + 1}"
        self.made.append(Node(op, self._node.name, tuple(inputs), (output,), attributes))
        return output

    def finished(self) -> list[Node]:
        """Return the nodes, the last of which computes the first output of the replaced node."""
        self.made[-1] = dataclasses.replace(self.made[-1], outputs=(self._node.outputs[0],))
        return self.made

    def constant(self, values: np.ndarray | Sequence[int] | float) -> str:
        """Return the name of a new constant."""
        name = f"{self._node.outputs[0]}, constant {len(self._importer.constants)}"
        self._importer.constants[name] = np.asarray(values, np.float32 if isinstance(values, float) else None)
        return name


def _shape(importer: Importer, node: Node, place: int) -> tuple[int, ...]:
    """Return the shape of an input in the file, with a batch of 1 if the file does not fix it."""
    name = node.inputs[place]
    return importer.extents(importer.views[name]) if name in importer.views else importer.constants[name].shape


def _attention(importer: Importer, node: Node) -> list[Node]:
    """Expand attention over [batch, heads, tokens, features] or, with the heads as an attribute, [batch, tokens,
    heads * features]. Groups of heads may share keys and values."""
    if any(node.inputs[4:]) or any(name in importer.wanted for name in node.outputs[1:]):
        raise ModelError("attention with cached keys and values, or whose scores are an output, is not supported")
    if number(node, "softcap", 0.0):
        raise ModelError("attention with a softcap is not supported")
    nodes = _Nodes(importer, node)
    shapes = [_shape(importer, node, place) for place in range(3)]
    are_flat = len(shapes[0]) == 3
    heads, shared = (
        integer(node, name, 0) if are_flat else shapes[place][1]
        for place, name in enumerate(("q_num_heads", "kv_num_heads"))
    )
    if {len(shape) for shape in shapes} not in ({3}, {4}) or min(heads, shared) < 1 or heads % shared:
        raise ModelError("its queries, keys and values have inconsistent shapes")
    parts = list(node.inputs[:3])
    if are_flat:
        parts = [_with_heads_apart(nodes, part, count) for part, count in zip(parts, (heads, shared, shared))]
    features = shapes[0][-1] // (heads if are_flat else 1)
    is_grouped = heads != shared
    if is_grouped:
        groups = [[0, shared, size, shape[-2], -1] for size, shape in zip((heads // shared, 1, 1), shapes)]
        parts = [nodes.add("Reshape", [part, nodes.constant(sizes)]) for part, sizes in zip(parts, groups)]
    queries, keys, values = parts
    last = 3 + is_grouped
    swapped = nodes.add("Transpose", [keys], perm=(*range(last - 1), last, last - 1))
    scores = nodes.add("MatMul", [queries, swapped])
    scores = nodes.add("Mul", [scores, nodes.constant(number(node, "scale", 0.0) or 1 / math.sqrt(features))])
    scores = _with_mask(importer, node, nodes, scores, shapes, is_grouped)
    weights = nodes.add("Softmax", [scores], axis=-1)
    result = nodes.add("MatMul", [weights, values])
    if is_grouped:
        result = nodes.add("Reshape", [result, nodes.constant([0, heads, shapes[0][-2], -1])])
    if are_flat:
        together = nodes.add("Transpose", [result], perm=(0, 2, 1, 3))
        nodes.add("Reshape", [together, nodes.constant([0, 0, -1])])
    return nodes.finished()


def _with_heads_apart(nodes: _Nodes, part: str, heads: int) -> str:
    """Return queries, keys or values [batch, tokens, heads * features] as [batch, heads, tokens, features]."""
    apart = nodes.add("Reshape", [part, nodes.constant([0, 0, heads, -1])])
    return nodes.add("Transpose", [apart], perm=(0, 2, 1, 3))


def _with_mask(
    importer: Importer, node: Node, nodes: _Nodes, scores: str, shapes: Sequence[tuple[int, ...]], is_grouped: bool
) -> str:
    """Return the scores after the mask, which is a condition or numbers to add, and after the causal mask."""
    if integer(node, "is_causal", 0):
        later = ~np.tri(shapes[0][-2], shapes[1][-2], dtype=bool)
        scores = nodes.add("Add", [scores, nodes.constant(np.where(later, MASKED, np.float32(0)))])
    mask = node.inputs[3] if len(node.inputs) > 3 else ""
    if not mask:
        return scores
    rank = len(_shape(importer, node, 3))
    if is_grouped and rank > 2:
        raise ModelError("attention with a mask, in which groups of heads share keys, is not supported")
    known = importer.constants.get(mask)
    if known is None and is_zero_or_one(importer, importer.views[mask]):
        return nodes.add("Where", [mask, scores, nodes.constant(float(MASKED))])
    if known is None:
        return nodes.add("Add", [scores, mask])
    numbers = np.where(known, 0, MASKED) if known.dtype == bool else np.maximum(known, MASKED)
    return nodes.add("Add", [scores, nodes.constant(numbers.astype(np.float32))])


def _rms_norm(importer: Importer, node: Node) -> list[Node]:
    """Expand x / sqrt(mean of squares + epsilon) * scale, with the mean over the axes from `axis` on."""
    nodes = _Nodes(importer, node)
    source, scale = node.inputs
    rank = len(_shape(importer, node, 0))
    first = integer(node, "axis", -1) % rank
    squares = nodes.add("Mul", [source, source])
    mean = nodes.add("ReduceMean", [squares, nodes.constant(list(range(first, rank)))], keepdims=1)
    plus = nodes.add("Add", [mean, nodes.constant(number(node, "epsilon", 1e-5))])
    scaled = nodes.add("Div", [source, nodes.add("Sqrt", [plus])])
    nodes.add("Mul", [scaled, scale])
    return nodes.finished()


def _entry(name: str, index: int) -> str:
    """Return the name of an entry of a list of tensors."""
    return f"{name}, entry {index}"


def _split_to_sequence(importer: Importer, node: Node) -> list[Node]:
    given = importer.constant(node, 1)
    axis, name = integer(node, "axis", 0), node.outputs[0]
    extent = _shape(importer, node, 0)[axis]
    keeps = given is not None or integer(node, "keepdims", 1)
    if given is None or not given.ndim:
        step = 1 if given is None else int(given)
        sizes = [min(step, extent - first) for first in range(0, extent, step)]
    else:
        sizes = given.tolist()
    importer.lengths[name] = len(sizes)
    nodes = _Nodes(importer, node)
    entries = [_entry(name, index) for index in range(len(sizes))]
    parts = entries if keeps else [f"{entry}, with its axis" for entry in entries]
    importer.wanted = {*importer.wanted, *parts}
    inputs = (node.inputs[0], nodes.constant(sizes))
    nodes.made.append(Node("Split", node.name, inputs, tuple(parts), {"axis": axis}))
    for part, entry in zip(parts, entries if not keeps else ()):
        nodes.add("Squeeze", [part, nodes.constant([axis])], entry)
    return nodes.made


def _sequence_construct(importer: Importer, node: Node) -> list[Node]:
    nodes = _Nodes(importer, node)
    importer.lengths[node.outputs[0]] = len(node.inputs)
    for index, name in enumerate(node.inputs):
        nodes.add("Identity", [name], _entry(node.outputs[0], index))
    return nodes.made


def _length(importer: Importer, node: Node) -> int:
    if node.inputs[0] not in importer.lengths:
        raise ModelError(f"its input {node.inputs[0]!r} is not a list of tensors that the network splits or collects")
    return importer.lengths[node.inputs[0]]


def _sequence_at(importer: Importer, node: Node) -> list[Node]:
    length = _length(importer, node)
    index = int(importer.scalar(node, 1, 0))
    if not -length <= index < length:
        raise ModelError(f"it selects entry {index} of {length}")
    nodes = _Nodes(importer, node)
    nodes.add("Identity", [_entry(node.inputs[0], index % length)])
    return nodes.finished()


def _concat_from_sequence(importer: Importer, node: Node) -> list[Node]:
    nodes = _Nodes(importer, node)
    axis = integer(node, "axis", 0)
    entries = [_entry(node.inputs[0], index) for index in range(_length(importer, node))]
    if integer(node, "new_axis", 0):
        entries = [nodes.add("Unsqueeze", [entry, nodes.constant([axis])]) for entry in entries]
    nodes.add("Concat", entries, axis=axis)
    return nodes.finished()


EXPANSIONS: dict[str, Callable[[Importer, Node], list[Node]]] = {
    "Attention": _attention,
    "RMSNormalization": _rms_norm,
    "SplitToSequence": _split_to_sequence,
    "SequenceConstruct": _sequence_construct,
    "SequenceAt": _sequence_at,
    "ConcatFromSequence": _concat_from_sequence,
}
