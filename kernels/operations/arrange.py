"""Operations that move values without computing: padding, pixel shuffle, and reordering.

    for tile of channels:
        result[inside] = value; result[border] = a constant, or rows and columns of the value    # Pad
        result[:, :, row::step, column::step] = operand of that phase                            # PixelShuffle
        result = pixels of each channel, reshaped or permuted                                    # ReshapePixels
    result[:, :, 0, start:end] = activation(pixels of an operand, row by row)                # Beside
    out = elements of each image, permuted from HBM to HBM                                       # Rearrange

| tile | shape | bounds |
|---|---|---|
| result, operands | [channels, images, rows, columns] | 128 channels |
| copy without its margin | [channels, images, rows, columns] | only if the operand has a margin |
"""

import math

import nki.isa as nisa
import nki.language as nl

from ..activation_functions import activate
from ..arrangement import permute_images
from ..attention_operation import ReshapePixels
from ..operation_fields import with_fields
from ..program import NO_SIDES, Beside, Border, Pad, PixelShuffle, Rearrange
from ..tiling.packing import ceil_div, tile_sizes
from ..tiling.tiles import PARTITIONS, even_tiles, sbuf_tile
from ..tiling.windows import Span, fill_border
from .load import load_tiles
from .value import store_value, stored_value, value_in_hbm

ENGINES = (nisa.engine.vector, nisa.engine.gpsimd)  # engines that share copies


def pad(launch, number, operation: Pad, operands):
    """Pad a value with a constant, or with its own rows and columns."""
    (value,) = operands
    output = launch.output_of(operation, value.heights)
    top, left, bottom, right = operation.padding
    above, before = max(0, -top), max(0, -left)
    rows = value.rows - above - max(0, -bottom)
    columns = value.columns - before - max(0, -right)
    for t in range(len(value.tiles)):
        result = output.inside(t)
        engine = ENGINES[t % 2]
        down = Span(0, operation.rows, max(0, top), max(0, bottom))
        across = Span(0, operation.columns, max(0, left), max(0, right))
        if operation.border is Border.NUMBER:
            fill_border(result, down, across, operation.value)
        nisa.tensor_copy(
            dst=result[:, :, down.head : down.head + rows, across.head : across.head + columns],
            src=value.inside(t)[:, :, above : above + rows, before : before + columns],
            engine=engine,
        )
        if operation.border is not Border.NUMBER:
            copy_border(result, operation.border, down, across, engine)
    return output


def copy_border(data, border: Border, down: Span, across: Span, engine):
    """Fill the padding of a tile [partitions, images, rows, columns] with copies of the tile's rows and columns."""
    inside = data[:, :, down.head : down.size - down.tail]
    for column, source in border_copies(border, across):
        nisa.tensor_copy(
            dst=inside[:, :, :, column : column + 1], src=inside[:, :, :, source : source + 1], engine=engine
        )
    for row, source in border_copies(border, down):
        nisa.tensor_copy(dst=data[:, :, row : row + 1], src=data[:, :, source : source + 1], engine=engine)


def border_copies(border: Border, span: Span):
    """Return (position in the padding, position that is copied to it) for the padding along an axis."""
    extent = span.size - span.head - span.tail
    rims = [*range(span.head), *range(span.size - span.tail, span.size)]
    return [(at, span.head + border.position(at - span.head, extent)) for at in rims]


def shuffle_pixels(launch, number, operation: PixelShuffle, operands):
    """Interleave values by copying each to equally spaced rows and columns."""
    output = launch.output_of(operation, operands[0].heights)
    down, across = operation.step
    for phase, value in enumerate(operands):
        row, column = divmod(phase, across)
        for t in range(len(value.tiles)):
            target = output.inside(t)[:, :, row : operation.rows : down, column : operation.columns : across]
            nisa.tensor_copy(dst=target, src=value.inside(t), engine=ENGINES[phase % 2])
    return output


def place_beside(launch, number, operation: Beside, operands):
    """Concatenate the pixels of values in one row."""
    output = launch.output_of(operation, operands[0].heights)
    name, parameters = operation.activation.name, operation.activation.parameters
    spans = sorted((start, value.rows * value.columns) for start, value in zip(operation.starts, operands, strict=True))
    for t in range(len(output.tiles)):
        row, end = output.inside(t)[:, :, 0], 0
        for start, count in [*spans, (operation.columns, 0)]:
            if end < start:
                nisa.memset(dst=row[:, :, end:start], value=0.0, engine=nisa.engine.gpsimd)
            end = start + count
        for n, (value, start) in enumerate(zip(operands, operation.starts)):
            target = row[:, :, start : start + value.rows * value.columns]
            target = target.reshape_dim(2, (value.rows, value.columns))
            if operation.activation.is_identity:
                nisa.tensor_copy(dst=target, src=value.inside(t), engine=ENGINES[n % 2])
            else:
                activate(target, value.inside(t), name, parameters)
    return output


