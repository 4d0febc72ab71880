"""Recognise operations that exporters decompose into several nodes: gelu, softplus, layer normalisation and pools.

Gelu is exported as 0.5 * x * (1 + erf(x / sqrt 2)), in five nodes, or by tf2onnx with `Erfc`. Before opset 17, layer
normalisation is exported as (x - mean) / sqrt(mean of squares + epsilon) * scale + shift, in nine nodes. PyTorch's
softplus returns x if x is greater than 20.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from .onnx_adaptive import adaptive_pool
from .onnx_file import Attribute, Node

ROLL = "trninfer.Roll"  # rotates an axis: the entries from `first` onwards, followed by the preceding ones
NORM_OVER_AXIS = "trninfer.NormOverAxis"  # layer normalisation over a single axis, which need not be the last

FAR = 1 << 31  # exporters write this or a larger end for a slice that extends to the end of the axis
LARGE = 17.0  # for larger x, softplus(x) equals x in float32


def join_patterns(
    nodes: Sequence[Node], constants: Mapping[str, np.ndarray], outputs: Collection[str] = ()
) -> list[Node]:
    """Replace each recognised group of nodes with a single node, at the position of the last node of the group.

    A group is left unchanged if a node outside the group reads one of its intermediate values, or if one of `outputs`
    is an intermediate value.
    """
    search = _Search(nodes, constants, outputs)
    replacements: dict[int, Node] = {}  # by the identity of the replaced node
    removed: set[int] = set()
    for node in nodes:
        find = _PATTERNS.get((node.op, len(node.inputs)))
        match = find(search, node) if find is not None else None
        if match and search.is_closed(match[1]):
            replacement, members = match
            replacements[id(members[-1])] = replacement
            removed.update(id(member) for member in members[:-1])
    return [replacements.get(id(node), node) for node in nodes if id(node) not in removed]


class _Search:
    def __init__(self, nodes: Sequence[Node], constants: Mapping[str, np.ndarray], outputs: Collection[str]) -> None:
        self._constants = constants
        self._outputs = outputs
        self._producer = {output: node for node in nodes for output in node.outputs}
        self._readers: dict[str, list[Node]] = defaultdict(list)
        for node in nodes:
            for name in node.inputs:
                self._readers[name].append(node)

    def around(self, erf: Node) -> tuple[Node, list[Node]] | None:
        """Return (a Gelu node, the five replaced nodes in order) if an Erf node is part of a gelu."""
        gelu = self._gelu(erf)
        if gelu is None:
            return None
        source, members = gelu
        return Node("Gelu", members[-1].name, (source,), members[-1].outputs, {}), members

    def around_complement(self, erfc: Node) -> tuple[Node, list[Node]] | None:
        """Return (a Gelu node, the five replaced nodes in order) if an Erfc node is part of Keras's gelu, which is
        (0.5 * x) * erfc(-x / sqrt 2)."""
        scaled, product = self._producer.get(erfc.inputs[0]), self._only_reader(erfc)
        negated = self._producer.get(self._other(scaled, "Mul", math.sqrt(0.5)))
        if scaled is None or negated is None or negated.op != "Neg" or product is None or product.op != "Mul":
            return None
        half = self._producer.get(product.inputs[1 - list(product.inputs).index(erfc.outputs[0])])
        source = negated.inputs[0]
        if half is None or self._other(half, "Mul", 0.5) != source:
            return None
        return Node("Gelu", product.name, (source,), product.outputs, {}), [half, negated, scaled, erfc, product]

    def adaptive_pool(self, gather: Node) -> tuple[Node, list[Node]] | None:
        """Return (the replacement, the replaced nodes in order) if a GatherND is part of adaptive average pooling."""
        return adaptive_pool(gather, self._producer.get(gather.inputs[0]), self._readers, self._constants)

    def softplus_before(self, where: Node) -> tuple[Node, list[Node]] | None:
        """Return (a Softplus node, the three replaced nodes in order) if a Where selects x instead of softplus(x) for
        large x."""
        above, source, other = where.inputs
        greater, softplus = self._producer.get(above), self._producer.get(other)
        compared, limit = self._and_constant(greater, "Greater")
        if greater is None or softplus is None or softplus.op != "Softplus" or softplus.inputs != (source,):
            return None
        if compared != source or greater.inputs[0] != source or limit.size != 1 or float(limit.ravel()[0]) < LARGE:
            return None
        return Node("Softplus", where.name, (source,), where.outputs, {}), [softplus, greater, where]

    def roll_before(self, concat: Node) -> tuple[Node, list[Node]] | None:
        """Return (a ROLL node, the three replaced nodes in order) if a Concat moves the end of an axis before its
        beginning."""
        axis = concat.attributes.get("axis")
        parts = [self._producer.get(name) for name in concat.inputs]
        if not isinstance(axis, int) or any(part is None or part.op != "Slice" for part in parts):
            return None
        ends = [self._slice(part, axis) for part in parts if part is not None]
        if None in ends or len({part.inputs[0] for part in parts if part is not None}) > 1:
            return None
        (first, last), (start, until) = (end for end in ends if end is not None)
        if start != 0 or until != first or last < FAR or first == 0:
            return None
        members = [part for part in parts if part is not None]
        attributes: dict[str, Attribute] = {"axis": axis, "first": first}
        return Node(ROLL, concat.name, members[0].inputs[:1], concat.outputs, attributes), [*members, concat]

    def _slice(self, node: Node, axis: int) -> tuple[int, int] | None:
        """Return the start and the end of a slice along `axis` with a step of 1, or None for any other slice."""
        arguments = [self._constants.get(name) for name in node.inputs[1:]]
        names = ("starts", "ends", "axes", "steps")
        entries = []
        for position, name in enumerate(names):
            value = arguments[position] if position < len(arguments) else node.attributes.get(name)
            entries.append(np.asarray([1] if value is None and name == "steps" else value).ravel())
        if any(value.size != 1 or value.dtype.kind != "i" for value in entries) or (entries[2][0], entries[3][0]) != (
            axis,
            1,
        ):
            return None
        return int(entries[0][0]), int(entries[1][0])

    def is_closed(self, members: Sequence[Node]) -> bool:
        """Return True if only nodes of the group read its outputs, except for the output of the last node."""
        inside = {id(member) for member in members}
        if any(name in self._outputs for member in members[:-1] for name in member.outputs):
            return False
        return all(id(reader) in inside for member in members[:-1] for reader in self._readers[member.outputs[0]])

    def norm_around(self, root: Node) -> tuple[Node, list[Node]] | None:
        """Return (a NORM_OVER_AXIS node, the replaced nodes in order) if a Sqrt node is part of a layer
        normalisation."""
        plus = self._producer.get(root.inputs[0])
        variance, epsilon = self._and_constant(plus, "Add")
        mean_of_squares = self._producer.get(variance)
        if plus is None or mean_of_squares is None or epsilon.size != 1 or self._axis(mean_of_squares) is None:
            return None
        squares = self._producer.get(mean_of_squares.inputs[0])
        divided, centred = self._only_reader(root), self._centred(squares)
        if squares is None or centred is None or divided is None or divided.op != "Div":
            return None
        mean = self._producer.get(centred.inputs[1])
        axis = self._axis(mean)
        if mean is None or axis is None or axis != self._axis(mean_of_squares):
            return None
        if mean.inputs[0] != centred.inputs[0] or divided.inputs != (centred.outputs[0], root.outputs[0]):
            return None
        product = self._only_reader(divided)
        total = self._only_reader(product) if product is not None else None
        if product is None or total is None:
            return None
        scale, shift = self._constant_beside(product, "Mul"), self._constant_beside(total, "Add")
        if not scale or not shift:
            return None
        attributes = {"axis": axis, "epsilon": float(epsilon.ravel()[0])}
        source = centred.inputs[0]
        norm = Node(NORM_OVER_AXIS, total.name, (source, scale, shift), total.outputs, attributes)
        return norm, [mean, centred, squares, mean_of_squares, plus, root, divided, product, total]

    def _centred(self, squares: Node | None) -> Node | None:
        """Return the node that subtracts the mean if `squares` computes its square, otherwise None."""
        if squares is None or not squares.inputs:
            return None
        exponent = self._constants.get(squares.inputs[1]) if squares.op == "Pow" and len(squares.inputs) > 1 else None
        square = exponent is not None and exponent.size == 1 and float(exponent.ravel()[0]) == 2
        if not square and not (squares.op == "Mul" and len(set(squares.inputs)) == 1):
            return None
        centred = self._producer.get(squares.inputs[0])
        return centred if centred is not None and centred.op == "Sub" and len(centred.inputs) == 2 else None

    def _axis(self, mean: Node | None) -> int | None:
        """Return the axis of a mean over a single axis that keeps the reduced dimension, otherwise None."""
        if mean is None or mean.op != "ReduceMean" or not mean.inputs or mean.attributes.get("keepdims", 1) != 1:
            return None
        axes = mean.attributes.get("axes")
        if len(mean.inputs) > 1 and mean.inputs[1] in self._constants:
            axes = tuple(self._constants[mean.inputs[1]].ravel().tolist())
        return int(axes[0]) if isinstance(axes, tuple) and len(axes) == 1 else None

    def _and_constant(self, node: Node | None, op: str) -> tuple[str, np.ndarray]:
        """Return (the name of the variable operand, the constant operand); both are empty if the node does not
        match."""
        name = self._constant_beside(node, op)
        if node is None or not name:
            return "", np.empty(0)
        return node.inputs[1 - list(node.inputs).index(name)], self._constants[name]

    def _constant_beside(self, node: Node | None, op: str) -> str:
        """Return the name of the only constant operand of a node, or an empty string if the node does not match."""
        if node is None or node.op != op or len(node.inputs) != 2:
            return ""
        constants_found = [name for name in node.inputs if name in self._constants]
        return constants_found[0] if len(constants_found) == 1 else ""

    def _gelu(self, erf: Node) -> tuple[str, list[Node]] | None:
        """Return (the input, the five nodes in order) if an Erf node is part of a gelu."""
        scaled = self._producer.get(erf.inputs[0])
        source = self._other(scaled, "Div", math.sqrt(2)) or self._other(scaled, "Mul", math.sqrt(0.5))
        plus = self._only_reader(erf)
        if scaled is None or not source or plus is None or self._other(plus, "Add", 1.0) != erf.outputs[0]:
            return None
        product = self._only_reader(plus)
        if product is None or product.op != "Mul" or len(product.inputs) != 2 or self._only_reader(scaled) is not erf:
            return None
        factor = product.inputs[1 - list(product.inputs).index(plus.outputs[0])]
        if self._other(product, "Mul", 0.5) == plus.outputs[0]:  # x * (0.5 * (1 + erf))
            last = self._only_reader(product)
            if last is not None and last.op == "Mul" and sorted(last.inputs) == sorted((source, product.outputs[0])):
                return source, [scaled, erf, plus, product, last]
        if factor == source:  # (x * (1 + erf)) * 0.5
            last = self._only_reader(product)
            if last is not None and self._other(last, "Mul", 0.5) == product.outputs[0]:
                return source, [scaled, erf, plus, product, last]
        half = self._producer.get(factor)
        if half is not None and self._other(half, "Mul", 0.5) == source and self._only_reader(half) is product:
            return source, [scaled, erf, plus, half, product]  # (x * 0.5) * (1 + erf)
        return None

    def _other(self, node: Node | None, op: str, constant: float) -> str:
        """Return the name of the operand combined with `constant`, or an empty string if the node does not match."""
        if node is None or node.op != op or len(node.inputs) != 2:
            return ""
        for position in (1, 0) if op != "Div" else (1,):
            value = self._constants.get(node.inputs[position])
            if value is not None and value.size == 1 and math.isclose(float(value.ravel()[0]), constant, rel_tol=1e-3):
                return node.inputs[1 - position]
        return ""

    def _only_reader(self, node: Node) -> Node | None:
        readers = self._readers[node.outputs[0]]
        return readers[0] if len(readers) == 1 else None


# Maps (operator, number of inputs) to the method that finds the group of a node.
_PATTERNS: dict[tuple[str, int], Callable[[_Search, Node], tuple[Node, list[Node]] | None]] = {
    ("Erf", 1): _Search.around,
    ("Erfc", 1): _Search.around_complement,
    ("Sqrt", 1): _Search.norm_around,
    ("Where", 3): _Search.softplus_before,
    ("Concat", 2): _Search.roll_before,
    ("GatherND", 2): _Search.adaptive_pool,
}
