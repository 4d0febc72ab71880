"""Compose pictures with several digits and their boxes, the training and scoring data of `digits-detect`.

A composition is a grey sheet of paper with printed or handwritten digits: single digits, a number in one row, or
several rows, of one size or of several sizes. Letters, drawings, ruled lines and frames, which have no boxes, are mixed
in. Fonts, forms of handwriting and drawings are split as for digits-cnn: no family, form or kind of drawing occurs in
two splits.
"""

from __future__ import annotations

import contextlib
import math
import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from . import shapes
from .fonts import HELD_OUT_FAMILIES, TRAINING_FAMILIES, VALIDATION_FAMILIES, find_fonts
from .render_digits import change_strokes, fit_ink, font_ink, light_on, two_tones
from .signs import ALSO_DIGITS
from .uci import FORM_STARTS, enlarge, load_split

SIDE = 128  # side of the network's input
PADDING = 114 / 255  # padding around a picture that is not square, as in YOLO's exporters
INK_SIDE = 96  # side at which glyphs are stored
SIDES = {"training": 201, "validation": 202, "held-out": 203}
LETTERS = [letter for letter in string.ascii_letters + "&%#?@+=" if letter not in ALSO_DIGITS]
SMALLEST, LARGEST = 0.09, 0.8  # heights of digits, as fractions of the longer side of the picture


class Composition(NamedTuple):
    """A picture as the network receives it, and the digits that it contains."""

    image: np.ndarray  # uint8 [SIDE, SIDE]
    boxes: np.ndarray  # float32 [n, 5]: class, x1, y1, x2, y2 in pixels of the image


class _Sources:
    """The inks of one split: the glyphs of its fonts, its handwriting and its drawings."""

    def __init__(self, side: str) -> None:
        families = HELD_OUT_FAMILIES
        if side != "held-out":
            validating = side == "validation"
            families = {n: at for n, at in TRAINING_FAMILIES.items() if (n in VALIDATION_FAMILIES) == validating}
        self._fonts = list(find_fonts(families).values())
        training, held_out = load_split()
        forms = FORM_STARTS[-6]  # the last three training forms are for validation
        forms_of_side = {"training": slice(None, forms), "validation": slice(forms, None)}.get(side, slice(None))
        self._features, self._labels = (part[forms_of_side] for part in (held_out if side == "held-out" else training))
        self._drawings = {
            "training": shapes.TRAINING_SHAPES,
            "validation": shapes.VALIDATION_SHAPES,
            "held-out": shapes.HELD_OUT_SHAPES,
        }[side]

    def font(self, rng: np.random.Generator) -> Path | None:
        """Return a random font, with equal probability for each family, or None (handwriting) with a probability of one
        seventh."""
        if rng.random() < 1 / 7:
            return None
        files = self._fonts[int(rng.integers(len(self._fonts)))]
        return files[int(rng.integers(len(files)))]

    def digit(self, font: Path | None, rng: np.random.Generator) -> tuple[int, Image.Image]:
        """Return a digit and its ink."""
        if font is not None:
            digit = int(rng.integers(10))
            return digit, _glyph(str(digit), font)
        index = int(rng.integers(len(self._labels)))
        ink = enlarge(self._features[index], INK_SIDE, margin=1).filter(ImageFilter.GaussianBlur(INK_SIDE / 24))
        stroke = ink.point([round(255 / (1 + math.exp(-(tone - 115) / 14))) for tone in range(256)])
        return int(self._labels[index]), fit_ink(stroke)

    def distraction(self, font: Path | None, rng: np.random.Generator) -> Image.Image:
        """Return the ink of a letter or a drawing."""
        if font is not None and rng.random() < 0.7:
            with contextlib.suppress(ValueError):  # some fonts do not contain letters
                return _glyph(LETTERS[int(rng.integers(len(LETTERS)))], font)
        while True:
            with contextlib.suppress(ValueError):  # a drawing may be empty
                return fit_ink(shapes.draw_shape(self._drawings[int(rng.integers(len(self._drawings)))], rng))


@cache
def _sources(side: str) -> _Sources:
    return _Sources(side)


@cache
def _glyph(text: str, font: Path) -> Image.Image:
    ink = font_ink(text, font)
    ink.thumbnail((INK_SIDE, INK_SIDE), Image.Resampling.BOX)
    return ink


