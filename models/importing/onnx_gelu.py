"""Gelu as exporters write it for opsets without a Gelu operation: 0.5 * x * (1 + erf(x / sqrt 2)), in five nodes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from .onnx_file import Node


def join_gelus(nodes: Sequence[Node], constants: Mapping[str, np.ndarray]) -> list[Node]:
    """The nodes with each such group of five as one Gelu node, in the place of the group's last."""
    search = _Search(nodes, constants)
    gelus: dict[int, Node] = {}  # by the identity of the node whose place they take
    gone: set[int] = set()
    for node in nodes:
        found = search.around(node) if node.op == "Erf" and len(node.inputs) == 1 else None
        if found:
            source, members = found
            gelus[id(members[-1])] = Node("Gelu", members[-1].name, (source,), members[-1].outputs, {})
            gone.update(id(member) for member in members[:-1])
    return [gelus.get(id(node), node) for node in nodes if id(node) not in gone]


class _Search:
    def __init__(self, nodes: Sequence[Node], constants: Mapping[str, np.ndarray]) -> None:
        self._constants = constants
        self._producer = {output: node for node in nodes for output in node.outputs}
        self._readers: dict[str, list[Node]] = defaultdict(list)
        for node in nodes:
            for name in node.inputs:
                self._readers[name].append(node)

    def around(self, erf: Node) -> tuple[str, list[Node]] | None:
        """(what goes in, the five nodes in order) where an Erf node is part of a gelu."""
        scaled = self._producer.get(erf.inputs[0])
        source = self._other(scaled, "Div", math.sqrt(2)) or self._other(scaled, "Mul", math.sqrt(0.5))
        plus = self._only_reader(erf)
        if scaled is None or not source or plus is None or self._other(plus, "Add", 1.0) != erf.outputs[0]:
            return None
        product = self._only_reader(plus)
        if product is None or product.op != "Mul" or len(product.inputs) != 2 or self._only_reader(scaled) is not erf:
            return None
        factor = product.inputs[1 - list(product.inputs).index(plus.outputs[0])]
        if factor == source:  # (x * (1 + erf)) * 0.5
            last = self._only_reader(product)
            if last is not None and self._other(last, "Mul", 0.5) == product.outputs[0]:
                return source, [scaled, erf, plus, product, last]
        half = self._producer.get(factor)
        if half is not None and self._other(half, "Mul", 0.5) == source and self._only_reader(half) is product:
            return source, [scaled, erf, plus, half, product]  # (x * 0.5) * (1 + erf)
        return None

    def _other(self, node: Node | None, op: str, constant: float) -> str:
        """The operand of a node that is not this constant; nothing where it is another operation or constant."""
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
