"""Render network inputs directly from glyphs, without pictures. Far more inputs can be created in this way, because
finding the ink takes nine tenths of the time needed for a picture (`render_digits.py`). Here, ink is distorted, blurred
and centred in one step, so that a network sees ten times as many shapes of digits and non-digits. The kinds of glyphs
are:

- digits: every training font family; handwriting: the training forms;
- letters, scripts (the training scripts of `signs.py`, and FURTHER_SCRIPTS) and pictograms;
- common characters: COMMON, even if an unusual font draws a 4 or an 8 like one of them;
- drawings: the training kinds of `shapes.py`;
- variants: handwritten forms of digits that few fonts contain (`variants.py`);
- turned digits: mirrored, upside down or on their side, if the result is not a digit;
- strokes: a few random lines, arcs and loops, like a character of an imaginary script;
- overlaps: two overlapping glyphs;
- written digits and synthetic characters: written stroke by stroke, with the same pens (`strokes.py`).

All kinds are used for training. They contain no validation or held-out families.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, cached_property
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageOps

from ...models.ink import Box
from ...models.preprocess import centre_ink
from . import signs
from .fonts import TRAINING_FAMILIES, VALIDATION_FAMILIES, find_fonts
from .lookalikes import is_confusable, lookalikes
from .render_digits import INK_SIDE, Rendering, change_strokes, collect, distort_ink, fit_ink, font_ink
from .render_nondigits import NONE
from .shapes import TRAINING_SHAPES, draw_shape
from .strokes import draw_made_up_sign, draw_written_digit
from .uci import enlarge, load_split
from .variants import draw_variant, varied_digit

COUNTS = {
    "digits": 36000,
    "handwriting": 8000,
    "letters": 7000,
    "scripts": 15000,
    "pictograms": 6000,
    "turned digits": 3000,
    "strokes": 6000,
    "overlaps": 3000,
    "variants": 14000,
    "drawings": 6000,
    "common signs": 3000,
    "written digits": 20000,
    "made-up signs": 15000,
}
DIGIT_KINDS = ("digits", "handwriting", "variants", "written digits")
STREAM = 201  # combined with the number of the kind to form seeds
SIDE = 72  # side of the canvas for distorting a glyph, in pixels
# Synthetic glyphs whose similarity to every digit is below this are treated as non-digits.
MAX_LIKENESS = 0.72

# Noto scripts that are unrelated to every held-out script.
FURTHER_SCRIPTS = (
    "Ahom",
    "Bhaiksuki",
    "Buhid",
    "Cham",
    "Dogra",
    "Elymaic",
    "GunjalaGondi",
    "InscriptionalPahlavi",
    "InscriptionalParthian",
    "Kaithi",
    "KayahLi",
    "Khojki",
    "Khudawadi",
    "Mahajani",
    "Manichaean",
    "Medefaidrin",
    "MeeteiMayek",
    "Modi",
    "Mro",
    "Multani",
    "Newa",
    "NyiakengPuachueHmong",
    "OldNorthArabian",
    "OldSogdian",
    "PauCinHau",
    "PsalterPahlavi",
    "Rejang",
    "Saurashtra",
    "Sharada",
    "Siddham",
    "SoraSompeng",
    "Sundanese",
    "Tagbanwa",
    "Takri",
    "Tirhuta",
    "Wancho",
    "Yezidi",
)

# Characters of the training fonts: Han, Kana and Hangul, printed and handwritten.
FURTHER_FONTS = ("AR PL UKai", "Kouzan Mouhitsu", "Nanum Brush", "Nanum Myeongjo", "Reggae One")

# Letters and other characters that people are likely to try.
COMMON = "AEFHKMNRTWXYadefhkmnptwxy$%&*+=?@^~"

# Flips and rotations that turn a digit into a non-digit: mirrored, upside down, or turned by 90 degrees.
TURNS: dict[int, tuple[Image.Transpose, ...]] = {
    2: (Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270),
    3: (Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270),
    4: (Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_90),
    5: (Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270),
    6: (Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270),
    7: (Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_90),
    8: (Image.Transpose.ROTATE_90,),
    9: (Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270),
}


class Glyphs:
    """The glyphs of each kind, which are numbered and generated reproducibly."""

    def glyph(self, kind: str, index: int) -> tuple[np.ndarray, int]:
        """Return glyph number `index` of a kind as float32 [1, 32, 32], and its class."""
        rng = np.random.default_rng([STREAM, list(COUNTS).index(kind), index])
        label = NONE
        if kind in DIGIT_KINDS:
            label = varied_digit(index) if kind == "variants" else index % 10
        make: dict[str, Callable[[np.random.Generator], Image.Image]] = {
            "variants": lambda rng: self._variant(index, rng),
            "letters": lambda rng: self._sign("letters", rng),
            "scripts": lambda rng: self._sign("scripts", rng),
            "pictograms": lambda rng: self._sign("pictograms", rng),
            "turned digits": self._turned,
            "strokes": self._strokes,
            "overlaps": self._overlap,
            "drawings": self._drawing,
            "common signs": self._common,
            "written digits": lambda rng: draw_written_digit(label, rng),
            "made-up signs": lambda rng: _none(draw_made_up_sign(rng)),
        }
        while True:
            try:
                return as_input(make[kind](rng) if kind in make else self._digit(kind, label, rng), rng), label
            except (ValueError, OSError):  # nothing was drawn, or it looks like a digit
                continue

    @cached_property
    def _fonts(self) -> dict[str, list[Path]]:
        return find_fonts({name: at for name, at in TRAINING_FAMILIES.items() if name not in VALIDATION_FAMILIES})

    @cached_property
    def _sign_fonts(self) -> dict[str, dict[str, list[Path]]]:
        scripts = signs.script_patterns(signs.TRAINING_SCRIPTS + FURTHER_SCRIPTS)
        return {
            "letters": self._fonts,
            "scripts": {
                **{name: signs.find_files(at) for name, at in scripts.items()},
                **find_fonts({name: TRAINING_FAMILIES[name] for name in FURTHER_FONTS}),
            },
            "pictograms": {name: signs.find_files(at) for name, at in signs.TRAINING_PICTOGRAMS.items()},
        }

    @cached_property
    def _handwriting(self) -> tuple[np.ndarray, np.ndarray]:
        features, labels = load_split()[0]
        return features, labels

    def _digit(self, kind: str, digit: int, rng: np.random.Generator) -> Image.Image:
        if kind == "handwriting":
            features, labels = self._handwriting
            written = rng.choice(np.flatnonzero(labels == digit))
            return fit_ink(enlarge(features[written], INK_SIDE, margin=int(rng.integers(2))))
        return font_ink(digit, _any_file(self._fonts, rng))

    def _variant(self, index: int, rng: np.random.Generator) -> Image.Image:
        def plain(digit: int) -> Image.Image:
            return self._digit("handwriting" if rng.random() < 0.2 else "digits", digit, rng)

        return draw_variant(index, plain, rng)

    def _sign(self, group: str, rng: np.random.Generator) -> Image.Image:
        path = _any_file(self._sign_fonts[group], rng)
        characters = _characters(group, path)
        if not characters:
            raise ValueError("a font without signs")
        ink = _sign_ink(characters[int(rng.integers(len(characters)))], path)
        if ink is None:
            raise ValueError("like a digit")
        return ink

    def _turned(self, rng: np.random.Generator) -> Image.Image:
        digit = int(rng.choice(list(TURNS)))
        turns = TURNS[digit]
        ink = self._digit("handwriting" if rng.random() < 0.3 else "digits", digit, rng)
        return _none(ink.transpose(turns[int(rng.integers(len(turns)))]))

    def _common(self, rng: np.random.Generator) -> Image.Image:
        path = _any_file(self._fonts, rng)
        known = [character for character in COMMON if character in _characters("letters", path)]
        if not known:
            raise ValueError("a font without signs")
        return font_ink(known[int(rng.integers(len(known)))], path)

    def _drawing(self, rng: np.random.Generator) -> Image.Image:
        kind = TRAINING_SHAPES[int(rng.integers(len(TRAINING_SHAPES)))]
        ink = fit_ink(draw_shape(kind, rng))
        if lookalikes()(ink):
            raise ValueError("like a digit")
        return ink

    def _strokes(self, rng: np.random.Generator) -> Image.Image:
        return _none(fit_ink(draw_strokes(rng)))

    def _overlap(self, rng: np.random.Generator) -> Image.Image:
        """Draw a digit and another glyph, each shifted from the middle."""
        canvas = Image.new("L", (2 * INK_SIDE, 2 * INK_SIDE))
        first = self._digit("digits", int(rng.integers(10)), rng)
        other = int(rng.integers(20))  # half of them are digits
        second = self._digit("digits", other, rng) if other < 10 else self._sign("letters", rng)
        for ink in (first, second):
            at = [int(INK_SIDE - side / 2 + rng.uniform(-0.3, 0.3) * INK_SIDE) for side in ink.size]
            canvas.paste(255, (at[0], at[1]), ink)
        return _none(fit_ink(canvas))


def _none(ink: Image.Image) -> Image.Image:
    """Return synthetic ink that is certainly a non-digit. Raise ValueError if it may be a digit."""
    if lookalikes().alike(ink) > MAX_LIKENESS:
        raise ValueError("like a digit")
    return ink


def as_input(ink: Image.Image, rng: np.random.Generator) -> np.ndarray:
    """Distort ink as in a picture, blur it, and centre it as the preprocessing does. Returns float32 [1, 32, 32]."""
    picture = distort_ink(change_strokes(ink, rng), SIDE * 0.75, (SIDE, SIDE), rng)
    picture = picture.filter(ImageFilter.GaussianBlur(max(0.0, rng.uniform(-0.5, 2.0))))
    values = np.asarray(picture, np.float32) / 255
    full = np.quantile(values[values > 0.3], 0.7) if (values > 0.3).any() else 1.0
    values = np.clip(values / full, 0, 1)
    rows, columns = np.nonzero(values > 0.4)
    if not len(rows):
        raise ValueError("no ink")
    box = Box(int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1)
    return centre_ink(values, box, 32, 32)[None].astype(np.float32)


def draw_strokes(rng: np.random.Generator) -> Image.Image:
    """Draw two to six straight, bent or closed strokes between points of a grid with one pen."""
    canvas = Image.new("L", (INK_SIDE, INK_SIDE))
    draw = ImageDraw.Draw(canvas)
    width = int(rng.integers(8, 30))
    grid = np.linspace(0.12, 0.88, int(rng.integers(3, 5))) * INK_SIDE
    at = rng.choice(grid, 2)
    for _ in range(int(rng.integers(2, 7))):
        to = rng.choice(grid, 2)
        if rng.random() < 0.35:  # start a new stroke elsewhere
            at = rng.choice(grid, 2)
        kind = rng.random()
        if kind < 0.45:
            points = [tuple(at), tuple(to)]
        elif kind < 0.85:
            bend = (at + to) / 2 + rng.uniform(-0.7, 0.7) * np.array([to[1] - at[1], at[0] - to[0]])
            along = np.linspace(0, 1, 24)[:, None]
            curve = (1 - along) ** 2 * at + 2 * along * (1 - along) * bend + along**2 * to
            points = [tuple(point) for point in curve]
        else:
            radius = rng.uniform(0.08, 0.25, 2) * INK_SIDE
            turns = np.linspace(0, rng.uniform(1.2, 2) * math.pi, 32) + rng.uniform(0, 2 * math.pi)
            points = [(at[0] + radius[0] * math.cos(t), at[1] + radius[1] * math.sin(t)) for t in turns]
        draw.line(points, fill=255, width=width, joint="curve")
        for x, y in (points[0], points[-1]):
            draw.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), fill=255)
        at = to
    return ImageOps.expand(canvas, 4)


@cache
def _sign_ink(character: str, path: Path) -> Image.Image | None:
    """Draw a character in a font as ink. Return None if it looks like a digit."""
    ink = font_ink(character, path)
    return None if lookalikes()(ink) else ink


@cache
def _characters(group: str, path: Path) -> str:
    """Return the characters of a font that belong to a group."""
    every = {"letters": signs.text_signs, "scripts": signs.script_signs, "pictograms": signs.pictogram_signs}
    return "".join(c for c in every[group](path) if signs.teaches(c) and not is_confusable(c))


def _any_file(fonts: dict[str, list[Path]], rng: np.random.Generator) -> Path:
    """Return a random font file, with equal probabilities for families."""
    files = fonts[list(fonts)[int(rng.integers(len(fonts)))]]
    return files[int(rng.integers(len(files)))]


_GLYPHS: list[Glyphs] = []  # one per process, with its fonts


def _example(task: tuple[str, int]) -> tuple[np.ndarray, int]:
    if not _GLYPHS:
        _GLYPHS.append(Glyphs())
    return _GLYPHS[0].glyph(*task)


def render_glyphs(kind: str, processes: int = 2) -> Rendering:
    """Render all glyphs of a kind. Labels are digits or NONE."""
    with Pool(processes) as pool:
        return collect(pool.map(_example, [(kind, index) for index in range(COUNTS[kind])], chunksize=100))
