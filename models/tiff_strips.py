"""Completeness checks for JPEG and fax strips and tiles of TIFF files, whose decoders silently fill in missing rows."""

from __future__ import annotations

import contextlib
import ctypes
import io
import itertools
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

from PIL import Image, _imaging

from .jpeg_scans import NOISE, has_all_blocks

WIDTH, HEIGHT, COMPRESSION, FILL_ORDER, JPEG_TABLES = 256, 257, 259, 266, 347
OFFSETS, COUNTS, ROWS = 273, 279, 278
TILE_WIDTH, TILE_HEIGHT, TILE_OFFSETS, TILE_COUNTS = 322, 323, 324, 325
KEPT = (258, 259, 262, 266, 277, 292, 293)  # tags that describe how a 1-bit strip is encoded
FAX, JPEG = (3, 4), 7
LEFT_TO_RIGHT = 1
CODE_BITS = 12  # bits of an end-of-line code; two codes end a group 4 strip, six a group 3 strip
TAIL_BYTES = 16


def silence_libtiff() -> None:
    """Prevent libtiff from printing messages about damaged files, for which Pillow raises errors."""
    with contextlib.suppress(AttributeError, OSError):  # libtiff is linked differently or missing
        ctypes.CDLL(_imaging.__file__).TIFFSetErrorHandler(None)


def is_complete(image: Image.Image, file: BinaryIO) -> bool:
    """Return False if data appended to a strip or tile would change the picture, which shows that it is truncated."""
    tags: Any = image.tag_v2  # type: ignore[attr-defined]
    codec = tags.get(COMPRESSION)
    if codec == JPEG:
        tables = tags.get(JPEG_TABLES, b"")
        return all(has_all_blocks(tables[:-2] + strip[2:] if tables else strip) for strip, _ in _strips(tags, file))
    if codec in FAX:
        return all(
            _fax(tags, strip, rows) == _fax(tags, _with_noise(tags, strip), rows) for strip, rows in _strips(tags, file)
        )
    return True


def _strips(tags: Any, file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Yield the data and the number of rows of each strip or tile."""
    is_tiled = TILE_OFFSETS in tags
    rows = tags[TILE_HEIGHT] if is_tiled else min(tags.get(ROWS, tags[HEIGHT]), tags[HEIGHT])
    offsets, counts = (tags[tag] for tag in ((TILE_OFFSETS, TILE_COUNTS) if is_tiled else (OFFSETS, COUNTS)))
    for number, (offset, count) in enumerate(zip(offsets, counts)):
        file.seek(offset)
        left = rows if is_tiled else min(rows, tags[HEIGHT] - number * rows % tags[HEIGHT])
        yield file.read(count), left


def _with_noise(tags: Any, strip: bytes) -> bytes:
    """Append noise to the last row of a strip, replacing the codes that end the strip."""
    tail = strip.rstrip(b"\0")[-TAIL_BYTES:]
    bits, length = int.from_bytes(tail, "big"), 8 * len(tail)
    while bits and not bits & 1:
        bits, length = bits >> 1, length - 1
    if bits % (1 << CODE_BITS) != 1 or tags.get(FILL_ORDER, LEFT_TO_RIGHT) != LEFT_TO_RIGHT:
        return strip + NOISE
    while length >= CODE_BITS and bits % (1 << CODE_BITS) == 1:
        bits, length = bits >> CODE_BITS, length - CODE_BITS
    shift = 8 * len(tail) - length
    noise = int.from_bytes(NOISE, "big")
    merged = (bits << 8 * len(NOISE) | noise) << shift
    return strip.rstrip(b"\0")[: -len(tail)] + merged.to_bytes(len(tail) + len(NOISE), "big")


def _fax(tags: Any, strip: bytes, rows: int) -> bytes:
    """Decode the pixels of a 1-bit strip; return empty bytes on errors."""
    width = tags[TILE_WIDTH] if TILE_OFFSETS in tags else tags[WIDTH]
    values = {tag: tags[tag] for tag in KEPT if tag in tags} | {WIDTH: width, HEIGHT: rows, ROWS: rows}
    values |= {OFFSETS: 10 + 12 * (len(values) + 2) + 4, COUNTS: len(strip)}
    flat = ((tag, value[0] if isinstance(value, tuple) else value) for tag, value in sorted(values.items()))
    entries = itertools.chain.from_iterable((tag, 4, 1, value) for tag, value in flat)
    head = struct.pack("<2sHIH" + "HHII" * len(values) + "I", b"II", 42, 8, len(values), *entries, 0)
    try:
        return Image.open(io.BytesIO(head + strip), formats=("TIFF",)).tobytes()
    except OSError:
        return b""
