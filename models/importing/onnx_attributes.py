"""Access to attributes of ONNX nodes, with checks of the type and length that the operator requires, and to parameters
that are inputs in newer opsets."""

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
    """Return the pads before and after each axis; `wanted` contains the total pads for automatic padding."""
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


def slice_parts(node: Node, inputs: Sequence[np.ndarray | None], rank: int) -> tuple[list[int], ...]:
    """Return (starts, ends, nonnegative axes, steps) of a Slice, from inputs or, before opset 10, attributes."""
    arguments = [
        value.ravel().tolist() if value is not None else None for value in (*inputs[1:], *(None,) * (5 - len(inputs)))
    ]
    starts = arguments[0] if arguments[0] is not None else list(listed(node, "starts"))
    ends = arguments[1] if arguments[1] is not None else list(listed(node, "ends"))
    axes = arguments[2] if arguments[2] is not None else list(listed(node, "axes", tuple(range(len(starts)))))
    steps = arguments[3] if arguments[3] is not None else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or any(not -rank <= axis < rank for axis in axes):
        raise ModelError("its starts, ends, axes and steps are inconsistent")
    return [list(map(int, part)) for part in (starts, ends, [axis % rank for axis in axes], steps)]  # type: ignore[return-value]


def split_sizes(node: Node, inputs: Sequence[np.ndarray | None], extent: int) -> list[int]:
    """Return the sizes into which a Split divides an axis of `extent`."""
    if len(inputs) > 1 and inputs[1] is not None:
        sizes = [int(size) for size in inputs[1].ravel()]
    elif "split" in node.attributes:
        sizes = list(listed(node, "split"))
    else:
        count = integer(node, "num_outputs", len(node.outputs))
        if not 1 <= count <= extent:
            raise ModelError(f"{extent} entries cannot be split into {count} parts")
        part_size = -(-extent // count)
        sizes = [part_size] * (count - 1) + [extent - part_size * (count - 1)]
    if sum(sizes) != extent or min(sizes, default=0) < 1 or len(sizes) != len(node.outputs):
        raise ModelError(f"{extent} entries cannot be split into parts of {sizes[:8]}")
    return sizes


def axes_of(node: Node, inputs: Sequence[np.ndarray | None]) -> tuple[int, ...] | None:
    """Return the axes given by the second input (newer opsets) or an attribute, or None if there are none."""
    if len(inputs) > 1 and inputs[1] is not None:
        return tuple(int(axis) for axis in inputs[1].ravel()[:16])
    return listed(node, "axes") if "axes" in node.attributes else None


def padded_entries(node: Node, arguments: Sequence[np.ndarray | None], rank: int) -> list[int]:
    """Return the pads of a Pad before all axes of its input, followed by those after all axes.

    `arguments` are its constant inputs. Raises ModelError if the pads are not integers or do not match `rank` axes.
    """
    if "pads" in node.attributes:  # before opset 11
        return list(integers(node, "pads", 2 * rank, ()))
    _, given, _, axes = (*arguments, None, None, None, None)[:4]
    if given is None or given.ndim != 1 or given.dtype.kind != "i" or given.size % 2:
        raise ModelError("its pads are not a list of integers")
    places = list(range(rank)) if axes is None else [int(axis) % rank for axis in axes.ravel()[:9]]
    if len(places) != given.size // 2:
        raise ModelError(f"it has {given.size} pads, which does not match its input of {rank} axes")
    pads = [0] * (2 * rank)
    for position, axis in enumerate(places):
        pads[axis] = int(given[position])
        pads[rank + axis] = int(given[position + len(places)])
    return pads
