"""Truncated PNG files, which Pillow opens as if the missing rows were black."""

from __future__ import annotations

from typing import BinaryIO

from PIL import Image, _imaging

FILLS = (0x5A, 0xA5)  # fills of the memory before decoding; a row that keeps both was not decoded


def load(image: Image.Image, file: BinaryIO) -> bool:
    """Decode an opened picture; return False for a PNG file whose last row is missing.

    The memory is filled with a value first. If the last row equals it, which can happen by chance, the file is decoded
    again over another value.
    """
    if image.format != "PNG" or image.height < 2:
        image.load()
        return True
    return not _keeps(image, FILLS[0]) or not _keeps(_opened_again(file), FILLS[1])


def _keeps(image: Image.Image, fill: int) -> bool:
    """Decode a picture over memory filled with a value; True if a row keeps it."""
    image.im = _imaging.fill(image.mode, image.size, _ink(image, fill))
    image.load()
    row = image.height - 1 - image.height % 2  # the last odd row: interlaced files end with it
    before = Image.new(image.mode, (image.width, 1), _ink(image, fill))
    return all(
        image.crop((0, number, image.width, number + 1)).tobytes() == before.tobytes()
        for number in {row, image.height - 1}
        if number == row or "interlace" not in image.info
    )


def _opened_again(file: BinaryIO) -> Image.Image:
    file.seek(0)
    return Image.open(file, formats=("PNG",))


def _ink(image: Image.Image, fill: int) -> int | tuple[int, ...]:
    bands = len(image.getbands())
    return (fill,) * bands if bands > 1 else 255 * (fill & 1) if image.mode == "1" else fill
