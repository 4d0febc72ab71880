"""The checks of every kernel at a small and an odd size, with NumPy's results for the same operands.

Small sizes stay within one tile along each axis. Odd sizes exceed the limits (128 partitions, 512 columns) and are not
multiples of tile sizes. The operations of a network are checked through layers, so that there is only one golden model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...kernels.program import input_name
from ...kernels.tiling.packing import ceil_div, round_up
from ...lowering.config import LoweringConfig
from ...lowering.launch_sequence import LaunchSequence
from ...lowering.pipeline import LaunchPlan
from ...models.checks import INPUT
from ...models.files import Model
from ...models.golden import run_layer, run_network
from ...models.inputs import ImageInput
from ...models.layers import Combine, Conv2d, Dense, Flatten, Layer, Pad, Reshape, Softmax
from ...models.layout import pack_conv2d
from ...models.network import Network
from ...simulator.machine.chip import PARTITIONS
from ..backend import DEFAULT_TARGET
from ..launch_options import DEFAULT_LAUNCHES
from ..measure.kernel_cases import kernel_case
from . import layer_checks

SIZES = ("small", "odd")
INFORMATIONAL = ("psum_side_by_side", "psum_half_word", "single_column", "sbuf_without_fallback")
_Shape = Mapping[str, Any]

# The kernel families of `bench --kernel` and their shapes. Each family has a single kernel, or one kernel per variant.
_FAMILIES: tuple[tuple[str, _Shape, _Shape, tuple[str, ...]], ...] = (
    (
        "vector_add",
        {"n": 100, "rows": PARTITIONS, "free": 1},
        {"n": 1157, "rows": 127, "free": 3},
        ("naive", "tiled", "stream", "direct_allocation"),
    ),
    ("transpose", {"m": 5, "n": 7}, {"m": 129, "n": 513}, ()),
    (
        "matmul",
        {"m": 8, "k": 16, "n": 12},
        {"m": 129, "k": 257, "n": 513},
        ("tiled", "hoist_load", "block_free_dimension", "fully_optimized"),
    ),
    ("bias_activation", {"n": 4, "h": 10, "activation": "softmax"}, {"n": 129, "h": 513, "activation": "gelu"}, ()),
    ("argmax", {"n": 4, "c": 10}, {"n": 129, "c": 513}, ()),
    (
        "conv2d",
        {"cin": 3, "cout": 8, "h": 8, "w": 8, "padding": 1, "activation": "relu"},
        {"cin": 129, "cout": 130, "h": 9, "w": 7, "padding": 1, "pool": 2},
        (),
    ),
    ("average_pool", {"c": 4, "h": 6, "w": 6}, {"c": 129, "h": 13, "w": 11, "window": 3}, ()),
    ("ffnn", {"n": 4, "d": 8, "hidden": 6, "classes": 3}, {"n": 129, "d": 65, "hidden": 130, "classes": 11}, ()),
)


@dataclass(frozen=True)
class Check:
    """A kernel, named as in trninfer.kernels, at a size, and its expected results, which are float32 or integers."""

    kernel: str
    size: str
    arrays: tuple[np.ndarray, ...]
    parameters: Mapping[str, Any]
    expected: Callable[[], tuple[np.ndarray, ...]]
    variant: str = ""
    scores: Callable[[], np.ndarray] | None = None  # the scores [N, C] if the results are classes, to detect near-ties
    named: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the operands."""
        return tuple(array.shape for array in (*self.arrays, *self.named.values()))

    @property
    def arguments(self) -> dict[str, Any]:
        """All arguments, keyed by name."""
        return {**self.named, **self.parameters}

    @property
    def informational(self) -> bool:
        """True if the check uses features that are reported to fail on some chips (docs/chip.md): several accumulation
        groups in one PSUM bank, of which all but the last lose terms on trn1 and trn2, or deliberate violations of
        rules."""
        return self.kernel in INFORMATIONAL


def checks(dtype: np.dtype[Any]) -> Iterator[Check]:
    """Return all checks in one dtype. Checks that are known to have failed on a chip come first."""
    for number, size in enumerate(SIZES):
        yield from _psum(size, number, dtype)
    for number, size in enumerate(SIZES):
        yield from _breakers(size, number, dtype)
    for number, size in enumerate(SIZES):
        for family, *shapes, variants in _FAMILIES:
            for variant in variants or ("",):
                yield _of_family(family, {**shapes[number], **({"variant": variant} if variant else {})}, size, dtype)
        yield _ffnn_predict(size, number, dtype)
        yield from _convolutions(size, number, dtype)
        yield from _layers(size, number, dtype)
        for make in (_residual, _side_by_side):
            yield _network(size, number, dtype, make)