@dataclass
class _Sheet:
    """A picture that is being drawn: tones [H, W] in 0..1, and the boxes of its contents."""

    tones: np.ndarray
    boxes: list[tuple[float, ...]] = field(default_factory=list)
    taken: list[tuple[int, int, int, int]] = field(default_factory=list)

    def is_free(self, box: tuple[int, int, int, int], gap: float) -> bool:
        """True if a box is inside the picture, at a distance of at least `gap` from all other boxes."""
        height, width = self.tones.shape
        if box[0] < 1 or box[1] < 1 or box[2] > width - 1 or box[3] > height - 1:
            return False
        return all(
            box[0] > other[2] + gap or box[2] < other[0] - gap or box[1] > other[3] + gap or box[3] < other[1] - gap
            for other in self.taken
        )

    def put(self, ink: Image.Image, corner: tuple[int, int], pen: float, digit: int | None, gap: float) -> bool:
        """Draw ink with its corner at `corner`, if that area is free."""
        x, y = corner
        box = (x, y, x + ink.width, y + ink.height)
        if not self.is_free(box, gap):
            return False
        region = self.tones[y : box[3], x : box[2]]
        region += (np.asarray(ink, np.float32) / 255) * (pen - region)
        self.taken.append(box)
        if digit is not None:
            self.boxes.append((digit, *box))
        return True


def _turned(ink: Image.Image, height: float, angle: float, shear: float, squeeze: float) -> Image.Image:
    """Return ink scaled to a height in pixels, rotated and slanted, and cropped to the drawn area."""
    scale = height / ink.height
    size = (max(2, round(ink.width * scale * squeeze)), max(2, round(height)))
    small = ink.resize(size, Image.Resampling.BOX if scale < 1 else Image.Resampling.BICUBIC)
    margin = round(abs(shear) * size[1] / 2) + 1
    wide = Image.new("L", (size[0] + 2 * margin, size[1]))
    wide.paste(small, (margin, 0))
    slanted = wide.transform(
        wide.size, Image.Transform.AFFINE, (1, shear, -shear * size[1] / 2, 0, 1, 0), Image.Resampling.BICUBIC
    )
    turned = slanted.rotate(angle, Image.Resampling.BICUBIC, expand=True)
    box = turned.point([0] * 64 + [255] * 192).getbbox()
    return turned.crop(box) if box else turned


class _Style(NamedTuple):
    """The font, size, slant and tone of the digits in a row."""

    font: Path | None
    height: float  # pixels
    angle: float  # degrees
    shear: float
    squeeze: float
    pen: float


def _row(
    sheet: _Sheet, sources: _Sources, style: _Style, length: int, start: tuple[int, int], rng: np.random.Generator
) -> None:
    """Draw a number with several digits along a line from a start position. Digits that do not fit are omitted."""
    x, y = float(start[0]), float(start[1])
    slope = -math.tan(math.radians(style.angle))
    spacing = style.height * rng.uniform(0.04, 0.35)
    letters = rng.random() < 0.15
    for _ in range(length):
        is_letter = letters and rng.random() < 0.5
        digit, ink = (None, sources.distraction(style.font, rng)) if is_letter else sources.digit(style.font, rng)
        tilt = style.angle + (rng.normal(0, 4) if style.font is None else 0)
        rendering = _turned(
            change_strokes(ink, rng) if rng.random() < 0.2 else ink, style.height, tilt, style.shear, style.squeeze
        )
        at = (round(x), round(y + (style.height - rendering.height) / 2))
        if not sheet.put(rendering, at, style.pen, digit, gap=-1):
            break
        x += rendering.width + spacing
        y += slope * (rendering.width + spacing)


def _furnish(sheet: _Sheet, pen: float, rng: np.random.Generator) -> None:
    """Draw ruled lines or a frame, which may intersect digits."""
    height, width = sheet.tones.shape
    image = Image.new("L", (width, height))
    draw = ImageDraw.Draw(image)
    kind, weight = rng.random(), int(rng.integers(1, 4))
    if kind < 0.5:
        step = max(8, int(rng.uniform(0.08, 0.3) * height))
        for y in range(int(rng.integers(step)), height, step):
            draw.line((0, y, width, y), fill=255, width=weight)
        if kind < 0.2:
            for x in range(int(rng.integers(step)), width, step):
                draw.line((x, 0, x, height), fill=255, width=weight)
    else:
        x1, y1 = rng.uniform(0, 0.4) * width, rng.uniform(0, 0.4) * height
        x2, y2 = rng.uniform(0.6, 1) * width, rng.uniform(0.6, 1) * height
        draw.rectangle((x1, y1, x2, y2), outline=255, width=weight)
    strength = rng.uniform(0.1, 0.5)
    sheet.tones += np.asarray(image, np.float32) / 255 * strength * (pen - sheet.tones)


