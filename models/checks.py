"""Checks and bounds for the fields of networks, and descriptions of shapes for error messages."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .errors import ModelError

Shape = tuple[int, ...]

# Bounds that are far above the needs of any real network, so that a malicious file cannot cause the allocation of
# terabytes.
MAX_SIDE = 16_384
MAX_CHANNELS = 65_536
MAX_FEATURES = 1 << 24
MAX_KERNEL_SIZE = 1_024
MAX_KERNEL_ELEMENTS = 4_096  # elements of a filter for one channel
MAX_STRIDE = 1_024
MAX_ELEMENTS = 1 << 27  # elements of one layer's output for one example
MAX_LAYERS = 1_600
MAX_READS = 1_000  # inputs of one layer
MAX_LABELS = 65_536  # classes; the largest version of ImageNet has 21,841
MAX_MULTIPLY_ACCUMULATES = 1 << 41  # per example; a hundred times as many as in VGG-19

INPUT = "input"  # the name that denotes the network's input among a layer's inputs


def describe_shape(shape: Shape) -> str:
    """Describe a shape in error messages, such as '64 features' or 'an image of 1x32x32'."""
    if len(shape) == 1:
        return f"{shape[0]} features"
    return f"an image of {'x'.join(map(str, shape))}"


def check_name(name: str) -> None:
    """Raise ModelError unless `name` can be printed in a table and differs from the name of the input."""
    check_printable("layer name", name)
    if name == INPUT:
        raise ModelError(f"layer name {name!r}: this name is reserved for the network's input")


def check_printable(what: str, name: str) -> None:
    """Raise ModelError unless `name` can be printed in a table."""
    if not name or not name.isprintable() or name != name.strip():
        raise ModelError(f"{what} {name!r} must be printable, not empty, and without leading or trailing spaces")


def check_range(where: str, field: str, value: int, low: int, high: int) -> None:
    """Raise ModelError unless low <= value <= high."""
    if not low <= value <= high:
        raise ModelError(f"{_place(where)}: {field} is {value}; {low} to {high} are allowed")


def check_each(where: str, field: str, values: Sequence[int], count: int, low: int, high: int) -> None:
    """Raise ModelError unless there are exactly `count` values, all between low and high (inclusive)."""
    if len(values) != count or any(not low <= value <= high for value in values):
        values_text = ", ".join(map(str, values[:8]))
        raise ModelError(
            f"{_place(where)}: {field} is {values_text or 'empty'}; expected {count} values from {low} to {high}"
        )


def check_choice(where: str, field: str, value: str, allowed: Sequence[str]) -> None:
    """Raise ModelError unless `value` is in `allowed`."""
    if value not in allowed:
        raise ModelError(f"{_place(where)}: {field} is {value!r}; allowed: {', '.join(allowed)}")


def check_numbers(where: str, field: str, values: Sequence[float], count: int) -> None:
    """Raise ModelError unless there are exactly `count` finite numbers."""
    if len(values) != count or not all(math.isfinite(value) for value in values):
        raise ModelError(f"{_place(where)}: {field} is {values}; expected {count} finite numbers")


def check_shape(where: str, field: str, shape: Shape) -> None:
    """Raise ModelError unless `shape` is (C, H, W) or (F,) within the bounds."""
    if len(shape) not in (1, 3) or min(shape) < 1 or math.prod(shape) > MAX_ELEMENTS:
        raise ModelError(
            f"{_place(where)}: {field} is {list(shape)[:8]}, neither a number of features nor "
            "the shape of an image within the limits"
        )


def check_count(where: str, before: Shape, after: Shape) -> None:
    """Raise ModelError unless both shapes have the same number of elements."""
    if math.prod(before) != math.prod(after):
        raise ModelError(f"{_place(where)}: {list(before)} and {list(after)} have different numbers of elements")


def check_epsilon(where: str, epsilon: float) -> None:
    """Raise ModelError unless `epsilon`, added to a variance, is finite and above 0."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ModelError(f"{_place(where)}: epsilon is {epsilon}; it must be above 0")


def _place(where: str) -> str:
    return INPUT if where == INPUT else f"layer {where!r}"
