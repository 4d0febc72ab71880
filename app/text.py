"""Text for users: names that are safe to print on a terminal, wrapped messages, and numbers."""

from __future__ import annotations

import re

LONGEST = 300  # maximum number of characters per line
MOST_LINES = 20  # maximum number of lines per message

_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)")
# Spaces at which lines must not be broken: within quoted commands, and between a number and its unit.
_UNBROKEN = re.compile(r"(?<=\d) (?=(?:%|[num]?s|[kMGT]?i?B(?:/s)?|[kMGT]?FLOP(?:/s)?)(?![\w]))")
_HALVES = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # lone surrogates, except escaped bytes of file names


def printable(text: str, encoding: str = "utf-8") -> str:
    """Return `text` as a single line that is safe to print on a terminal.

    Control characters, undecodable bytes and characters that `encoding` does not contain are escaped. File names may
    contain newlines, escape sequences and bytes that are not UTF-8; labels of model files may contain anything that
    JSON allows, including lone surrogates.
    """
    known = spell(text)
    escaped = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in known)
    return escaped.encode(encoding, "backslashreplace").decode(encoding)


def shorten(text: str, most: int = LONGEST) -> str:
    """Shorten a text to `most` characters by cutting out its middle."""
    return text if len(text) <= most else f"{text[: most - 95]} ... {text[-90:]}"


def lines_of(message: str) -> list[str]:
    """Split a message into printable lines of at most LONGEST characters.

    Longer messages are split at semicolons, so that each of several problems is on a separate line. Semicolons in
    quoted commands are kept.
    """
    escaped = printable(message)
    if len(escaped) <= LONGEST:
        return [escaped]
    lines: list[str] = []
    protected = _QUOTED.sub(lambda quoted: quoted[0].replace("; ", "\0"), escaped)  # never in printable text
    for part in (part.replace("\0", "; ") for part in protected.split("; ")):
        if lines and len(lines[-1]) + 2 + len(part) <= LONGEST:
            lines[-1] += f"; {part}"
        else:
            lines.append(shorten(f"  {part}" if lines else part))
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"  ... and {count(more, 'more line')}"]


def wrapped(line: str, width: int) -> list[str]:
    """Wrap a line at word boundaries into lines of at most `width` characters; later lines are indented.

    Quoted commands are not split, so that a long command can be copied, and numbers are not separated from their units.
    """
    import textwrap

    protected = _QUOTED.sub(lambda quoted: quoted[0].replace(" ", "\0"), _UNBROKEN.sub("\0", line))
    lines = textwrap.wrap(
        protected, max(width, 20), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False,
        drop_whitespace=True,
    )  # fmt: skip
    return [part.replace("\0", " ") for part in lines] or [""]


def spell(name: str) -> str:
    """Return a file name in the spelling used in JSON and CSV, with non-UTF-8 bytes and lone surrogates escaped."""
    spelled = _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", name)
    return spelled.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def parse_number(text: str) -> float:
    """Parse a plain number. Raises ValueError for `1_0` and for digits of other scripts, both of which float()
    accepts."""
    if not text.isascii() or "_" in text:
        raise ValueError(f"no number: {text!r}")
    return float(text)


def count(number: int, noun: str, several: str = "") -> str:
    """Format `1 picture`, `2 pictures`; `several` is the plural if it is irregular."""
    return f"{number} {noun if number == 1 else several or noun + 's'}"
