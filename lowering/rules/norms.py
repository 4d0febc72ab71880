"""Lowering rules for normalization layers."""

from typing import Any

from ...kernels.program import GroupNorm as GroupNormOperation
from ...kernels.program import LayerNorm as LayerNormOperation
from ...kernels.program import LocalResponseNorm as LocalResponseNormOperation
from ...models.layers import GroupNorm, LayerNorm, LocalResponseNorm
from ..builder import GraphBuilder, lowers
from ..graph.graph import Unsupported


@lowers(LayerNorm)
def layer_norm(builder: GraphBuilder, layer: LayerNorm) -> None:
    """Normalize over the channels of each pixel, in any order."""
    _check(builder, layer)
    if not builder.places[layer.inputs[0]].are_all:
        builder.gather(layer.inputs[0])
    after, fields = builder.shapes[layer.inputs[0]], _fields(builder, layer)
    builder.add_by_channel(LayerNormOperation, layer, after, is_centred=layer.is_centred, **fields)


@lowers(GroupNorm)
def group_norm(builder: GraphBuilder, layer: GroupNorm) -> None:
    """Normalize over groups of an image's channels, each of which must be contiguous."""
    _check(builder, layer)
    if not builder.places[layer.inputs[0]].are_plain:
        builder.gather(layer.inputs[0])
    after = builder.shapes[layer.inputs[0]]
    builder.add_by_channel(GroupNormOperation, layer, after, groups=layer.groups, **_fields(builder, layer))


@lowers(LocalResponseNorm)
def local_response_norm(builder: GraphBuilder, layer: LocalResponseNorm) -> None:
    """Normalize over neighbouring channels, which must be contiguous, in full tiles."""
    source = layer.inputs[0]
    if not builder.is_gathered(source):
        builder.gather(source)
    fields: dict[str, Any] = {"size": layer.size, "alpha": layer.alpha, "beta": layer.beta, "bias": layer.bias}
    builder.add_by_channel(LocalResponseNormOperation, layer, builder.shapes[source], **fields)


def _check(builder: GraphBuilder, layer: LayerNorm | GroupNorm) -> None:
    if builder.shapes[layer.inputs[0]][0] != layer.channels:
        raise Unsupported(f"layer {layer.name!r} ({layer.kind}) normalises the values of a flattened image")


def _fields(builder: GraphBuilder, layer: LayerNorm | GroupNorm) -> dict[str, Any]:
    numbers = (builder.numbers(layer, "scale", 0.0), builder.numbers(layer, "shift", 0.0))
    is_scaled = any(bool((builder.tensor(layer, name) != plain).any()) for name, plain in (("scale", 1), ("shift", 0)))
    return {"numbers": numbers, "epsilon": layer.epsilon, "is_scaled": is_scaled}
