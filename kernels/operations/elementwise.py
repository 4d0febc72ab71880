"""Elementwise operations: sums, products, scales, slopes and activations.

    for tile of channels:
        result = activation(first arithmetic second)            # Combine
        result = activation(value * scale + shift)              # Affine
        result = min(max(value, scale), shift)                  # Affine with the activation "within"
        result = value, or value * slope where value < 0        # Slope

| tile | shape | bounds |
|---|---|---|
| result, operands | [channels, images, rows, columns] | 128 channels |
| constants | [channels, 1], or [channels, pixels] if by element | float32 |
"""

import nki.isa as nisa
import nki.language as nl

from ..activation_functions import activate, slope_below_zero
from ..elementwise import combine_column, combine_tiles, scale_and_shift_tiles
from ..operation_fields import BOUNDS
from ..program import Affine, Combine, Slope

MANY_PIXELS = 96  # with at least this many pixels, one instruction per image is faster than one for the whole tensor


def combine(launch, number, operation: Combine, operands):
    """Combine two values. The second may hold one number for each channel, row or column of each image."""
    first, second = operands
    output = launch.output_of(operation, first.heights)
    for t in range(len(first.tiles)):
        _combine_tile(operation, output.inside(t), first.inside(t), second.inside(t))
    return output


def scale_and_shift(launch, number, operation: Affine, operands):
    """Scale and shift a value, and apply an activation."""
    (value,) = operands
    output = launch.output_of(operation, value.heights)
    name, parameters = operation.activation.name, operation.activation.parameters
    for t in range(len(value.tiles)):
        result, data = output.inside(t), value.inside(t)
        if not operation.is_scaled:
            activate(result, data, name, parameters)
            continue
        scale, shift = (_numbers(launch, operation, 2 * t + n, data) for n in range(2))
        if name in BOUNDS:
            activate(result, data, name, (scale, shift))
        elif operation.by_element:
            scale_and_shift_tiles(result, data, _on_all(scale, data), _on_all(shift, data), name, parameters)
        else:
            activate(result, data, name, parameters, bias=shift, scale=scale)
    return output


def slope(launch, number, operation: Slope, operands):
    """Multiply negative elements by their slopes."""
    (value,) = operands
    output = launch.output_of(operation, value.heights)
    for t in range(len(value.tiles)):
        data = value.inside(t)
        slope_below_zero(output.inside(t), data, _on_all(_numbers(launch, operation, t, data), data))
    return output


def _numbers(launch, operation, index, data):
    """Return the constants of a tile: a column [P, 1], or [P, elements of an image] if they differ by element."""
    per_channel = data.shape[2] * data.shape[3] if operation.by_element else 1
    return launch.constants(data.shape[0], operation.constants + index * per_channel, per_channel)


def _on_all(numbers, data):
    """Broadcast the constants of a tile over its images and, if they form a column, over its pixels."""
    _, images, rows, columns = data.shape
    if numbers.shape[1] == 1:
        return numbers.expand_dim(2).expand_dim(3).broadcast(1, images).broadcast(2, rows).broadcast(3, columns)
    return numbers.reshape_dim(1, (1, rows, columns)).broadcast(1, images)


def _combine_tile(operation, result, a, b):
    """Compute result = activation(a arithmetic b)."""
    name, arithmetic = operation.activation.name, operation.arithmetic
    exact = name in ("identity", "relu")  # relu and rounding commute
    total = result if exact else nl.ndarray(result.shape, dtype=nl.float32, buffer=nl.sbuf)
    if b.shape[2:] != (1, 1) or a.shape[2] * a.shape[3] < MANY_PIXELS:
        combine_tiles(total, a, b, arithmetic)
    else:
        columns = b[:, :, 0, 0]
        if b.dtype != nl.float32:
            columns = nl.ndarray((b.shape[0], b.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=columns, src=b[:, :, 0, 0], engine=nisa.engine.vector)
        for i in range(a.shape[1]):
            combine_column(total[:, i : i + 1], a[:, i : i + 1], columns[:, i : i + 1], arithmetic)
    if not operation.activation.is_identity:
        activate(result, total, name, operation.activation.parameters)
