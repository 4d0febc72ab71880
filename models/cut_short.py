"""Detection of truncated PNG, JPEG and TIFF files, whose missing rows decoders leave black or fill with grey.

Other formats contain lengths, which Pillow checks.
"""

from __future__ import annotations

import os
from typing import BinaryIO

from PIL import Image, _imaging

from .jpeg_scans import has_all_blocks, has_all_scans
from .tiff_strips import is_complete

BLOCK, FLAT = 8, 4  # side of a block, and maximum difference between pixels of a block without coefficients
MAX_JPEG_BYTES = 256 << 20
FILLS = (0x5A, 0xA5)  # values written to the memory before decoding; a row that keeps both was not decoded


def load(image: Image.Image, file: BinaryIO) -> bool:
    """Decode an opened picture; return False for a PNG, JPEG or TIFF file whose last row is missing.

    For PNG, the memory is filled with a value before decoding. If the last row still has this value, which can happen
    by chance, the file is decoded again with a different value.
    """
    if image.format == "JPEG":
        image.load()
        return _whole_jpeg(image, file)
    if image.format == "TIFF" and hasattr(image, "tag_v2"):
        complete = is_complete(image, file)
        image.load()
        return complete
    if image.format != "PNG" or image.height < 2:
        image.load()
        return True
    return not _keeps(image, FILLS[0]) or not _keeps(_opened_again(file), FILLS[1])


def _keeps(image: Image.Image, fill: int) -> bool:
    """Decode a picture into memory filled with a value; return True if the last rows keep this value."""
    image.im = _imaging.fill(image.mode, image.size, _ink(image, fill))
    image.load()
    row = image.height - 1 - image.height % 2  # the last odd row, with which interlaced files end
    before = Image.new(image.mode, (image.width, 1), _ink(image, fill))
    return all(
        image.crop((0, number, image.width, number + 1)).tobytes() == before.tobytes()
        for number in {row, image.height - 1}
        if number == row or "interlace" not in image.info
    )


def _opened_again(file: BinaryIO) -> Image.Image:
    file.seek(0)
    return Image.open(file, formats=("PNG",))


def _is_flat_at_the_end(image: Image.Image) -> bool:
    """Return True if the last block of a picture has a uniform value, as do blocks without coefficients."""
    left, top = (side - 1 - (side - 1) % BLOCK for side in image.size)
    block = image.crop((left, top, *image.size)).convert("L")  # upsampled colours may blend with those of other blocks
    low, high = block.getextrema()
    return bool(high - low <= FLAT)  # type: ignore[operator]


def _whole_jpeg(image: Image.Image, file: BinaryIO) -> bool:
    if file.seek(0, os.SEEK_END) > MAX_JPEG_BYTES:
        return True
    file.seek(0)
    content = file.read()
    return has_all_scans(content) and (not _is_flat_at_the_end(image) or has_all_blocks(content))


def _ink(image: Image.Image, fill: int) -> int | tuple[int, ...]:
    bands = len(image.getbands())
    return (fill,) * bands if bands > 1 else 255 * (fill & 1) if image.mode == "1" else fill
