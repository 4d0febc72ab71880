"""Norms of a program, compared with float64, with one or two images on the partitions."""

from typing import Any

import numpy as np
import pytest
from random_arrays import normal
from single_operations import columns_of, load_of, run_operations
from trninfer.kernels.program import GroupNorm, LayerNorm, LocalResponseNorm, Norm

F32 = np.float32


def normalized(kind: type[Norm], x: Any, scale: Any, shift: Any, packed: int = 1, **fields: Any) -> Any:
    size = dict(zip(("channels", "rows", "columns"), x.shape[1:]))
    norm = kind(name="n", **size, packed=packed, constants=1, epsilon=0.01, sources=((0,),), **fields)
    lanes = np.tile(scale, packed), np.tile(shift, packed)
    parts = [each[first : first + 128] for first in range(0, len(lanes[0]), 128) for each in lanes]
    return run_operations([load_of(x, 0, packed), norm], x, packed=packed, constants=columns_of([5], *parts))


def operands(channels: int, rows: int, columns: int) -> tuple[Any, Any, Any]:
    """Return values far from zero, so that the mean matters, and a scale and shift for each channel."""
    x = normal((4, channels, rows, columns), F32) * 2 + 5
    return x, normal((channels,), F32, 1), normal((channels,), F32, 2)


def by_statistics(x: Any, axes: tuple[int, ...]) -> Any:
    wide = x.astype(np.float64)
    return (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + 0.01)


SIZES = [(3, 2, 5, 7), (1, 1, 1, 3), (129, 1, 4, 5), (64, 2, 3, 3), (300, 1, 1, 2)]


@pytest.mark.parametrize(("channels", "packed", "rows", "columns"), SIZES)
def test_each_pixel_over_its_channels(channels: int, packed: int, rows: int, columns: int) -> None:
    x, scale, shift = operands(channels, rows, columns)
    found = normalized(LayerNorm, x, scale, shift, packed)
    expected = by_statistics(x, (1,)) * scale[:, None, None] + shift[:, None, None]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)


def test_more_pixels_than_are_normalized_at_a_time() -> None:
    x, scale, shift = operands(5, 30, 40)
    expected = by_statistics(x, (1,)) * scale[:, None, None] + shift[:, None, None]
    np.testing.assert_allclose(normalized(LayerNorm, x, scale, shift), expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(("channels", "groups", "packed"), [(6, 3, 2), (6, 1, 1), (6, 6, 2), (160, 2, 1), (160, 5, 1)])
def test_groups_of_channels_over_an_image(channels: int, groups: int, packed: int) -> None:
    """Groups in one tile, or in two, where one group spans both."""
    x, scale, shift = operands(channels, 4, 5)
    found = normalized(GroupNorm, x, scale, shift, packed, groups=groups)
    parts = by_statistics(x.reshape(4, groups, -1), (2,)).reshape(x.shape)
    np.testing.assert_allclose(found, parts * scale[:, None, None] + shift[:, None, None], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("channels", [1, 4, 130])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_responses_of_the_channels_around(channels: int, size: int) -> None:
    x = normal((2, channels, 3, 5), F32)
    norm = LocalResponseNorm(
        name="n", channels=channels, rows=3, columns=5, size=size, alpha=0.5, beta=0.75, bias=2.0, sources=((0,),)
    )
    squares = np.pad(x.astype(np.float64) ** 2, ((0, 0), (size // 2, size // 2), (0, 0), (0, 0)))
    sums = sum(squares[:, first : first + channels] for first in range(size))
    expected = x / (2 + 0.5 / size * sums) ** 0.75
    np.testing.assert_allclose(run_operations([load_of(x), norm], x), expected, rtol=1e-5, atol=1e-6)
