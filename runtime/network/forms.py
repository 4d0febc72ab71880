"""In which form each convolution of a launch multiplies its filters, and what that takes of SBUF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...kernels.convolution.forms import (
    DIRECT,
    GAIN,
    RESERVED_BYTES,
    SQUARES,
    START_NS,
    combined_elements,
    engines_ns,
    input_room,
    matrices,
    most_columns,
    piece_of,
    rows_combined,
    rows_together,
)
from ...kernels.tiling.packing import PARTITIONS, ceil_div, copies_in_partitions, taps_in_partitions
from .layout import from_hbm, steps_of
from .program import Planned

COMBINED_BYTES = (28 * 1024, 12 * 1024)  # of a partition, for what is combined of an input at a time; two of them live
DMA_BYTES_NS = 368.0  # that all DMA engines bring
MANY_COLUMNS = 4 * 1024  # of a layer's outputs in a batch, from which float32 matmuls hide what combining them takes
FILTERING_BYTES = 16 * 1024  # for sums on their way to the output


def quickest(
    layers: Sequence[Planned],
    number: int,
    rows: list[int],
    choices: Sequence[tuple[str, int]],
    itemsize: int,
    images: int = 1,
) -> Planned:
    """A layer in the form that is predicted to be the quickest: the direct one, or one of `choices`, each with what may
    be combined of the input at a time, in bytes of a partition. `rows`: channels of each tile that it reads; `images`:
    along the free axis.
    """
    layer = layers[number]
    if not _is_plain(layer) or layers[layer.sources[0][0]].kind == "taps":
        return layer
    high, wide = _outputs(layer)
    loaded = from_hbm(layers, layer)
    taps = (1, 1, rows[0])
    if len(rows) == 1:
        taps = taps_in_partitions(rows[0], *layer.kernel) if loaded else copies_in_partitions(rows[0], layer.kernel[0])
    outputs = ceil_div(layer.channels * layer.together * layer.unfold, PARTITIONS)
    if itemsize == 2 or images * high * wide < MANY_COLUMNS:
        images = 1  # the additions of more of them would not be hidden
    best, least = layer, 0.0
    for form, room in [(DIRECT, 0), *choices]:
        fitting = high
        if form != DIRECT and not loaded:
            taps = (1, 1, rows[0])  # what is combined has no copies
        if form != DIRECT and not _fits(layers, layer, taps, len(rows) * itemsize, form):
            continue
        if form != DIRECT and not loaded:
            fitting = rows_combined(form, high, wide, layer.kernel[0], layer.pool_size, room // (len(rows) * itemsize))
        piece = piece_of(form, layer.pool_size, high, wide, fitting)
        steps = steps_of(layer, taps)
        loads = len(rows) * outputs * matrices(form, steps) * PARTITIONS**2 * itemsize / DMA_BYTES_NS
        work = (len(rows), outputs, steps, layer.pool_size)
        busiest = max(loads, *engines_ns(form, itemsize, (images, high, wide), piece, work, True)) + START_NS[form]
        if form == DIRECT:
            least = busiest
        elif busiest * GAIN < least:
            padding, room = widest_padding(layer), layer.group_bytes or room
            best, least = replace(layer, form=form, padding=padding, group_bytes=room), busiest
    return best


def form_of(parts: Sequence[Planned]) -> str | None:
    """How a layer of a network, or the parts that it runs in, multiplies its filters: one of the forms of
    kernels/convolution/forms.py, and what shares the Tensor Engine; None where it multiplies none."""
    convolutions = [part for part in parts if part.kind == "conv2d"]
    if not convolutions:
        return None
    first = convolutions[0]
    words = [first.form]
    taps = max(part.taps[0] * part.taps[1] for part in convolutions)
    columns = next((part.kernel[1] for part in parts if part.kind == "taps"), 1)
    rows = max(first.blank[2], first.unfold)
    if first.groups > 1:
        words.append("diagonals")
    if taps * columns > 1:
        words.append(f"{taps * columns} taps a matmul")
    if rows > 1:
        words.append(f"{rows} rows side by side")
    if first.together > 1:
        words.append(f"{first.together} images side by side")
    return ", ".join(words)


def _outputs(layer: Planned) -> tuple[int, int]:
    """Rows and columns that a convolution computes of each output channel, before pooling."""
    return layer.after[1] * layer.pool_size // layer.unfold, layer.after[2] * layer.pool_size


def _is_plain(layer: Planned) -> bool:
    """Whether a layer's filters can be combined."""
    moves_by_one = max(*layer.stride, *layer.dilation, layer.groups) == 1
    return layer.kind == "conv2d" and layer.kernel[1] == 3 and moves_by_one


def widest_padding(layer: Planned) -> tuple[int, int, int, int]:
    """The zeros around what a layer reads in any form: its outputs become an even number of rows and columns."""
    top, left, bottom, right = layer.padding
    high, wide = _outputs(layer)
    return (top, left, bottom + high % 2, right + wide % 2) if _is_plain(layer) else layer.padding


def _fits(layers: Sequence[Planned], layer: Planned, taps: tuple[int, int, int], size: int, form: str) -> bool:
    """Whether a layer whose filters can be combined can take a form; `size`: bytes of a pixel on a partition."""
    wide = _outputs(layer)[1]
    if taps[1] > 1 or taps[0] >= layer.kernel[0] > 1 or ceil_div(wide, 2) > most_columns(form):
        return False
    if form == SQUARES and (layer.kernel[0] != 3 or taps[0] > 1):
        return False
    if not from_hbm(layers, layer):
        return True
    together = rows_together(form, layer.pool_size)  # a few rows of what is loaded, combined twice, and of the outputs
    rows_bytes = ((together + layer.kernel[0]) * input_room(form) + together) * (wide + 3) * size
    return rows_bytes <= (layer.group_bytes - RESERVED_BYTES) // 2


def combined_bytes(layer: Planned, tiles: int, images: int, itemsize: int) -> int:
    """Bytes of a partition that the combinations of a layer's whole input take, of so many tiles of channels."""
    high, wide = _outputs(layer)
    return tiles * images * combined_elements(layer.form, high, wide, layer.kernel[0]) * itemsize
