"""Lowering rule for pooling layers."""

from typing import Any

from ...kernels.program import AveragePool, MaxPool
from ...models.checks import Shape
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
        overlaps = any(window > stride for window, stride in zip(layer.window, layer.stride))
        if not any(layer.padding) and not layer.ceil_mode and not overlaps:
            _leave_out_unread(builder, layer, after)
        builder.add_by_channel(MaxPool, layer, after, **fields)


def _leave_out_unread(builder: GraphBuilder, layer: Pool, after: Shape) -> None:
    """Omit the last rows and columns of a convolution if they depend on padding and the only consumer, a pool, does not
    read them."""
    source = layer.inputs[0]
    if not builder.is_alone(source):
        return
    number = builder.places[source].parts[0]
    operation = builder.nodes[number].operation.convolved
    if operation is None or len(operation.sources) > 1 or operation.pool_size > 1:
        return
    axes = zip(after[1:], layer.window, layer.stride, layer.dilation)
    sizes = [(count - 1) * stride + (window - 1) * dilation + 1 for count, window, stride, dilation in axes]
    padding = list(operation.padding)
    for axis, (size, extent) in enumerate(zip(sizes, operation.shape[1:])):
        padding[2 + axis] -= (extent - size) * operation.stride[axis]
    if sizes != list(operation.shape[1:]) and min(padding) >= 0:
        fields = {"rows": sizes[0], "columns": sizes[1], "padding": tuple(padding)}
        builder.nodes[number] = builder.nodes[number].changed(**fields)
        builder.shapes[source] = (operation.channels, *sizes)