def reshape_pixels(launch, number, operation: ReshapePixels, operands):
    """Reshape the pixels of each channel, through a copy without the margin.

    If neither the value nor the result has a margin, the result is a view of the value, without a copy.
    """
    (value,) = operands
    shape = (operation.rows, operation.columns)
    if _is_view(launch, operation, value):
        views = tuple(
            tile[0:height].flatten_dims(2, 3).reshape_dim(2, shape) for tile, height in zip(value.tiles, value.heights)
        )
        return with_fields(value, tiles=views, rows=operation.rows, columns=operation.columns)
    output = launch.output_of(operation, value.heights)
    for t in range(len(value.tiles)):
        source, engine = value.inside(t), ENGINES[t % 2]
        if value.margins[t] != NO_SIDES:
            copy = sbuf_tile(source.shape, source.dtype)
            nisa.tensor_copy(dst=copy, src=source, engine=engine)
            source = copy
        if operation.split:
            _permute_pixels(output.inside(t), source.flatten_dims(2, 3), operation)
            continue
        pixels = source.flatten_dims(2, 3).reshape_dim(2, shape)
        nisa.tensor_copy(dst=output.inside(t), src=pixels, engine=engine)
    return output


def _is_view(launch, operation: ReshapePixels, value):
    """True if the pixels of a value that is in SBUF need not be copied to be reshaped."""
    has_margins = operation.margin != NO_SIDES or any(margins != NO_SIDES for margins in value.margins)
    if operation.split or operation.into is not None or has_margins or value.hbm is not None or any(value.pitches):
        return False
    return value.dtype == launch.dtype_of(operation) and value.column_phases == operation.column_phases == 1


def _permute_pixels(target, pixels, operation: ReshapePixels):
    """Permute pixels [channels, images, pixels] into [channels, images, rows, columns].

    Two engines each copy half of each image.
    """
    split = operation.split
    shape = tuple(split[axis] for axis in operation.order)
    rows = next((count for count in range(1, len(shape)) if math.prod(shape[:count]) == operation.rows), 0)
    for image in range(pixels.shape[1]):
        source = pixels[:, image].reshape_dim(1, split).permute((0, *(axis + 1 for axis in operation.order)))
        image_tile = target[:, image]
        if rows:
            image_tile = image_tile.reshape_dim(2, shape[rows:]).reshape_dim(1, shape[:rows])
        else:  # an axis continues from one row to the next
            permuted = sbuf_tile((image_tile.shape[0], operation.rows * operation.columns), image_tile.dtype)
            image_tile = permuted.reshape_dim(1, shape)
        for part in even_tiles(shape[0], ceil_div(shape[0], 2)):
            half = slice(part.start, part.end)
            nisa.tensor_copy(dst=image_tile[:, half], src=source[:, half], engine=ENGINES[part.index % 2])
        if not rows:
            permuted_rows = permuted.reshape_dim(1, (operation.rows, operation.columns))
            nisa.tensor_copy(dst=target[:, image], src=permuted_rows, engine=ENGINES[image % 2])


def rearrange(launch, number, operation: Rearrange, operands):
    """Permute the elements of each image through HBM.

    The result is written directly to the operation's buffer in HBM if it has one; otherwise, it is loaded into SBUF.
    """
    (value,) = operands
    images = value.images * value.packed
    numbers = operation.channels * operation.rows * operation.columns
    target = launch.numbers_of(operation, images)
    is_whole = numbers == value.channels * value.rows * value.columns
    is_in_order = operation.order == tuple(range(len(operation.order)))
    if target is not None and is_whole and is_in_order and value.packed == 1 and value.hbm is None:
        store_value(value, target.reshape_dim(1, (value.channels, value.rows, value.columns)))
        return launch.output_of(operation, ())
    in_hbm = stored_value(launch, value).reshape((images, value.channels * value.rows * value.columns))
    flat = in_hbm[:, operation.first : operation.first + numbers]
    if target is not None:
        permute_images(target, flat, operation.split, operation.order)
        return launch.output_of(operation, ())
    permuted = flat
    if not (is_whole and is_in_order):
        permuted = nl.ndarray((images, numbers), dtype=launch.dtype, buffer=nl.private_hbm)
        permute_images(permuted, flat, operation.split, operation.order)
    lanes = operation.packed * operation.channels
    source = value_in_hbm(
        permuted.reshape((value.images, lanes, operation.rows, operation.columns)), operation.packed, value.pictures
    )
    output = launch.output_of(operation, tile_sizes(lanes, PARTITIONS))
    load_tiles(output, source)
    return output
