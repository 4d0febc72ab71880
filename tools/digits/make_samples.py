"""Generate the pictures and the feature batch in samples/: `python -m trninfer.tools.digits.make_samples [DIRECTORY]`.

The name of each picture begins with its digit and describes the picture; pictures with several digits are in a separate
folder. The fonts and the handwriting are held out: no network was trained on them. The same command always produces the
same pixels.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from .fonts import HELD_OUT_FAMILIES, find_fonts, load_font
from .uci import enlarge, load_split

SAMPLES_DIRECTORY = Path(__file__).resolve().parents[2] / "samples"

SEVERAL = "several-digits"  # the folder of pictures for digits-detect

Colour = tuple[int, int, int]


def texture(size: tuple[int, int], grain: float, rng: np.random.Generator) -> np.ndarray:
    """Return noise [H, W, 1] of mean 0 and deviation 1 that varies over `grain` pixels, like paper fibres or chalk
    dust."""
    pixels = np.clip(rng.normal(128, 40, (size[1], size[0])), 0, 255).astype(np.uint8)
    values = np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(grain)), np.float32)
    return ((values - values.mean()) / values.std())[:, :, None]


def letter(
    digit: int, size: tuple[int, int], at: tuple[int, int], height: int, font: Path, turn: float = 0
) -> Image.Image:
    """Draw a digit in a font as ink (mode L, 255 is ink), centred at a point and rotated by `turn` degrees."""
    ink = Image.new("L", size)
    ImageDraw.Draw(ink).text(at, str(digit), fill=255, font=load_font(font, height), anchor="mm")
    return ink.rotate(turn, Image.Resampling.BICUBIC, center=at)


def handwritten(digit: int, which: int, size: tuple[int, int], at: tuple[int, int], height: int) -> Image.Image:
    """Draw a held-out handwritten digit as ink, enlarged, with sharp edges restored by a steep tone curve."""
    held_out = load_split()[1]
    features = held_out.features[np.flatnonzero(held_out.labels == digit)[which]]
    smooth = enlarge(features, 4 * height, margin=1).filter(ImageFilter.GaussianBlur(height / 8))
    stroke = smooth.point([round(255 / (1 + np.exp(-(tone - 125) / 12))) for tone in range(256)])
    width = round(0.8 * height)
    ink = Image.new("L", size)
    corner = (at[0] - width // 2, at[1] - height // 2)
    ink.paste(stroke.resize((width, height), Image.Resampling.LANCZOS), corner)
    return ink


def compose(
    ink: Image.Image, paper: Colour, pen: Colour, light: np.ndarray | float = 1.0, grain: np.ndarray | float = 0.0
) -> Image.Image:
    """Compose ink of one colour on paper of another, with grain, under a light [H, W, 1]."""
    amount = np.asarray(ink, np.float32)[:, :, None] / 255
    paper_tone, pen_tone = np.array(paper, np.float32), np.array(pen, np.float32)
    pixels = (paper_tone + amount * (pen_tone - paper_tone) + grain) * light
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def axes(size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y from -1 to 1 at each pixel, [H, W, 1]."""
    x, y = np.meshgrid(np.linspace(-1, 1, size[0]), np.linspace(-1, 1, size[1]))
    return x[:, :, None], y[:, :, None]


