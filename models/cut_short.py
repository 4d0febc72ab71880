"""Truncated PNG and JPEG files, whose missing rows decoders leave black or fill with grey.

Other formats have lengths that Pillow checks.
"""

from __future__ import annotations

import io
import re
from random import Random
from typing import BinaryIO

from PIL import Image, _imaging

GREY, GREY_ERROR = 128, 2
START_OF_SCAN = 0xDA
END_OF_SCAN = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")  # a marker, other than those that restart a scan
MAX_JPEG_BYTES = 256 << 20
MORE_BYTES = 4096
FILLS = (0x5A, 0xA5)  # fills of the memory before decoding; a row that keeps both was not decoded


def load(image: Image.Image, file: BinaryIO) -> bool:
    """Decode an opened picture; return False for a PNG or JPEG file whose last row is missing.

    For PNG, the memory is filled with a value first. If the last row equals it, which can happen by chance, the file is
    decoded again over another value.
    """
    if image.format == "JPEG":
        image.load()
        return not (_is_grey_at_the_end(image) and _takes_more(file))
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


def _is_grey_at_the_end(image: Image.Image) -> bool:
    """True if the last pixel is as libjpeg leaves it: blocks without coefficients are 128 in each component."""
    corner = (image.width - 1, image.height - 1, image.width, image.height)
    pixel = image.crop(corner)
    values = (pixel.convert("L") if image.mode == "RGB" else pixel).tobytes()  # colours blend with those beside
    return all(abs(value - GREY) <= GREY_ERROR for value in values)


def _takes_more(file: BinaryIO) -> bool:
    """True if data appended to the first scan of a JPEG file change the picture: the scan was not complete.

    Decoders ignore data behind a scan's last block. Both pictures are decoded at an eighth of their size, for which the
    first scan is enough, also in a progressive file.
    """
    file.seek(0)
    content = file.read(MAX_JPEG_BYTES + 1)
    end = _end_of_first_scan(content)
    if end is None or len(content) > MAX_JPEG_BYTES:
        return False
    more = b"".join((content[:end], Random(0).randbytes(MORE_BYTES).replace(b"\xff", b"\x5a"), content[end:]))
    return _in_small(content) != _in_small(more)


def _end_of_first_scan(content: bytes) -> int | None:
    """Return the position behind the data of a JPEG file's first scan; None if its segments are damaged."""
    position = 2
    while content[position : position + 1] == b"\xff":
        kind, length = content[position + 1], int.from_bytes(content[position + 2 : position + 4], "big")
        position += 2 + length
        if kind == START_OF_SCAN:
            marker = END_OF_SCAN.search(content, position)
            return None if marker is None else marker.start()
    return None


def _in_small(content: bytes) -> bytes:
    image = Image.open(io.BytesIO(content), formats=("JPEG",))
    image.draft(None, (1, 1))
    return image.tobytes()


def _ink(image: Image.Image, fill: int) -> int | tuple[int, ...]:
    bands = len(image.getbands())
    return (fill,) * bands if bands > 1 else 255 * (fill & 1) if image.mode == "1" else fill
