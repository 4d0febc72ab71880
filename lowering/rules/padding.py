"""Lowering rule for padding with a constant or with pixels of the image."""

from ...kernels.program import Border
from ...kernels.program import Pad as PadOperation
from ...models.layers import Pad
from ..builder import GraphBuilder, lowers


@lowers(Pad)
def pad(builder: GraphBuilder, layer: Pad) -> None:
    """Append padding around every channel, whether it is read or not."""
    after = layer.output_shape(builder.shapes[layer.inputs[0]])
    builder.add_by_channel(
        PadOperation, layer, after, padding=layer.padding, value=layer.value, border=Border(layer.mode)
    )