def make_pictures() -> dict[str, tuple[Image.Image, dict[str, Any]]]:
    """Return every sample, keyed by file name, with the options for saving it."""
    rng = np.random.default_rng(2026)
    fonts = {family: files[0] for family, files in find_fonts(HELD_OUT_FAMILIES).items()}
    pictures: dict[str, tuple[Image.Image, dict[str, Any]]] = {}

    size = (280, 280)
    ink = letter(7, size, (140, 140), 190, fonts["Roboto Slab"])
    pictures["7-clean-print.png"] = (compose(ink, (255, 255, 255), (0, 0, 0)).convert("L"), {})

    size = (420, 360)
    ink = handwritten(3, 3, size, (200, 185), 210).rotate(-4, Image.Resampling.BICUBIC)
    lines = np.zeros((size[1], 1, 3), np.float32)
    lines[30::60] = (-22, -14, 0)  # the faint lines of an exercise book
    grain = 2.2 * texture(size, 0.8, rng) + 2 * texture(size, 6, rng) + lines
    picture = compose(ink, (246, 244, 236), (28, 40, 110), grain=grain)
    pictures["3-handwriting.png"] = (picture.filter(ImageFilter.GaussianBlur(0.6)), {})

    size = (480, 360)
    ink = letter(5, size, (260, 170), 200, fonts["Yusei Magic"], turn=6).filter(ImageFilter.GaussianBlur(1.2))
    x, y = axes(size)
    chalk = np.asarray(ink, np.float32)[:, :, None] / 255 * 16 * texture(size, 0.7, rng)
    grain = chalk + 5 * texture(size, 18, rng) + 2 * texture(size, 0.7, rng)
    picture = compose(ink, (38, 66, 54), (226, 226, 214), light=0.92 + 0.08 * x, grain=grain)
    pictures["5-light-on-dark.png"] = (picture, {})

    size = (480, 400)
    ink = letter(8, size, (230, 210), 210, fonts["EB Garamond"], turn=-5)
    x, y = axes(size)
    lamp = 0.28 + 0.78 * np.exp(-((x - 0.75) ** 2 + (y + 0.7) ** 2) / 1.6)
    picture = compose(ink, (238, 226, 200), (52, 40, 34), light=lamp, grain=2.5 * texture(size, 0.8, rng))
    pictures["8-uneven-light.png"] = (picture.filter(ImageFilter.GaussianBlur(0.8)), {})

    size = (1600, 1200)
    ink = letter(4, size, (1290, 300), 110, fonts["Lato"], turn=8)
    x, y = axes(size)
    picture = compose(ink, (222, 220, 214), (46, 46, 50), light=1 - 0.12 * (x * x + y * y)).convert("L")
    pictures["4-off-centre-large.png"] = (picture.filter(ImageFilter.GaussianBlur(1)), {})

    size = (360, 300)
    ink = letter(2, size, (170, 150), 190, fonts["Comic Neue"], turn=-7)
    x, y = axes(size)
    picture = compose(ink, (64, 132, 70), (206, 40, 52), light=1 + 0.1 * y, grain=2 * texture(size, 2, rng))
    pictures["2-colour.png"] = (picture, {})

    size = (300, 300)
    ink = letter(6, size, (150, 150), 220, fonts["Quicksand"])
    sticker = Image.new("RGBA", size, (250, 250, 255, 0))
    sticker.putalpha(ink)
    pictures["6-transparent.png"] = (sticker, {})

    size = (800, 600)
    ink = handwritten(9, 3, size, (330, 280), 230)
    x, y = axes(size)
    shadow = 0.62 + 0.38 / (1 + np.exp(-(x - 0.5 * y + 0.35) / 0.12))
    grain = 4 * texture(size, 0.9, rng) + 3 * texture(size, 9, rng)
    photo = compose(ink, (228, 224, 216), (40, 38, 44), light=shadow, grain=grain)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright, so viewers must rotate the picture clockwise by 90 degrees
    photo = photo.transpose(Image.Transpose.ROTATE_90)
    pictures["9-phone-photo.jpg"] = (photo, {"quality": 82, "exif": exif})
    return pictures


def row(text: str, size: tuple[int, int], start: tuple[int, int], height: int, font: Path, gap: int) -> Image.Image:
    """Draw a number in a font, digit by digit from the left, and return it as ink.

    `start` is the centre of the first digit.
    """
    ink = Image.new("L", size)
    draw, x = ImageDraw.Draw(ink), start[0]
    for digit in text:
        draw.text((x, start[1]), digit, fill=255, font=load_font(font, height), anchor="mm")
        x += round(draw.textlength(digit, font=load_font(font, height))) + gap
    return ink


def make_several() -> dict[str, tuple[Image.Image, dict[str, Any]]]:
    """Return every sample with several digits, keyed by file name, with the options for saving it."""
    rng = np.random.default_rng(2027)
    fonts = {family: files[0] for family, files in find_fonts(HELD_OUT_FAMILIES).items()}
    pictures: dict[str, tuple[Image.Image, dict[str, Any]]] = {}

    size = (560, 240)
    ink = row("307184", size, (86, 116), 96, fonts["Roboto Slab"], 22)
    x, y = axes(size)
    picture = compose(
        ink, (34, 36, 40), (236, 232, 220), light=0.95 + 0.05 * x - 0.08 * y, grain=2 * texture(size, 1, rng)
    )
    pictures["meter.png"] = (picture.filter(ImageFilter.GaussianBlur(0.7)), {})

    size = (640, 520)
    ink = Image.new("L", size)
    for digit, form, at in ((4, 2, (150, 130)), (8, 4, (250, 136)), (5, 3, (430, 122)), (2, 5, (130, 300))):
        ink.paste(255, (0, 0), handwritten(digit, form, size, at, 110))
    for digit, form, at in ((9, 1, (330, 296)), (6, 2, (510, 310)), (3, 3, (420, 430))):
        ink.paste(255, (0, 0), handwritten(digit, form, size, at, 120))
    x, y = axes(size)
    light = 0.72 + 0.28 / (1 + np.exp(-(x + 0.4 * y + 0.2) / 0.2))
    grain = 3 * texture(size, 0.9, rng) + 2 * texture(size, 8, rng)
    photo = compose(ink, (240, 236, 226), (36, 44, 96), light=light, grain=grain)
    pictures["notes.jpg"] = (photo.filter(ImageFilter.GaussianBlur(0.6)), {"quality": 82})
    return pictures


def main() -> None:
    """Write the pictures and the feature batch."""
    parser = argparse.ArgumentParser(description="Make the samples.")
    parser.add_argument("directory", type=Path, nargs="?", default=SAMPLES_DIRECTORY)
    directory: Path = parser.parse_args().directory
    (directory / SEVERAL).mkdir(parents=True, exist_ok=True)
    several = {f"{SEVERAL}/{name}": image for name, image in make_several().items()}
    for name, (picture, options) in (make_pictures() | several).items():
        if name.endswith(".png"):
            options["optimize"] = True
        picture.save(directory / name, **options)
    held_out = load_split()[1]
    held_out.features.astype("<f4").tofile(directory / "digits-X.bin")
    held_out.labels.astype("<i4").tofile(directory / "digits-Y.bin")


if __name__ == "__main__":
    main()
