"""Detect ink on an unevenly lit background, and find its main blob. Requires only NumPy.

Three models of the background are tried (one colour, a smooth surface, a local median; see backgrounds.py), because no
single model handles tight crops, light from the side and shadow edges. Each model yields a blob; the blob that accounts
for the largest share of the ink is chosen. Models that can no longer yield the best blob are skipped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .backgrounds import Background, FullSizeBackground, bands, coarsen, fit_surface, local_median, rim_colour
from .components import Runs, connected_components, find_runs
from .pieces import Box as Box  # re-exported for users of blobs
from .pieces import Pieces, measure

# Minimum contrast of ink, as a fraction of the background's brightness; stains and shadows are fainter.
MIN_CONTRAST = 0.08

# Minimum divisor for dark backgrounds, so that noise on a black background does not count as ink.
MIN_LIGHT = 0.25

MIN_BLOB_SIDE = 5

# Minimum size of the working buffer, even if less is needed. When the free memory exceeds twice the size of the largest
# array, glibc returns it to the system, which has to zero it again for the next picture. Zeroing took a fifth of the
# time.
MIN_ROOM = 1 << 21

DEVIATION = 1.4826  # standard deviation of normal noise divided by the median of its absolute values

# Simpler background models are trusted more, because flexible models may follow strokes.
TRUST_SURFACE, TRUST_MEDIAN = 0.8, 0.7  # one colour: 1
# a digit that fills the median's window, about half the picture, is partly mistaken for background
TRUST_FILLED_MEDIAN = 0.4


class InkError(ValueError):
    """Raised if a picture contains no ink; the message states the reason."""


class Blob(NamedTuple):
    """The main blob of ink in a picture."""

    mask: np.ndarray  # bool [H, W]
    box: Box
    ink: np.ndarray  # float32 [H, W]: how much each pixel stands out; above 0 is ink
    quality: float  # 0 to 1: the blob's share of everything that stands out
    several: bool  # True if the picture contains several similar blobs


def find_blob(pixels: np.ndarray, expected: Box | None = None) -> Blob:
    """Find the main blob of ink in a picture [H, W, channels] with W at least 3; raise InkError if nothing stands out.

    Pixels are float32 from 0 to 1, or uint8. If a box is expected, blobs that fill it are preferred.
    """
    planes = np.ascontiguousarray(pixels.transpose(2, 0, 1))
    cells = coarsen(planes)
    buffer = np.empty(max(planes.size, MIN_ROOM), np.float32)[: planes.size].reshape(planes.shape)
    best: Blob | None = None
    with contextlib.suppress(InkError):
        best = _blob_on(planes, rim_colour(cells), expected, buffer)
    # With the one-colour model, uneven light on an empty page looks like a perfect blob. Therefore the curved surface
    # is also tried, unless a blob is expected and a good one was found.
    if expected is None or best is None or best.quality < TRUST_SURFACE:
        try:
            blob = _blob_on(planes, FullSizeBackground(fit_surface(cells), planes.shape), expected, buffer)
            best = _better(best, blob, TRUST_SURFACE)
        except InkError:
            if expected is None or best is None:
                raise
    if best.quality < TRUST_MEDIAN:
        with contextlib.suppress(InkError):
            blob = _blob_on(planes, FullSizeBackground(local_median(cells), planes.shape), expected, buffer)
            small = max(blob.box.height / pixels.shape[0], blob.box.width / pixels.shape[1]) < 0.5
            best = _better(best, blob, TRUST_MEDIAN if small else TRUST_FILLED_MEDIAN)
    return best


def _better(best: Blob | None, blob: Blob, trust: float) -> Blob:
    """Return the better of the best blob so far and a blob of a less trusted model."""
    blob = blob._replace(quality=blob.quality * trust)
    return blob if best is None or blob.quality > best.quality else best


def _blob_on(planes: np.ndarray, background: Background, expected: Box | None, buffer: np.ndarray) -> Blob:
    """Find the main blob of a picture [channels, H, W] on its background; raise InkError if nothing stands out.

    `buffer` is a float32 working buffer of the picture's shape. It is reused because the system clears newly allocated
    memory, which takes time.
    """
    ink = _ink(buffer, _deviate(planes, background, buffer))
    threshold = _threshold(ink, len(planes))
    return _main_blob(ink, threshold, expected)


def _deviate(planes: np.ndarray, background: Background, deviation: np.ndarray) -> np.ndarray:
    """Write each channel's relative deviation from the background to `deviation`, which removes uneven light.

    Returns, for each pair of channels, the product of their deviations summed over all pixels, [channels, channels].
    """
    products = np.zeros((len(planes), len(planes)), np.float32)
    for rows in bands(planes.shape[1]):
        part, band = planes[:, rows], deviation[:, rows]
        if planes.dtype == np.uint8:
            part = np.divide(part, np.float32(255), dtype=np.float32)
        ground = background.at(rows, part)
        np.subtract(part, ground, out=band)
        np.maximum(ground, np.float32(MIN_LIGHT), out=ground)
        band /= ground
        flat = band.reshape(len(planes), -1)
        # a matrix product of this shape would be slow
        products += [[plane @ other for other in flat] for plane in flat]
    return products


def _ink(deviation: np.ndarray, products: np.ndarray) -> np.ndarray:
    """Compute the ink of each pixel from its channels' deviations and the sums of their products.

    The channels are projected onto the direction of the largest deviation, so that red on green counts as much as black
    on white. The sign is chosen such that the strong deviations, dark or light, are positive.
    """
    factors = np.linalg.eigh(products)[1][:, -1]
    values = np.empty(deviation.shape[1:], np.float32)
    skew = 0.0
    for rows in bands(len(values)):
        band = np.multiply(deviation[0, rows], factors[0], out=values[rows])
        for channel, factor in zip(deviation[1:, rows], factors[1:]):
            band += channel * factor
        flat = band.ravel()
        skew += float((flat * flat) @ flat)
    return np.negative(values, out=values) if skew < 0 else values


def _threshold(ink: np.ndarray, channels: int) -> float:
    """Return the value above which a pixel counts as ink; raise InkError if nothing stands out."""
    peak = _peak(ink, min(0.01, 40 / ink.size))
    if peak < MIN_CONTRAST * np.sqrt(channels):
        raise InkError("the picture is blank")
    noise = 0.0 if _is_less_noisy(ink, 0.07 * peak) else _noise(ink)  # less than 0.075 * peak has no effect
    if peak < 5 * noise:
        raise InkError("no ink can be distinguished from the noise")
    return max(0.3 * peak, min(4 * noise, 0.5 * peak))


def _peak(values: np.ndarray, share: float) -> float:
    """Return the quantile that a fraction `share` (at most 0.01) of the values exceeds, as `numpy.quantile` does."""
    index = (values.size - 1) * (1 - share)
    count = values.size - int(index)  # the quantile lies between the smallest two of the `count` largest values
    greatest = values[values > 0.5 * values.max()]
    if len(greatest) < count:
        greatest = values.ravel()
    lower = len(greatest) - count
    upper = min(lower + 1, len(greatest) - 1)
    ordered = np.partition(greatest, [lower, upper])
    return float(ordered[lower] + (ordered[upper] - ordered[lower]) * (index - int(index)))


def _noise(values: np.ndarray) -> float:
    """Estimate the standard deviation of the noise, excluding uneven light.

    The estimate is the smaller of two: from the spread of all values, and from the second differences along rows.
    """
    spread = float(np.median(np.abs(values - np.median(values))))
    return DEVIATION * min(spread, float(np.median(_second_differences(values))) / np.sqrt(6))


def _is_less_noisy(values: np.ndarray, noise: float) -> bool:
    """Return True if `_noise` is certainly below `noise`, which is faster to check than to compute."""
    half = values.size // 2 + 1
    limit = noise / DEVIATION
    if sum(np.count_nonzero(np.abs(values[rows]) <= limit / 2) for rows in bands(len(values))) >= half:
        return True  # the median is within limit / 2 of 0, so half of the values are within limit of the median
    limit *= np.sqrt(6)
    smooth = [_second_differences(values[rows]) <= limit for rows in bands(len(values))]
    return sum(map(np.count_nonzero, smooth)) >= sum(part.size for part in smooth) // 2 + 1


def _second_differences(values: np.ndarray) -> np.ndarray:
    """Return the absolute second differences along rows, which are hardly affected by smooth lighting."""
    step = min(4, (values.shape[1] - 1) // 2)
    second = values[:, : -2 * step] + values[:, 2 * step :]
    second -= values[:, step:-step]
    second -= values[:, step:-step]
    return np.abs(second, out=second)


def _main_blob(ink: np.ndarray, threshold: float, expected: Box | None) -> Blob:
    """Return the most important blob, including the pieces close to it.

    Blobs are weighted by their amount of ink; doubtful ones count less. If a box is expected, blobs that fill it count
    more.
    """
    stands_out = ink > threshold
    runs = find_runs(stands_out)
    pieces = measure(ink, stands_out, runs)
    mass, doubt, clear = pieces.mass, pieces.doubt, pieces.clear
    weight = mass * doubt
    if expected is not None:
        weight = weight * (0.1 + 0.9 * pieces.likeness(expected))

    main, sides = int(np.argmax(weight)), pieces.sides
    if sides[main] < MIN_BLOB_SIDE:
        raise InkError("it contains only specks")
    sure = np.where(sides <= 0.4 * sides[main], clear, doubt)  # dots and bars of a sign may be filled shapes
    like = (mass >= 0.02 * mass[main]) & (sides <= 1.5 * sides[main]) & (sure >= 0.3 * doubt[main])
    if expected is not None:  # ignore pieces that were rejected when the digit was located
        like &= pieces.inside(expected)
    is_main = np.arange(runs.total) == main
    while (more := like & ~is_main & (pieces.gap(pieces.box(is_main)) <= 0.18 * sides[main])).any():
        is_main |= more
    mask = stands_out.copy()
    mask[stands_out] = runs.spread(is_main)
    quality = float(weight[is_main].sum() / ink[ink > 0.5 * threshold].sum())
    several = _others_like_it(pieces, is_main) or _stand_apart(
        pieces, is_main, runs, lambda: connected_components(ink > 0.3 * threshold)[0][stands_out]
    )
    return Blob(mask, pieces.box(is_main), ink, quality, several)


def _others_like_it(pieces: Pieces, chosen: np.ndarray) -> bool:
    """Return True if other pieces are comparable in height and amount of ink to all chosen pieces together."""
    height, mass = pieces.box(chosen).height, float(pieces.mass[chosen].sum())
    heights = pieces.bottom - pieces.top
    alike = (heights >= 0.5 * height) & (heights <= 2 * height) & (pieces.mass >= 0.25 * mass)
    return bool((~chosen & alike & (pieces.doubt >= 0.5 * pieces.doubt[chosen].max())).any())


def _stand_apart(pieces: Pieces, chosen: np.ndarray, runs: Runs, linked: Callable[[], np.ndarray]) -> bool:
    """Return True if the chosen pieces form several signs, arranged side by side or one above the other.

    Each of several signs is about as high as their common bounding box. In contrast, the parts of a broken stroke are
    lower, or are connected by fainter ink: `linked` returns the blob of fainter ink to which each pixel of the runs
    belongs. The two halves of a stencilled 0 are together no wider than one digit. No digit is much wider than high.
    """
    if chosen.sum() < 2:
        return False
    bounds = pieces.box(chosen)
    signs = _tall_groups(pieces, chosen, across=bounds.width >= 0.85 * bounds.height)
    if len(signs) < 2:
        return False
    if bounds.width > 1.2 * bounds.height:
        return True
    blobs, pieces_of = linked(), runs.spread(np.arange(runs.total))
    return len({tuple(np.unique(blobs[np.isin(pieces_of, sign)])) for sign in signs}) > 1


def _tall_groups(pieces: Pieces, chosen: np.ndarray, across: bool) -> list[list[int]]:
    """Group the chosen pieces by overlap of their columns (`across`) or of their rows; return the tall groups."""
    starts, ends = (pieces.left, pieces.right) if across else (pieces.top, pieces.bottom)
    groups: list[list[int]] = []
    begin = reach = 0.0
    for number in sorted(np.flatnonzero(chosen).tolist(), key=lambda piece: int(starts[piece])):
        if groups and reach - starts[number] > 0.3 * min(ends[number] - starts[number], reach - begin):
            groups[-1].append(number)
        else:
            groups.append([number])
            begin = float(starts[number])
        reach = max(reach, float(ends[number]))
    bounds = pieces.box(chosen)
    total = float(pieces.mass[chosen].sum())
    tall = []
    for group in groups:
        box = pieces.box(np.array(group))
        high = box.height >= 0.6 * bounds.height if across else box.height >= max(0.35 * bounds.height, 1.1 * box.width)
        if high and float(pieces.mass[group].sum()) >= 0.12 * total:
            tall.append(group)
    return tall
