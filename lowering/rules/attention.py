"""Lowering rule for attention."""

from ...kernels.attention_operation import Attention as AttentionOperation
from ...models.layers import Attention
from ..builder import GraphBuilder, lowers
from ..graph.lazy import LazyArray


@lowers(Attention)
def attention(builder: GraphBuilder, layer: Attention) -> None:
    """Append an attention operation; heads are contiguous channels, so each operand must be in channel order, in full
    tiles."""
    for name in dict.fromkeys(layer.inputs):
        if not builder.is_gathered(name):
            builder.gather(name)
    after = layer.output_shape(*(builder.shapes[name] for name in layer.inputs))
    tensors = builder.model.tensors
    bias = LazyArray(layer.bias_shape, lambda: tensors[f"{layer.name}.bias"]) if layer.bias_shape else None
    builder.add(
        AttentionOperation,
        layer.name,
        layer.inputs,
        after,
        kind=layer.kind,
        filters=bias,
        heads=layer.heads,
        scale=layer.scale,
        by_rows=layer.by_rows,
        bias_shape=layer.bias_shape,
        is_linear=layer.is_linear,
    )
