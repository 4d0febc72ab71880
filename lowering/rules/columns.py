"""Concatenate padded values along columns instead of adding them, if their columns do not overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...kernels.program import Activation, Beside
from ...models.layers import Combine, Layer, Pad, Reshape
from ..builder import GraphBuilder
from ..graph.graph import Node

ACTIVATIONS = ("identity", "sigmoid")  # activations that take one instruction per value


class _Pieces(NamedTuple):
    """The values to concatenate: the first column of each value, keyed by its layer, and the other layers that the
    concatenation computes."""

    starts: dict[str, int]
    merged: tuple[str, ...]


def place_beside(builder: GraphBuilder, layer: Combine, activation: Activation) -> bool:
    """If `layer` adds values after padding them with zeros, concatenate the values instead and return True."""
    if layer.operation != "add" or activation.name not in ACTIVATIONS:
        return False
    pieces = [piece for piece in (_pieces(builder, name) for name in layer.inputs) if piece is not None]
    after = builder.shapes[layer.inputs[0]]
    starts = _starts_in_order(builder, pieces)
    gaps = _gaps(builder, starts, after[2])
    if len(pieces) < 2 or not starts or min(gaps) < 0 or (any(gaps) and not activation.is_identity):
        return False
    merged = _removed(builder, [name for piece in pieces for name in piece.merged])
    fields: dict[str, Any] = {"kind": layer.kind, "shown": (after, after), "activation": activation}
    builder.add(Beside, layer.name, tuple(starts), after, starts=tuple(starts.values()), **fields)
    builder.places.update(dict.fromkeys(merged, builder.places[layer.name]))
    return True


def _starts_in_order(builder: GraphBuilder, pieces: Sequence[_Pieces]) -> dict[str, int]:
    """Return the first column of each value, in ascending order; empty if the values cannot be concatenated."""
    starts = {name: start for piece in pieces for name, start in piece.starts.items()}
    is_each_once = len(starts) == sum(len(piece.starts) for piece in pieces)
    ordered = dict(sorted(starts.items(), key=lambda item: item[1]))
    return ordered if ordered and is_each_once and _are_alike(builder, list(ordered)) else {}


def _gaps(builder: GraphBuilder, starts: dict[str, int], columns: int) -> list[int]:
    """Return the number of empty columns before each value and after the last one; negative if values overlap."""
    ends = [start + math.prod(builder.shapes[name][1:]) for name, start in starts.items()]
    return [start - end for start, end in zip([*starts.values(), columns], [0, *ends], strict=True)]


def _removed(builder: GraphBuilder, names: Sequence[str]) -> list[str]:
    """Remove the nodes of layers, and return all layers whose values they compute."""
    layers: list[str] = []
    for name in names:
        parts = builder.places[name].parts
        layers += [other for other, channel_map in builder.places.items() if channel_map.parts == parts]
        builder.move_to_end(parts[0])
        builder.nodes.pop()
    return layers


def _pieces(builder: GraphBuilder, name: str) -> _Pieces | None:
    """Return the values that a layer adds after padding them with zeros, or None for any other layer."""
    node = _node_of(builder, name)
    layer = builder.layers.get(name)
    if node is None or layer is None:
        return None
    if node.operation.joins_columns:
        return _Pieces(_starts(builder, layer), (name,))
    if not isinstance(layer, Pad) or layer.mode != "constant" or layer.value or layer.padding[::2] != (0, 0):
        return None
    if min(layer.padding) < 0 or builder.shapes[name][1] > 1:
        return None
    reshaped = _reshaped(builder, layer)
    return _Pieces(_starts(builder, layer), (name,) if reshaped is None else (name, reshaped.name))


def _starts(builder: GraphBuilder, layer: Layer) -> dict[str, int]:
    """Return the first column of each value that a layer reads if it is a padding or a concatenation of this kind."""
    if isinstance(layer, Pad):
        reshaped = _reshaped(builder, layer)
        return {(reshaped or layer).inputs[0]: layer.padding[1]}
    read = [_starts(builder, builder.layers[name]) for name in layer.inputs]
    return {name: start for piece in read for name, start in piece.items()}


def _reshaped(builder: GraphBuilder, pad: Pad) -> Reshape | None:
    """Return the layer that reshapes an image to the row of pixels that only `pad` reads, or None if there is no such
    layer or its copy is needed."""
    layer = builder.layers.get(pad.inputs[0])
    if not isinstance(layer, Reshape):
        return None
    part = builder.places[layer.name].parts[0]
    if part >= 0 and builder.nodes[part].operation.joins_columns:  # already concatenated
        return layer
    node = _node_of(builder, layer.name)
    is_copy = node is not None and node.operation.keeps_numbers(0) and not node.operation.moves_numbers
    return layer if is_copy else None


def _node_of(builder: GraphBuilder, name: str) -> Node | None:
    """Return the node of a layer whose value is stored in channel order and read once, or None if there is no such
    node."""
    node = builder.node_of(name) if builder.is_read_once(name) else None
    return node if node is not None and node.name == name else None


def _are_alike(builder: GraphBuilder, names: Sequence[str]) -> bool:
    """True if each value is one whole part and all values have the same number of channels."""
    places = [builder.places[name] for name in names]
    are_whole = all(builder.node_of(name) is not None for name in names)
    return (
        are_whole
        and len({channel_map.sizes for channel_map in places}) == 1
        and builder.shapes[names[0]][0] == places[0].total
    )