def _wide(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(array.astype(np.float32) for array in arrays)


def _draw(dtype: np.dtype[Any], *shapes: tuple[int, ...]) -> list[np.ndarray]:
    random = np.random.default_rng(len(shapes))
    return [random.standard_normal(shape, np.float32).astype(dtype) for shape in shapes]


def _psum(size: str, number: int, dtype: np.dtype[Any]) -> Iterator[Check]:
    rows, columns, inner = ((4, 16, 256), (127, 509, 513))[number]
    left, right = _draw(dtype, (inner, rows), (inner, columns))

    def product() -> tuple[np.ndarray, ...]:
        a, b = _wide(left, right)
        return (a.T @ b,)

    def narrowing() -> tuple[np.ndarray, ...]:
        a, b = _wide(left, right)
        total = np.zeros((rows, columns), np.float32)
        for index, first in enumerate(range(0, inner, PARTITIONS)):
            part = slice(index, columns - index)
            total[:, part] += a[first : first + PARTITIONS].T @ b[first : first + PARTITIONS, part]
        return (total,)

    yield Check("psum_side_by_side", size, (left, right), {"slices": (2, 5)[number]}, product)
    yield Check("psum_within", size, (left, right), {}, narrowing)


def _breakers(size: str, number: int, dtype: np.dtype[Any]) -> Iterator[Check]:
    """Return checks of kernels that deliberately violate rules (kernels/rule_breakers.py)."""
    (halves,) = _draw(dtype, ((3, 8), (127, 125))[number])
    (column,) = _draw(dtype, ((4, 1), (127, 1))[number])
    blocks, width = ((2, 16), (11, 4097))[number]  # in 32 bits, the second size takes most of SBUF
    (rows,) = _draw(dtype, (blocks * PARTITIONS, width))
    reversed_blocks = rows.reshape(blocks, PARTITIONS, width)[::-1].reshape(rows.shape)
    yield Check("psum_half_word", size, (halves,), {}, lambda: _wide(halves.T))
    yield Check("single_column", size, (column,), {}, lambda: (2 * column.astype(np.float32),))
    yield Check("sbuf_without_fallback", size, (rows,), {}, lambda: _wide(reversed_blocks))


def _of_family(family: str, shape: Mapping[str, Any], size: str, dtype: np.dtype[Any]) -> Check:
    case = kernel_case(family, {key: str(value) for key, value in shape.items()})
    arrays = case.arrays(dtype)
    return Check(case.kernel, size, arrays, case.parameters, lambda: (case.expected(arrays),))


def _ffnn_predict(size: str, number: int, dtype: np.dtype[Any]) -> Check:
    family = next(shapes[number] for name, *shapes, _ in _FAMILIES if name == "ffnn")
    forward = _of_family("ffnn", family, size, dtype)
    return Check(
        "ffnn_predict",
        size,
        forward.arrays,
        forward.parameters,
        lambda: (forward.expected()[0].argmax(axis=1).astype(np.int32),),
        scores=lambda: forward.expected()[0],
    )


def _convolutions(size: str, number: int, dtype: np.dtype[Any]) -> Iterator[Check]:
    """Return checks of convolutions on packed weights, as networks run them, with and without a sum."""
    batch, channels, out, side, stride = ((2, 4, 6, 8, 1), (3, 129, 131, 7, 2))[number]
    padding = (1, 1, 1, 1)
    layer = Conv2d("c", channels, out, (3, 3), padding, activation="relu", stride=(stride, stride))
    x, filters = _draw(dtype, (batch, channels, side, side), (out, channels, 3, 3))
    filters = (filters / np.sqrt(9 * channels)).astype(dtype)
    bias = np.linspace(-1, 1, out, dtype=np.float32)
    packed_filters = pack_conv2d(filters, bias)
    parameters = {
        "in_channels": channels,
        "kernel_size": (3, 3),
        "padding": padding,
        "stride": (stride, stride),
        "out_channels": out,
    }
    tensors = {"weight": filters.astype(np.float32), "bias": bias}
    (added,) = _draw(dtype, (batch, *layer.output_shape((channels, side, side))))

    def plain() -> tuple[np.ndarray, ...]:
        return (run_layer(layer, tensors, *_wide(x)),)

    def with_sum() -> tuple[np.ndarray, ...]:
        linear = Conv2d("c", channels, out, (3, 3), padding, stride=(stride, stride))
        return (run_layer(linear, tensors, *_wide(x)) + added.astype(np.float32),)

    yield Check("fused_conv2d_maxpool_packed", size, (x, *packed_filters), {**parameters, "activation": "relu"}, plain)
    yield Check("fused_conv2d_add_packed", size, (x, added, *packed_filters), parameters, with_sum)


def _layers(size: str, number: int, dtype: np.dtype[Any]) -> Iterator[Check]:
    """Return a check for every kind of layer as a separate program, to cover all branches of `run_network`."""
    for case in layer_checks.cases(number):
        arrays = tuple(_draw(dtype, *case.shapes))
        if case.positive:
            arrays = tuple((np.abs(array.astype(np.float32)) + 0.5).astype(dtype) for array in arrays)
        shapes = case.layer.tensor_shapes()
        random_operands = _draw(np.dtype(np.float32), *shapes.values())
        tensors = {name: tensor.astype(dtype).astype(np.float32) for name, tensor in zip(shapes, random_operands)}
        plan = case.plan(tensors, dtype)
        operands = {input_name(n): plan.arrange_input(n, array, dtype) for n, array in enumerate(arrays)}
        golden = _golden(case.layer, tensors, arrays, plan)
        scores = (lambda golden=golden: golden()[0]) if plan.program.operations[-1].has_scores else None
        yield Check(
            kernel="run_network",
            size=size,
            arrays=(),
            parameters={"program": plan.program},
            expected=golden,
            variant=case.name,
            scores=scores,
            named={**operands, **plan.layout.operands(dtype)},
        )


def _golden(
    layer: Layer, tensors: Mapping[str, np.ndarray], arrays: tuple[np.ndarray, ...], planned: LaunchPlan
) -> Callable[[], tuple[np.ndarray, ...]]:
    """Return a function that computes the outputs of a layer's launch: values, and the classes of scores."""

    def outputs() -> tuple[np.ndarray, ...]:
        layer_tensors = {name.partition(".")[2]: tensor for name, tensor in tensors.items()}
        values = run_layer(layer, layer_tensors, *_wide(*arrays))
        last = planned.program.operations[-1]
        if last.has_answers and not last.has_scores:
            return (values.reshape(len(values), *last.shape[1:]).astype(np.int32),)
        if not last.has_answers:
            return (values.reshape(len(values), *planned.graph.nodes[-1].operation.shape),)
        return values, values.argmax(axis=1).astype(np.int32)

    return outputs


def _residual(side: int, channels: int) -> tuple[Layer, ...]:
    """Return a network with a residual sum."""
    return (
        Conv2d(
            name="first",
            in_channels=1,
            out_channels=channels,
            kernel_size=(3, 3),
            padding=(1, 1, 1, 1),
            pool_size=2,
            activation="relu",
        ),
        Conv2d("second", channels, channels, (3, 3), (1, 1, 1, 1)),
        Combine("sum", "add", "relu", inputs=("second", "first")),
        Flatten("flat"),
        Dense("scores", channels * (side // 2) ** 2, 5),
        Softmax("softmax"),
    )


def _side_by_side(side: int, channels: int) -> tuple[Layer, ...]:
    """Return a network that concatenates the pixels of two values, as the heads of detectors do."""
    many, few = side**2, ceil_div(side, 2) ** 2
    return (
        Conv2d("fine", 1, channels, (1, 1)),
        Reshape("fine_pixels", (channels, 1, many)),
        Pad("left", (0, 0, 0, few)),
        Conv2d("coarse", 1, channels, (1, 1), stride=(2, 2), inputs=(INPUT,)),
        Reshape("coarse_pixels", (channels, 1, few)),
        Pad("right", (0, many, 0, 0)),
        Combine("pixels", "add", inputs=("left", "right")),
        Flatten("flat"),
        Dense("scores", channels * (many + few), 5),
        Softmax("softmax"),
    )


def _network(size: str, number: int, dtype: np.dtype[Any], make: Callable[[int, int], tuple[Layer, ...]]) -> Check:
    """Return the check of a network in a single launch."""
    side, channels, batch = ((6, 4, 2), (13, 17, 3))[number]
    layers = make(side, channels)
    image = ImageInput(1, side, side, "none", (0.0,), (1.0,))
    network = Network("check", image, layers, tuple("abcde"))
    shapes = {name: shape for layer in layers for name, shape in layer.tensor_shapes().items()}
    values = _draw(np.dtype(np.float32), *shapes.values())
    tensors = {
        name: (value / np.sqrt(max(1, value[0].size)) if value.ndim > 1 else value / 4).astype(dtype).astype(np.float32)
        for name, value in zip(shapes, values)
    }
    config = LoweringConfig(DEFAULT_TARGET, dtype.itemsize)
    (part,) = LaunchSequence(Model(network, tensors, {}), dtype, config, DEFAULT_LAUNCHES.instructions).segments
    plan = part.plan(batch)
    (x,) = _draw(dtype, (plan.images, 1, side, side))
    x[batch:] = 0  # padding
    padded_batch = round_up(batch, plan.program.operations[-1].packed)

    def probabilities() -> np.ndarray:
        return run_network(network, tensors, x[:padded_batch].astype(np.float32)).probabilities

    operands = {input_name(0): part.arrange(x, plan, dtype), **plan.layout.operands(dtype)}
    return Check(
        "run_network",
        size,
        (),
        {"program": plan.program},
        lambda: (probabilities(), probabilities().argmax(axis=1).astype(np.int32)),
        scores=probabilities,
        named=operands,
    )
