"""Words for people: names that no terminal can be tricked with, and numbers of things."""

from __future__ import annotations

import re

LONGEST = 300  # characters of a line for people
MOST_LINES = 20  # of a message

_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)")
# Spaces that no line ends at: within quoted commands, and between a number and its unit.
_UNBROKEN = re.compile(r"(?<=\d) (?=(?:%|[num]?s|[kMGT]?i?B(?:/s)?|[kMGT]?FLOP(?:/s)?)(?![\w]))")
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


def shorten(text: str, most: int = LONGEST) -> str:
    """A text of at most `most` characters: of a longer one the begin and the end."""
    return text if len(text) <= most else f"{text[: most - 95]} ... {text[-90:]}"


def lines_of(message: str) -> list[str]:
    """A message as lines that people can read: printable, each of at most LONGEST characters.

    One that is longer is parted at its semicolons, so that many things that are wrong are a line each; those of quoted
    commands are left alone.
    """
    shown = printable(message)
    if len(shown) <= LONGEST:
        return [shown]
    lines: list[str] = []
    kept = _QUOTED.sub(lambda quoted: quoted[0].replace("; ", "\0"), shown)  # which nothing printable holds
    for part in (part.replace("\0", "; ") for part in kept.split("; ")):
        if lines and len(lines[-1]) + 2 + len(part) <= LONGEST:
            lines[-1] += f"; {part}"
        else:
            lines.append(shorten(f"  {part}" if lines else part))
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"  ... and {count(more, 'more line')}"]


def wrapped(line: str, width: int) -> list[str]:
    """Return a line as lines of at most `width` characters that end at words, the later ones indented.

    Quoted commands, and numbers with their units, stay whole: a command that is longer than a line can be copied.
    """
    import textwrap

    kept = _QUOTED.sub(lambda quoted: quoted[0].replace(" ", "\0"), _UNBROKEN.sub("\0", line))
    lines = textwrap.wrap(
        kept, max(width, 20), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False,
        drop_whitespace=True,
    )  # fmt: skip
    return [part.replace("\0", " ") for part in lines] or [""]


def spell(name: str) -> str:
    """A file's name as JSON and CSV hold it: bytes that are no UTF-8, and halves of characters, are spelled out."""
    whole = _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", name)
    return whole.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def parse_number(text: str) -> float:
    """A number as people write it; ValueError for `1_0` and digits of other scripts too, which Python alone reads."""
    if not text.isascii() or "_" in text:
        raise ValueError(f"no number: {text!r}")
    return float(text)


def count(number: int, noun: str, several: str = "") -> str:
    """`1 picture`, `2 pictures`; `several` is the plural where it is not formed by an s."""
    return f"{number} {noun if number == 1 else several or noun + 's'}"
