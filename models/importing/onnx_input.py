"""What a graph reads: an image with its channels first or last, a row, an array; and how the graph sees it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..checks import INPUT
from ..errors import ModelError
from ..inputs import Input
from .onnx_file import Graph, GraphInput, Node
from .onnx_graph import Cut
from .picture import PreprocessingOptions, network_input
from .view import View

_COLOURS = (1, 3)

# What may stand between the input and the step that tells its layout.
_BETWEEN = ("Identity", "Cast", "Sub", "Mul", "Add", "Div", "QuantizeLinear", "DequantizeLinear", "Dropout", "Clip")


@dataclass(frozen=True)
class GraphSource:
    """The network's input, how the graph sees it, and entries of its batch; see `assumed` for `inner`."""

    input: Input
    view: View
    batch: int
    inner: tuple[float, float] | None = None


def graph_input(graph: Graph, part: Cut, options: PreprocessingOptions) -> GraphSource:
    """What a graph reads; ModelError for what cannot be read."""
    given = next(entry for entry in graph.inputs if entry.name == part.source)
    nodes, weights = part.nodes, {name: value.shape for name, value in graph.constants.items()}
    if given.dtype is None:
        raise ModelError(f"its input {given.name!r} is no tensor of numbers")
    sizes = list(given.shape)
    batched = _is_batched(sizes, nodes, weights, given.name) and not _is_made_one(graph, part, given)
    batch = (sizes.pop(0) or 1) if batched else 1
    layout = _layout(sizes, nodes, weights, given.name)
    if _is_row(sizes, options) and _first(nodes, weights, given.name) not in ("Conv", "NHWC"):
        row = network_input((math.prod(size or 1 for size in sizes),), options)
        seen = View.of(INPUT, row.shape).reshaped(tuple(size or 1 for size in sizes), batched)
        return GraphSource(row, seen, batch)
    shape = _fixed(given.name, sizes, layout, options)
    if len(shape) == 1:
        source = network_input(shape, options)
        return GraphSource(source, View.of(INPUT, source.shape, batched), batch)
    extents = dict(zip(layout, shape))
    image = (extents.get("C", 1), extents.get("H", 1), extents.get("W", 1))
    inner = None
    if image[0] in _COLOURS and not (options.input_range or options.mean or options.std):
        inner = _inner_range(graph, part, given)
        options = dataclasses.replace(options, input_range=inner)
    source = network_input(image, options, layout)
    whole = View.of(INPUT, image, batched)
    return GraphSource(source, whole.permuted(tuple("CHW".index(axis) for axis in layout)), batch, inner)


def _is_row(sizes: list[int | None], options: PreprocessingOptions) -> bool:
    """Whether an example of several axes is a row of features: no more than one axis is longer than 1."""
    known = [size for size in sizes if size is not None]
    long = [size for size in known if size > 1]
    return len(sizes) > 1 and known == sizes and len(long) <= 1 and not options.told


def _is_batched(sizes: list[int | None], nodes: Sequence[Node], weights: dict[str, tuple[int, ...]], name: str) -> bool:
    """Whether the first axis is that of the batch."""
    if len(sizes) not in (1, 2, 3, 4):
        raise ModelError(
            f"its input {name!r} has {len(sizes)} dimensions; 1 to 4 are supported, with or without a batch"
        )
    if len(sizes) == 3:
        first = sizes[0]
        convolved = _first(nodes, weights, name) == "Conv"
        return first is None or convolved or first not in _COLOURS
    return len(sizes) > 1


def _is_made_one(graph: Graph, part: Cut, given: GraphInput) -> bool:
    """Whether the first step makes one example, [1, ...], of a whole input of fixed sizes: an image without a batch."""
    first = next((node for node in part.nodes if given.name in node.inputs), None)
    target = graph.constants.get(first.inputs[1]) if first and first.op == "Reshape" and len(first.inputs) > 1 else None
    if target is None or target.ndim != 1 or len(target) < 3 or None in given.shape or len(given.shape) not in (2, 3):
        return False
    sizes = [int(size) for size in target]
    return given.shape[0] != 1 and sizes[0] == 1 and 0 not in sizes


def _layout(sizes: list[int | None], nodes: Sequence[Node], weights: dict[str, tuple[int, ...]], name: str) -> str:
    """The axes of one example by name: "CHW", "HWC", "HW", "CW"; nothing for a row."""
    if len(sizes) == 1:
        return ""
    first = _first(nodes, weights, name)
    if len(sizes) == 2:
        return "CW" if first == "Conv" else "HW"
    if first in ("Conv", "NHWC"):
        return "HWC" if first == "NHWC" else "CHW"
    return "HWC" if sizes[2] in _COLOURS and sizes[0] not in _COLOURS else "CHW"


def _first(nodes: Sequence[Node], weights: dict[str, tuple[int, ...]], name: str) -> str:
    """The first step that tells the layout of the input: "Conv", "NHWC" (a transpose to channels first), or another."""
    names = {name}
    for node in nodes:
        if not names.intersection(node.inputs):
            continue
        if node.op == "Transpose" and node.attributes.get("perm") == (0, 3, 1, 2):
            return "NHWC"
        if node.op in _BETWEEN:
            names.update(node.outputs)
            continue
        if node.op.endswith("Conv"):
            rank = len(weights.get(node.inputs[1], ())) if len(node.inputs) > 1 else 0
            return "Conv" if rank in (0, 3, 4) else node.op
        return node.op
    return ""


def _fixed(name: str, sizes: list[int | None], layout: str, options: PreprocessingOptions) -> tuple[int, ...]:
    """The sizes with those that are not fixed filled in from the options; ModelError where that cannot be."""
    told = dict(zip("HW", options.size or ()))
    result = []
    for axis, size in zip(layout or "F", sizes):
        if size is None or (axis in told and told[axis] == size):
            size = told.get(axis, size)
        elif axis in told:
            raise ModelError(f"its input {name!r} is fixed at {size}, not {told[axis]}; leave --input-size out")
        if size is None:
            advice = "give them with --input-size HxW" if axis in "HW" else "export it with fixed ones"
            raise ModelError(f"its input {name!r} has sizes that are not fixed: {advice}")
        result.append(size)
    if math.prod(result) < 1:
        raise ModelError(f"its input {name!r} is empty")
    return tuple(result)


def _inner_range(graph: Graph, part: Cut, given: GraphInput) -> tuple[float, float] | None:
    """The range of pixels for which the graph's first steps are made, where it starts with arithmetic of its own.

    Whole numbers (uint8), less more than 2 or by more than 2: pixels of 0 to 255; other arithmetic: of 0 to 1.
    """
    names, found = {part.source}, None
    for node in part.nodes:
        if not names.intersection(node.inputs):
            continue
        if node.op in ("Identity", "Cast", "Transpose", "Reshape"):
            names.update(node.outputs)
            continue
        values = [graph.constants[name] for name in node.inputs if name in graph.constants]
        if node.op in ("Sub", "Div", "Mul", "Add") and values and values[0].size:
            largest = float(np.abs(np.asarray(values[0], np.float64)).max())
            wide = largest < 0.1 if node.op == "Mul" else largest > 2
            found = (0.0, 255.0) if wide else (0.0, 1.0)
        break
    if given.dtype is not None and given.dtype.kind in "iu":
        return (0.0, 255.0)
    return found
