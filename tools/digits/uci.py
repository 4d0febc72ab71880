"""The UCI handwritten digits that scikit-learn ships, split by the form on which they were written.

scikit-learn contains the 1,797 digits of the test half of the UCI set, 8x8 with values 0..16, without the names of the
writers. The order of the labels reveals the forms: the 13 writers of this half filled in the same printed form of about
130 digits (0 to 9 three times, then a fixed sequence) 14 times in all. The last three forms are held out as a whole.
One person filled in two forms; no other writer occurs in both the training data and the held-out data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from PIL import Image

# The index at which each form starts, deduced from the labels. `check_forms` checks these indices against the data.
FORM_STARTS = (0, 130, 256, 386, 516, 646, 776, 906, 1029, 1157, 1287, 1415, 1545, 1667)
FORM_OPENING = (1, 2, 3, 4, 5, 6, 7, 8, 9)
HELD_OUT_START = FORM_STARTS[-3]
TOTAL = 1797


class Digits(NamedTuple):
    """Features, float32 [N, 64] of 0..16, and labels, int32 [N]."""

    features: np.ndarray
    labels: np.ndarray


def load_split() -> tuple[Digits, Digits]:
    """Return (training, held out): the 1,415 digits of the first eleven forms and the 382 digits of the last three."""
    from sklearn.datasets import load_digits

    data = load_digits()
    features, labels = data.data.astype(np.float32), data.target.astype(np.int32)
    check_forms(labels)
    return (
        Digits(features[:HELD_OUT_START], labels[:HELD_OUT_START]),
        Digits(features[HELD_OUT_START:], labels[HELD_OUT_START:]),
    )


def check_forms(labels: np.ndarray) -> None:
    """Raise ValueError unless the labels show a form's opening at every assumed start."""
    if len(labels) != TOTAL:
        raise ValueError(f"{len(labels)} digits, but the split was made for {TOTAL}")
    for start in FORM_STARTS:
        # One form lacks its first 0, so the opening may be at either of two positions.
        openings = (tuple(labels[start + skip : start + skip + 9]) for skip in (0, 1))
        if FORM_OPENING not in openings:
            raise ValueError(f"no form starts at digit {start}: the data are not in the order the split was made for")


def enlarge(features: np.ndarray, side: int = 96, margin: int = 0) -> Image.Image:
    """Return one digit [64] of 0..16 as ink (mode L, 255 is ink) of side x side pixels, smoothly enlarged.

    A margin of empty pixels that is added first rounds off strokes at the edge of the 8x8 grid.
    """
    cells = np.pad(np.clip(features.reshape(8, 8) * (255 / 16), 0, 255).astype(np.uint8), margin)
    small = Image.fromarray(cells)
    return small.resize((side, side), Image.Resampling.BICUBIC)


def as_picture(features: np.ndarray) -> Image.Image:
    """Return one digit as a picture of 160x160: dark ink, enlarged to 96x96, in the centre of white paper."""
    picture = Image.new("L", (160, 160), 255)
    picture.paste(0, (32, 32), enlarge(features))
    return picture
