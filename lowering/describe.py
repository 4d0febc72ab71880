"""Describe how each layer was lowered, for tables and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..kernels.convolution.forms import Form
from ..models.checks import Shape
from .graph.graph import Graph, Node


@dataclass(frozen=True)
class LayerRow:
    """A layer as shown in tables: its kind, the shapes of its input and output, and the layers that its nodes
    compute."""

    name: str
    kind: str
    before: Shape
    after: Shape
    layers: tuple[str, ...] = ()


def rows_of(graph: Graph) -> list[LayerRow]:
    """Return the layers of a graph in execution order: one row for all nodes of the same name."""
    rows: dict[str, LayerRow] = {}
    for node in graph.nodes:
        row = rows.setdefault(node.name, LayerRow(node.name, node.kind, *node.shown))
        if node.kind == row.kind:  # excludes nodes that rearrange its value or find its answers
            rows[node.name] = replace(row, after=node.shown[1])
    owned: dict[str, list[str]] = {name: [] for name in rows}
    for layer, name in graph.layers:
        owned[name].append(layer)
    return [replace(row, layers=tuple(owned[name])) for name, row in rows.items()]


def forms_by_layer(graph: Graph) -> dict[str, str | None]:
    """Return the convolution form of each layer of a launch, in execution order, or None for layers without filters."""
    parts: dict[str, list[Node]] = {}
    for node in graph.nodes:
        parts.setdefault(node.name, []).append(node)
    return {name: _form_of(nodes_of_layer) for name, nodes_of_layer in parts.items()}


def _form_of(parts: Sequence[Node]) -> str | None:
    """Describe the form of the layer that these nodes compute, and how it fills the Tensor Engine."""
    convolutions = [convolution for part in parts if (convolution := part.operation.convolved) is not None]
    if not convolutions:
        return "8-bit weights" if any(part.has_fp8_weights for part in parts) else None
    first = convolutions[0]
    loads = [load.kernel_columns for part in parts if (load := part.operation.taps_load) is not None]
    taps = max(operation.taps.count for operation in convolutions) * (loads[0] if loads else 1)
    rows = max(first.row_fold.count, first.rows_at_once)
    more = {
        "8-bit weights": first.weights.is_fp8,
        "8-bit output": first.is_fp8,
        "diagonals": first.groups > 1 and first.form is Form.DIRECT and first.row_fold.count == 1,
        f"{taps} taps per matmul": taps > 1,
        f"{rows} rows packed": rows > 1,
        f"{first.packed} images packed": first.packed > 1,
    }
    return ", ".join((first.form.value, *(words for words, is_true in more.items() if is_true)))
