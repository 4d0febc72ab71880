"""The inputs of a graph (an image with channels first or last, a row, or an array), and views of them as the graph
expects."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..checks import INPUT
from ..errors import ModelError
from ..inputs import MAX_INPUTS, Input, NamedInput, PartInput, SeveralInputs
from ..layers import ChannelSlice
from .importer import Importer
from .onnx_attributes import axes_of, integer, padded_entries
from .onnx_cut import Cut
from .onnx_file import Graph, GraphInput, Node
from .onnx_scales import Scale, input_scale
from .picture import PreprocessingOptions, network_input
from .steps import affine_view
from .view import View

_COLOURS = (1, 3)

# Operators that may occur between the input and the node that determines its layout.
_BETWEEN = ("Identity", "Cast", "Sub", "Mul", "Add", "Div", "QuantizeLinear", "DequantizeLinear", "Dropout", "Clip")


@dataclass(frozen=True)
class SourcePart:
    """One input of a graph and the batch size.

    `view` maps the elements of the network's input to the axes of the graph. `batch` is None if the file leaves the
    size of the batch axis open. `scale` is the quantization scale of an integer input. For `inner`, see `assumed`.
    """

    name: str
    dtype: np.dtype[Any]
    input: PartInput
    view: View
    batch: int | None
    inner: tuple[float, float] | None = None
    scale: Scale | None = None


@dataclass(frozen=True)
class GraphSource:
    """The inputs of a graph."""

    parts: tuple[SourcePart, ...]

    @property
    def input(self) -> Input:
        """The input of the network."""
        if len(self.parts) == 1:
            return self.parts[0].input
        return SeveralInputs(tuple(NamedInput(part.name, part.input) for part in self.parts))

    @property
    def batch(self) -> int:
        """The size of the batch axis, or 1 if it is not fixed."""
        return self.fixed_batch or 1

    @property
    def fixed_batch(self) -> int | None:
        """The size of the batch axis, or None if no input fixes it."""
        return max((part.batch for part in self.parts if part.batch is not None), default=None)

    def views(self, importer: Importer) -> dict[str, View]:
        """Return the view of each input, keyed by name; if there are several inputs, they are slices of one row."""
        source, views = self.input, {}
        for part in self.parts:
            view = part.view
            if isinstance(source, SeveralInputs):
                first, last = source.span(part.name)
                layer = ChannelSlice(importer.name("input"), first, last, inputs=(INPUT,))
                view = dataclasses.replace(view, layer=importer.add(layer).layer)
            if part.scale is not None:
                scale = np.full(1, part.scale.scale)
                view = affine_view(importer, view, scale, -part.scale.zero * scale)
            views[part.name] = view
        return views


def graph_input(graph: Graph, part: Cut, options: PreprocessingOptions) -> GraphSource:
    """Return the inputs of a graph; raise ModelError if one is not supported."""
    if len(part.sources) > MAX_INPUTS:
        raise ModelError(f"the network has {len(part.sources)} inputs; at most {MAX_INPUTS} are allowed")
    entries = {entry.name: entry for entry in graph.inputs}
    several = len(part.sources) > 1
    return GraphSource(tuple(_source(graph, part, entries[name], options, several) for name in part.sources))


def _source(
    graph: Graph, part: Cut, given: GraphInput, options: PreprocessingOptions, is_one_of_several: bool
) -> SourcePart:
    """Return one input of a graph; with several inputs, picture options apply only to pictures."""
    nodes, weights = part.nodes, {name: value.shape for name, value in graph.constants.items()}
    dtype = _known_dtype(given)
    scale = input_scale(nodes, graph.constants, given.name) if dtype.kind in "iu" else None
    sizes, batched = _sizes_of_input(graph, part, given)
    batch = sizes.pop(0) if batched else 1
    if len(sizes) == 4:
        return _volume(given, dtype, sizes, options, batch, scale)
    layout = _layout(sizes, nodes, weights, given.name)
    if _is_row(sizes, options, is_one_of_several) and _first(nodes, weights, given.name) not in ("Conv", "NHWC"):
        axes = tuple(size or 1 for size in sizes)
        row = network_input((math.prod(axes),), PreprocessingOptions())
        input_view = View.of(INPUT, row.shape).reshaped(axes, batched)
        return SourcePart(given.name, dtype, row, input_view, batch, scale=scale)
    shape = _fixed(given.name, sizes, layout, options)
    if len(shape) == 1:
        source = network_input(shape, PreprocessingOptions() if is_one_of_several else options)
        return SourcePart(given.name, dtype, source, View.of(INPUT, source.shape, batched), batch, scale=scale)
    extents = dict(zip(layout, shape))
    image = (extents.get("C", 1), extents.get("H", 1), extents.get("W", 1))
    inner = None
    if image[0] in _COLOURS and not any((options.input_range, options.mean, options.std)):
        inner = _inner_range(graph, part, given)
        options = dataclasses.replace(options, input_range=inner)
    source = network_input(image, options, layout)
    image_view = View.of(INPUT, image, batched)
    input_view = image_view.permuted(tuple("CHW".index(axis) for axis in layout))
    return SourcePart(
        name=given.name, dtype=dtype, input=source, view=input_view, batch=batch, inner=inner, scale=scale
    )


def _volume(
    given: GraphInput,
    dtype: np.dtype[Any],
    sizes: list[int | None],
    options: PreprocessingOptions,
    batch: int | None,
    scale: Scale | None,
) -> SourcePart:
    """Return an input of volumes, [C, D, H, W], as an image with C x D channels."""
    channels, depth, *sides = sizes
    height, width = _fixed(given.name, list(sides), "HW", options)
    if channels is None or depth is None:
        raise ModelError(
            f"its input {given.name!r} has a variable number of channels or depth; export the network with fixed sizes"
        )
    source = network_input((channels * depth, height, width), options)
    view = View.of(INPUT, source.shape, True).reshaped((channels, depth, height, width), True)
    return SourcePart(given.name, dtype, source, view, batch, scale=scale)


def _known_dtype(given: GraphInput) -> np.dtype[Any]:
    if given.dtype is None:
        raise ModelError(
            f"its input {given.name!r} is of type {given.type_name or 'unknown'}; integers "
            "and floats of 8 to 64 bits are supported"
        )
    return given.dtype


def _sizes_of_input(graph: Graph, part: Cut, given: GraphInput) -> tuple[list[int | None], bool]:
    """Return the sizes of an input, and whether the first one is the batch size."""
    sizes = list(given.shape)
    if None in sizes:
        sizes = _sizes_by_weights(sizes, part, graph.constants, given.name)
    if _is_column(sizes, part, graph.constants, given.name):
        return [sizes[0], 1], False
    weights = {name: value.shape for name, value in graph.constants.items()}
    batched = _is_batched(sizes, part.nodes, weights, given.name) and not _is_made_one(graph, part, given)
    return sizes, batched or sizes == [None]  # [None]: one number per example


def _sizes_by_weights(
    sizes: list[int | None], part: Cut, constants: Mapping[str, np.ndarray], name: str
) -> list[int | None]:
    """Fill in the number of channels or features from the first weights if the input does not fix it."""
    node, names = _first_reader(part.nodes, name, (*_BETWEEN, "Transpose", "Pad"))
    weight = constants.get(node.inputs[1]) if node is not None and len(node.inputs) > 1 else None
    if node is None or weight is None:
        return sizes
    known = list(sizes)
    if node.op.endswith("Conv") and weight.ndim == len(sizes) and len(sizes) > 2:
        axis = len(sizes) - 1 if _first(part.nodes, {}, name) == "NHWC" else 1
        pads = [other for other in part.nodes if other.op == "Pad" and other.inputs[0] in names]
        added = sum(_padded(pad, constants, axis, len(sizes)) for pad in pads)
        known[axis] = known[axis] or weight.shape[1] * integer(node, "group", 1) - added
    elif node.op == "BatchNormalization" and len(sizes) > 1:
        known[1] = known[1] or len(weight)
    elif node.op in ("Gemm", "MatMul") and weight.ndim == 2:
        known[-1] = known[-1] or weight.shape[bool(integer(node, "transB", 0))]
    return known


def _padded(pad: Node, constants: Mapping[str, np.ndarray], axis: int, rank: int) -> int:
    """Return the number of entries that a Pad adds along an axis of its input, or 0 if its pads are not constant."""
    try:
        pads = padded_entries(pad, [constants.get(name) for name in pad.inputs], rank)
    except ModelError:  # reported when the node is imported
        return 0
    return pads[axis] + pads[axis + rank]


def _is_row(sizes: list[int | None], options: PreprocessingOptions, is_one_of_several: bool) -> bool:
    """Return True if an example is a row of features, that is, if at most one of its axes is longer than 1."""
    known = [size for size in sizes if size is not None]
    long = [size for size in known if size > 1]
    is_stated = options.is_given and not is_one_of_several
    return len(sizes) != 1 and known == sizes and len(long) <= 1 and not is_stated


def _is_batched(sizes: list[int | None], nodes: Sequence[Node], weights: dict[str, tuple[int, ...]], name: str) -> bool:
    """Return True if the first axis is the batch axis."""
    if len(sizes) > 5:
        raise ModelError(
            f"its input {name!r} has {len(sizes)} dimensions; up to 5 are supported, with or without a batch"
        )
    if len(sizes) == 3:
        first = sizes[0]
        convolved = _first(nodes, weights, name) == "Conv"
        return first is None or convolved or first not in _COLOURS
    return len(sizes) > 1


def _is_made_one(graph: Graph, part: Cut, given: GraphInput) -> bool:
    """Return True if the first node reshapes an input of fixed size, without a batch axis, to a single example [1,
    ...]."""
    first = next((node for node in part.nodes if given.name in node.inputs), None)
    if first is None or None in given.shape or len(given.shape) not in (2, 3) or given.shape[0] == 1:
        return False
    if first.op == "Unsqueeze":
        return 0 in (axes_of(first, [graph.constants.get(name) for name in first.inputs]) or ())
    target = graph.constants.get(first.inputs[1]) if first.op == "Reshape" and len(first.inputs) > 1 else None
    if target is None or target.ndim != 1 or not len(target):
        return False
    sizes = [int(size) for size in target]
    return (sizes[0] == 1 or len(sizes) == 1) and 0 not in sizes


def _is_column(sizes: Sequence[int | None], part: Cut, constants: Mapping[str, np.ndarray], name: str) -> bool:
    """Return True if the first operation multiplies the input, [features, columns], by weights from the left."""
    node, names = _first_reader(part.nodes, name, _BETWEEN)
    if len(sizes) != 2 or node is None:
        return False
    if node.op == "Gemm" and node.inputs[0] in names:
        return bool(integer(node, "transA", 0))
    is_left = node.op in ("MatMul", "Gemm") and len(node.inputs) > 1 and node.inputs[1] in names
    weight = constants.get(node.inputs[0]) if is_left and not integer(node, "transB", 0) else None
    columns = None if weight is None else weight.shape[-2 if integer(node, "transA", 0) else -1]
    return columns is not None and sizes[0] in (None, columns) and sizes[1] in (None, 1)


def _layout(sizes: list[int | None], nodes: Sequence[Node], weights: dict[str, tuple[int, ...]], name: str) -> str:
    """Return the names of the axes of one example: "CHW", "HWC", "HW" or "CW", or an empty string for a row."""
    if len(sizes) < 2:
        return ""
    first = _first(nodes, weights, name)
    if len(sizes) == 2:
        return "CW" if first == "Conv" else "HW"
    if first in ("Conv", "NHWC"):
        return "HWC" if first == "NHWC" else "CHW"
    return "HWC" if sizes[2] in _COLOURS and sizes[0] not in _COLOURS else "CHW"


def _first(nodes: Sequence[Node], weights: dict[str, tuple[int, ...]], name: str) -> str:
    """Return the operation that determines the layout: "Conv", "NHWC" (a transpose to channels first) or another."""
    node, _ = _first_reader(nodes, name, _BETWEEN)
    if node is None:
        return ""
    if node.op == "Transpose" and node.attributes.get("perm") == (0, 3, 1, 2):
        return "NHWC"
    rank = len(weights.get(node.inputs[1], ())) if len(node.inputs) > 1 else 0
    return "Conv" if node.op.endswith("Conv") and rank in (0, 3, 4, 5) else node.op


def _first_reader(nodes: Sequence[Node], name: str, between: Collection[str]) -> tuple[Node | None, set[str]]:
    """Return the first node that reads more of a value than its shape, skipping the operators in `between`, and all
    names under which the value is passed on."""
    names = {name}
    for node in nodes:
        if names.isdisjoint(node.inputs) or node.op in ("Shape", "Size"):
            continue
        if node.op not in between:
            return node, names
        names.update(node.outputs)
    return None, names


def _fixed(name: str, sizes: list[int | None], layout: str, options: PreprocessingOptions) -> tuple[int, ...]:
    """Return the sizes, with unknown ones taken from the options; raise ModelError if that is not possible."""
    stated = dict(zip("HW", options.size or ()))
    usual = {**dict(zip("HW", options.usual_size or ())), **stated}
    result = []
    for axis, size in zip(layout or "F", sizes):
        if size is None or (axis in stated and stated[axis] == size):
            size = usual.get(axis, size)
        elif axis in stated:
            raise ModelError(f"its input {name!r} is fixed at {size}, not {stated[axis]}; omit --input-size")
        if size is None:
            advice = "set them with --input-size HxW" if axis in "HW" else "export it with fixed sizes"
            raise ModelError(f"its input {name!r} has variable sizes; {advice}")
        result.append(size)
    if math.prod(result) < 1:
        raise ModelError(f"its input {name!r} is empty")
    return tuple(result)


def _inner_range(graph: Graph, part: Cut, given: GraphInput) -> tuple[float, float] | None:
    """Return the range of pixel values that the graph expects, if it starts with preprocessing arithmetic.

    A graph expects pixels from 0 to 255 if they are integers (uint8), or if its arithmetic begins by subtracting
    or dividing by more than 2, or by multiplying by less than 0.1. Otherwise, it expects pixels from 0 to 1.
    """
    if given.dtype is not None and given.dtype.kind in "iu":
        return (-128.0, 127.0) if given.dtype == np.int8 else (0.0, 255.0)
    node, _ = _first_reader(part.nodes, given.name, ("Identity", "Cast", "Transpose", "Reshape"))
    if node is None or node.op not in ("Sub", "Div", "Mul", "Add"):
        return None
    values = [graph.constants[name] for name in node.inputs if name in graph.constants]
    if not values or not values[0].size:
        return None
    largest = float(np.abs(np.asarray(values[0], np.float64)).max())
    wide = largest < 0.1 if node.op == "Mul" else largest > 2
    return (0.0, 255.0) if wide else (0.0, 1.0)
