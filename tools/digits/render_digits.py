"""Render realistic pictures of digits, which are printed in many fonts or handwritten, then distorted and badly lit.

`photograph` turns ink into a picture: it varies shift, scale, rotation, shear, stroke width, blur, noise, uneven light,
dark on light or light on dark, and occasionally colour. Every picture is then preprocessed in the same way as a user's
picture. `python -m trninfer.tools.digits.render_digits SHEET.png` draws a sheet of pictures next to the network's
inputs.
"""

from __future__ import annotations

import argparse
import math
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from ...models.inputs import ImageInput
from ...models.preprocess import InputError, preprocess
from .fonts import HELD_OUT_FAMILIES, TRAINING_FAMILIES, VALIDATION_FAMILIES, find_fonts, load_font
from .uci import as_picture, enlarge, load_split

INPUT = ImageInput(channels=1, height=32, width=32, preprocess="digit", mean=(0.0,), std=(1.0,))

# Streams of random numbers. A picture depends only on its stream and its index, not on the order of generation.
STREAMS = {
    "training fonts": 1,
    "held-out fonts": 2,
    "training handwriting": 3,
    "small training fonts": 4,
    "validation fonts": 5,
}
HELD_OUT_PICTURES = 2000

INK_SIDE = 192
USUAL, SMALL = (28.0, 110.0), (8.0, 28.0)  # the longer side of a digit in a picture, in pixels: from, to


class Rendering(NamedTuple):
    """The preprocessed pictures of a stream, and the number of pictures that preprocessing rejected."""

    images: np.ndarray  # float32 [N, 1, 32, 32]
    labels: np.ndarray  # int32 [N]
    numbers: np.ndarray  # int32 [N]: index of each picture in its stream
    refused: int  # number of rejected pictures, which are omitted


def font_ink(text: int | str, font: Path) -> Image.Image:
    """Draw a digit, or any text, in a font as ink (mode L, 255 is ink) without margin. The longer side is INK_SIDE.

    Raises ValueError if the font draws nothing for the text.
    """
    large = load_font(font, INK_SIDE)
    left, top, right, bottom = large.getbbox(str(text))
    canvas = Image.new("L", (math.ceil(right - left) + 8, math.ceil(bottom - top) + 8))
    ImageDraw.Draw(canvas).text((4 - left, 4 - top), str(text), fill=255, font=large)
    return fit_ink(canvas)


def fit_ink(canvas: Image.Image) -> Image.Image:
    """Crop the empty margin and scale the longer side to INK_SIDE. Raise ValueError if there is no ink."""
    box = canvas.getbbox()
    if box is None:
        raise ValueError("no ink")
    cut = canvas.crop(box)
    scale = INK_SIDE / max(cut.size)
    return cut.resize((max(1, round(cut.width * scale)), max(1, round(cut.height * scale))), Image.Resampling.BICUBIC)


def photograph(
    ink: Image.Image,
    rng: np.random.Generator,
    colour: bool | None = None,
    sizes: tuple[float, float] = USUAL,
) -> Image.Image:
    """Make a picture (mode L or RGB) from a digit's ink without margin, randomly distorted and lit.

    `sizes` bounds the longer side of the digit in the picture, in pixels.
    """
    ink = change_strokes(ink, rng)
    size = rng.uniform(*sizes)
    canvas = (round(size * rng.uniform(1.5, 3.2)), round(size * rng.uniform(1.5, 3.2)))
    ink = distort_ink(ink, size, canvas, rng)
    if rng.random() < 0.6:
        ink = ink.filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.03) * size))
    amount = np.asarray(ink, np.float32)[:, :, None] / 255

    channels = 3 if (rng.random() < 0.25 if colour is None else colour) else 1
    dark, light = two_tones(rng, channels)
    paper, pen = (light, dark) if rng.random() < 0.5 else (dark, light)
    picture = paper + amount * (pen - paper)
    picture = picture * light_on(canvas, rng)[:, :, None]
    picture = picture + rng.normal(0, rng.uniform(0, 0.06) * float(np.abs(pen - paper).max()), picture.shape)
    pixels = np.clip(picture * 255, 0, 255).astype(np.uint8)
    return Image.fromarray(pixels if channels == 3 else pixels[:, :, 0])


