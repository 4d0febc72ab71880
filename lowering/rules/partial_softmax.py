"""Lowering rules for softmax layers within a network."""

from ...kernels.program import ChannelSoftmax as ChannelSoftmaxOperation
from ...kernels.program import RowSoftmax as RowSoftmaxOperation
from ...models.layers import ChannelSoftmax, RowSoftmax
from ..builder import GraphBuilder, lowers


@lowers(ChannelSoftmax)
def channel_softmax(builder: GraphBuilder, layer: ChannelSoftmax) -> None:
    """Append a softmax over channels, which must be contiguous in the order of the layer."""
    builder.make_plain(layer.inputs[0])
    after = builder.shapes[layer.inputs[0]]
    builder.add_by_channel(ChannelSoftmaxOperation, layer, after, length=layer.length, inner=layer.inner, log=layer.log)


@lowers(RowSoftmax)
def row_softmax(builder: GraphBuilder, layer: RowSoftmax) -> None:
    """Append a softmax over the rows of each channel; the channels may be in any order."""
    if not builder.places[layer.inputs[0]].are_all:
        builder.gather(layer.inputs[0])
    builder.add_by_channel(RowSoftmaxOperation, layer, builder.shapes[layer.inputs[0]], log=layer.log)
