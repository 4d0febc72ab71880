"""Draw non-digits of many kinds: shapes, scribbles, textures and faces.

Each kind is a function of random numbers that draws ink (mode L, 255 is ink) on SIDE x SIDE pixels. The kinds in
HELD_OUT_SHAPES and VALIDATION_SHAPES are never used for training.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

SIDE = 192
MIDDLE = SIDE / 2

Point = tuple[float, float]
Drawing = Callable[[ImageDraw.ImageDraw, np.random.Generator], None]


def _ring(count: int, radius: Callable[[int], float], turn: float = 0.0) -> list[Point]:
    """Return points around the centre, with a separate distance for each."""
    angles = [turn + 2 * math.pi * number / count for number in range(count)]
    return [(MIDDLE + radius(k) * math.cos(a), MIDDLE + radius(k) * math.sin(a)) for k, a in enumerate(angles)]


def _pen(rng: np.random.Generator) -> int:
    return int(rng.integers(5, 22))


def _closed(draw: ImageDraw.ImageDraw, points: list[Point], rng: np.random.Generator) -> None:
    """Draw a closed outline, filled half the time."""
    if rng.random() < 0.5:
        draw.polygon(points, fill=255)
    else:
        draw.line([*points, *points[:2]], fill=255, width=_pen(rng), joint="curve")


def polygon(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw a regular or irregular polygon with three to six corners."""
    corners, turn = int(rng.integers(3, 7)), rng.uniform(0, math.pi)
    _closed(draw, _ring(corners, lambda _: rng.uniform(55, 90), turn), rng)


