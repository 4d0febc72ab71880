"""Words for people: names that no terminal can be tricked with, and numbers of things."""

from __future__ import annotations

import re

_HALVES = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # of characters; the others stand for bytes of file names


def printable(text: str, encoding: str = "utf-8") -> str:
    """`text` as one line that no terminal can be tricked with: control characters, stray bytes and characters that
    `encoding` lacks are spelled out.

    File names may hold newlines, escape sequences and bytes that are no UTF-8; labels of model files anything that JSON
    can write, halves of characters (lone surrogates) among it.
    """
    known = spell(text)
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in known)
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def spell(name: str) -> str:
    """A file's name as JSON and CSV hold it: bytes that are no UTF-8, and halves of characters, are spelled out."""
    whole = _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", name)
    return whole.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def parse_number(text: str) -> float:
    """A number as people write it; ValueError for `1_0` and digits of other scripts too, which Python alone reads."""
    if not text.isascii() or "_" in text:
        raise ValueError(f"no number: {text!r}")
    return float(text)


def count(number: int, noun: str) -> str:
    """`1 picture`, `2 pictures`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
