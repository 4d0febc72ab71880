"""Detect characters that look like digits.

They are excluded from the class none in all splits, since no reader could distinguish them from digits.

There are two criteria, neither of which uses a network. The first is Unicode's table of confusables (UTS #39), which
assigns each character a skeleton: a character may be mistaken for a digit if its skeleton is a digit or a letter that
some people write like a digit (`is_confusable`). The second is the shape (`Lookalikes`): the distorted ink of a
character is compared with the digits of the training fonts and with handwritten variants.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import numpy as np
from PIL import Image, ImageFilter

from .fonts import TRAINING_FAMILIES, find_fonts
from .render_digits import font_ink
from .variants import VARIED, draw_variant

# A distorted character counts as a digit if its correlation with a digit is larger than this.
MAX_LIKENESS = 0.85
LIKENESS_SIDE = 20
VARIANTS = 300

# Unicode confusables whose skeleton is a digit or a letter in `signs.ALSO_DIGITS`, without combining marks. The digits,
# these letters and their compatibility forms are omitted, because they are excluded anyway. From confusables.txt of
# Unicode 13.0.0, (c) 2020 Unicode, Inc., Unicode License (https://www.unicode.org/license.txt).
_CONFUSABLES = """
    D8 F8 142 180 182 183 184 18D 196 197 19A 19F 1A7 1B5 1B6 1B7 1BB 1BC 1BD 1C0 1C3 1E4 1E5 1FE 21C 222 223 224
    225 253 260 261 268 269 26A 26B 26D 275 282 290 2A0 2DB 37A 392 396 3C3 3E8 411 412 42C 462 463 472 473 48C 48D
    498 499 4CF 4E0 4E8 4E9 50C 51B 54F 555 563 566 581 585 5C0 5D5 5DF 5E1 623 625 627 647 673 6BE 6C1 6C2 6D5 6FF
    7CA B03 B20 C02 C82 D02 D20 D82 101D 10FF 12D0 13A5 13BE 13C0 13C3 13CE 13CF 13D5 13DA 13EB 13EE 13F3 13F4 1472
    1473 14BF 15AF 15F7 16C1 1D08 1D0F 1D11 1D22 1D74 1D76 1D7B 1D7C 1D83 2108 2296 229D 236C 2373 2378 23FD 2C92
    2C9E 2C9F 2CCA 2CCC 2CD2 2D31 2D41 2D4F 2D51 2D54 A4D0 A4D6 A4DC A4E2 A4F2 A4F3 A644 A647 A731 A74A A74B A75A
    A76A A76E A7AB A7B4 AB3D AB3E AB74 AB75 AB8E AB93 ABAA ABBB FBA6 FBA7 FBA8 FBA9 FBAA FBAB FBAC FBAD FCD9 FD3C
    FD3D FE87 FE88 FE8D FE8E FEE9 FEEA FEEB FEEC FFE8 10282 1028A 10292 10296 102A1 102AB 10301 10309 1031A 10404
    10420 1042C 10448 104C2 104D2 104EA 10516 118A9 118AC 118AF 118B5 118BB 118C1 118C3 118C4 118C6 118C8 118CA
    118CC 118D5 118D6 118D7 16F28 16F3A 16F3B 1D206 1D212 1D21A 1D6A9 1D6AD 1D6D4 1D6E3 1D6E7 1D70E 1D71D 1D721
    1D748 1D757 1D75B 1D782 1D791 1D795 1D7BC 1EE00 1EE24 1EE64 1EE80 1EE84 1F714
"""
CONFUSABLES = frozenset(chr(int(code, 16)) for code in _CONFUSABLES.split())

# Distortions (degrees, shear) applied to each character; only the best match counts. They are a subset of the
# distortions of `render_digits.distort_ink`.
TURNS = ((0, 0), (8, 0), (-8, 0), (15, 0), (-15, 0), (0, 0.2), (0, -0.2), (10, -0.2), (-10, 0.2))
SQUEEZES = (-0.16, 0.0, 0.16)
_INK_SIDE = 48  # size of ink while it is distorted


def is_confusable(character: str) -> bool:
    """True if Unicode lists a character as confusable with a digit, or with a letter that may pass for one."""
    return character in CONFUSABLES


def centred(ink: Image.Image) -> np.ndarray:
    """Return ink without margin as a unit vector of LIKENESS_SIDE squared elements with mean 0, for comparing
    shapes."""
    side = LIKENESS_SIDE
    small = ink.copy()
    small.thumbnail((side, side), Image.Resampling.BOX)
    canvas = Image.new("L", (side, side))
    canvas.paste(small, ((side - small.width) // 2, (side - small.height) // 2))
    values = np.asarray(canvas, np.float32).ravel()
    values = values - values.mean()
    return values / max(float(np.linalg.norm(values)), 1e-6)


def distorted(ink: Image.Image) -> list[Image.Image]:
    """Return all distortions of ink without margin: rotated, sheared and squeezed by all of TURNS and SQUEEZES, with
    the original and with bolder strokes."""
    small = ink.copy()
    small.thumbnail((_INK_SIDE, _INK_SIDE), Image.Resampling.BOX)
    variants = []
    for (degrees, shear), squeeze in product(TURNS, SQUEEZES):
        angle = math.radians(degrees)
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        backward = np.linalg.inv(turn @ np.array([[1, shear], [0, 1]]) @ np.diag(np.exp([squeeze, -squeeze])))
        offset = np.array(small.size) / 2 - backward @ np.full(2, float(_INK_SIDE))
        terms = (*backward[0], offset[0], *backward[1], offset[1])
        side = 2 * _INK_SIDE
        moved = small.transform((side, side), Image.Transform.AFFINE, terms, Image.Resampling.BILINEAR)
        for variant in (moved, moved.filter(ImageFilter.MaxFilter(3))):
            box = variant.point(lambda tone: 255 if tone > 40 else 0).getbbox()
            if box is not None:
                variants.append(variant.crop(box))
    return variants


class Lookalikes:
    """Detects characters that look like one of the given digits."""

    def __init__(self, digits: list[Image.Image]) -> None:
        self._digits = np.stack([centred(ink) for ink in digits])

    def alike(self, ink: Image.Image) -> float:
        """Return the largest correlation of undistorted ink with the ink of a digit, -1 to 1."""
        return float((self._digits @ centred(ink)).max())

    def likeness(self, ink: Image.Image) -> float:
        """Return the largest correlation over the distortions."""
        every = [centred(variant) for variant in distorted(ink)]
        return max(float((np.stack(every) @ self._digits.T).max()) if every else -1.0, self.alike(ink))

    def __call__(self, ink: Image.Image) -> bool:
        """True if ink looks like a digit."""
        return self.likeness(ink) > MAX_LIKENESS


@cache
def lookalikes() -> Lookalikes:
    """Return the detector for the digits of the training fonts and the variants. All splits use the same detector."""
    fonts = [files[0] for files in find_fonts(TRAINING_FAMILIES).values()]
    inks = [font_ink(digit, font) for font in fonts for digit in range(10)]
    for index in range(VARIANTS):
        font = fonts[index // len(VARIED) % len(fonts)]
        inks.append(
            draw_variant(index, lambda digit, font=font: font_ink(digit, font), np.random.default_rng([211, index]))  # type: ignore[misc]
        )
    return Lookalikes(inks)
