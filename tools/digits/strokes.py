"""Write glyphs stroke by stroke with many kinds of pens: digits of imaginary fonts, and characters of imaginary
scripts.

A stroke is a list of points [N, 2] in a box with a height of about 1; x points to the right and y down. Digits and
synthetic characters use the same pens, so that the pen does not reveal the kind of a glyph.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from .lookalikes import Lookalikes
from .render_digits import INK_SIDE, fit_ink
from .variants import smooth

Strokes = list[np.ndarray]

# A synthetic character is omitted if its likeness to a digit drawn with the same pen is greater than this.
MAX_LIKENESS = 0.62

# The ways to write each digit that does not consist only of rings and bars. A stroke is smooth (~) or has corners (-),
# and passes through points x,y, which are given in hundredths.
WAYS: dict[int, tuple[str, ...]] = {
    2: (
        "~ 5,28 20,6 50,0 85,10 90,34 60,65 3,100 / - 3,100 95,100",
        "- 0,0 80,0 80,48 0,48 0,100 80,100",
        "- 0,22 12,0 75,0 85,30 0,100 85,100",
        "~ 10,20 40,0 75,20 55,60 15,95 2,88 20,80 / ~ 20,80 50,95 75,100 95,88",
    ),
    3: (
        "~ 5,12 40,0 80,8 80,35 35,46 / ~ 35,46 80,55 90,80 50,100 0,88",
        "- 5,0 85,0 42,40 / ~ 42,40 80,48 90,78 50,100 0,88",
        "- 0,0 80,0 80,100 0,100 / - 20,48 80,48",
    ),
    4: (
        "- 65,100 65,0 0,68 95,68",
        "- 20,0 5,60 95,60 / - 70,20 65,100",
        "- 2,0 2,52 80,52 / - 80,0 80,100",
        "~ 10,2 0,35 15,55 75,50 / - 80,5 70,100",
    ),
    5: (
        "- 85,0 15,0 8,45 / ~ 8,45 45,36 85,50 85,82 45,100 0,90",
        "- 80,0 0,0 0,46 80,46 80,100 0,100",
        "- 85,0 10,0 10,42 70,42 85,60 70,100 0,100",
    ),
    6: (
        "~ 75,2 35,20 5,62 20,95 60,98 82,72 60,50 10,66",
        "- 80,0 0,0 0,100 80,100 80,46 0,46",
        "~ 60,0 10,55 5,80 40,100 75,80 60,52 30,50 8,70",
        "~ 85,15 55,0 12,20 5,70 45,100 85,75 50,45 5,65",
        "- 5,0 0,100 80,100 80,50 2,50",
    ),
    7: (
        "- 0,0 85,0 30,100",
        "- 0,0 85,0 / ~ 85,0 50,40 35,100",
        "- 0,20 0,0 85,0 85,20 40,100",
        "- 0,0 80,0 75,100",
        "~ 0,12 15,0 50,10 90,0 / ~ 90,0 50,45 35,100",
    ),
}


def _stroke(text: str) -> tuple[bool, list[tuple[float, float]]]:
    """Parse a stroke: True if it is smooth, and its points."""
    kind, *points = text.split()
    pairs = [point.split(",") for point in points]
    return kind == "~", [(int(x) / 100, int(y) / 100) for x, y in pairs]


_WAYS = {digit: [[*map(_stroke, way.split("/"))] for way in ways] for digit, ways in WAYS.items()}


class Pen(NamedTuple):
    """The pen of a stroke: an ellipse with half axes in pixels of INK_SIDE, turned by an angle in radians."""

    wide: float
    thin: float
    angle: float


PLAIN = Pen(0.07 * INK_SIDE, 0.07 * INK_SIDE, 0.0)  # the pen for comparing likeness


def any_pen(rng: np.random.Generator) -> Pen:
    """Return a random pen, which is round or flat with equal probability and from a hairline to a sixth of the glyph's
    height wide."""
    wide = float(np.exp(rng.uniform(np.log(0.018), np.log(0.085)))) * INK_SIDE
    contrast = 1.0 if rng.random() < 0.5 else rng.uniform(0.15, 0.9)
    angle = rng.choice([0.0, math.pi / 2, rng.uniform(0, math.pi)])
    return Pen(wide, max(2.5, contrast * wide), float(angle))


def written(strokes: Strokes, pen: Pen) -> Image.Image:
    """Draw strokes as ink without margin. The pen is a polygon that is dragged along each stroke."""
    every = np.concatenate(strokes)
    low, scale = every.min(axis=0), 0.8 * INK_SIDE / max(np.ptp(every, axis=0).max(), 1e-6)
    angles = np.linspace(0, 2 * math.pi, 16, endpoint=False)
    nib = np.stack([pen.wide * np.cos(angles), pen.thin * np.sin(angles)], 1)
    turn = np.array([[math.cos(pen.angle), -math.sin(pen.angle)], [math.sin(pen.angle), math.cos(pen.angle)]])
    nib = nib @ turn.T
    canvas = Image.new("L", (INK_SIDE + 40, INK_SIDE + 40))
    draw = ImageDraw.Draw(canvas)
    for stroke in strokes:
        points = (stroke - low) * scale + 0.1 * INK_SIDE + 20
        for a, b in pairwise(points):
            _drag(draw, a, b, nib)
    return fit_ink(canvas)


def _drag(draw: ImageDraw.ImageDraw, a: np.ndarray, b: np.ndarray, nib: np.ndarray) -> None:
    """Draw the area that a convex nib covers from a to b: both ends and, for each side of the nib, the parallelogram
    between them."""
    for at in (a, b):
        draw.polygon([tuple(point) for point in at + nib], fill=255)
    for p, q in zip(nib, np.roll(nib, 1, axis=0)):
        draw.polygon([tuple(a + p), tuple(a + q), tuple(b + q), tuple(b + p)], fill=255)


def _rounded(rng: np.random.Generator, exponent: float) -> np.ndarray:
    """Return a closed curve [N, 2] between an ellipse and a rectangle, with half axes 1 and a random start."""
    turns = np.linspace(0, 2 * math.pi, 49) + rng.uniform(0, 2 * math.pi)
    cos, sin = np.cos(turns), np.sin(turns)
    return np.stack([np.sign(cos) * np.abs(cos) ** exponent, np.sign(sin) * np.abs(sin) ** exponent], 1)


def digit_strokes(digit: int, rng: np.random.Generator) -> Strokes:
    """Return the strokes of a digit, written in one of several ways, with shifted points and a varied width."""
    exponent = rng.uniform(0.25, 1.1) if rng.random() < 0.6 else 1.0  # shape of round parts; small: square
    if digit == 0:
        ring = _rounded(rng, exponent) * [rng.uniform(0.2, 0.48), 0.5]
        return [ring[: len(ring) - int(rng.integers(1, 4)) * int(rng.random() < 0.3)]]
    if digit == 1:
        return _one(rng)
    if digit == 8:
        return _eight(rng, exponent)
    if digit == 9:
        return [np.array([1, 1]) - stroke for stroke in digit_strokes(6, rng)]
    way = _WAYS[digit][int(rng.integers(len(WAYS[digit])))]
    narrow, moved = rng.uniform(0.6, 1.1), rng.uniform(0.0, 0.04)
    shifts: dict[tuple[float, float], np.ndarray] = {}  # strokes that meet must still meet after shifting
    strokes = []
    for is_smooth, points in way:
        for point in points:
            shifts.setdefault(point, rng.normal(0, moved, 2))
        points_moved = [(narrow * (x + shifts[x, y][0]), y + shifts[x, y][1]) for x, y in points]
        strokes.append(smooth(points_moved) if is_smooth else np.array(points_moved))
    if digit == 7 and rng.random() < 0.25:
        x, y, half = rng.uniform(0.45, 0.6) * narrow, rng.uniform(0.42, 0.58), rng.uniform(0.15, 0.3)
        strokes.append(np.array([[x - half, y + rng.normal(0, 0.03)], [x + half, y + rng.normal(0, 0.03)]]))
    return strokes


def _one(rng: np.random.Generator) -> Strokes:
    """Return the strokes of a 1: a stem, usually with a flag and sometimes with a foot."""
    strokes = [np.array([[0.0, 0.0], [rng.normal(0, 0.03), 1.0]])]
    if rng.random() < 0.75:
        flag = np.array([[-rng.uniform(0.1, 0.4), rng.uniform(0.0, 0.4)], [0.0, 0.0]])
        strokes.append(flag if rng.random() < 0.7 else smooth([(flag[0][0], flag[0][1]), (-0.08, 0.14), (0, 0)]))
    if rng.random() < 0.4:
        foot = rng.uniform(0.12, 0.4, 2)
        strokes.append(np.array([[-foot[0], 1.0], [foot[1], 1.0]]))
    return strokes


def _eight(rng: np.random.Generator, exponent: float) -> Strokes:
    """Return the strokes of an 8: two touching rings, of which the lower is at least as wide."""
    waist, wide = rng.uniform(-0.12, 0.05), rng.uniform(0.2, 0.42)
    upper, lower = (0.5 + waist) / 2, (0.5 - waist) / 2
    above = _rounded(rng, exponent) * [wide * rng.uniform(0.65, 1.0), upper] + [0, -0.5 + upper]
    return [above, _rounded(rng, exponent) * [wide, lower] + [0, 0.5 - lower]]


def sign_strokes(rng: np.random.Generator) -> Strokes:
    """Return a synthetic character: two to four strokes, hooks, bowls and dots between the points of a grid."""
    wide = rng.uniform(0.4, 1.1)
    xs, ys = np.linspace(0, wide, int(rng.integers(2, 4))), np.linspace(0, 1, int(rng.integers(3, 5)))

    def somewhere() -> np.ndarray:
        return np.array([rng.choice(xs), rng.choice(ys)]) + rng.normal(0, 0.02, 2)

    strokes: Strokes = []
    at = somewhere()
    for _ in range(int(rng.integers(2, 5))):
        to, kind = somewhere(), rng.random()
        if rng.random() < 0.3:
            at = somewhere()
        if kind < 0.4:
            strokes.append(np.array([at, to]))
        elif kind < 0.75:
            away = np.array([to[1] - at[1], at[0] - to[0]])
            first, second = rng.uniform(-0.6, 0.6, 2)
            bends = ((2 * at + to) / 3 + first * away, (at + 2 * to) / 3 + second * away)
            strokes.append(smooth(np.array([at, *bends, to])))
        elif kind < 0.92:
            radius = rng.uniform(0.1, 0.3, 2) * [wide, 1]
            bowl = _rounded(rng, rng.uniform(0.4, 1.1)) * radius + at
            strokes.append(bowl[: int(rng.integers(24, 50))])
        else:
            strokes.append(np.array([to, to + 0.01]))
        at = to
    return strokes


@cache
def _plain_digits() -> Lookalikes:
    rngs = [np.random.default_rng([5, number]) for number in range(800)]
    return Lookalikes([written(digit_strokes(number % 10, rng), PLAIN) for number, rng in enumerate(rngs)])


def draw_written_digit(digit: int, rng: np.random.Generator) -> Image.Image:
    """Draw a digit as ink without margin with a random pen."""
    return _finished(written(digit_strokes(digit, rng), any_pen(rng)), rng)


def draw_made_up_sign(rng: np.random.Generator) -> Image.Image:
    """Draw a synthetic character as ink without margin with a random pen.

    Raises ValueError if it looks like a digit.
    """
    strokes = sign_strokes(rng)
    if _plain_digits().alike(written(strokes, PLAIN)) > MAX_LIKENESS:
        raise ValueError("like a digit")
    return _finished(written(strokes, any_pen(rng)), rng)


def _finished(ink: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Return ink, usually unchanged but sometimes cut like a stencil or reduced to its outline."""
    kind = rng.random()
    if kind < 0.08:  # bridges of a stencil
        cut = ink.copy()
        draw = ImageDraw.Draw(cut)
        width = int(rng.integers(5, 12))
        if rng.random() < 0.5:
            x = int(rng.uniform(0.35, 0.65) * ink.width)
            draw.rectangle((x, 0, x + width, ink.height), fill=0)
        else:
            y = int(rng.uniform(0.25, 0.75) * ink.height)
            draw.rectangle((0, y, ink.width, y + width), fill=0)
        return fit_ink(cut)
    if kind < 0.14:
        inner = ink.filter(ImageFilter.MinFilter(2 * int(rng.integers(2, 5)) + 1))
        return ImageChops.subtract(ink, inner)
    return ink
