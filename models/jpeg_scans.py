"""Completeness checks for JPEG data: whether the scans contain all coefficients of all blocks.

Decoders fill missing blocks with grey, or omit details, without reporting an error.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from random import Random

from PIL import Image

START_OF_SCAN, RESTART_INTERVAL, END = 0xDA, 0xDD, 0xD9
PROGRESSIVE_FRAMES = (0xC2, 0xCA)
SCAN_END = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")  # any marker except restart markers
RESTARTS = [bytes((0xFF, 0xD0 + number)) for number in range(8)]
COEFFICIENTS = 64  # coefficients per block
NOISE = Random(0).randbytes(4096).replace(b"\xff", b"\x5a")


def has_all_blocks(content: bytes) -> bool:
    """Return False if data appended to the first scan changes the picture, which shows that the scan is incomplete.

    Decoders ignore data after the last block of a scan. Both pictures are decoded at an eighth of their size, for which
    the first scan is sufficient even in progressive files.
    """
    scan = next((segment for segment in _segments(content) if segment[0] == START_OF_SCAN), None)
    if scan is None:
        return True  # damaged; decoders reject it
    marker = SCAN_END.search(content, scan[2])
    end = len(content) if marker is None else marker.start()
    more = NOISE
    if any(kind == RESTART_INTERVAL for kind, *_ in _segments(content)):
        more += b"".join(restart + NOISE[:64] for restart in 2 * RESTARTS)
    return _in_small(content) == _in_small(b"".join((content[:end], more, content[end:])))


def has_all_scans(content: bytes) -> bool:
    """Return False if a progressive file lacks scans with coefficients of a component or their last bits."""
    missing: dict[int, set[int]] | None = None
    for kind, begin, end in _segments(content):
        body = content[begin:end]
        if kind in PROGRESSIVE_FRAMES and missing is None and len(body) >= 6:
            missing = {component: set(range(COEFFICIENTS)) for component in body[6::3]}
        elif kind == START_OF_SCAN and missing is not None and len(body) >= 4:
            first, last, bits = body[-3:]
            for component in body[1 : 1 + 2 * body[0] : 2] if not bits & 15 else b"":
                missing.get(component, set()).difference_update(range(first, last + 1))
    return not any((missing or {}).values())


def _segments(content: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the kind, start and end of each segment, excluding marker and length; stop where the file is damaged."""
    position = 2
    while True:
        while content[position + 1 : position + 2] == b"\xff":  # fill bytes
            position += 1
        if content[position : position + 1] != b"\xff" or position + 4 > len(content) or content[position + 1] == END:
            return
        kind, length = content[position + 1], int.from_bytes(content[position + 2 : position + 4], "big")
        if length < 2:
            return
        yield kind, position + 4, position + 2 + length
        position += 2 + length
        if kind == START_OF_SCAN:
            marker = SCAN_END.search(content, position)
            if marker is None:
                return
            position = marker.start()


def _in_small(content: bytes) -> bytes:
    image = Image.open(io.BytesIO(content), formats=("JPEG",))
    image.draft(None, (1, 1))
    return image.tobytes()
