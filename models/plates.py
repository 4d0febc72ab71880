"""Round plates: discs or rings that surround a sign, such as buttons, balls and road signs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .components import connected_components
from .ink import Blob, Box, InkError, find_blob

PLATE = 0.93  # minimum roundness of a plate
MIN_SIDE = 24  # minimum size in pixels; in a smaller plate, no rim would remain
MAX_WIDTH = 2.2  # largest width relative to height
RIMS = (0.92, 0.84, 0.76, 0.68, 0.6)  # fractions of a plate's size at which its ground may begin
RIM = 0.06  # width of the examined rim relative to the plate's size
MAX_SPREAD = 0.06  # maximum variation of brightness along the rim, which the sign does not touch
MIN_HEIGHT = 0.25  # minimum height of a sign relative to a ring; anything smaller is the dot of a 0
MIN_HEIGHT_ON_DISC = 0.1  # the same for discs, which differ in colour from their surroundings, unlike the inside of a 0
MAX_FILLED = 0.7  # a sign fills at most this fraction of its box; the inside of a 0, hearts and dots fill more
MAX_COVERED = 0.3  # maximum fraction of the ground that a sign covers; the inside of a 0 with a bar covers more
MIN_CONTRAST = 0.15  # minimum contrast between sign and ground, above the noise


class Plate(NamedTuple):
    """A round plate and its ground, the area inside its rim."""

    box: Box  # bounding box of the whole plate
    share: float  # fraction of the box's ellipse that is ground
    colour: np.ndarray  # float32 [channels]: colour of the ground
    is_disc: bool  # False: a ring

    def ground(self, pixels: np.ndarray) -> np.ndarray:
        """Crop the plate from a picture [H, W, channels], filling all but its ground with the ground's colour."""
        inside = self.box.cut(pixels).copy()
        inside[~_ellipse(inside.shape, self.share)] = self.colour
        return inside


def find_plate(pixels: np.ndarray, blob: Blob) -> Plate | None:
    """Return the plate if the ink blob is a plate with a sign on it, otherwise None.

    `pixels` is [H, W, channels], either float32 from 0 to 1 or uint8 from 0 to 255.
    """
    if min(blob.box.width, blob.box.height) < MIN_SIDE or _roundness(blob) <= PLATE:
        return None
    if pixels.dtype == np.uint8:
        pixels = np.divide(pixels, np.float32(255), dtype=np.float32)
    part = blob.box.cut(pixels)
    for share in RIMS:
        rim = part[_ellipse(part.shape, share) & ~_ellipse(part.shape, share - RIM)]
        low, colour, high = np.quantile(rim, [0.03, 0.5, 0.97], axis=0)
        if (high - low).max() <= MAX_SPREAD:
            rim_colour = np.median(part[~_ellipse(part.shape, 1.05)], axis=0)
            is_disc = bool(np.abs(rim_colour - colour).max() >= MIN_CONTRAST)
            plate = Plate(blob.box, share - RIM / 2, colour.astype(np.float32), is_disc)
            return plate if _has_sign(plate.ground(pixels), plate) else None
    return None


def _has_sign(ground: np.ndarray, plate: Plate) -> bool:
    """Return True if the ground may contain a sign or a smaller plate."""
    try:
        sign = find_blob(ground)
    except InkError:
        return False
    if _roundness(sign) > PLATE:
        return find_plate(ground, sign) is not None
    area = float(sign.mask.sum())
    least = MIN_HEIGHT_ON_DISC if plate.is_disc else MIN_HEIGHT
    return (
        sign.box.height >= least * ground.shape[0]
        and area <= MAX_FILLED * sign.box.width * sign.box.height
        and area <= MAX_COVERED * float(_ellipse(ground.shape, plate.share).sum())
        and np.abs(np.median(ground[sign.mask], axis=0) - plate.colour).max() >= MIN_CONTRAST
    )


def _roundness(blob: Blob) -> float:
    """Return the intersection over union of a filled blob and the ellipse in its box.

    Returns 0 for a box that is clearly higher than wide, such as the box of the digit 0, or much wider than high.
    """
    box = blob.box
    if not 0.75 * box.height < box.width < MAX_WIDTH * box.height:
        return 0.0
    mask = np.pad(box.cut(blob.mask), 1)
    outside = connected_components(~mask)[0]
    filled = (outside != outside[0, 0])[1:-1, 1:-1]
    ellipse = _ellipse(filled.shape, 1.0)
    return float((filled & ellipse).sum() / (filled | ellipse).sum())


def _ellipse(shape: tuple[int, ...], share: float) -> np.ndarray:
    """Return a mask of the ellipse in a rectangle [H, W, ...], scaled by `share`: bool [H, W]."""
    y, x = ((np.arange(n) + 0.5) * 2 / n - 1 for n in shape[:2])
    return np.asarray(y[:, None] ** 2 + x[None] ** 2 <= share * share)
