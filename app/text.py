"""Words for people: names that no terminal can be tricked with, and numbers of things."""


def printable(text: str, encoding: str = "utf-8") -> str:
    """`text` as one line that no terminal can be tricked with: control characters, stray bytes and characters that
    `encoding` lacks are spelled out.

    File names may hold newlines, escape sequences and bytes that are no UTF-8.
    """
    known = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in known)
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def spell(name: str) -> str:
    """A file's name as JSON and CSV hold it: bytes that are no UTF-8 are spelled out."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def parse_number(text: str) -> float:
    """A number as people write it; ValueError for `1_0` and digits of other scripts too, which Python alone reads."""
    if not text.isascii() or "_" in text:
        raise ValueError(f"no number: {text!r}")
    return float(text)


def count(number: int, noun: str) -> str:
    """`1 picture`, `2 pictures`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