def change_strokes(ink: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Make strokes thicker or thinner by up to a thirtieth of the digit on each side.

    In half of the cases, leave them unchanged.
    """
    choice = rng.random()
    radius = int(rng.integers(1, INK_SIDE // 30 + 1))
    if choice < 0.25:
        padded = Image.new("L", (ink.width + 2 * radius, ink.height + 2 * radius))
        padded.paste(ink, (radius, radius))
        return padded.filter(ImageFilter.MaxFilter(2 * radius + 1))
    if choice < 0.5:
        thin = ink.filter(ImageFilter.MinFilter(2 * min(radius, 3) + 1))
        # Keep the digit unchanged if its thinnest lines would break.
        share = float(np.asarray(thin, np.float32).sum()) / max(1.0, float(np.asarray(ink, np.float32).sum()))
        return thin if share > 0.6 else ink
    return ink


def distort_ink(ink: Image.Image, size: float, canvas: tuple[int, int], rng: np.random.Generator) -> Image.Image:
    """Scale the ink to `size`, rotate, shear and squeeze it, and place it randomly inside the canvas."""
    angle = math.radians(rng.uniform(-15, 15))
    shear = rng.uniform(-0.25, 0.25)
    stretch = math.exp(rng.uniform(-0.2, 0.2))
    scale = size / max(ink.size)
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    forward = rotation @ np.array([[1, shear], [0, 1]]) @ np.diag([scale * stretch, scale / stretch])
    half = np.abs(forward) @ (np.array(ink.size) / 2)  # half the side lengths of the box of the distorted digit
    forward *= min(1.0, float((np.array(canvas) / 2 * 0.94 / half).min()))
    half = np.abs(forward) @ (np.array(ink.size) / 2)
    margin = np.maximum(np.array(canvas) / 2 * 0.97 - half, 0)
    centre = np.array(canvas) / 2 + rng.uniform(-1, 1, 2) * margin
    # To shrink, resize the ink first: an affine transform alone would skip pixels.
    shrink = max(1, int(1 / scale))
    small = ink.reduce(shrink) if shrink > 1 else ink
    backward = np.linalg.inv(forward * shrink)
    offset = np.array(small.size) / 2 - backward @ centre
    coefficients = (*backward[0], offset[0], *backward[1], offset[1])
    return small.transform(canvas, Image.Transform.AFFINE, coefficients, Image.Resampling.BICUBIC)


def two_tones(rng: np.random.Generator, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a dark and a light tone in 0..1, at least a quarter apart in some channel."""
    while True:
        dark, light = rng.uniform(0, 0.6, channels), rng.uniform(0.35, 1, channels)
        if np.abs(light - dark).max() >= 0.25 and light.mean() - dark.mean() > 0.15:
            return dark.astype(np.float32), light.astype(np.float32)


def light_on(canvas: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Return the illumination of each pixel, [H, W] from 0 to 1: uniform, falling off to one side, a spotlight, or a
    soft shadow."""
    x, y = np.meshgrid(np.linspace(-1, 1, canvas[0]), np.linspace(-1, 1, canvas[1]))
    kind = rng.random()
    floor = rng.uniform(0.35, 0.9)
    angle = rng.uniform(0, 2 * math.pi)
    along = x * math.cos(angle) + y * math.sin(angle)
    if kind < 0.4:
        shape = np.ones_like(x)
    elif kind < 0.7:
        shape = (along + math.sqrt(2)) / (2 * math.sqrt(2))
    elif kind < 0.9:
        spot = rng.uniform(-1, 1, 2)
        shape = np.exp(-((x - spot[0]) ** 2 + (y - spot[1]) ** 2) / rng.uniform(1, 3))
    else:
        shape = 1 / (1 + np.exp(-(along - rng.uniform(-0.7, 0.7)) / rng.uniform(0.05, 0.3)))
    return (floor + (1 - floor) * shape).astype(np.float32)


def font_picture(stream: str, index: int, fonts: dict[str, list[Path]]) -> tuple[Image.Image, int]:
    """Return picture number `index` of a stream of renderings, and its digit.

    Families have equal probabilities, and digits are used in turn.
    """
    rng = np.random.default_rng([STREAMS[stream], index])
    digit = index % 10
    files = fonts[list(fonts)[int(rng.integers(len(fonts)))]]
    sizes = SMALL if stream.startswith("small") else USUAL
    return photograph(font_ink(digit, files[int(rng.integers(len(files)))]), rng, sizes=sizes), digit


def handwriting_picture(index: int, features: np.ndarray, labels: np.ndarray) -> tuple[Image.Image, int]:
    """Return picture number `index` of distorted handwriting, and its digit. The training digits are used in turn."""
    rng = np.random.default_rng([STREAMS["training handwriting"], index])
    ink = enlarge(features[index % len(features)], INK_SIDE)
    box = ink.getbbox()
    return photograph(ink.crop(box), rng), int(labels[index % len(labels)])


def _font_example(task: tuple[str, int, dict[str, list[Path]]]) -> tuple[np.ndarray | None, int]:
    picture, digit = font_picture(*task)
    return try_preprocess(picture), digit


def _handwriting_example(task: tuple[int, np.ndarray, np.ndarray]) -> tuple[np.ndarray | None, int]:
    picture, digit = handwriting_picture(*task)
    return try_preprocess(picture), digit


def try_preprocess(picture: Image.Image) -> np.ndarray | None:
    """Return the network's input for a picture, or None if preprocessing rejects it."""
    try:
        return preprocess(picture, INPUT)
    except InputError:
        return None


def collect(examples: list[tuple[np.ndarray | None, int]]) -> Rendering:
    """Collect the (image, label) pairs of a whole stream, in order, in a rendering."""
    readable = [(image, label, number) for number, (image, label) in enumerate(examples) if image is not None]
    return Rendering(
        np.stack([image for image, _, _ in readable]),
        np.array([label for _, label, _ in readable], np.int32),
        np.array([number for _, _, number in readable], np.int32),
        len(examples) - len(readable),
    )


def families_of(stream: str) -> dict[str, str]:
    """Return the families of a stream: held-out, validation, or training."""
    if stream == "held-out fonts":
        return HELD_OUT_FAMILIES
    judged = stream == "validation fonts"
    return {name: at for name, at in TRAINING_FAMILIES.items() if (name in VALIDATION_FAMILIES) == judged}


def render_fonts(stream: str, count: int, processes: int = 2) -> Rendering:
    """Render `count` preprocessed pictures of a stream."""
    fonts = find_fonts(families_of(stream))
    with Pool(processes) as pool:
        return collect(pool.map(_font_example, [(stream, index, fonts) for index in range(count)], chunksize=50))


def render_handwriting(count: int, processes: int = 2) -> Rendering:
    """Render `count` preprocessed, distorted pictures of the training digits."""
    features, labels = load_split()[0]
    with Pool(processes) as pool:
        tasks = [(index, features, labels) for index in range(count)]
        return collect(pool.map(_handwriting_example, tasks, chunksize=50))


def plain_handwriting(features: np.ndarray, labels: np.ndarray) -> Rendering:
    """Preprocess digits [N, 64] with labels [N] as undistorted pictures."""
    return collect([(try_preprocess(as_picture(digit)), int(label)) for digit, label in zip(features, labels)])


def draw_sheet(path: Path, rows: int = 10, columns: int = 8) -> None:
    """Draw a sheet of training pictures (fonts and handwriting alternately) next to the network's inputs."""
    fonts = find_fonts(TRAINING_FAMILIES)
    features, labels = load_split()[0]
    sheet = Image.new("RGB", (columns * 204, rows * 102), "grey")
    for index in range(rows * columns):
        if index % 2:
            picture, _ = handwriting_picture(index * 7, features, labels)
        else:
            picture, _ = font_picture("training fonts", index, fonts)
        at = (index % columns * 204, index // columns * 102)
        image = try_preprocess(picture)
        picture.thumbnail((100, 100))
        sheet.paste(picture.convert("RGB"), at)
        if image is not None:
            small = Image.fromarray((image[0] * 255).astype(np.uint8))
            sheet.paste(small.resize((100, 100), Image.Resampling.NEAREST).convert("RGB"), (at[0] + 102, at[1]))
    sheet.save(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw a sheet of training pictures.")
    parser.add_argument("sheet", type=Path, help="the PNG to write")
    draw_sheet(parser.parse_args().sheet)
