"""Transform filters into the matrices that are multiplied.

Groups are expanded, and filters are combined for minimal filtering before they are rounded.
"""

from __future__ import annotations

import numpy as np

from ...kernels.convolution.forms import Form
from ...kernels.program import Convolution
from ...models.checks import Shape
from .lazy import LazyArray


def combined(filters: np.ndarray, form: Form) -> np.ndarray:
    """Transform filters [Cout, Cin, kh, kw] into the matrices that a form multiplies: [Cout, Cin, rows, columns]."""
    if not form.is_minimal:
        return filters
    filters = filters.astype(np.float32)
    if form is Form.PAIRS:
        return _combined(filters, 3)
    halved = np.array((1, 0.5, 0.5, 1), np.float32)
    filters = _combined(_combined(filters, 2) * halved[:, None], 3) * halved
    return filters.swapaxes(2, 3)


def by_pixels(filters: np.ndarray, operation: Convolution, before: Shape) -> np.ndarray:
    """Return the factor of each input pixel in each output pixel of a depthwise convolution [channels, 1, kh, kw]:
    [channels, 1, output pixels, input pixels], with zeros for pixels outside of the filter.

    `before` is the shape of the input (channels, rows, columns).
    """
    taps = [
        np.arange(inputs) - np.arange(outputs)[:, None] * stride + padding  # the distance from an output's first tap
        for inputs, outputs, stride, padding in zip(
            before[1:], (operation.rows, operation.columns), operation.stride, operation.padding
        )
    ]
    selections = [
        (distances[..., None] == dilation * np.arange(size)).astype(filters.dtype)
        for distances, dilation, size in zip(taps, operation.dilation, operation.kernel)
    ]
    factors = np.einsum("cab,pqa,rsb->cprqs", filters[:, 0], *selections, optimize=True)
    return factors.reshape(len(filters), 1, operation.rows * operation.columns, before[1] * before[2])


def ungroup(filters: np.ndarray, groups: int) -> np.ndarray:
    """Expand grouped filters [Cout, Cin / groups, kh, kw] to [Cout, Cin, kh, kw], with zeros for the channels of other
    groups."""
    if groups == 1:
        return filters
    count, each = filters.shape[:2]
    whole = np.zeros((count, groups, *filters.shape[1:]), filters.dtype)
    outputs = np.arange(count)
    whole[outputs, outputs // (count // groups)] = filters
    return whole.reshape(count, groups * each, *filters.shape[2:])


def ungrouped(filters: LazyArray, groups: int) -> LazyArray:
    """Lazy version of `ungroup`, for filters that have not been created yet."""
    count, each, *kernel = filters.shape
    return filters.changed((count, groups * each, *kernel), lambda array: ungroup(array, groups))


def _combined(filters: np.ndarray, axis: int) -> np.ndarray:
    """Combine three taps g along an axis into four: g0, g0 + g2 + g1, g0 + g2 - g1, g2."""
    g0, g1, g2 = np.moveaxis(filters, axis, 0)
    return np.stack((g0, g0 + g2 + g1, g0 + g2 - g1, g2), axis)
