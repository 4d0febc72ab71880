"""Draw handwritten variants of digits that few fonts contain. `render_glyphs.py` adds them to the digits of fonts.

The variants are a 0 with a slash or a dot, a 1 as a bar or with a long upstroke, a 5 as a smooth curve, a 7 with a
crossbar, an 8 in one stroke that may stay open at the top, a 9 with a hook, and outlines of any digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageOps

from .render_digits import INK_SIDE, fit_ink

OUTLINED = -1  # in VARIED: the outline of any digit
VARIED = (0, 1, 1, 7, 9, 8, OUTLINED, 1, 0, 5)  # digits of the variants, which are used in turn

Draw = Callable[[int], Image.Image]  # draws a digit in some font or handwriting


def varied_digit(index: int) -> int:
    """Return the digit of variant number `index`."""
    digit = VARIED[index % len(VARIED)]
    return index // len(VARIED) % 10 if digit == OUTLINED else digit


def draw_variant(index: int, plain: Draw, rng: np.random.Generator) -> Image.Image:
    """Draw variant number `index` as ink. If the variant is derived from a plain digit, `plain` draws that digit."""
    digit = VARIED[index % len(VARIED)]
    if digit == OUTLINED:
        return outlined(plain(varied_digit(index)), rng)
    if digit in (0, 7):
        return crossed(plain(digit), digit, rng)
    if digit == 1:
        return draw_bar(rng) if index % len(VARIED) == VARIED.index(1) else draw_upstroke(rng)
    return {5: draw_five, 8: draw_eight, 9: draw_nine}[digit](rng)


def crossed(plain: Image.Image, digit: int, rng: np.random.Generator) -> Image.Image:
    """Draw a 0 with a slash or dot, or a 7 with a crossbar."""
    ink = ImageOps.expand(plain, INK_SIDE // 4)
    wide, high = (side - INK_SIDE // 2 for side in ink.size)
    x, y = ink.width / 2, ink.height / 2
    pen = int(rng.uniform(0.05, 0.13) * high)
    draw = ImageDraw.Draw(ink)
    if digit == 7:
        x, y = x + rng.uniform(-0.05, 0.15) * wide, y + rng.uniform(-0.1, 0.12) * high
        across, lean = rng.uniform(0.2, 0.45) * wide, rng.uniform(-0.08, 0.08) * high
        draw.line((x - across, y + lean, x + across, y - lean), fill=255, width=max(4, pen))
    elif rng.random() < 0.3:
        reach = (rng.uniform(0.06, 0.15) * wide, rng.uniform(0.06, 0.2) * high)
        draw.ellipse((x - reach[0], y - reach[1], x + reach[0], y + reach[1]), fill=255)
    else:
        reach = (rng.uniform(0.25, 0.6) * wide, rng.uniform(0.25, 0.55) * high)
        side = -1 if rng.random() < 0.15 else 1
        draw.line((x - side * reach[0], y + reach[1], x + side * reach[0], y - reach[1]), fill=255, width=max(4, pen))
    return fit_ink(ink)


def outlined(plain: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Draw the outline of a digit, or the digit surrounded by a light line and a dark line."""
    width = 2 * int(rng.integers(1, 4)) + 1
    ink = ImageOps.expand(plain, 24)
    if rng.random() < 0.5:  # make thin digits bolder, so that they have an inside
        ink = ink.filter(ImageFilter.MaxFilter(9))
    outer = ink.filter(ImageFilter.MaxFilter(2 * width + 1)) if rng.random() < 0.6 else ink
    line = ImageChops.subtract(outer.filter(ImageFilter.MaxFilter(width)), outer.filter(ImageFilter.MinFilter(width)))
    if rng.random() < 0.3:
        line = ImageChops.lighter(line, ink.filter(ImageFilter.MinFilter(width + 2)))
    return fit_ink(line)


def draw_bar(rng: np.random.Generator) -> Image.Image:
    """Draw a 1 as a straight or tapered upright bar, half the time with a small flag or a foot."""
    canvas = Image.new("L", (INK_SIDE, INK_SIDE))
    draw = ImageDraw.Draw(canvas)
    x, top, bottom = INK_SIDE / 2, 4.0, INK_SIDE - 4.0
    upper, lower = np.array([1, rng.uniform(0.6, 1.1)]) * rng.uniform(0.025, 0.14) * INK_SIDE
    draw.polygon([(x - upper, top), (x + upper, top), (x + lower, bottom), (x - lower, bottom)], fill=255)
    if rng.random() < 0.3:
        for y, half in ((top, upper), (bottom, lower)):
            draw.ellipse((x - half, y - half, x + half, y + half), fill=255)
    pen = max(4, int(rng.uniform(0.7, 1.6) * upper))
    if rng.random() < 0.35:
        flag = rng.uniform(0.08, 0.3, 2) * INK_SIDE
        draw.line((x, top + pen / 2, x - upper - flag[0], top + flag[1]), fill=255, width=pen)
    if rng.random() < 0.2:
        foot = lower + rng.uniform(0.05, 0.2) * INK_SIDE
        draw.line((x - foot, bottom - pen / 2, x + foot, bottom - pen / 2), fill=255, width=pen)
    return fit_ink(canvas)


