"""Avoid switching the Scalar Engine's lookup table only for a few gates.

Loading a table takes as long as processing about a thousand elements. In a network that uses silu, gelu or similar
activations, each squeeze-and-excite gate (a sigmoid of one number per channel) would require loading another table
before it and the original table after it. In such networks, the Vector Engine computes the gates with powers instead.
"""

from __future__ import annotations

from dataclasses import replace

from ...kernels.operation_fields import IDENTITY, Activation
from .graph import Graph, Node

OTHER_TABLES = ("silu", "gelu", "gelu_tanh", "mish", "softplus", "exp")  # do not share a table with sigmoid
BY_POWERS = "sigmoid_by_powers"


def spare_tables(graph: Graph) -> Graph:
    """Compute gates without a lookup table if other functions of the graph use a different table."""
    if not any(_activation(node).name in OTHER_TABLES for node in graph.nodes):
        return graph
    return graph.with_nodes(_by_powers(node) if _is_gate(node) else node for node in graph.nodes)


def _is_gate(node: Node) -> bool:
    operation = node.operation
    is_sigmoid = operation.can_use_powers and _activation(node).name == "sigmoid"
    return is_sigmoid and operation.rows == operation.columns == 1


def _by_powers(node: Node) -> Node:
    return node.changed(activation=replace(_activation(node), name=BY_POWERS))


def _activation(node: Node) -> Activation:
    activation: Activation = getattr(node.operation, "activation", IDENTITY)
    return activation
