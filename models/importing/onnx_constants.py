"""The part of an ONNX graph that does not depend on the data: weights on their way, and arithmetic on shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..network import ModelError
from .onnx_file import Node

MAX_GATHERED = 64  # numbers: these operations are supported for shapes, which are short


def integers(node: Node, name: str, count: int, default: tuple[int, ...]) -> tuple[int, ...]:
    """An attribute that is a list of `count` integers."""
    value = node.attributes.get(name, default)
    if not isinstance(value, tuple) or len(value) != count or not all(isinstance(item, int) for item in value):
        raise ModelError(f"its {name} is not {count} integers")
    return tuple(int(item) for item in value)


def integer(node: Node, name: str, default: int) -> int:
    """An attribute that is an integer."""
    value = node.attributes.get(name, default)
    if not isinstance(value, int):
        raise ModelError(f"its {name} is not an integer")
    return value


def number(node: Node, name: str, default: float) -> float:
    """An attribute that is a finite number."""
    value = node.attributes.get(name, default)
    if not isinstance(value, (int, float)) or not np.isfinite(value):
        raise ModelError(f"its {name} is not a finite number")
    return float(value)


def evaluate(node: Node, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """The output of an operation all of whose inputs are constant; ModelError where it is not one of CONSTANT_OPS."""
    if node.op not in CONSTANT_OPS:
        raise ModelError("none of its inputs depends on the network's input")
    try:
        return CONSTANT_OPS[node.op](node, inputs)
    except (ValueError, IndexError, TypeError, OverflowError):
        raise ModelError("its inputs do not fit together") from None


def _constant(node: Node, inputs: Sequence[np.ndarray]) -> np.ndarray:
    for name, value in node.attributes.items():
        if name in ("value", "value_int", "value_ints", "value_float", "value_floats") and not isinstance(value, str):
            return np.asarray(value)
    raise ModelError(f"its value is given as {', '.join(node.attributes) or 'nothing'}, which is not supported")


def _transpose(node: Node, inputs: Sequence[np.ndarray]) -> np.ndarray:
    rank = inputs[0].ndim
    return inputs[0].transpose(integers(node, "perm", rank, tuple(range(rank))[::-1]))


def _unsqueeze(node: Node, inputs: Sequence[np.ndarray]) -> np.ndarray:
    axes = inputs[1].ravel().tolist() if len(inputs) > 1 else list(_tuple(node, "axes"))
    return np.expand_dims(inputs[0], tuple(map(int, axes)))


def _gather(node: Node, inputs: Sequence[np.ndarray]) -> np.ndarray:
    data, indices = inputs
    if data.ndim != 1 or max(data.size, indices.size) > MAX_GATHERED:
        raise ModelError("it is supported for shapes alone")
    return np.asarray(np.take(data, indices.astype(np.int64)))


def _concat(node: Node, inputs: Sequence[np.ndarray]) -> np.ndarray:
    if any(part.ndim != 1 for part in inputs) or sum(part.size for part in inputs) > MAX_GATHERED:
        raise ModelError("it is supported for shapes alone")
    return np.concatenate(inputs)


def _tuple(node: Node, name: str) -> tuple[int, ...]:
    value = node.attributes.get(name)
    return integers(node, name, len(value), ()) if isinstance(value, tuple) else integers(node, name, 1, ())


CONSTANT_OPS: dict[str, Callable[[Node, Sequence[np.ndarray]], np.ndarray]] = {
    "Constant": _constant,
    "Identity": lambda node, inputs: inputs[0],
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Gather": _gather,
    "Concat": _concat,
}
