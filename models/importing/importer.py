"""The state of an import: the layers so far, and each value of the graph as a constant or a view of a layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np

from ..checks import Shape
from ..errors import ModelError
from ..layers import Layer
from .builder import NetworkBuilder
from .onnx_file import Node
from .view import View

MOVES_AXES = (
    "Gather",
    "GatherND",
    "Reshape",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
)  # they determine `View.place` themselves


class Importer:
    """Access to the inputs and outputs of operators. The methods raise ModelError for unsupported values."""

    def __init__(
        self,
        builder: NetworkBuilder,
        constants: Mapping[str, np.ndarray],
        views: Mapping[str, View],
        wanted: Set[str],
        batch: int | None,
        opset: int,
    ) -> None:
        self.builder = builder
        self.constants = dict(constants)
        self.literals = frozenset(constants)  # constants of the file itself, which do not depend on any shape
        self.views = dict(views)
        self.wanted = wanted  # names of the values that are read
        self.batch = batch or 1  # size of the batch axis, or 1 if it is not fixed
        self.is_open = batch is None  # True if the file does not fix the size of the batch axis
        self.doubt = ""  # the reason why the import has to be compared with ONNX Runtime, if any
        self.mixes_inputs = False  # True if a node of the file computes an input from others of the batch
        self.is_quantized = False  # True if the file rounds to integers, which the network does not
        self.opset = opset
        self.readers: Mapping[str, Sequence[Node]] = {}  # the nodes that read each value
        self.values: set[str] = set()  # layers known to compute values, not scores
        self.lengths: dict[str, int] = {}  # number of entries of each list of tensors (expansions.py)
        self.scores: dict[str, Any] = {}  # products of two values (scores.py), by the layer name in their views
        self.products: dict[str, View] = {}  # scores that are computed by separate layers (products.py)
        self.notes: list[str] = []  # notes for the user, without duplicates

    def knows(self, name: str) -> bool:
        """Return whether a name is that of a value: data, a constant, or a list of tensors."""
        return name in self.views or name in self.constants or name in self.lengths

    def note(self, text: str) -> None:
        """Add a note unless it is already present."""
        if text not in self.notes:
            self.notes.append(text)

    def data(self, node: Node, position: int = 0) -> View:
        """Return an input that depends on the network's input."""
        name = node.inputs[position] if position < len(node.inputs) else ""
        if name not in self.views:
            raise ModelError(
                f"its input number {position + 1} is {'constant' if name in self.constants else 'missing'}"
            )
        return self.views[name]

    def image(self, node: Node) -> View:
        """Return the first input as [batch, channels, ...]."""
        view = self.data(node).with_batch()
        if not view.batched or len(view.axes) not in (2, 3):
            raise ModelError(f"expects images, but its input is {self.describe(view)}")
        return view

    def constant(self, node: Node, position: int) -> np.ndarray | None:
        """Return a constant input unchanged, or None if it is omitted."""
        name = node.inputs[position] if position < len(node.inputs) else ""
        if name in self.views:
            raise ModelError(f"its input number {position + 1} depends on the network's input; it must be a constant")
        if name and name not in self.constants:
            raise ModelError(f"its input {name!r} has an unsupported type")
        return self.constants.get(name)

    def weight(self, node: Node, position: int, ranks: tuple[int, ...] | range = range(9)) -> np.ndarray:
        """Return a constant input as float32."""
        values = self.constant(node, position)
        if values is None:
            raise ModelError(f"its input number {position + 1} is missing")
        if values.ndim not in ranks or values.dtype.kind in "iub" or not values.size:
            raise ModelError(
                f"its weight {node.inputs[position]!r}, {values.dtype} of shape {list(values.shape)}, is not supported"
            )
        with np.errstate(over="ignore"):  # values outside the range of float32 become infinite and are rejected later
            return values.astype(np.float32, copy=False)

    def optional(self, node: Node, position: int, ranks: tuple[int, ...] | range = range(9)) -> np.ndarray | None:
        """Return a constant input as float32, or None if it is omitted."""
        return None if self.constant(node, position) is None else self.weight(node, position, ranks)

    def scalar(self, node: Node, position: int, default: float) -> float:
        """Return a constant input that is a single number."""
        values = self.constant(node, position)
        if values is None:
            return default
        if values.size != 1:
            raise ModelError(f"its input number {position + 1} is not a scalar")
        return float(values.ravel()[0])

    def give(self, node: Node, value: View | np.ndarray, position: int = 0) -> None:
        """Set the value of one output of a node."""
        if position < len(node.outputs) and node.outputs[position]:
            if isinstance(value, View) and self.stacks_batch(value) and node.op not in MOVES_AXES:
                value = self._stacked_alike(node, value)
            if isinstance(value, View) and self.stacks_batch(value):
                self.doubt = f"its axes stack the inputs of a batch of {self.batch}"
            target: dict[str, View] | dict[str, np.ndarray] = self.views if isinstance(value, View) else self.constants
            target[node.outputs[position]] = value  # type: ignore[assignment]

    def _stacked_alike(self, node: Node, value: View) -> View:
        """Return an output of a node in which the inputs of a batch are on the axis along which an operand stacks
        them."""
        operands = [self.views[name] for name in node.inputs if name in self.views]
        alike = [view for view in operands if not view.batched and view.rank == value.rank]
        like = max(alike, key=lambda view: (view.place, view.outside), default=value)
        return replace(value, place=like.place, outside=like.outside)

    def add(self, layer: Layer, tensors: Mapping[str, np.ndarray] | None = None) -> View:
        """Append a layer and return a view of its output."""
        name = self.builder.add(layer, tensors)
        return View.of(name, self.builder.shapes[name])

    def name(self, stem: str) -> str:
        """Return an unused layer name that starts with `stem`."""
        return self.builder.name(stem)

    def shape(self, view: View) -> Shape:
        """Return the output shape of the view's layer."""
        return self.builder.shapes[view.layer]

    def planes(self, view: View) -> str:
        """Return the layer that outputs a view [batch, C, H, W] or [batch, C, L] as (C, H, W), with H = 1 if absent."""
        return self.builder.arrange(view, _with_height(view.shape))

    def rows(self, view: View) -> str:
        """Return the layer that outputs the elements of a view as features, in logical order."""
        size = int(np.prod(view.shape, dtype=np.int64))
        return self.builder.arrange(view, (size,))

    def axis(self, view: View, axis: int) -> int:
        """Convert an ONNX axis to an axis of the view, which excludes the batch. Raises ModelError for the batch
        axis."""
        if not -view.rank <= axis < view.rank:
            raise ModelError(f"axis {axis} is out of bounds for an input of shape {self.describe(view)}")
        inner = axis % view.rank - view.batched
        if inner < 0 or (inner == view.place and self.stacks_batch(view)):
            raise ModelError("cannot operate along the batch axis, because this would mix separate inputs")
        return inner

    def single(self, view: View) -> View:
        """Return a view with the batch as an ordinary axis of size 1, for operators that move it."""
        if not view.batched:
            return view
        return View(view.layer, ((), *view.axes), False)

    def stacks_batch(self, view: View) -> bool:
        """True if an axis of the view has the parts of all inputs of a batch, such as windows of tokens, in the file.

        This is possible only if the file has a fixed batch size greater than 1; the view has the parts of one input.
        """
        return self.batch > 1 and not view.batched

    def extents(self, view: View) -> Shape:
        """Return the shape of a view in the file, including the batch."""
        if view.batched:
            return (self.batch, *view.shape)
        return tuple(size * (self.batch if axis == view.place else 1) for axis, size in enumerate(view.shape))

    def of_one_input(self, view: View, values: np.ndarray) -> np.ndarray:
        """Return the part of a constant that belongs to one input, if a file with a fixed batch repeats it for each.

        The constant has as many axes as the view has in the file. It is returned unchanged if it differs between
        inputs.
        """
        place = 0 if view.batched else view.place
        if self.batch == 1 or values.ndim != view.rank or not values.size or values.shape[place] % self.batch:
            return values
        first, *others = np.split(values, self.batch, axis=place)
        alike = (np.allclose(first, other, rtol=1e-6, atol=1e-7, equal_nan=True) for other in others)
        return first if all(alike) else values  # angles differ by rounding: vector instructions compute most of them

    def with_axis(self, view: View, axis: int, node: Node) -> View:
        """Return a view in which an operator's axis is an ordinary axis. If it is the batch axis, its size is 1."""
        if not view.batched or axis not in (0, -view.rank):
            return view
        return self.own_batch(view, node) if self.is_open else self.single(view)

    def own_batch(self, view: View, node: Node) -> View:
        """Return the view of `single`, and add a note that the node mixes the inputs of a batch in the file."""
        self.mixes_inputs = True
        self.note(f"{node} mixes the inputs of a batch; each input is computed as a separate batch")
        return self.single(view)

    def describe(self, view: View) -> str:
        """Return the shape of a view in ONNX's order, for use in messages."""
        sizes = [*(["batch"] if view.batched else []), *map(str, self.extents(view)[view.batched :])]
        return f"[{', '.join(sizes)}]"


def without_height(view: View, rank: int) -> View:
    """Return a view of a layer's output (C, H, W) with `rank` axes. If `rank` is 2, the height of 1 that was added for
    the layer is removed."""
    return view if rank == 3 else View(view.layer, (view.axes[0], view.axes[2]), view.batched)


def _with_height(shape: Shape) -> Shape:
    return shape if len(shape) == 3 else (shape[0], 1, shape[1])
