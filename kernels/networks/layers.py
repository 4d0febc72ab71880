"""The layers of a network in one launch as data, and what passes between them."""

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from ..tiling.packing import PARTITIONS, ceil_div
from ..tiling.tiles import tiles
from ..tiling.windows import Span, fill_border


@dataclass
class ProgramLayer(nl.NKIObject):
    """One layer of a program; a plain tuple of these, in this order, describes it outside of the kernel.

    `kind` is "load", "taps", "conv2d", "max_pool", "average_pool", "folded_pool", "combine", "affine", "prelu",
    "layer_norm", "group_norm" or "scores". Each of `sources` is what it reads: the numbers of the layers whose channels
    stand one after another, -1 for the input. A convolution reads its input and, where a second one is there, what is
    added to its sums. It takes `weights` and the numbers after it in the flat array, and a column of the constants for
    each 128 output channels; `scores`, the last layer, a column for each class; `affine` and norms two, scale and
    shift, for each tile of channels, `prelu` one; or as many for each element of an image.
    """

    kind: str
    name: str
    sources: tuple[tuple[int, ...], ...]
    channels: int  # that it gives, of so many rows and columns
    rows: int
    columns: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]  # top, left, bottom, right
    pool_size: int
    activation: str
    parameters: tuple[float, ...]  # of the activation; a norm's epsilon
    groups: int
    operation: str  # of combine; "elements" of an affine or prelu with numbers for each of them
    weights: int
    constants: int
    taps: tuple[int, int, int]  # as packing.taps_in_partitions gives it
    together: int  # images side by side in what it gives
    margin: tuple[int, int, int, int]  # zeros around what it gives, for the layers that read it
    count_include_pad: bool
    ceil_mode: bool
    softmax: str  # of the scores: "softmax", "log_softmax" or "" for neither
    in_hbm: bool  # what it gives is too large for SBUF, or is what the launch gives
    stays: bool  # its weights stay in SBUF for all passes
    group_bytes: int  # of a partition, for an input in HBM that is loaded in groups of rows or images, 0: as a whole;
    # for one in SBUF, what minimal filtering combines of it at a time
    blank: tuple[int, int, int]  # rows of the first group that are padding, and of the last, of so many each
    unfold: int  # rows of the outputs that filters come again for: those of the first part are every so many rows
    form: str  # in which filters are multiplied; they come combined, as convolution/forms.py has them
    fold: tuple[int, int, int]  # of a folded_pool: row of its pair of the first tap, offset given or -1, rows in all
    copies: tuple[int, int, int]  # how often what it gives lies on the partitions, each copy so many rows further down
    # than the one before, and partitions from one to the next


@dataclass
class Value(nl.NKIObject):
    """What a layer gave: tiles of up to 128 partitions, (image, channel), as [partitions, images, rows, columns].

    Each tile has zeros around it, its margin. A tile that is alone may have copies of itself on the partitions below,
    moved up by rows. What is in HBM has no tiles, and is [images, (image, channel), rows, columns].
    """

    tiles: list[nl.NkiTensor]
    margins: list[tuple[int, int, int, int]]
    hbm: nl.NkiTensor | None
    images: int  # along the free axis
    channels: int  # of an image
    rows: int
    columns: int
    together: int
    pictures: int  # at most images * together: the rest of the last image fills up


def value_in_hbm(hbm, together, pictures):
    """What lies in HBM, [images, (image, channel), rows, columns], as a value."""
    images, channels, rows, columns = hbm.shape
    nothing: list[nl.NkiTensor] = []
    margins: list[tuple[int, int, int, int]] = []
    return Value(nothing, margins, hbm, images, channels // together, rows, columns, together, pictures)


def joined(parts):
    """Values whose channels stand one after another, as one."""
    first = parts[0]
    if len(parts) == 1:
        return first
    joint: list[nl.NkiTensor] = []
    margins: list[tuple[int, int, int, int]] = []
    channels = 0
    for part in parts:
        channels += part.channels
        for t in range(len(part.tiles)):
            joint.append(part.tiles[t])
            margins.append(part.margins[t])
    rows, columns = first.rows, first.columns
    return Value(joint, margins, None, first.images, channels, rows, columns, first.together, first.pictures)


def heights(value):
    """Partitions of each tile of a value, without its copies."""
    sizes = []
    if value.hbm is None:
        for tile in value.tiles:
            sizes.append(min(tile.shape[0], value.channels * value.together))
    else:
        for part in tiles(value.channels * value.together, PARTITIONS):
            sizes.append(part.size)
    return sizes


def make_room(layer, pictures, partitions, rows, columns, label, dtype):
    """Room in SBUF for what a layer gives, tiles of so many `partitions`, with zeros around it."""
    images = ceil_div(pictures, layer.together)
    top, left, bottom, right = layer.margin
    copies, _, stride = layer.copies
    rooms: list[nl.NkiTensor] = []
    margins: list[tuple[int, int, int, int]] = []
    for size in partitions:
        shape = ((copies - 1) * stride + size, images, rows + top + bottom, columns + left + right)
        room = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, name=label)
        if copies > 1 and stride > size:
            nisa.memset(dst=room, value=0.0, engine=nisa.engine.gpsimd)
        else:
            fill_border(room[0:size], Span(0, shape[2], top, bottom), Span(0, shape[3], left, right), 0.0)
        rooms.append(room)
        margins.append(layer.margin)
    return Value(rooms, margins, None, images, layer.channels, rows, columns, layer.together, pictures)


def copy_down(layer, value):
    """What a layer gave, again on the partitions below, moved up by rows: the taps of several filter rows, of which a
    matmul then takes all at once."""
    copies, shift, stride = layer.copies
    given = value.channels * value.together
    for copy in range(1, copies):
        tile = value.tiles[0]
        nisa.tensor_copy(
            dst=tile[copy * stride : copy * stride + given, :, 0 : tile.shape[2] - copy * shift],
            src=tile[0:given, :, copy * shift : tile.shape[2]],
            engine=nisa.engine.vector,
        )


def inside(value, t, padding):
    """Tile `t` of a value with just that much of the zeros around it."""
    margin = value.margins[t]
    top = margin[0] - padding[0]
    left = margin[1] - padding[1]
    bottom = margin[0] + value.rows + padding[2]
    right = margin[1] + value.columns + padding[3]
    return value.tiles[t][:, :, top:bottom, left:right]


def whole_tile(value, t):
    """Tile `t` of a value without the zeros around it."""
    return inside(value, t, (0, 0, 0, 0))


def store_value(value, hbm):
    """A value in SBUF, stored as it lies to [images, (image, channel), rows, columns] in HBM."""
    first = 0
    for t in range(len(value.tiles)):
        end = first + value.tiles[t].shape[0]
        nisa.dma_copy(dst=hbm[:, first:end].permute((1, 0, 2, 3)), src=whole_tile(value, t))
        first = end
