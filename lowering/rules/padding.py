"""Padding by a number, or by an image's own pixels."""

from ...kernels.program import Border
from ...kernels.program import Pad as PadOperation
from ...models.layers import Pad
from ..builder import GraphBuilder, lowers


@lowers(Pad)
def pad(builder: GraphBuilder, layer: Pad) -> None:
    """The number, or the pixels, are around each channel, read or not."""
    after = layer.output_shape(builder.shapes[layer.inputs[0]])
    builder.add_by_channel(
        PadOperation, layer, after, padding=layer.padding, value=layer.value, border=Border(layer.mode)
    )
