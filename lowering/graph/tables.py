"""Avoid switching the Scalar Engine's lookup table only for a few gates.

Loading a table takes as long as processing about a thousand elements. In a network that uses silu, gelu or similar
activations, each squeeze-and-excite gate (a sigmoid of one number per channel) would require loading another table
before it and the original table after it. In such networks, the Vector Engine computes the gates with powers instead.
"""

from __future__ import annotations

from dataclasses import replace

from ...kernels.program import Affine, Combine, Convolution
from .graph import Graph, Node

OTHER_TABLES = ("silu", "gelu", "gelu_tanh", "mish", "softplus", "exp")  # do not share a table with sigmoid
ACTIVATING = (Affine, Combine, Convolution)  # operations that end with an activation
BY_POWERS = "sigmoid_by_powers"


def spare_tables(graph: Graph) -> Graph:
    """Compute gates without a lookup table if other functions of the graph use a different table."""
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
