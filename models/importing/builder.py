"""A network under construction: its layers, tensors and shapes, and layers that make views contiguous."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ..checks import INPUT, MAX_ELEMENTS, MAX_LABELS, Shape, describe_shape
from ..errors import ModelError
from ..inputs import Input
from ..layers import MAX_AXES, Affine, ChannelShuffle, Concat, Flatten, Layer, Reshape, Transpose
from ..network import Network
from ..outputs import MAX_VALUES, NamedOutput, Output
from .fold import MAX_PARAMETERS
from .fuse import fuse_layers
from .view import View

MAX_ADDED = 4_000  # maximum number of layers before merging
MAX_NAME = 200  # maximum length of an output name


@dataclasses.dataclass(frozen=True)
class BuiltOutput:
    """An output during the import: its name, its layer, the shape of one example in the file, and its meaning.

    `view` is the output's view of the layer that computes it. `classes` is the number of classes of a map, whose shape
    is (rows, columns).
    """

    name: str
    layer: str
    shape: Shape
    output: Output
    view: View | None = None
    classes: int = 0

    @property
    def label_count(self) -> int:
        """The number of labels that the output requires or may have."""
        head = self.output.boxes
        return head.classes if head is not None else self.classes or math.prod(self.shape)


class NetworkBuilder:
    """Builder that collects layers with numbered names, and their tensors.

    Its methods raise ModelError if the arguments are not compatible.
    """

    def __init__(self, source: Input) -> None:
        self.input = source
        self.layers: dict[str, Layer] = {}
        self.tensors: dict[str, np.ndarray] = {}
        self.shapes: dict[str, Shape] = {INPUT: source.shape}
        self._parameters = 0
        self._names: Counter[str] = Counter()
        self._arranged: dict[tuple[View, Shape], str] = {}

    def name(self, stem: str) -> str:
        """Return an unused layer name that starts with `stem`."""
        self._names[stem] += 1
        return f"{stem}{self._names[stem]}"

    def add(self, layer: Layer, tensors: Mapping[str, np.ndarray] | None = None) -> str:
        """Append a layer with its tensors, keyed by the last part of their names, and return its name."""
        shape = layer.output_shape(*(self.shapes[name] for name in layer.inputs))
        if math.prod(shape) > MAX_ELEMENTS:
            raise ModelError(f"outputs {describe_shape(shape)}, which is too large")
        if len(self.layers) >= MAX_ADDED:
            raise ModelError(f"the network has more than {MAX_ADDED} layers")
        named_tensors = {f"{layer.name}.{part}": tensor for part, tensor in (tensors or {}).items()}
        for name, expected in layer.tensor_shapes().items():
            if named_tensors[name].shape != expected:
                raise ModelError(
                    f"its {name.rsplit('.', 1)[1]} has shape {list(named_tensors[name].shape)}; "
                    f"expected {list(expected)}"
                )
            self._parameters += named_tensors[name].size
        if self._parameters > MAX_PARAMETERS:
            raise ModelError(f"the network has more than {MAX_PARAMETERS} weights")
        with np.errstate(over="ignore"):  # values outside the range of float32 become infinite and are rejected later
            self.tensors |= {name: np.ascontiguousarray(tensor, np.float32) for name, tensor in named_tensors.items()}
        self.layers[layer.name] = layer
        self.shapes[layer.name] = shape
        return layer.name

    def arrange(self, view: View, shape: Shape) -> str:
        """Return a layer that outputs the elements of a view in logical order, in `shape`; add one if necessary."""
        arrangement = view.arrangement()
        while arrangement is not None and len(arrangement[0]) > MAX_AXES:
            view = self._with_an_axis_less(view, *arrangement)
            arrangement = view.arrangement()
        if arrangement is None and self.shapes[view.layer] == shape:
            return view.layer
        key = (dataclasses.replace(view, batched=True), shape)
        if key not in self._arranged:
            self._arranged[key] = self.add(self._arranging(view, shape, arrangement))
        return self._arranged[key]

    def _with_an_axis_less(self, view: View, split: Shape, order: tuple[int, ...]) -> View:
        """Return a view of the same elements with the innermost axes merged into one contiguous axis."""
        before, last = order[-2:]
        memory = [axis for axis in range(len(split)) if axis != last]
        memory.insert(memory.index(before) + 1, last)
        moved = View.of(view.layer, split).permuted(tuple(memory))
        layer = self.arrange(moved, self.shapes[view.layer])
        return View.of(layer, moved.shape).permuted(tuple(memory.index(axis) for axis in order))

    def _arranging(self, view: View, shape: Shape, arrangement: tuple[Shape, tuple[int, ...]] | None) -> Layer:
        inputs = (view.layer,)
        if arrangement is None:
            if len(shape) == 1:
                return Flatten(self.name("flatten"), inputs=inputs)
            return Reshape(self.name("reshape"), shape, inputs=inputs)
        split, order = arrangement
        if order[:2] == (1, 0) and order[2:] == tuple(range(2, len(order))) and shape == self.shapes[view.layer]:
            pixels = math.prod(shape[1:])
            if math.prod(split[2:]) == pixels and len(shape) == 3:
                return ChannelShuffle(self.name("shuffle"), split[0], inputs=inputs)
        return Transpose(self.name("transpose"), split, order, shape, inputs=inputs)

    def _chance_and_rest(self, last: str) -> str:
        """Add layers that compute 1 - p and p from p, the probability of the second of two classes."""
        rest = Affine(self.name("rest"), (1,), inputs=(last,))
        self.add(rest, {"scale": -np.ones(1), "shift": np.ones(1)})
        return self.add(Concat(self.name("classes"), inputs=(rest.name, last)))

    def finish(
        self, name: str, outputs: Sequence[BuiltOutput], labels: tuple[str, ...] | None
    ) -> tuple[Network, dict[str, np.ndarray]]:
        """Return the network with these outputs, the first of which is the primary one, and its tensors.

        `labels` are the labels of the primary output; by default, classes are numbered. A single probability with two
        labels is the probability of the second.
        """
        outputs = [self._as_features(built) for built in outputs]
        leading, output = outputs[0], outputs[0].output
        shape = leading.shape
        if labels is not None and len(labels) == 2 and (output.kind, math.prod(shape)) == ("sigmoid", 1):
            leading = dataclasses.replace(leading, layer=self._chance_and_rest(leading.layer), shape=(2,))
            shape, output = (2,), Output("classes", "softmax")
        output_layers = (leading.layer, *(built.layer for built in outputs[1:]))
        with np.errstate(all="ignore"):  # infinite weights are refused later
            layers, tensors, output_names = fuse_layers(
                tuple(self.layers.values()), self.tensors, self.shapes, output_layers
            )
        others = tuple(
            NamedOutput(_printable(built.name), layer, built.shape, built.output, _labels(built))
            for built, layer in zip(outputs[1:], output_names[1:])
        )
        leading = dataclasses.replace(leading, shape=shape, output=output)
        labels = _labels(leading) if labels is None else labels
        is_told = others or output.kind in ("boxes", "map") or (output.kind == "values" and len(shape) > 1)
        output_fields = (others, _printable(leading.name), shape) if is_told else ()
        return Network(name, self.input, layers, labels, output, *output_fields), tensors

    def _as_features(self, built: BuiltOutput) -> BuiltOutput:
        """Return the output with a layer that outputs features; raise ModelError if there are too many."""
        count = math.prod(self.shapes[built.layer])
        most = MAX_LABELS if built.output.is_labelled else MAX_VALUES
        if count > most:
            raise ModelError(f"the output {built.name!r} has {count} numbers; the limit is {most}")
        if len(self.shapes[built.layer]) == 1:
            return built
        flat = self.add(Flatten(self.name("flatten"), inputs=(built.layer,)))
        return dataclasses.replace(built, layer=flat)


def _labels(built: BuiltOutput) -> tuple[str, ...]:
    """Return class numbers as labels if the output requires labels."""
    count = built.label_count
    is_labelled = built.output.kind in ("classes", "boxes", "map") or (built.output.kind == "sigmoid" and count > 1)
    return tuple(map(str, range(count))) if is_labelled else ()


def _printable(name: str) -> str:
    """Convert a name from the file to a form that can be printed in a table."""
    printable = "".join(char if char.isprintable() else "?" for char in name).strip()
    return printable[:MAX_NAME] or "output"
