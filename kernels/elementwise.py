"""Arithmetic on every element: two tensors combined, numbers for each channel, and activations by themselves.

All of it is bound by HBM, so tiles are laid out for the DMAs: an image's channels (or a matrix's rows) lie on the
partitions, each one contiguous run of HBM, and where they are fewer than the partitions, each is cut into equal parts.
Numbers for each channel are then a column, one number a partition, which the engines take along with an instruction;
numbers for each feature are a row, copied to every partition.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .activation_functions import activate, slope_below_zero
from .tiling.tiles import PARTITIONS, Tile, check_dtype, even_tiles, group_view, row_groups, sbuf_tile

CHUNK = 2048  # elements of a partition at once: 8 KiB, so that several chunks are in flight in SBUF
OPERATIONS = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


def combine_tiles(dst, a, b, operation):
    """dst = a operation b, element by element; one of a and b may lie in PSUM. Quotients are products with 1 / b."""
    if operation == "divide":
        inverse = nl.ndarray(b.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverse, data=b)
        nisa.tensor_tensor(dst=dst, data1=a, data2=inverse, op=nl.multiply)
    else:
        nisa.tensor_tensor(dst=dst, data1=a, data2=b, op=_operator(operation))


def combine_column(dst, a, column, operation):
    """dst = a operation column, a float32 column [P, 1]."""
    if operation == "divide":
        inverse = nl.ndarray(column.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverse, data=column)
        nisa.tensor_scalar(dst=dst, data=a, op0=nl.multiply, operand0=inverse)
    else:
        nisa.tensor_scalar(dst=dst, data=a, op0=_operator(operation), operand0=column)


def scale_and_shift_tiles(result, data, scale, shift, activation, parameters):
    """activation(data * scale + shift) of tiles of one shape."""
    total = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=data, data2=scale, op=nl.multiply)
    nisa.tensor_tensor(dst=total, data1=total, data2=shift, op=nl.add)
    activate(result, total, activation, parameters)


def _operator(operation):
    if operation == "add":
        return nl.add
    if operation == "subtract":
        return nl.subtract
    if operation == "multiply":
        return nl.multiply
    if operation == "maximum":
        return nl.maximum
    assert operation == "minimum", f"operation must be one of {OPERATIONS}, got {operation}"
    return nl.minimum


def _flat(tensor):
    """A tensor [B, C, H, W] or [B, F] as a matrix with as many rows as make the partitions busy, if its sizes allow."""
    rows = tensor.shape[0]
    width = 1
    for extent in tensor.shape[1:]:
        width *= extent
    if len(tensor.shape) == 4:
        rows *= tensor.shape[1]
        width = width // tensor.shape[1]
    parts = 1
    while rows * parts < PARTITIONS and parts * parts < width:
        parts += 1
        while width % parts != 0 and parts * parts < width:
            parts += 1
    if width % parts != 0:
        parts = 1
    return tensor.reshape((rows * parts, width // parts))


def _load(matrix, group, columns):
    """Columns of a row group, [partitions, rows, columns]."""
    return _loaded(group_view(matrix, group, columns))


def _column(vector, channels):
    """Channels of a vector in HBM as a float32 column, one number a partition."""
    column = nl.ndarray((channels.size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=column, src=vector[channels.start : channels.end].reshape((channels.size, 1)))
    return column


def _row(vector, columns, partitions):
    """Columns of a vector in HBM on every partition, [partitions, 1, columns]."""
    row = sbuf_tile((partitions, 1, columns.size), vector.dtype)
    source = vector[columns.start : columns.end].reshape((1, columns.size)).broadcast(0, partitions)
    nisa.dma_copy(dst=row, src=source.expand_dim(1))
    return row


def _check(name, tensor):
    shape = tensor.shape
    assert len(shape) == 4 or len(shape) == 2, f"{name} must be [B, C, H, W] or [B, F], got shape {shape}"
    assert min(shape) > 0, f"{name} must not be empty, got shape {shape}"
    check_dtype(name, tensor)


def _check_numbers(name, tensor, x):
    """Assert that a tensor holds a number for each channel (or feature) of x."""
    assert len(tensor.shape) == 1 and tensor.shape[0] == x.shape[1], (
        f"{name} must be [{x.shape[1]}] for x of shape {x.shape}, got shape {tensor.shape}"
    )
    assert tensor.dtype == nl.float32 or tensor.dtype == x.dtype, (
        f"{name} must be float32 or the {x.dtype} of x, got {tensor.dtype}"
    )


def _as_images(x):
    """x as [B, C, pixels]."""
    return x.reshape((x.shape[0], x.shape[1], x.shape[2] * x.shape[3]))


def _blocks(x, channels):
    """Views of channels of x [B, C, pixels] in HBM, [channels, images, pixels], each a chunk of a partition."""
    blocks = []
    for pixels in even_tiles(x.shape[2], CHUNK):
        for images in even_tiles(x.shape[0], max(1, CHUNK // pixels.size)):
            block = x[images.start : images.end, channels.start : channels.end, pixels.start : pixels.end]
            blocks.append(block.permute((1, 0, 2)))
    return blocks


def _loaded(view):
    """A view of HBM in SBUF."""
    data = sbuf_tile(view.shape, view.dtype)
    nisa.dma_copy(dst=data, src=view)
    return data


@nki.jit
def apply_activation(x, activation, parameters=()):
    """An activation of every element.

    Args:
        x: [B, C, H, W] or [B, F] in HBM; float32, bfloat16 or float16.
        activation, parameters: as for `activate`.
    Returns:
        The shape and dtype of x, in HBM.
    """
    _check("x", x)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    source, target = _flat(x), _flat(out)
    for columns in even_tiles(source.shape[1], CHUNK):
        for group in row_groups(source.shape[0], max(1, CHUNK // columns.size)):
            data = _load(source, group, columns)
            result = sbuf_tile(data.shape, x.dtype)
            activate(result, data, activation, parameters)
            nisa.dma_copy(dst=group_view(target, group, columns), src=result)
    return out


@nki.jit
def combine(a, b, operation, activation="identity", parameters=()):
    """activation(a operation b), element by element: a residual sum, or the gate of squeeze and excite.

    Dimensions:
        B, C, H, W: images, channels, height, width.
        F: features.
    Args:
        a: [B, C, H, W] or [B, F] in HBM; float32, bfloat16 or float16.
        b: of a's shape, or [B, C, 1, 1]: one number for each channel of each image; of the dtype of a.
        operation: add, subtract, multiply, divide, maximum or minimum.
        activation, parameters: as for `activate`.
    Returns:
        The shape and dtype of a, in HBM. Everything between load and store is float32.
    """
    _check("a", a)
    per_channel = b.shape != a.shape
    assert not per_channel or (len(a.shape) == 4 and b.shape == (a.shape[0], a.shape[1], 1, 1)), (
        f"b must have the shape {a.shape} of a, or be [B, C, 1, 1], got shape {b.shape}"
    )
    assert b.dtype == a.dtype, f"b must have the {a.dtype} of a, got {b.dtype}"
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    if per_channel:
        _combine_channels(out, a, b, operation, activation, parameters)
        return out
    first, second, target = _flat(a), _flat(b), _flat(out)
    for columns in even_tiles(first.shape[1], CHUNK):
        for group in row_groups(first.shape[0], max(1, CHUNK // columns.size)):
            data = _load(first, group, columns)
            result = sbuf_tile(data.shape, a.dtype)
            # relu of what is rounded is relu rounded; other activations must see every digit
            exact = activation == "identity" or activation == "relu"
            total = result if exact else nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
            combine_tiles(total, data, _load(second, group, columns), operation)
            if activation != "identity":
                activate(result, total, activation, parameters)
            nisa.dma_copy(dst=group_view(target, group, columns), src=result)
    return out


def _combine_channels(out, a, b, operation, activation, parameters):
    """`combine` with one number for each channel of each image: planes on partitions, their numbers a column."""
    planes = a.shape[0] * a.shape[1]
    pixels = a.shape[2] * a.shape[3]
    source, target = a.reshape((planes, pixels)), out.reshape((planes, pixels))
    for group in row_groups(planes, 1):
        column = _column(b.reshape((planes,)), Tile(0, group.start, group.partitions, group.end))
        for columns in even_tiles(pixels, CHUNK):
            data = _load(source, group, columns)
            result = sbuf_tile(data.shape, a.dtype)
            if activation == "identity":
                combine_column(result, data, column, operation)
            else:
                total = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
                combine_column(total, data, column, operation)
                activate(result, total, activation, parameters)
            nisa.dma_copy(dst=group_view(target, group, columns), src=result)


@nki.jit
def affine(x, scale, shift, activation="identity", parameters=()):
    """activation(x * scale + shift) with numbers for each channel or feature, or for every element of an image.

    Args:
        x: [B, C, H, W] or [B, F] in HBM; float32, bfloat16 or float16.
        scale, shift: [C], [F] or [C, H, W], of one shape; float32 or the dtype of x.
        activation, parameters: as for `activate`.
    Returns:
        The shape and dtype of x, in HBM. Everything between load and store is float32.
    """
    _check("x", x)
    assert scale.shape == shift.shape, f"scale and shift must have one shape, got {scale.shape} and {shift.shape}"
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if len(scale.shape) != 1:
        assert scale.shape == x.shape[1:], f"scale must be {x.shape[1:]} for x of shape {x.shape}, got {scale.shape}"
        features = scale.shape[0] * scale.shape[1] * scale.shape[2]
        _affine_elements(out, x, scale.reshape((features,)), shift.reshape((features,)), activation, parameters)
        return out
    _check_numbers("scale", scale, x)
    _check_numbers("shift", shift, x)
    if len(x.shape) == 2:
        _affine_features(out, x, scale, shift, activation, parameters)
        return out
    source, target = _as_images(x), _as_images(out)
    for channels in even_tiles(x.shape[1], PARTITIONS):
        factors, offsets = _column(scale, channels), _column(shift, channels)
        sources, targets = _blocks(source, channels), _blocks(target, channels)
        for index in range(len(sources)):
            data = _loaded(sources[index])
            result = sbuf_tile(data.shape, x.dtype)
            activate(result, data, activation, parameters, bias=offsets, scale=factors)
            nisa.dma_copy(dst=targets[index], src=result)
    return out


def _affine_features(out, x, scale, shift, activation, parameters):
    """Rows on partitions; each feature's numbers on all of them."""
    for columns in even_tiles(x.shape[1], CHUNK):
        scales = _row(scale, columns, min(PARTITIONS, x.shape[0]))
        shifts = _row(shift, columns, min(PARTITIONS, x.shape[0]))
        for group in row_groups(x.shape[0], max(1, CHUNK // columns.size)):
            data = _load(x, group, columns)
            result = sbuf_tile(data.shape, x.dtype)
            factors = scales[0 : group.partitions].broadcast(1, group.rows)
            offsets = shifts[0 : group.partitions].broadcast(1, group.rows)
            scale_and_shift_tiles(result, data, factors, offsets, activation, parameters)
            nisa.dma_copy(dst=group_view(out, group, columns), src=result)


def _affine_elements(out, x, scale, shift, activation, parameters):
    """An image's elements folded over the partitions; their numbers are loaded once for all images."""
    batch, features = x.shape[0], scale.shape[0]
    source, target = x.reshape((batch, features, 1)), out.reshape((batch, features, 1))
    for group in row_groups(features, CHUNK):
        shape = (group.partitions, group.rows)
        factors = sbuf_tile(shape, scale.dtype)
        nisa.dma_copy(dst=factors, src=scale[group.start : group.end].reshape(shape))
        offsets = sbuf_tile(shape, shift.dtype)
        nisa.dma_copy(dst=offsets, src=shift[group.start : group.end].reshape(shape))
        for image in range(batch):
            data = sbuf_tile(shape, x.dtype)
            nisa.dma_copy(dst=data, src=source[image, group.start : group.end, 0].reshape(shape))
            result = sbuf_tile(shape, x.dtype)
            scale_and_shift_tiles(result, data, factors, offsets, activation, parameters)
            nisa.dma_copy(dst=target[image, group.start : group.end, 0].reshape(shape), src=result)


@nki.jit
def prelu(x, slope):
    """x, below 0 x * slope, with a slope for each channel or feature.

    Args:
        x: [B, C, H, W] or [B, F] in HBM; float32, bfloat16 or float16.
        slope: [C] or [F] in HBM; float32 or the dtype of x.
    Returns:
        The shape and dtype of x, in HBM.
    """
    _check("x", x)
    _check_numbers("slope", slope, x)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if len(x.shape) == 2:
        _prelu_features(out, x, slope)
        return out
    source, target = _as_images(x), _as_images(out)
    for channels in even_tiles(x.shape[1], PARTITIONS):
        column = _column(slope, channels).expand_dim(2)
        sources, targets = _blocks(source, channels), _blocks(target, channels)
        for index in range(len(sources)):
            data = _loaded(sources[index])
            result = sbuf_tile(data.shape, x.dtype)
            slope_below_zero(result, data, column.broadcast(1, data.shape[1]).broadcast(2, data.shape[2]))
            nisa.dma_copy(dst=targets[index], src=result)
    return out


def _prelu_features(out, x, slope):
    """Rows on partitions; each feature's slope on all of them."""
    for columns in even_tiles(x.shape[1], CHUNK):
        slopes = _row(slope, columns, min(PARTITIONS, x.shape[0]))
        for group in row_groups(x.shape[0], max(1, CHUNK // columns.size)):
            data = _load(x, group, columns)
            result = sbuf_tile(data.shape, x.dtype)
            slope_below_zero(result, data, slopes[0 : group.partitions].broadcast(1, group.rows))
            nisa.dma_copy(dst=group_view(out, group, columns), src=result)
