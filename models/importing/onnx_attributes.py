"""Access to attributes of ONNX nodes, with checks of the type and length that the operator requires."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import ModelError
from .onnx_file import Node


def integers(node: Node, name: str, count: int, default: tuple[int, ...]) -> tuple[int, ...]:
    """Return an attribute that is a list of `count` integers."""
    value = node.attributes.get(name, default)
    if not isinstance(value, tuple) or len(value) != count or not all(isinstance(item, int) for item in value):
        raise ModelError(f"its {name} is not {count} integers")
    return tuple(int(item) for item in value)


def listed(node: Node, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Return an attribute that is a list of integers of any length."""
    value = node.attributes.get(name, default)
    return integers(node, name, len(value) if isinstance(value, tuple) else 1, default)


def integer(node: Node, name: str, default: int) -> int:
    """Return an integer attribute."""
    value = node.attributes.get(name, default)
    if not isinstance(value, int):
        raise ModelError(f"its {name} is not an integer")
    return value


def number(node: Node, name: str, default: float) -> float:
    """Return a number attribute, which must be finite unless it equals the default."""
    value = node.attributes.get(name, default)
    if not isinstance(value, (int, float)) or not (np.isfinite(value) or value == default):
        raise ModelError(f"its {name} is not a finite number")
    return float(value)


def numbers(node: Node, name: str, default: tuple[float, ...] = ()) -> tuple[float, ...]:
    """Return an attribute that is a list of finite numbers."""
    value = node.attributes.get(name, default)
    if not isinstance(value, tuple) or not all(np.isfinite(item) for item in value):
        raise ModelError(f"its {name} are not finite numbers")
    return tuple(float(item) for item in value)


def text(node: Node, name: str, default: str) -> str:
    """Return a string attribute."""
    value = node.attributes.get(name, default)
    if not isinstance(value, str):
        raise ModelError(f"its {name} is not a string")
    return value


def pads_of(node: Node, rank: int, wanted: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the pads before and after each side; `wanted`: the total pads of an automatic padding."""
    way = text(node, "auto_pad", "NOTSET")
    if way == "NOTSET":
        pads = integers(node, "pads", 2 * rank, (0,) * (2 * rank))
        return pads[:rank], pads[rank:]
    if way == "VALID":
        return (0,) * rank, (0,) * rank
    small, large = tuple(pad // 2 for pad in wanted), tuple(pad - pad // 2 for pad in wanted)
    if way not in ("SAME_UPPER", "SAME_LOWER"):
        raise ModelError(f"its auto_pad is {way!r}")
    return (small, large) if way == "SAME_UPPER" else (large, small)