def compose(side: str, index: int) -> tuple[Image.Image, np.ndarray]:
    """Return picture number `index` of a split (mode L), and its digits as float32 [n, 5] (class, x1, y1, x2, y2)."""
    rng = np.random.default_rng([SIDES[side], index])
    sources = _sources(side)
    longer = int(rng.uniform(SIDE, 2 * SIDE))
    other = max(32, int(longer * (1 if rng.random() < 0.3 else rng.uniform(0.3, 1))))
    width, height = (longer, other) if rng.random() < 0.65 else (other, longer)
    dark, light = (float(tone[0]) for tone in two_tones(rng, 1))
    paper, pen = (light, dark) if rng.random() < 0.65 else (dark, light)
    sheet = _Sheet(np.full((height, width), paper, np.float32))
    if rng.random() < 0.3:
        _furnish(sheet, pen, rng)
    _fill(sheet, sources, longer, pen, rng)
    picture = sheet.tones * light_on((width, height), rng)
    picture = picture + rng.normal(0, rng.uniform(0, 0.06) * abs(pen - paper), picture.shape)
    image = Image.fromarray(np.clip(picture * 255, 0, 255).astype(np.uint8))
    if rng.random() < 0.4:
        image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.006) * longer))
    return image, np.array(sheet.boxes, np.float32).reshape(-1, 5)


def _fill(sheet: _Sheet, sources: _Sources, longer: int, pen: float, rng: np.random.Generator) -> None:
    """Put digits and distractions on a sheet."""
    height, width = sheet.tones.shape

    def style(font: Path | None, tallest: float) -> _Style:
        return _random_style(font, tallest, longer, pen, rng)

    def place(drawn: float) -> tuple[int, int]:
        return int(rng.uniform(1, max(2, width - drawn))), int(rng.uniform(1, max(2, height - drawn)))

    layout = rng.random()
    font = sources.font(rng)
    if layout < 0.45:  # rows of one style
        common = style(font, height * rng.uniform(0.3, 0.95))
        for _ in range(int(rng.integers(1, 5))):
            x, y = place(common.height)
            _row(sheet, sources, common, int(rng.integers(1, 10)), (min(x, int(width * 0.4)), y), rng)
    elif layout < 0.96:  # digits at random positions
        mixed = rng.random() < 0.5
        common = style(font, min(height, width) * 0.9)
        for _ in range(int(rng.integers(1, 12))):
            glyph = style(sources.font(rng), min(height, width) * 0.9) if mixed else common
            _row(sheet, sources, glyph, 1 if rng.random() < 0.8 else 2, place(glyph.height * 0.8), rng)
    for _ in range(int(rng.integers(0, 7)) if rng.random() < 0.5 else 0):
        glyph = style(sources.font(rng), min(height, width) * 0.6)
        ink = _turned(sources.distraction(glyph.font, rng), glyph.height, glyph.angle, glyph.shear, glyph.squeeze)
        sheet.put(ink, place(glyph.height), pen, None, gap=1)


def _random_style(font: Path | None, tallest: float, longer: int, pen: float, rng: np.random.Generator) -> _Style:
    """Return a style of digits up to `tallest` pixels high. The longer side of the sheet has `longer` pixels."""
    most = max(SMALLEST * 1.05, min(LARGEST, tallest / longer))
    share = math.exp(rng.uniform(math.log(SMALLEST), math.log(most)))
    turned = rng.random() < 0.6
    angle, shear = (rng.uniform(-14, 14), rng.uniform(-0.2, 0.2)) if turned else (0.0, 0.0)
    return _Style(font, share * longer, angle, shear, math.exp(rng.uniform(-0.2, 0.2)), pen)


def letterbox(image: Image.Image, boxes: np.ndarray) -> Composition:
    """Fit a picture and its boxes into the network's square input, centred on a grey background."""
    scale = SIDE / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    left, top = (SIDE - size[0]) // 2, (SIDE - size[1]) // 2
    canvas = Image.new("L", (SIDE, SIDE), round(255 * PADDING))
    canvas.paste(image.resize(size, Image.Resampling.BILINEAR), (left, top))
    moved = boxes.copy()
    moved[:, 1:] = moved[:, 1:] * scale + np.array([left, top, left, top], np.float32)
    return Composition(np.asarray(canvas), moved)


def _example(task: tuple[str, int]) -> Composition:
    return letterbox(*compose(*task))


def compositions(side: str, count: int, processes: int = 2) -> list[Composition]:
    """Return the first `count` compositions of a split."""
    with Pool(processes) as pool:
        return pool.map(_example, [(side, index) for index in range(count)], chunksize=64)


def draw_sheet(path: Path, examples: Sequence[Composition], columns: int = 8) -> None:
    """Draw compositions, with their boxes, in one PNG file."""
    rows = -(-len(examples) // columns)
    sheet = Image.new("RGB", (columns * (SIDE + 4), rows * (SIDE + 4)), "white")
    for number, example in enumerate(examples):
        picture = Image.fromarray(example.image).convert("RGB")
        draw = ImageDraw.Draw(picture)
        for digit, *box in example.boxes:
            draw.rectangle(box, outline=(255, 0, 0))
            draw.text((box[0], box[1] - 9), str(int(digit)), fill=(0, 160, 0))
        sheet.paste(picture, (number % columns * (SIDE + 4), number // columns * (SIDE + 4)))
    sheet.save(path)
