"""Small images of few channels: the host brings their zeros along, and the columns of taps become channels.

A convolution of C channels by filters kw columns wide is one of kw * C channels, the image and its copies moved left by
a column each, by filters of one column. The copies need no room in HBM: a DMA reads the same rows again, a column
further, in runs as long as an image because its zeros are in them. So one DMA brings what a row of the filter reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...kernels.tiling.packing import PARTITIONS
from ...models.checks import Shape
from .memory import WHOLE_BYTES, elements
from .program import Planned, behind, readers_of

FEWEST_CHANNELS = 8  # that a layer is given however many images lie side by side: the most are 16


def with_taps(
    layers: Sequence[Planned], image: Shape, itemsize: int
) -> tuple[list[Planned], Shape, tuple[int, int, int, int]]:
    """Layers, the image that they are given, and the zeros around the input that make it so: (0, 0, 0, 0) for none."""
    first = layers[0]
    channels = first.kernel[1] * image[0]
    plain = first.kind == "conv2d" and first.groups == 1 and first.group_bytes == 0
    plain = plain and readers_of(layers, -1) == [(0, (-1,))]
    few = channels <= max(FEWEST_CHANNELS, first.channels) and channels <= PARTITIONS
    if not plain or not few or first.kernel[1] == 1 or elements(image, first.padding) * itemsize > WHOLE_BYTES:
        return list(layers), image, (0, 0, 0, 0)
    assert first.filters is not None
    top, left, bottom, right = first.padding
    given = (image[0], image[1] + top + bottom, image[2] + left + right)
    loaded = (channels, *given[1:])
    load = Planned("taps", first.name, ((-1,),), channels, first.kernel, (1, 1), first.dilation, shown="load")
    filters = first.filters.transpose(0, 3, 1, 2).reshape(len(first.filters), channels, first.kernel[0], 1)
    own = replace(first, kernel=(first.kernel[0], 1), padding=(0, 0, 0, 0), before=loaded, filters=filters)
    return behind(replace(load, before=given, after=loaded), (own, *layers[1:])), given, first.padding
