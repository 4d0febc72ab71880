"""Build escaped HTML and SVG, and format the units of reports."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from ..text import printable

_EMPTY = ("meta", "img", "path", "rect", "circle", "line")  # void elements: no end tag if empty


class Markup(str):
    """Text that is already HTML and is not escaped again."""

    __slots__ = ()


Content: TypeAlias = "str | Iterable[Content] | None"


def element(tag: str, /, *content: Content, **attributes: object) -> Markup:
    """Return an element. Plain strings in the contents are escaped, and None is skipped.

    Attribute names are written as in Python: a trailing underscore is dropped, and other underscores become hyphens.
    None and False omit the attribute; True produces an attribute without a value.
    """
    words = [tag]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        words.append(key if value is True else f'{key}="{_safe(str(value))}"')
    start, inside = " ".join(words), fragment(*content)
    return Markup(f"<{start}/>" if tag in _EMPTY and not inside else f"<{start}>{inside}</{tag}>")


def fragment(*content: Content) -> Markup:
    """Concatenate several contents."""
    parts: list[Markup] = []
    for item in content:
        if item is None:
            continue
        if isinstance(item, Markup):
            parts.append(item)
        elif isinstance(item, str):
            parts.append(Markup(_safe(item)))
        else:
            parts.append(fragment(*item))
    return Markup("".join(parts))


def _safe(text: str) -> str:
    """Escape text for HTML; control characters and undecodable bytes are written as escape sequences."""
    return escape(printable(text), quote=True)


def microseconds(value: float) -> str:
    """Format microseconds with at least four digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}" if value < 100 else f"{value:.1f}"


def percent(share: float) -> str:
    """Format 0.25 as `25.0 %` and 0.0025 as `0.25 %`; nonzero values below 0.01 % as `< 0.01 %`."""
    if 0 < share < 0.0001:
        return "< 0.01 %"
    return f"{100 * share:.{1 if share >= 0.00995 or not share else 2}f} %"


def quantity(value: float, unit: str) -> str:
    """Format a value with three digits, a decimal prefix and a unit."""
    for prefix in ("", "k", "M", "G"):
        if value < 999.5:
            return f"{value:.0f} {prefix}{unit}" if value >= 99.95 or not prefix else f"{value:.3g} {prefix}{unit}"
        value /= 1000
    return f"{value:.3g} T{unit}"


def shape_text(shape: Iterable[int]) -> str:
    """Format a shape as 1x3x224x224."""
    return "\u00d7".join(map(str, shape))
