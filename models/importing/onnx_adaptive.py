"""Recognise adaptive average pooling with windows of different sizes, which torch.export exports as dozens of nodes.

The exported graph gathers the pixels of all windows, [N, C, rows, window rows, columns, window columns], and sets the
padding of smaller windows to zero. It then adds the pixels of each window one by one and divides the sum by their
number, or computes the mean if all windows have the same size.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .onnx_file import Node

WEIGHTED_PIXELS = "trninfer.WeightedPixels"  # attributes rows, columns: pixels [out, some]; row_shares, column_shares

Readers = Mapping[str, Sequence[Node]]
Constants = Mapping[str, np.ndarray]


def adaptive_pool(
    gather: Node, before: Node | None, readers: Readers, constants: Constants
) -> tuple[Node, list[Node]] | None:
    """Return (a WEIGHTED_PIXELS node, the replaced nodes in order) if a GatherND after the node `before` is part of
    a pool."""
    places = constants.get(gather.inputs[1]) if len(gather.inputs) == 2 else None
    if before is None or before.op != "Transpose" or before.attributes.get("perm") != (2, 3, 0, 1) or places is None:
        return None
    if places.ndim != 5 or places.shape[4] != 2 or gather.attributes.get("batch_dims", 0) or 0 in places.shape:
        return None
    rows, columns = places[:, :, :1, :1, :1], places[:1, :1, :, :, 1:]
    if (places[..., :1] != rows).any() or (places[..., 1:] != columns).any():
        return None
    transpose = _only(readers, gather)
    if transpose is None or transpose.op != "Transpose" or transpose.attributes.get("perm") != (4, 5, 0, 1, 2, 3):
        return None
    members, left_out = [before, gather, transpose], np.zeros(places.shape[:4], bool)
    while (masked := _zeroed(_only(readers, members[-1]), members[-1], left_out.shape, constants)) is not None:
        members.append(masked[0])
        left_out |= masked[1]
    counted = (~left_out).sum(axis=(1, 3))
    last = _mean(members, readers, constants) or _quotient(members, readers, constants, left_out.shape, counted)
    row_left_out, column_left_out = (np.asarray(left_out.all(axis=axes)) for axes in ((2, 3), (0, 1)))
    separate = row_left_out[:, :, None, None] | column_left_out
    if last is None or (separate != left_out).any() or not counted.all() or (left_out.any() and last.op != "Div"):
        return None
    attributes = {
        "rows": rows[:, :, 0, 0, 0], "row_shares": _shares(row_left_out),
        "columns": columns[0, 0, :, :, 0], "column_shares": _shares(column_left_out),
    }  # fmt: skip
    return Node(WEIGHTED_PIXELS, last.name, (before.inputs[0],), last.outputs, attributes), members


def _shares(left_out: np.ndarray) -> np.ndarray:
    """Return the weight of each pixel in the mean of its window."""
    shares: np.ndarray = ~left_out / np.maximum(1, (~left_out).sum(axis=1, keepdims=True))
    return shares


def _only(readers: Readers, node: Node) -> Node | None:
    nodes = readers.get(node.outputs[0], ())
    return nodes[0] if len(nodes) == 1 else None


def _zeroed(
    where: Node | None, source: Node, shape: tuple[int, ...], constants: Constants
) -> tuple[Node, np.ndarray] | None:
    """Return (a Where that sets some elements of `source` to zero, the mask of these elements)."""
    if where is None or where.op != "Where" or len(where.inputs) != 3 or where.inputs[2] != source.outputs[0]:
        return None
    mask, value = (constants.get(name) for name in where.inputs[:2])
    if mask is None or value is None or value.size != 1 or value.any() or mask.ndim > 4:
        return None
    left_out = _spread(mask.astype(bool), shape)
    return None if left_out is None else (where, left_out)


def _spread(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """Broadcast an array to a shape; return None if that is not possible."""
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        return None


def _mean(members: list[Node], readers: Readers, constants: Constants) -> Node | None:
    """Return the node that computes the mean over the windows, and append it to `members`."""
    mean = _only(readers, members[-1])
    if mean is None or mean.op != "ReduceMean" or mean.attributes.get("keepdims", 1):
        return None
    axes = constants.get(mean.inputs[1]) if len(mean.inputs) > 1 else np.asarray(mean.attributes.get("axes", ()))
    if axes is None or sorted(axis % 6 for axis in axes.ravel().tolist()) != [3, 5]:
        return None
    members.append(mean)
    return mean


@dataclass
class _WindowPixels:
    """The pixels of a window that the values between all windows and their sums contain, by name.

    `source` is the value with all windows, and `shape` is (rows, window rows, columns, window columns).
    """

    source: str
    shape: tuple[int, ...]
    rows: dict[str, int] = field(default_factory=dict)  # values with one row of each window
    sums: dict[str, Counter[tuple[int, int]]] = field(default_factory=dict)  # pixels, and sums of pixels

    def take(self, node: Node, entry: np.ndarray | None) -> bool:
        """Record a sum, or a Gather of one row of the windows or one pixel of a row. Return False for other nodes."""
        name, axis = node.outputs[0], node.attributes.get("axis", 0)
        if node.op == "Add":
            self.sums[name] = self.sums[node.inputs[0]] + self.sums[node.inputs[1]]
        elif node.op != "Gather" or entry is None or entry.ndim > 0:
            return False
        elif node.inputs[0] == self.source and axis == 3:
            self.rows[name] = int(entry) % self.shape[1]
        elif node.inputs[0] in self.rows and axis == 4:
            self.sums[name] = Counter([(self.rows[node.inputs[0]], int(entry) % self.shape[3])])
        return name in self.rows or name in self.sums

    def can_add(self, node: Node) -> bool:
        """Return True if both operands of an Add are available."""
        return len(node.inputs) == 2 and all(operand in self.sums for operand in node.inputs)

    def is_mean(self, node: Node, entry: np.ndarray, counted: np.ndarray) -> bool:
        """Return True if a Div divides the sum of all pixels of each window by their number."""
        divisor = _spread(entry, counted.shape)
        whole = Counter(itertools.product(range(self.shape[1]), range(self.shape[3])))
        return self.sums[node.inputs[0]] == whole and divisor is not None and not (divisor != counted).any()


def _quotient(
    members: list[Node], readers: Readers, constants: Constants, shape: tuple[int, ...], counted: np.ndarray
) -> Node | None:
    """Return the node that divides the sum of the pixels in a window by their number; append its nodes to `members`."""
    pixels = _WindowPixels(members[-1].outputs[0], shape)
    waiting = list(readers.get(pixels.source, ()))
    while waiting:
        node = waiting.pop(0)
        entry = constants.get(node.inputs[1]) if len(node.inputs) == 2 else None
        name = node.outputs[0]
        if name in pixels.sums or name in pixels.rows or (node.op == "Add" and not pixels.can_add(node)):
            continue
        if node.op == "Div" and node.inputs[0] in pixels.sums and entry is not None:
            members.append(node)
            return node if pixels.is_mean(node, entry, counted) else None
        if not pixels.take(node, entry):
            return None
        members.append(node)
        waiting += readers.get(name, ())
    return None
