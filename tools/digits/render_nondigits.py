"""Render pictures of non-digits, with the same light and distortions as digits (`photograph`).

The groups are letters of text fonts, other scripts, pictograms, drawings, parts of digits, and several digits in a row.
The splits are `training`, `validation` (never used for training; settings and the temperature are chosen on it) and
`held-out`. The characters of each split are listed in `signs.py`, `shapes.py` and `fonts.py`; no family is in two
splits. `python -m trninfer.tools.digits.render_nondigits SHEET.png [SIDE]` draws a sheet of them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import cached_property
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from . import shapes, signs
from .fonts import HELD_OUT_FAMILIES, TRAINING_FAMILIES, VALIDATION_FAMILIES, find_fonts, load_font
from .lookalikes import MAX_LIKENESS, is_confusable, lookalikes
from .render_digits import INK_SIDE, Rendering, collect, fit_ink, font_ink, photograph, try_preprocess
from .uci import FORM_STARTS, enlarge, load_split

NONE = 10  # the class of non-digits
NONE_LABEL = "none"
SIDES = {"training": 101, "validation": 102, "held-out": 103}
GROUPS = {"letters": 1, "scripts": 2, "pictograms": 3, "drawings": 4, "parts of digits": 5, "several digits": 6}
COUNTS = {
    "training": (2500, 2500, 2500, 1000, 700, 400),
    "validation": (400, 900, 600, 300, 200, 150),
    "held-out": (200, 1200, 700, 300, 200, 200),
}
SIGN_GROUPS = ("scripts", "pictograms")  # their held-out families are never used for training
# Halves of digits that are not themselves digits (unlike the right half of a 4, which resembles a 1, or the upper half
# of an 8, which resembles a 0).
PARTS = {0: "tblr", 2: "blr", 3: "tb", 4: "tl", 5: "tb", 6: "tr", 8: "lr", 9: "l"}
EMOJI_SIZE = 109  # the only size of Noto Color Emoji

# A row of digits that passes preprocessing is connected, and its width is at least this many times its height.
ROW_ASPECT = 0.85

_Fonts = dict[str, list[Path]]


class NonDigits:
    """The pictures of one split, which are numbered within each `group` and generated reproducibly."""

    def __init__(self, side: str) -> None:
        self._side = side

    def picture(self, group: str, index: int) -> Image.Image:
        """Return picture number `index` of a group."""
        rng = np.random.default_rng([SIDES[self._side], GROUPS[group], index])
        if group == "pictograms" and self._side == "held-out" and index % 2 == 0:
            return self._emoji(rng)
        make: dict[str, Callable[[np.random.Generator], Image.Image]] = {
            "letters": self._letter,
            "scripts": self._script,
            "pictograms": self._pictogram,
            "drawings": self._drawing,
            "parts of digits": self._part,
            "several digits": self._row,
        }
        while True:
            try:
                ink = make[group](rng)
            except (ValueError, OSError):  # nothing was drawn, or the font has no outline for the character
                continue
            if group == "several digits" or not lookalikes()(ink):
                return photograph(ink, rng)

    @cached_property
    def _text_fonts(self) -> _Fonts:
        """Return the families of this split from which digits and letters are taken."""
        if self._side == "held-out":
            return find_fonts(HELD_OUT_FAMILIES)
        validating = self._side == "validation"
        return find_fonts(
            {name: at for name, at in TRAINING_FAMILIES.items() if (name in VALIDATION_FAMILIES) == validating}
        )

    @cached_property
    def _script_fonts(self) -> _Fonts:
        scripts = {
            "training": signs.TRAINING_SCRIPTS,
            "validation": signs.VALIDATION_SCRIPTS,
            "held-out": signs.HELD_OUT_SCRIPTS,
        }[self._side]
        return {name: signs.find_files(at) for name, at in signs.script_patterns(scripts).items()}

    @cached_property
    def _pictogram_fonts(self) -> _Fonts:
        families = {
            "training": signs.TRAINING_PICTOGRAMS,
            "validation": signs.VALIDATION_PICTOGRAMS,
            "held-out": {k: v for k, v in signs.HELD_OUT_PICTOGRAMS.items() if k != "Noto Color Emoji"},
        }[self._side]
        return {name: signs.find_files(at) for name, at in families.items()}

    @cached_property
    def _handwriting(self) -> np.ndarray:
        """Return the features [N, 64] of this split's handwritten digits."""
        training, held_out = load_split()
        cut = FORM_STARTS[8]
        by_side = {
            "training": training.features[:cut],
            "validation": training.features[cut:],
            "held-out": held_out.features,
        }
        return by_side[self._side]

    def _letter(self, rng: np.random.Generator) -> Image.Image:
        path = _any_file(self._text_fonts, rng)
        return font_ink(_any_sign(self._allowed(signs.text_signs(path)), rng), path)

    def _script(self, rng: np.random.Generator) -> Image.Image:
        path = _any_file(self._script_fonts, rng)
        return font_ink(_any_sign(signs.script_signs(path), rng), path)

    def _pictogram(self, rng: np.random.Generator) -> Image.Image:
        path = _any_file(self._pictogram_fonts, rng)
        return font_ink(_any_sign(self._allowed(signs.pictogram_signs(path)), rng), path)

    def _allowed(self, characters: str) -> str:
        """Return the characters that are allowed in this split. In training, they must certainly be non-digits."""
        return "".join(filter(signs.teaches, characters)) if self._side == "training" else characters

    def _drawing(self, rng: np.random.Generator) -> Image.Image:
        kinds = {
            "training": shapes.TRAINING_SHAPES,
            "validation": shapes.VALIDATION_SHAPES,
            "held-out": shapes.HELD_OUT_SHAPES,
        }[self._side]
        return fit_ink(shapes.draw_shape(kinds[int(rng.integers(len(kinds)))], rng))

    def _emoji(self, rng: np.random.Generator) -> Image.Image:
        """Draw an emoji in its colours on light or dark paper, with some noise."""
        (path,) = signs.find_files(signs.HELD_OUT_PICTOGRAMS["Noto Color Emoji"])
        font = load_font(path, EMOJI_SIZE)
        drawing = Image.new("RGBA", (160, 160))
        while drawing.getbbox() is None or lookalikes()(_contrast(drawing)):
            drawing = Image.new("RGBA", (160, 160))
            sign = _any_sign(signs.pictogram_signs(path), rng)
            ImageDraw.Draw(drawing).text((12, 12), sign, "black", font, embedded_color=True)
        side = int(rng.integers(40, 120))
        paper = np.array(rng.uniform(200, 255, 3) if rng.random() < 0.7 else rng.uniform(0, 60, 3))
        size = (round(side * rng.uniform(1.2, 2.5)), round(side * rng.uniform(1.2, 2.5)))
        picture = Image.new("RGB", size, tuple(int(tone) for tone in paper))
        emoji = drawing.crop(drawing.getbbox()).resize((side, side), Image.Resampling.BICUBIC)
        picture.paste(emoji, (int(rng.integers(size[0] - side + 1)), int(rng.integers(size[1] - side + 1))), emoji)
        noisy = np.asarray(picture, np.float32) + rng.normal(0, rng.uniform(0, 6), (*size[::-1], 3))
        return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))

    def _part(self, rng: np.random.Generator) -> Image.Image:
        """Draw about half of a digit."""
        digit = int(rng.choice(list(PARTS)))
        where = str(rng.choice(list(PARTS[digit])))
        ink = font_ink(digit, _any_file(self._text_fonts, rng))
        share = rng.uniform(0.42, 0.55)
        wide, high = math.ceil(ink.width * share), math.ceil(ink.height * share)
        box = {
            "t": (0, 0, ink.width, high),
            "b": (0, ink.height - high, ink.width, ink.height),
            "l": (0, 0, wide, ink.height),
            "r": (ink.width - wide, 0, ink.width, ink.height),
        }[where]
        return fit_ink(ink.crop(box))

    def _row(self, rng: np.random.Generator) -> Image.Image:
        """Draw two or three adjacent digits, in one font or handwritten, touching or apart."""
        count, gap = int(rng.integers(2, 4)), rng.uniform(-0.12, 0.5)
        if rng.random() < 0.3:
            forms = self._handwriting[rng.integers(len(self._handwriting), size=count)]
            inks = [fit_ink(enlarge(features, INK_SIDE)) for features in forms]
        else:
            path = _any_file(self._text_fonts, rng)
            inks = [font_ink(int(rng.integers(10)), path) for _ in range(count)]
        inks = [ink.resize((max(1, ink.width * INK_SIDE // ink.height), INK_SIDE)) for ink in inks]
        row = Image.new("L", (2 * INK_SIDE * count, INK_SIDE))
        at = 0
        for ink in inks:
            row.paste(255, (at, 0), ink)
            at = max(at + 1, at + ink.width + round(gap * INK_SIDE))
        return fit_ink(row)


def _any_file(fonts: _Fonts, rng: np.random.Generator) -> Path:
    """Return a random font file, with equal shares of families."""
    files = fonts[list(fonts)[int(rng.integers(len(fonts)))]]
    return files[int(rng.integers(len(files)))]


def _any_sign(characters: str, rng: np.random.Generator) -> str:
    if not characters:
        raise ValueError("a font without signs")
    sign = characters[int(rng.integers(len(characters)))]
    if is_confusable(sign):
        raise ValueError("a sign that may pass for a digit")
    return sign


def _contrast(drawing: Image.Image) -> Image.Image:
    """Convert a coloured drawing (mode RGBA) on white paper to ink without margin.

    The darkest part becomes full ink.
    """
    values = (255 - np.asarray(drawing.convert("L"), np.float32)) * (np.asarray(drawing.getchannel("A")) / 255)
    return fit_ink(Image.fromarray((values * (255 / max(float(values.max()), 1))).astype(np.uint8)))


_SIDES: dict[str, NonDigits] = {}  # one per process, with its fonts


def _example(task: tuple[str, str, int]) -> tuple[np.ndarray | None, int]:
    side, group, index = task
    nondigits = _SIDES.setdefault(side, NonDigits(side))
    image = try_preprocess(nondigits.picture(group, index))
    if image is not None and side == "training" and not _teaches(image, group):
        image = None
    return image, NONE


def _teaches(image: np.ndarray, group: str) -> bool:
    """True if the network's input is a non-digit too, since preprocessing may have removed accents, rings and
    neighbours."""
    rows, columns = np.nonzero(image[0] > 0.2)
    if group == "several digits" and np.ptp(columns) < ROW_ASPECT * np.ptp(rows):
        return False
    return lookalikes().alike(fit_ink(Image.fromarray((image[0] * 255).astype(np.uint8)))) <= MAX_LIKENESS


def render_nondigits(side: str, group: str, processes: int = 2) -> Rendering:
    """Render all preprocessed pictures of a split and group. Labels are NONE."""
    count = COUNTS[side][list(GROUPS).index(group)]
    with Pool(processes) as pool:
        return collect(pool.map(_example, [(side, group, index) for index in range(count)], chunksize=50))


def draw_sheet(path: Path, side: str, columns: int = 8) -> None:
    """Draw a sheet of pictures, one row per group, next to the network's inputs."""
    nondigits = NonDigits(side)
    sheet = Image.new("RGB", (columns * 204, len(GROUPS) * 102), "grey")
    for row, group in enumerate(GROUPS):
        for column in range(columns):
            picture = nondigits.picture(group, column)
            image = try_preprocess(picture)
            picture.thumbnail((100, 100))
            sheet.paste(picture.convert("RGB"), (column * 204, row * 102))
            if image is not None:
                small = Image.fromarray((image[0] * 255).astype(np.uint8)).resize((100, 100), Image.Resampling.NEAREST)
                sheet.paste(small.convert("RGB"), (column * 204 + 102, row * 102))
    sheet.save(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw a sheet of pictures of non-digits.")
    parser.add_argument("sheet", type=Path, help="the PNG to write")
    parser.add_argument("side", nargs="?", choices=list(SIDES), default="training")
    given = parser.parse_args()
    draw_sheet(given.sheet, given.side)
