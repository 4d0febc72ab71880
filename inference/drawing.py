"""Draw boxes, masks and keypoints on pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from .box import Box
from .palette import rgb, series_color, text_on

_Area = tuple[int, int, int, int]  # left, top, right, bottom

SMALL = 480  # pictures whose longer side is smaller are enlarged to keep labels readable
_MASK_SHARE = 0.45  # opacity of masks
_CONFIDENT = 0.5  # minimum confidence at which keypoints are drawn
_PERSON = 17  # number of a person's keypoints, in COCO's order
_LIMBS = (
    (15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7), (6, 8), (7, 9), (8, 10),
    (1, 2), (0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6),
)  # fmt: skip


def draw_boxes(picture: Image.Image, boxes: Sequence[Box], size: tuple[int, int]) -> Image.Image:
    """Return an RGB copy of a picture with its boxes, each in the colour of its class with a label above it.

    Box coordinates refer to an image of `size` (width, height); the picture may be scaled. A picture whose longer side
    is shorter than SMALL pixels is enlarged.
    """
    image = picture.convert("RGB")
    factor = max(1, math.ceil(SMALL / max(image.size)))
    if factor > 1:
        image = image.resize((image.width * factor, image.height * factor), Image.Resampling.BICUBIC)
    scale = image.width / size[0], image.height / size[1]
    for box in reversed(boxes):
        if box.mask is not None:
            _blend_mask(image, box, scale)
    pen = ImageDraw.Draw(image)
    width = max(2, round(max(image.size) / 400))
    font = ImageFont.load_default(max(14, round(max(image.size) / 40)))
    for box in reversed(boxes):  # the most confident boxes are drawn last
        _draw_outline(pen, box, scale, width)
        _draw_keypoints(pen, box, scale, 2 * width)
    occupied: list[_Area] = []
    for box in boxes:
        _draw_label(pen, box, (box.x1 * scale[0], box.y1 * scale[1]), image.size, font, occupied)
    return image


def _draw_outline(pen: ImageDraw.ImageDraw, box: Box, scale: tuple[float, float], width: int) -> None:
    """Draw the outline of an oriented box, or the rectangle of an upright one."""
    color = series_color(box.class_index)
    if box.outline:
        points = [(round(x * scale[0]), round(y * scale[1])) for x, y in box.outline]
        pen.line([*points, *points[:2]], fill=color, width=width, joint="curve")
        return
    corners = [side * scale[axis % 2] for axis, side in enumerate((box.x1, box.y1, box.x2, box.y2))]
    x1, y1, x2, y2 = (round(side) for side in corners)
    pen.rectangle((x1, y1, max(x1, x2 - 1), max(y1, y2 - 1)), outline=color, width=width)


def _blend_mask(image: Image.Image, box: Box, scale: tuple[float, float]) -> None:
    """Blend the mask of a box into a picture at the position of the box."""
    assert box.mask is not None
    mask = box.mask.to_array()
    rows, columns = (np.flatnonzero(mask.any(axis)) for axis in (1, 0))
    if len(rows):
        left, top = int(columns[0]), int(rows[0])
        inside = mask[top : rows[-1] + 1, left : columns[-1] + 1]
        alpha = Image.fromarray(inside.astype(np.uint8) * np.uint8(round(255 * _MASK_SHARE)))
        size = max(1, round(alpha.width * scale[0])), max(1, round(alpha.height * scale[1]))
        alpha = alpha if size == alpha.size else alpha.resize(size, Image.Resampling.BILINEAR)
        corner = round(left * scale[0]), round(top * scale[1])
        image.paste(rgb(series_color(box.class_index)), corner, alpha)


def _draw_keypoints(pen: ImageDraw.ImageDraw, box: Box, scale: tuple[float, float], radius: int) -> None:
    """Draw the confident keypoints and, for a person, the limbs between them."""
    points = {
        number: (point[0] * scale[0], point[1] * scale[1])
        for number, point in enumerate(box.keypoints)
        if len(point) < 3 or point[2] > _CONFIDENT
    }
    if len(box.keypoints) == _PERSON:
        for first, second in _LIMBS:
            if first in points and second in points:
                pen.line((*points[first], *points[second]), fill=series_color(box.class_index), width=radius // 2)
    for number, (x, y) in points.items():
        area = (x - radius, y - radius, x + radius, y + radius)
        pen.ellipse(area, fill=series_color(number), outline="black")


def _draw_label(
    pen: ImageDraw.ImageDraw,
    box: Box,
    corner: tuple[float, float],
    size: tuple[int, int],
    font: ImageFont.ImageFont | ImageFont.FreeTypeFont,
    taken: list[_Area],
) -> None:
    """Draw the label of a box above its upper left corner, or inside the box if the label would leave the picture.

    A label that would overlap an area in `taken` is moved below that area, or omitted if there is no space.
    """
    text = f"{box.label} {box.confidence:.2f}"
    left, top, right, bottom = pen.textbbox((0, 0), text, font=font)
    width, height = round(right - left) + 6, round(bottom - top) + 6
    x = max(0, min(round(corner[0]), size[0] - width))
    y = round(corner[1]) - height
    y = y if y >= 0 else max(0, min(round(corner[1]), size[1] - height))
    while any(x < other[2] and other[0] < x + width and y < other[3] and other[1] < y + height for other in taken):
        y += height
        if y + height > size[1]:
            return
    taken.append((x, y, x + width, y + height))
    color = series_color(box.class_index)
    pen.rectangle((x, y, x + width - 1, y + height - 1), fill=color)
    pen.text((x + 3 - left, y + 3 - top), text, font=font, fill=text_on(color))