def draw_upstroke(rng: np.random.Generator) -> Image.Image:
    """Draw a 1 as taught in German schools: an upstroke, which is at most as long as the stem, followed by the stem."""
    # radians: of the stem, and from the stem to the upstroke
    lean, turn = rng.uniform(-0.1, 0.35), rng.uniform(0.3, 0.95)
    length, bow = rng.uniform(0.3, min(1.0, 0.6 / math.sin(turn))), rng.uniform(-0.12, 0.12)
    top = np.array([math.sin(lean), -math.cos(lean)])
    start = top - length * np.array([math.sin(lean + turn), -math.cos(lean + turn)])
    bend = (start + top) / 2 + bow * np.array([top[1] - start[1], start[0] - top[0]])
    along = np.linspace(0, 1, 16)[:, None]
    up = (1 - along) ** 2 * start + 2 * along * (1 - along) * bend + along**2 * top
    strokes = [np.concatenate([up, np.zeros((1, 2))])]
    if rng.random() < 0.15:
        foot = rng.uniform(0.1, 0.3)
        strokes.append(np.array([[-foot, 0.0], [foot, 0.0]]))
    return _written(strokes, rng)


def draw_nine(rng: np.random.Generator) -> Image.Image:
    """Draw a 9 whose tail is a hook to the left, like the tail of a g. Its bowl is closed or nearly closed."""
    wide, high = rng.uniform(0.22, 0.36), rng.uniform(0.18, 0.28)
    turns = np.linspace(rng.uniform(-0.9, -0.2), 2 * math.pi + rng.uniform(-0.5, 0.1), 40)
    bowl = np.stack([wide * np.cos(turns), -0.25 + high * -np.sin(turns)], 1)
    side, deep, back = wide + rng.uniform(-0.03, 0.05), rng.uniform(0.35, 0.6), rng.uniform(0.3, 0.75)
    tail = smooth(
        [
            (side, rng.uniform(-0.5, -0.3)),
            (side, 0.0),
            (side - 0.02, 0.7 * deep),
            (side - 0.5 * back, deep + rng.uniform(0.0, 0.12)),
            (side - back, deep - rng.uniform(-0.02, 0.25)),
        ]
    )
    return _written([bowl, tail], rng)


def draw_eight(rng: np.random.Generator) -> Image.Image:
    """Draw an 8 in one stroke. Its ends meet at the top, stay apart, or dip into the upper loop as in a heart."""
    gap = rng.uniform(0.0, 0.35)
    t = np.linspace(gap, 2 * math.pi - gap, 90)
    upper, lower = rng.uniform(0.2, 0.42), rng.uniform(0.08, 0.38)
    x = np.where(np.cos(t) > 0, upper, lower) * np.sin(2 * t) * rng.choice([-1, 1])
    y = -np.cos(t) * np.where(np.cos(t) > 0, rng.uniform(0.4, 0.6), 0.5)
    from_end = np.minimum(t, 2 * math.pi - t)
    y = y + rng.uniform(0, 0.25) * np.exp(-((from_end / 0.45) ** 2))
    return _written([np.stack([x, y], 1)], rng)


def draw_five(rng: np.random.Generator) -> Image.Image:
    """Draw a 5 as one smooth curve, close to an S, with a short or missing bar at the top."""
    wide, neck = rng.uniform(0.22, 0.34), rng.uniform(-0.2, -0.05)
    left = -wide + rng.uniform(0.0, 0.12)
    body = smooth(
        [
            (left + rng.uniform(0.35, 0.75), -0.5 + rng.uniform(-0.06, 0.04)),
            (left + 0.12, -0.48),
            (left, -0.3),
            (left + 0.06, neck),
            (wide * 0.5, neck + 0.08),
            (wide, 0.22),
            (wide * 0.3, 0.5),
            (-wide, rng.uniform(0.36, 0.5)),
        ]
    )
    return _written([body], rng)


def smooth(points: list[tuple[float, float]] | np.ndarray) -> np.ndarray:
    """Return a smooth curve [N, 2] (Catmull-Rom) through points."""
    ends = np.array([points[0], *points, points[-1]])
    t = np.linspace(0, 1, 10, endpoint=False)[:, None]
    parts = []
    for a, b, c, d in zip(ends, ends[1:], ends[2:], ends[3:]):
        parts.append(0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3))
    return np.concatenate([*parts, ends[-1:]])


def _written(strokes: list[np.ndarray], rng: np.random.Generator) -> Image.Image:
    """Draw strokes [N, 2] with a height of about 1, with one pen."""
    every = np.concatenate(strokes)
    low, scale = every.min(axis=0), 0.8 * INK_SIDE / max(np.ptp(every, axis=0).max(), 1e-6)
    width = int(rng.integers(6, 26))
    canvas = Image.new("L", (INK_SIDE, INK_SIDE))
    draw = ImageDraw.Draw(canvas)
    for stroke in strokes:
        points = [(float(x), float(y)) for x, y in (stroke - low) * scale + 0.1 * INK_SIDE]
        draw.line(points, fill=255, width=width, joint="curve")
        for x, y in (points[0], points[-1]):
            draw.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), fill=255)
    return fit_ink(canvas)
