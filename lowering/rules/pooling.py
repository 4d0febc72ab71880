"""Lowering rule for pooling layers."""

from typing import Any

from ...kernels.program import AveragePool, MaxPool
from ...models.layers import Pool
from ..builder import GraphBuilder, lowers


@lowers(Pool)
def pool(builder: GraphBuilder, layer: Pool) -> None:
    """Append pooling over windows of each channel."""
    fields: dict[str, Any] = {
        "kernel": layer.window,
        "stride": layer.stride,
        "dilation": layer.dilation,
        "padding": layer.padding,
        "ceil_mode": layer.ceil_mode,
        "kind": f"{layer.method}_pool",
    }
    after = layer.output_shape(builder.shapes[layer.inputs[0]])
    if layer.method == "average":
        builder.add_by_channel(AveragePool, layer, after, count_include_pad=layer.count_include_pad, **fields)
    else:
        builder.add_by_channel(MaxPool, layer, after, **fields)