def star(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw a star with four to eight rays."""
    inner = rng.uniform(20, 50)
    _closed(draw, _ring(2 * int(rng.integers(4, 9)), lambda k: inner if k % 2 else 90.0, rng.uniform(0, 1)), rng)


def cross(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw two or three strokes through one point."""
    turn, strokes = rng.uniform(0, math.pi), int(rng.integers(2, 4))
    for number in range(strokes):
        angle = turn + math.pi * (number + rng.uniform(-0.1, 0.1)) / strokes
        x, y = 85 * math.cos(angle), 85 * math.sin(angle)
        draw.line((MIDDLE - x, MIDDLE - y, MIDDLE + x, MIDDLE + y), fill=255, width=_pen(rng))


def arrow(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw a shaft with a head, in any direction."""
    angle, head, width = rng.uniform(0, 2 * math.pi), rng.uniform(35, 60), _pen(rng)
    x, y = 85 * math.cos(angle), 85 * math.sin(angle)
    draw.line((MIDDLE - x, MIDDLE - y, MIDDLE + x, MIDDLE + y), fill=255, width=width)
    for side in (2.4, -2.4):
        tip = (MIDDLE + x + head * math.cos(angle + side), MIDDLE + y + head * math.sin(angle + side))
        draw.line((MIDDLE + x, MIDDLE + y, *tip), fill=255, width=width)


def zigzag(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw a line that changes direction four to eight times."""
    turns = int(rng.integers(5, 10))
    xs = np.linspace(10, SIDE - 10, turns)
    points = [(float(x), MIDDLE + rng.uniform(30, 80) * (1 if k % 2 else -1)) for k, x in enumerate(xs)]
    draw.line(points, fill=255, width=_pen(rng), joint="curve")


def wave(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw a sine wave of two to four periods, or several below each other."""
    periods, height, lines = rng.uniform(2, 4), rng.uniform(12, 40), int(rng.integers(1, 4))
    width = _pen(rng)
    for line in range(lines):
        middle = SIDE * (line + 1) / (lines + 1)
        points = [(x, middle + height * math.sin(2 * math.pi * periods * x / SIDE)) for x in range(5, SIDE - 5, 3)]
        draw.line(points, fill=255, width=width, joint="curve")


def scribble(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw a smooth random curve that crosses itself."""
    corners = rng.uniform(10, SIDE - 10, (int(rng.integers(7, 16)), 2))
    along = np.linspace(0, len(corners) - 1, 200)
    xs, ys = (np.interp(along, np.arange(len(corners)), corners[:, axis]) for axis in (0, 1))
    kernel = np.ones(15) / 15
    points = list(zip(np.convolve(xs, kernel, "valid").tolist(), np.convolve(ys, kernel, "valid").tolist()))
    draw.line(points, fill=255, width=_pen(rng) // 2 + 2, joint="curve")


def grid(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw ruled lines in both directions, or a chessboard."""
    cells = int(rng.integers(3, 7))
    step, width = (SIDE - 20) / cells, int(rng.integers(3, 9))
    board = rng.random() < 0.4
    for k in range(cells + (not board)):
        at = 10 + k * step
        if board:
            for other in range(k % 2, cells, 2):
                draw.rectangle((at, 10 + other * step, at + step, 10 + (other + 1) * step), fill=255)
        else:
            draw.line((at, 10, at, SIDE - 10), fill=255, width=width)
            draw.line((10, at, SIDE - 10, at), fill=255, width=width)


def face(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw a round face with eyes and a mouth, as an outline or as a disc with holes or darker features."""
    full = rng.random() < 0.5
    feature = 0 if full and rng.random() < 0.6 else 255
    tone = 255 if not full or feature == 0 else int(rng.integers(90, 170))
    width = _pen(rng) // 2 + 4
    draw.ellipse((8, 8, SIDE - 8, SIDE - 8), fill=tone if full else None, outline=tone, width=width)
    eye, apart, high = rng.uniform(7, 16), rng.uniform(24, 42), rng.uniform(60, 85)
    for x in (MIDDLE - apart, MIDDLE + apart):
        draw.ellipse((x - eye, high - eye, x + eye, high + eye), fill=feature)
    mouth = (MIDDLE - 45, 85, MIDDLE + 45, 150)
    kind = rng.random()
    if kind < 0.5:
        draw.arc(mouth, 15, 165, fill=feature, width=width)
    elif kind < 0.75:
        draw.arc((mouth[0], 115, mouth[2], 175), 195, 345, fill=feature, width=width)
    else:
        draw.chord(mouth, 0, 180, fill=feature)
    if rng.random() < 0.4:  # ears
        for x in (30.0, SIDE - 30.0):
            draw.polygon([(x - 24, 50), (x, 4), (x + 24, 40)], fill=tone)


def disc(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw a filled ellipse, a rounded box, or two or three of them that overlap."""
    for _ in range(int(rng.integers(1, 4))):
        x, y = rng.uniform(60, SIDE - 60, 2)
        wide, high = rng.uniform(35, 60, 2)
        box = (x - wide, y - high, x + wide, y + high)
        if rng.random() < 0.6:
            draw.ellipse(box, fill=255)
        else:
            draw.rounded_rectangle(box, rng.uniform(5, 30), fill=255)


def texture(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw spots, which are smooth noise above a threshold, in a square."""
    noise = Image.fromarray(rng.integers(0, 256, (SIDE, SIDE), np.uint8)).filter(
        ImageFilter.GaussianBlur(rng.uniform(3, 12))
    )
    values = np.asarray(noise, np.float32)
    spots = values > np.quantile(values, rng.uniform(0.4, 0.75))
    draw.bitmap((0, 0), Image.fromarray((spots * 255).astype(np.uint8)), fill=255)


def squares(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw nested shapes."""
    width = int(rng.integers(4, 10))
    for number in range(int(rng.integers(2, 5))):
        inset = 8 + number * 24
        box = (inset, inset, SIDE - inset, SIDE - inset)
        if rng.random() < 0.5:
            draw.ellipse(box, outline=255, width=width)
        else:
            draw.rectangle(box, outline=255, width=width)


def composition(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw three to nine overlapping areas and lines of several tones, often on one large area, in the style of
    emoji."""
    if rng.random() < 0.6:
        _area(draw, rng, (MIDDLE, MIDDLE), rng.uniform(60, 90, 2), int(rng.integers(90, 256)))
    for _ in range(int(rng.integers(2, 9))):
        middle, tone = rng.uniform(35, SIDE - 35, 2), int(rng.choice([0, 0, 110, 170, 255, 255]))
        if rng.random() < 0.7:
            _area(draw, rng, (middle[0], middle[1]), rng.uniform(6, 45, 2), tone)
        else:
            start, reach = rng.uniform(0, 360), rng.uniform(15, 55, 2)
            box = (middle[0] - reach[0], middle[1] - reach[1], middle[0] + reach[0], middle[1] + reach[1])
            draw.arc(box, start, start + rng.uniform(60, 300), tone, int(rng.integers(4, 12)))


def _area(draw: ImageDraw.ImageDraw, rng: np.random.Generator, middle: Point, reach: np.ndarray, tone: int) -> None:
    """Draw an ellipse, a rounded box or a polygon in a tone. Half the time, it is mirrored horizontally."""
    kind, mirrored = rng.random(), rng.random() < 0.5
    angles = np.sort(rng.uniform(0, 2 * math.pi, int(rng.integers(3, 7))))
    for x in (middle[0], SIDE - middle[0])[: 1 + mirrored]:
        box = (x - reach[0], middle[1] - reach[1], x + reach[0], middle[1] + reach[1])
        if kind < 0.5:
            draw.ellipse(box, fill=tone)
        elif kind < 0.75:
            draw.rounded_rectangle(box, float(reach.min()) / 2, fill=tone)
        else:
            corners = [(x + reach[0] * math.cos(a), middle[1] + reach[1] * math.sin(a)) for a in angles]
            draw.polygon(corners, fill=tone)


def badge(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw a filled disc or box, or a broad eccentric ring, with something cut out of it or inside it."""
    reach = rng.uniform(60, 92, 2)
    box = (MIDDLE - reach[0], MIDDLE - reach[1], MIDDLE + reach[0], MIDDLE + reach[1])
    if rng.random() < 0.65:
        draw.ellipse(box, fill=255)
    else:
        draw.rounded_rectangle(box, rng.uniform(4, 45), fill=255)
    tone = 0
    if rng.random() < 0.35:
        share, off = rng.uniform(0.4, 0.85), rng.uniform(-0.12, 0.12, 2) * reach
        middle, inner = off + MIDDLE, share * reach * rng.uniform(0.85, 1.0, 2)
        draw.ellipse((*(middle - inner), *(middle + inner)), fill=0)
        tone = 255
    _emblem(draw, rng, 0.5 * float(reach.min()), tone)


def _emblem(draw: ImageDraw.ImageDraw, rng: np.random.Generator, size: float, tone: int) -> None:
    """Draw a small symbol in the centre: a letter, an arrow, a star, a few strokes, or an area."""
    kind, turn = int(rng.integers(5)), rng.uniform(0, 2 * math.pi)
    if kind == 0:
        font = ImageFont.load_default(round(2 * size))
        draw.text((MIDDLE, MIDDLE), str(rng.choice(list("?!&AEFHKMNRTWXYaefhkmtwy"))), tone, font, anchor="mm")
    elif kind == 1:
        corners = int(rng.integers(3, 6))
        inner = rng.uniform(0.3, 0.8) * size
        draw.polygon(_ring(2 * corners, lambda k: inner if k % 2 else size, turn), fill=tone)
    elif kind == 2:
        tip = (MIDDLE + size * math.cos(turn), MIDDLE + size * math.sin(turn))
        draw.line((2 * MIDDLE - tip[0], 2 * MIDDLE - tip[1], *tip), fill=tone, width=_pen(rng))
        for side in (2.4, -2.4):
            end = (tip[0] + 0.7 * size * math.cos(turn + side), tip[1] + 0.7 * size * math.sin(turn + side))
            draw.line((*tip, *end), fill=tone, width=_pen(rng))
    elif kind == 3:
        for _ in range(int(rng.integers(2, 5))):
            ends = rng.uniform(MIDDLE - size, MIDDLE + size, 4)
            draw.line(tuple(ends.tolist()), fill=tone, width=_pen(rng))
    else:
        _area(draw, rng, (MIDDLE, MIDDLE), rng.uniform(0.4, 1.0, 2) * size, tone)


def eye(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw two lids, and a pupil with a highlight."""
    wide, high, width = rng.uniform(70, 92), rng.uniform(30, 65), _pen(rng)
    x = np.linspace(-1, 1, 40)
    lid = [(MIDDLE + wide * float(a), MIDDLE - high * float(1 - a * a)) for a in x]
    lower = [(a, 2 * MIDDLE - b) for a, b in reversed(lid)]
    _closed(draw, lid + lower, rng)
    full = rng.random() < 0.5
    pupil = rng.uniform(0.45, 0.8) * high
    draw.ellipse((MIDDLE - pupil, MIDDLE - pupil, MIDDLE + pupil, MIDDLE + pupil), 255 if full else 0, 255, width // 2)
    light = rng.uniform(0.2, 0.5) * pupil
    draw.ellipse((MIDDLE - light, MIDDLE - light, MIDDLE + light, MIDDLE + light), fill=0 if full else 255)


def gear(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw a wheel with teeth or scallops and a hole."""
    teeth, depth = int(rng.integers(6, 17)), rng.uniform(0.72, 0.92)
    _closed(draw, _ring(4 * teeth, lambda k: 88.0 if k % 4 < 2 else 88.0 * depth, rng.uniform(0, 1)), rng)
    hole = rng.uniform(15, 55)
    draw.ellipse((MIDDLE - hole, MIDDLE - hole, MIDDLE + hole, MIDDLE + hole), fill=int(rng.choice([0, 255])))


def tool(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw a long slanted object: a shaft with a tip, a head or cross bands."""
    angle = rng.uniform(0.45, 1.2) * rng.choice([-1, 1])
    along, across = np.array([math.cos(angle), math.sin(angle)]), np.array([-math.sin(angle), math.cos(angle)])
    half = rng.uniform(8, 24)

    def at(length: float, side: float) -> Point:
        x, y = MIDDLE + 88 * length * along + half * side * across
        return float(x), float(y)

    tip = rng.uniform(0.4, 0.8)
    _closed(draw, [at(-1, -1), at(tip, -1), at(1, 0), at(tip, 1), at(-1, 1)], rng)
    for length in rng.uniform(-0.9, tip, int(rng.integers(0, 4))):
        draw.line((*at(length, -1), *at(length, 1)), fill=int(rng.choice([0, 255])), width=_pen(rng) // 2 + 2)
    if rng.random() < 0.5:
        x, y = at(-1, 0)
        head = rng.uniform(1.1, 2.0) * half
        draw.ellipse((x - head, y - head, x + head, y + head), fill=int(rng.choice([0, 255])), outline=255, width=7)


def spiral(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw a spiral of two to four turns."""
    turns, sign = rng.uniform(2, 4), rng.choice([-1, 1])
    points = []
    for k in range(240):
        angle, radius = sign * 2 * math.pi * turns * k / 240, 88 * k / 240
        points.append((MIDDLE + radius * math.cos(angle), MIDDLE + radius * math.sin(angle)))
    draw.line(points, fill=255, width=int(rng.integers(5, 11)), joint="curve")


def heart(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw a heart."""
    points = []
    for k in range(60):
        t = 2 * math.pi * k / 60
        x = 16 * math.sin(t) ** 3
        y = 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)
        points.append((MIDDLE + 5 * x, MIDDLE - 5 * y))
    _closed(draw, points, rng)


def house(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw walls, a roof and a door."""
    width, eaves = _pen(rng) // 2 + 4, rng.uniform(70, 100)
    draw.rectangle((30, eaves, SIDE - 30, SIDE - 8), outline=255, width=width)
    draw.line([(18, eaves), (MIDDLE, 8), (SIDE - 18, eaves), (18, eaves)], fill=255, width=width, joint="curve")
    door = rng.uniform(60, 110)
    draw.rectangle((door, 125, door + 30, SIDE - 8), outline=255, width=width)


def flower(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw petals around a centre, with or without a stalk."""
    petals, size, width = int(rng.integers(4, 9)), rng.uniform(18, 30), int(rng.integers(5, 10))
    full = rng.random() < 0.5
    for x, y in _ring(petals, lambda _: 55.0, rng.uniform(0, 1)):
        box = (x - size, y - size, x + size, y + size)
        draw.ellipse(box, fill=255 if full else None, outline=255, width=width)
    draw.ellipse((MIDDLE - 20, MIDDLE - 20, MIDDLE + 20, MIDDLE + 20), fill=0 if full else 255)


def tree(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw forking branches."""

    def branch(x: float, y: float, angle: float, length: float, width: float) -> None:
        end = (x + length * math.cos(angle), y - length * math.sin(angle))
        draw.line((x, y, *end), fill=255, width=max(3, round(width)))
        if length > 18:
            for turn in (rng.uniform(0.3, 0.7), -rng.uniform(0.3, 0.7)):
                branch(*end, angle + turn, length * rng.uniform(0.62, 0.75), width * 0.75)

    branch(MIDDLE, SIDE - 8, math.pi / 2, rng.uniform(52, 62), rng.uniform(8, 14))


def comb(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw a comb: a back with teeth."""
    teeth, width, back = int(rng.integers(4, 8)), int(rng.integers(7, 14)), rng.uniform(15, 60)
    draw.line((12, back, SIDE - 12, back), fill=255, width=width)
    for x in np.linspace(16, SIDE - 16, teeth):
        draw.line((x, back, x, back + rng.uniform(80, 115)), fill=255, width=width)


def fish(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw a body, a tail and an eye."""
    high, full = rng.uniform(35, 55), rng.random() < 0.5
    body = (12, MIDDLE - high, 145, MIDDLE + high)
    draw.ellipse(body, fill=255 if full else None, outline=255, width=8)
    draw.polygon([(135, MIDDLE), (182, MIDDLE - high), (182, MIDDLE + high)], fill=255)
    draw.ellipse((38, MIDDLE - 16, 52, MIDDLE - 2), fill=0 if full else 255)


def crescents(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw a disc divided by arcs, like a ball."""
    draw.ellipse((8, 8, SIDE - 8, SIDE - 8), outline=255, width=9)
    for _ in range(int(rng.integers(2, 5))):
        x, y = rng.uniform(20, SIDE - 20, 2)
        radius, start = rng.uniform(35, 70), rng.uniform(0, 360)
        draw.arc((x - radius, y - radius, x + radius, y + radius), start, start + rng.uniform(120, 300), 255, 9)


def hatching(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Draw parallel slanted strokes enclosed by a border."""
    step, width, lean = rng.uniform(20, 34), int(rng.integers(5, 10)), rng.uniform(30, 90)
    draw.rectangle((8, 8, SIDE - 8, SIDE - 8), outline=255, width=width)
    for x in np.arange(-lean, SIDE, step):
        draw.line((x, SIDE - 8, x + lean, 8), fill=255, width=width)


TRAINING_SHAPES: tuple[Drawing, ...] = (
    polygon,
    star,
    cross,
    arrow,
    zigzag,
    wave,
    scribble,
    grid,
    face,
    disc,
    texture,
    squares,
    composition,
    badge,
    eye,
    gear,
    tool,
)
VALIDATION_SHAPES: tuple[Drawing, ...] = (spiral, heart, house)
HELD_OUT_SHAPES: tuple[Drawing, ...] = (flower, tree, comb, fish, crescents, hatching)


def draw_shape(kind: Drawing, rng: np.random.Generator) -> Image.Image:
    """Return one drawing of a kind as ink (mode L) of SIDE x SIDE pixels."""
    ink = Image.new("L", (SIDE, SIDE))
    kind(ImageDraw.Draw(ink), rng)
    return ink
