"""Single kernels at a given shape, which `bench --kernel` can run, each with a NumPy reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...models import golden
from ...models.errors import TrninferError
from ...simulator.machine.chip import PARTITIONS, PSUM_BANK_FLOATS

MAX_ELEMENTS = 1 << 31  # elements of one array: 8 GiB in float32
MAX_VALUES = 1 << 27  # elements of all arrays if values are computed: about 4 GiB with NumPy's copies
# instructions of a launch: the simulator stores about 2 kB for each until the launch is timed
MAX_INSTRUCTIONS = 1 << 20
_ACTIVATIONS = ("identity", "relu", "gelu", "sigmoid", "tanh")
_MATMULS = ("fully_optimized", "tiled", "hoist_load", "block_free_dimension")

Sizes = Mapping[str, Any]


class ShapeError(TrninferError, ValueError):
    """A kernel or shape cannot be run. The message is one line for the user."""


@dataclass(frozen=True)
class KernelCase:
    """A kernel, named as in trninfer.kernels, at a shape. `float32_operands` are always float32, regardless of the
    dtype."""

    kernel: str
    shapes: tuple[tuple[int, ...], ...]
    output_shape: tuple[int, ...]
    parameters: Mapping[str, Any]
    reference: Callable[..., np.ndarray]
    float32_operands: frozenset[int] = frozenset()
    instructions: int = 0  # approximate number of instructions, from the number of tiles

    @property
    def values(self) -> int:
        """The total number of elements in operands and result."""
        return sum(math.prod(shape) for shape in (*self.shapes, self.output_shape))

    def arrays(self, dtype: np.dtype[Any], seed: int = 0) -> tuple[np.ndarray, ...]:
        """Return random operands: standard normal data, and weights scaled so that the results have the same
        magnitude."""
        random = np.random.default_rng(seed)
        arrays = []
        for position, shape in enumerate(self.shapes):
            values = random.standard_normal(shape, np.float32)
            if position and len(shape) in (2, 4):
                values /= np.float32(math.sqrt(max(1, math.prod(shape) // shape[0] if len(shape) == 4 else shape[0])))
            arrays.append(values.astype(self.dtype_of(position, dtype)))
        return tuple(arrays)

    def dtype_of(self, position: int, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of an operand if the data has `dtype`."""
        return np.dtype(np.float32) if position in self.float32_operands else dtype

    def expected(self, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return NumPy's result in float32 for the same operands."""
        return self.reference(*(array.astype(np.float32) for array in arrays))

    def found(self, output: Any) -> np.ndarray:
        """Return the kernel's result as numbers."""
        return np.asarray(output)


@dataclass(frozen=True)
class _Family:
    """A kernel family: its sizes (with defaults, or None if required), its choices, and a function that creates a
    case."""

    sizes: Mapping[str, int | None]
    build: Callable[[Sizes], KernelCase]
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the first is the default
    smallest: Mapping[str, int] = field(default_factory=dict)  # smallest allowed size, if not 1

    def usage(self) -> str:
        """Return a description of the keys: sizes, defaults and choices."""
        keys = [key if default is None else f"{key}={default}" for key, default in self.sizes.items()]
        return ", ".join([*keys, *(f"{key}={'|'.join(allowed)}" for key, allowed in self.choices.items())])


def kernel_names() -> tuple[str, ...]:
    """Return the families that `kernel_case` accepts."""
    return tuple(_FAMILIES)


def kernel_keys(name: str) -> tuple[str, ...]:
    """Return the sizes and choices of a family. Raises ShapeError for an unknown name."""
    family = _family(name)
    return (*family.sizes, *family.choices)


def _value(family: _Family, name: str, key: str, text: str) -> str | int:
    """Parse the value of a key of a shape. Raise ShapeError if the value is not allowed."""
    if key in family.choices:
        if text not in family.choices[key]:
            raise ShapeError(f"{name}: {key} is {text!r}; allowed: {', '.join(family.choices[key])}")
        return text
    if key not in family.sizes:
        raise ShapeError(f"{name}: unknown key {key!r}; its shape is {family.usage()}")
    low = family.smallest.get(key, 1)
    if not (text.isascii() and text.isdigit()) or int(text[:20]) < low:
        raise ShapeError(f"{name}: {key} is {text!r}; expected an integer of at least {low}")
    return int(text[:20])


def kernel_case(name: str, shape: Mapping[str, str]) -> KernelCase:
    """Return the case of a family at a shape, such as {"m": "128", ...}. Raise ShapeError if the shape does not fit."""
    family = _family(name)
    values: dict[str, Any] = {key: _value(family, name, key, text) for key, text in shape.items()}
    for key, default in family.sizes.items():
        if key not in values and default is None:
            raise ShapeError(f"{name}: {key} is missing; its shape is {family.usage()}")
        values.setdefault(key, default)
    for key, allowed in family.choices.items():
        values.setdefault(key, allowed[0])
    case = family.build(values)
    for array in (*case.shapes, case.output_shape):
        if math.prod(array) > MAX_ELEMENTS:
            raise ShapeError(f"{name}: an array of {'x'.join(map(str, array))} is too large")
        if min(array) < 1:
            raise ShapeError(f"{name}: the image is too small: the output would be {'x'.join(map(str, array))}")
    if case.instructions > MAX_INSTRUCTIONS:
        raise ShapeError(
            f"{name}: requires about {case.instructions:,} instructions; the limit is {MAX_INSTRUCTIONS:,}"
        )
    return case


def _family(name: str) -> _Family:
    if name not in _FAMILIES:
        raise ShapeError(f"unknown kernel {name!r}; available: {', '.join(_FAMILIES)}")
    return _FAMILIES[name]


def _conv2d(s: Sizes) -> KernelCase:
    k, pool, padding, activation = s["k"], s["pool"], s["padding"], s["activation"]
    sides = tuple((s[side] + 2 * padding - k + 1) // pool for side in ("h", "w"))
    return KernelCase(
        "fused_conv2d_maxpool",
        ((s["batch"], s["cin"], s["h"], s["w"]), (s["cout"], s["cin"], k, k), (s["cout"],)),
        (s["batch"], s["cout"], *sides),
        {"pool_size": pool, "padding": padding, "activation": activation, "form": s["form"]},
        lambda x, w, bias: golden.conv2d(x, w, bias, padding, pool, activation),
        frozenset({2}),
        # As many taps as fit share the 128 rows of the PE array.
        instructions=s["batch"] * _banks(s["h"] * s["w"]) * _tiles(s["cin"] * k * k) * _tiles(s["cout"]),
    )


def _matmul(s: Sizes) -> KernelCase:
    return KernelCase(
        f"matmul_{s['variant']}",
        ((s["k"], s["m"]), (s["k"], s["n"])),
        (s["m"], s["n"]),
        {},
        lambda left, right: left.T @ right,
        instructions=_tiles(s["m"]) * _tiles(s["k"]) * _banks(s["n"]),
    )


def _tiles(extent: int) -> int:
    """Count the tiles along an axis that is mapped to the partitions."""
    return _ceil(extent, PARTITIONS)


def _banks(columns: int) -> int:
    """Count the PSUM banks occupied by a number of float32 columns."""
    return _ceil(columns, PSUM_BANK_FLOATS)


def _ceil(size: int, part: int) -> int:
    return -(-size // part)


def _transpose(s: Sizes) -> KernelCase:
    return KernelCase(
        "transpose",
        ((s["m"], s["n"]),),
        (s["n"], s["m"]),
        {},
        lambda a: a.T,
        instructions=_tiles(s["m"]) * _tiles(s["n"]),
    )


def _bias_activation(s: Sizes) -> KernelCase:
    activation, shape = s["activation"], (s["n"], s["h"])

    def reference(a: np.ndarray, bias: np.ndarray) -> np.ndarray:
        total = a + bias
        return golden.softmax(total) if activation == "softmax" else golden.activate(total, activation)

    return KernelCase(
        "bias_activation",
        (shape, (1, s["h"])),
        shape,
        {"activation": activation},
        reference,
        frozenset({1}),
        instructions=_tiles(s["n"]) * _ceil(s["h"], 4096),
    )


def _argmax(s: Sizes) -> KernelCase:
    return KernelCase(
        "argmax",
        ((s["n"], s["c"]),),
        (s["n"],),
        {},
        golden.argmax,
        instructions=_tiles(s["n"]) * _ceil(s["c"], 16384),
    )


def _average_pool(s: Sizes) -> KernelCase:
    window = s["window"]
    return KernelCase(
        "average_pool",
        ((s["batch"], s["c"], s["h"], s["w"]),),
        (s["batch"], s["c"], s["h"] // window, s["w"] // window),
        {"window": (window, window), "stride": (window, window)},
        lambda x: golden.average_pool(x, window, window),
        instructions=_tiles(s["batch"] * s["c"]) * _ceil(s["h"] * s["w"], 16384),
    )


def _vector_add(s: Sizes) -> KernelCase:
    shape = (s["n"],)
    parameters = {
        "naive": (),
        "tiled": ("rows",),
        "stream": ("free",),
        "direct_allocation": ("free", "tiles"),
    }[s["variant"]]
    numbers = {"naive": 1, "tiled": s["rows"]}.get(s["variant"], PARTITIONS * s["free"])  # elements of a tile
    return KernelCase(
        f"vector_add_{s['variant']}",
        (shape, shape),
        shape,
        {key: s[key] for key in parameters},
        lambda a, b: a + b,
        instructions=4 * _ceil(s["n"], numbers),
    )


def _ffnn(s: Sizes) -> KernelCase:
    n, d, hidden, classes = s["n"], s["d"], s["hidden"], s["classes"]
    return KernelCase(
        "ffnn_forward",
        ((n, d), (d, hidden), (1, hidden), (hidden, classes), (1, classes)),
        (n, classes),
        {"matmul": s["matmul"]},
        lambda x, w1, b1, w2, b2: golden.softmax(golden.dense(golden.dense(x, w1, b1, "relu"), w2, b2)),
        frozenset({2, 4}),
        instructions=_tiles(n) * (_tiles(d) * _banks(hidden) + _tiles(hidden) * _banks(classes)),
    )


_FAMILIES: dict[str, _Family] = {
    "conv2d": _Family(
        {"batch": 1, "cin": None, "cout": None, "h": None, "w": None, "k": 3, "pool": 1, "padding": 0},
        _conv2d,
        {"activation": _ACTIVATIONS, "form": ("quickest", "direct", "pairs", "squares")},
        {"padding": 0},
    ),
    "matmul": _Family({"m": None, "k": None, "n": None}, _matmul, {"variant": _MATMULS}),
    "transpose": _Family({"m": None, "n": None}, _transpose),
    "bias_activation": _Family({"n": None, "h": None}, _bias_activation, {"activation": (*_ACTIVATIONS, "softmax")}),
    "average_pool": _Family({"batch": 1, "c": None, "h": None, "w": None, "window": 2}, _average_pool),
    "argmax": _Family({"n": None, "c": None}, _argmax),
    "vector_add": _Family(
        {"n": None, "rows": PARTITIONS, "free": 1000, "tiles": 4},
        _vector_add,
        {"variant": ("stream", "naive", "tiled", "direct_allocation")},
    ),
    "ffnn": _Family({"n": None, "d": None, "hidden": None, "classes": None}, _ffnn, {"matmul": ("fused", *_MATMULS)}),
}
