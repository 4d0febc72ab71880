"""Spare the Scalar Engine a change of its lookup table where a few gates would take one.

Loading a table takes as long as some thousand elements. In a network of silu, gelu and the like each gate of squeeze
and excite, a sigmoid of a number for each channel, would have one loaded before and another after it. There the Vector
Engine computes it by powers.
"""

from __future__ import annotations

from dataclasses import replace

from ..kernels.program import Affine, Combine, Convolution
from .graph import Graph, Node

OTHER_TABLES = ("silu", "gelu", "gelu_tanh", "mish", "softplus", "exp")  # than that of sigmoid and tanh
ACTIVATING = (Affine, Combine, Convolution)  # operations that end in an activation
BY_POWERS = "sigmoid_by_powers"


def spare_tables(graph: Graph) -> Graph:
    """Let gates be computed without a table where other functions of the graph have another one."""
    if not any(_activation(node) in OTHER_TABLES for node in graph.nodes):
        return graph
    return graph.with_nodes(_by_powers(node) if _is_gate(node) else node for node in graph.nodes)


def _activation(node: Node) -> str:
    operation = node.operation
    return operation.activation.name if isinstance(operation, ACTIVATING) else ""


def _is_gate(node: Node) -> bool:
    return _activation(node) == "sigmoid" and node.operation.rows == node.operation.columns == 1


def _by_powers(node: Node) -> Node:
    operation = node.operation
    assert isinstance(operation, ACTIVATING)
    return node.changed(activation=replace(operation.activation, name=BY_POWERS))
