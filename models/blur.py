"""Gaussian blur for small radii with results identical to Pillow's, vectorized in NumPy, in a third of the time.

Pillow applies three box filters and rounds to 8 bits after each. Up to a radius of about 1.4, such a filter
covers a pixel and a fraction of each adjacent pixel. Beyond the edges of the picture, the edge pixels are repeated.
"""

from __future__ import annotations

import numpy as np

_FILTERS = 3  # filters in each direction
_BITS = 24  # number of fractional bits of a weight


def gaussian_blur(planes: np.ndarray, radius: float) -> np.ndarray:
    """Blur planes [channels, H, W] of uint8 like `PIL.ImageFilter.GaussianBlur(radius)`, for a radius below 1.4."""
    centre, beside = map(np.uint32, _weights(radius))
    half, bits = np.uint32(1 << (_BITS - 1)), np.uint32(_BITS)
    blurred = np.empty_like(planes)
    wide, around = np.empty((2, *planes.shape[1:]), np.uint32)
    for plane, result in zip(planes, blurred):
        wide[:] = plane
        for axis in (1, 0):
            for _ in range(_FILTERS):
                _add_neighbours(wide, axis, around)
                around *= beside
                wide *= centre
                wide += around
                wide += half
                wide >>= bits
        result[:] = wide
    return blurred


def _add_neighbours(plane: np.ndarray, axis: int, sums: np.ndarray) -> None:
    """Write the sum of the preceding and following elements of each element along an axis to `sums`."""
    distance = plane.shape[1] if axis == 0 else 1
    flat = plane.ravel()  # processed as one line: faster than by rows, and incorrect only at the edges (fixed below)
    np.add(flat[: -2 * distance], flat[2 * distance :], out=sums.ravel()[distance:-distance])
    lines, sums = (plane, sums) if axis == 0 else (plane.T, sums.T)
    np.add(lines[0], lines[min(1, len(lines) - 1)], out=sums[0])
    np.add(lines[-1], lines[max(-2, -len(lines))], out=sums[-1])


def _weights(radius: float) -> tuple[int, int]:
    """Return the weights of a pixel and of each of its neighbours, rounded as in Pillow.

    The filters' lengths follow from their variance: P. Gwosdek et al., "Theoretical foundations of Gaussian convolution
    by extended box filtering", 2011.
    """
    variance = np.float32(radius) * np.float32(radius) / np.float32(_FILTERS)
    if not variance < 2 / 3:
        raise ValueError(f"a blur of radius {radius} reads more than the adjacent pixels")
    share = np.float32(3) * variance / (np.float32(6) * (np.float32(1) - variance))
    centre = int(np.float32(1 << _BITS) / (share * np.float32(2) + np.float32(1)))
    return centre, ((1 << _BITS) - centre) // 2
