"""An ONNX graph as layers: what the wanted output depends on, node by node, each by the operator's own function.

Everything that stands in the way is told at once: a node that cannot be had makes what depends on it unknown, and the
walk goes on with the rest.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..checks import INPUT
from ..errors import ModelError
from ..layers import Activation, Affine, Combine, Concat, Flatten, Pool, Reshape, Softmax, Transpose
from ..outputs import Output
from .builder import NetworkBuilder
from .importer import Importer
from .onnx_attributes import integer
from .onnx_constants import CONSTANT_OPS, Folder
from .onnx_file import Graph, Node
from .onnx_patterns import join_patterns
from .operators import OPERATORS
from .operators.convolution import OF_TWO_VALUES
from .operators.reducing import softmax_over
from .view import View

_ARRANGING = (Flatten, Reshape, Transpose)

MAX_CUT_OFF = 8  # nodes at the end that only point at the answer
MAX_TOLD = 5  # things in the way that a message names

# What people meet, and what they can do. Others are simply not supported.
_REMEDIES = {
    "If": "control flow is not supported; export the network in evaluation mode, with fixed sizes",
    "NonMaxSuppression": "detection is not supported; --output-name can name the scores before it",
    "TopK": "--output-name can name the scores before it",
    "ArgMax": "--output-name can name the scores before it",
    "LSTM": "recurrent networks are not supported",
    "Attention": "attention is not supported",
}
_ALIKE = {
    "Loop": "If",
    "Scan": "If",
    "GRU": "LSTM",
    "RNN": "LSTM",
    "com.microsoft.Attention": "Attention",
    "com.microsoft.MultiHeadAttention": "Attention",
}
_PLAIN = "this operator is not supported (docs/networks.md lists those that are)"


@dataclass(frozen=True)
class Cut:
    """The part of a graph that the wanted output depends on."""

    output: str
    nodes: tuple[Node, ...]
    source: str  # the one input that it reads
    notes: tuple[str, ...]


def cut_graph(graph: Graph, output_name: str | None) -> Cut:
    """What `output_name`, or the graph's only output that can be an answer, depends on; ModelError where none can."""
    producers: dict[str, Node] = {}
    for node in graph.nodes:
        for name in filter(None, node.outputs):
            if name in producers or name in graph.constants or name in {given.name for given in graph.inputs}:
                raise ModelError(f"{node}: its output {name!r} is given a second time")
            producers[name] = node
    output, notes = _choose(graph, producers, output_name)
    wanted, live = {output}, []
    for node in reversed(graph.nodes):
        if wanted.intersection(node.outputs):
            live.append(node)
            wanted.update(filter(None, node.inputs))
    sources = [given.name for given in graph.inputs if given.name in wanted]
    if len(sources) != 1:
        told = ", ".join(map(repr, sources[:5])) or "none"
        raise ModelError(
            f"a network with one input is needed; its output {output!r} depends on {len(sources)} ({told})"
        )
    return Cut(output, tuple(reversed(live)), sources[0], notes)


def _choose(graph: Graph, producers: dict[str, Node], output_name: str | None) -> tuple[str, tuple[str, ...]]:
    if output_name is not None:
        if output_name not in producers:
            raise ModelError(
                f"it has no value {output_name!r}; its outputs are {', '.join(map(repr, graph.outputs[:8]))}"
            )
        return output_name, ()
    notes = []
    named = [name for name in graph.outputs if name in graph.scores] or list(graph.outputs)
    if len(named) > 1:
        told = ", ".join(map(repr, named[:8]))
        raise ModelError(f"it has {len(named)} outputs ({told}); choose one with --output-name")
    if len(graph.outputs) > 1:
        notes.append(f"of {len(graph.outputs)} outputs, {named[0]!r} alone is used")
    output = named[0]
    if output not in producers:
        raise ModelError(f"the network's output {output!r} is given by no node")
    while (node := producers[output]).op in ("ArgMax", "ai.onnx.ml.ZipMap") and producers.keys() & set(node.inputs[:1]):
        if len(notes) > MAX_CUT_OFF:
            raise ModelError(f"{node}: reads what it gives itself, or is one of many of its kind")
        notes.append(f"{node} is cut off: the answer is what goes into it")
        output = node.inputs[0]
    return output, tuple(notes)


def unsupported(graph: Graph, cut: Cut) -> str:
    """The operators of a cut that no input's sizes would make supported, in words; empty where there are none."""
    blockers: dict[tuple[str, str], list[Node]] = {}
    for node in join_patterns(cut.nodes, graph.constants):
        if not _is_known(node):
            blockers.setdefault((node.op, _remedy(node.op)), []).append(node)
    return _told(blockers) if blockers else ""


def _is_known(node: Node) -> bool:
    return node.op in OPERATORS or node.op in CONSTANT_OPS or node.op in ("Shape", "Size")


class Walk:
    """Goes through the nodes of a cut, and gathers what stands in the way."""

    def __init__(self, graph: Graph, cut: Cut, builder: NetworkBuilder, view: View, batch: int) -> None:
        wanted = {name for node in cut.nodes for name in node.inputs} | {cut.output}
        constants = {name: value for name, value in graph.constants.items() if name in wanted}
        self.importer = Importer(builder, constants, {cut.source: view}, wanted, batch, graph.opset)
        self._cut = cut
        self._nodes: Sequence[Node] = cut.nodes
        self._folder = Folder(sum(value.size for value in constants.values()))
        self._unknown: set[str] = set()
        self._blockers: dict[tuple[str, str], list[Node]] = {}

    def run(self) -> tuple[str, Output]:
        """The layer that gives the output, and what the output means; ModelError that tells all blockers."""
        for node in self._cut.nodes:
            if node.op == "Constant" and not node.inputs:
                self._try(node)
        self._nodes = join_patterns(self._cut.nodes, self.importer.constants)
        self.importer.readers = {
            name: [node for node in self._nodes if name in node.inputs]
            for expanding in self._nodes
            if expanding.op in ("Expand", "Tile")
            for name in expanding.outputs
        }
        for node in self._nodes:
            if node.outputs[0] not in self.importer.constants:
                self._try(node)
        if self._blockers:
            raise ModelError(_told(self._blockers))
        self._spell_out_inner_softmaxes()
        view = self.importer.views.get(self._cut.output)
        if view is None:
            raise ModelError(f"the network's output {self._cut.output!r} does not depend on its input")
        view = view.with_batch()
        meaning = _meaning(self.importer, view)
        return self.importer.rows(view), meaning

    def _try(self, node: Node) -> None:
        try:
            if any(name in self._unknown for name in node.inputs):
                self._unknown.update(node.outputs)
                if not _is_known(node):
                    raise ModelError(_remedy(node.op))
                if node.op in ("MatMul", "Einsum") and not any(name in self.importer.constants for name in node.inputs):
                    raise ModelError(OF_TWO_VALUES)
                return
            self._step(node)
        except ModelError as error:
            self._block(node, str(error))
        except (IndexError, KeyError, TypeError, ValueError, OverflowError, ZeroDivisionError):
            self._block(node, "its inputs and attributes do not fit together")

    def _block(self, node: Node, message: str) -> None:
        self._unknown.update(node.outputs)
        self._blockers.setdefault((node.op, message), []).append(node)

    def _step(self, node: Node) -> None:
        importer = self.importer
        for name in node.inputs:
            if name and name not in importer.views and name not in importer.constants:
                later = any(name in other.outputs for other in self._nodes)
                what = (
                    "given by a node after it: the graph is not in order, or a cycle" if later else "given by no node"
                )
                raise ModelError(f"reads {name!r}, which is {what}, or of a type that is not read")
        data = [name for name in node.inputs if name in importer.views]
        if not data:
            given = [importer.constants[name] if name else None for name in node.inputs]
            for position, value in enumerate(self._folder.evaluate(node, given)):
                importer.give(node, value, position)
        elif node.op in ("Shape", "Size"):
            view = importer.views[data[0]]
            shape = np.array((importer.batch, *view.shape) if view.batched else view.shape, np.int64)
            part = shape[integer(node, "start", 0) : integer(node, "end", 1 << 30)]
            importer.give(node, part if node.op == "Shape" else shape.prod())
        elif node.op in OPERATORS:
            OPERATORS[node.op](importer, node)
            self._check_outputs(node)
        else:
            raise ModelError(_remedy(node.op))

    def _check_outputs(self, node: Node) -> None:
        for name in node.outputs:
            if name in self.importer.wanted and name not in self.importer.views and name not in self.importer.constants:
                raise ModelError(f"its output {name!r} is used, which is not supported")

    def _spell_out_inner_softmaxes(self) -> None:
        """A softmax that is not the last step, such as a gate, by its steps: the layer is for answers alone."""
        layers = self.importer.builder.layers
        for name in [name for name, layer in layers.items() if isinstance(layer, Softmax)]:
            same = {name}  # the softmax, and what only arranges its numbers
            inner = False
            for layer in layers.values():
                if same.intersection(layer.inputs):
                    same.update([layer.name] if isinstance(layer, _ARRANGING) else [])
                    inner = inner or not isinstance(layer, _ARRANGING)
            if inner:
                self._spell_out(name)

    def _spell_out(self, name: str) -> None:
        builder = self.importer.builder
        softmax = builder.layers[name]
        assert isinstance(softmax, Softmax)
        known = dict(builder.layers)
        source = View.of(softmax.inputs[0], builder.shapes[softmax.inputs[0]])
        made = self.importer.rows(softmax_over(self.importer, source, (0,), softmax.log))
        added = {other: layer for other, layer in builder.layers.items() if other not in known}
        builder.layers = {}
        for other, layer in known.items():
            inputs = tuple(made if read == name else read for read in layer.inputs)
            builder.layers[other] = dataclasses.replace(layer, inputs=inputs)
            builder.layers.update(added if other == name else {})


def _remedy(op: str) -> str:
    if op.startswith("com.microsoft.nchwc."):
        return (
            "ONNX Runtime wrote it for one kind of processor; take the original file, or one optimised up to 'extended'"
        )
    return _REMEDIES.get(_ALIKE.get(op, op), _PLAIN)


def _told(blockers: dict[tuple[str, str], list[Node]]) -> str:
    """All that stands in the way, in one line."""
    lines = []
    first = sorted(blockers.items(), key=lambda entry: entry[0][1] not in (OF_TWO_VALUES, _REMEDIES["Attention"]))
    for (_, message), nodes in first[:MAX_TOLD]:
        more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
        lines.append(f"{nodes[0]}{more}: {message}")
    if len(blockers) == 1:
        return lines[0]
    rest = f"; and {len(blockers) - MAX_TOLD} more" if len(blockers) > MAX_TOLD else ""
    return f"{len(blockers)} things stand in the way: {'; '.join(lines)}{rest}"


def _is_a_chance_and_the_rest(importer: Importer, layer: Concat) -> bool:
    """Whether two numbers are 1 - p and p of a sigmoid's p, as scikit-learn has them for two classes."""
    if len(layer.inputs) != 2:
        return False
    rest, chance = (importer.builder.layers.get(name) for name in layer.inputs)
    if not isinstance(rest, Affine) or not isinstance(chance, Activation):
        return False
    scale, shift = (importer.builder.tensors[f"{rest.name}.{part}"] for part in ("scale", "shift"))
    turned = bool((scale == -1).all() and (shift == 1).all())
    return chance.activation == "sigmoid" and rest.inputs == (chance.name,) and turned


def _meaning(importer: Importer, view: View) -> Output:
    """What the numbers that come out mean, as the last step tells it."""
    count = int(np.prod(view.shape))
    layer = importer.builder.layers.get(view.layer)
    while isinstance(layer, _ARRANGING):
        layer = importer.builder.layers.get(layer.inputs[0])
    if isinstance(layer, Softmax):
        return Output("classes", "log_softmax" if layer.log else "softmax")
    inputs = importer.builder.shapes[INPUT]
    shape = view.shape
    array = len(shape) == 3 and max(shape[1:]) > 1 and not isinstance(layer, Pool)
    array = array or (len(shape) == 2 and min(shape) > 1)  # an image; or a table, of boxes or points
    again = len(inputs) == 3 and count == math.prod(inputs) > 1  # an image from an image, perhaps as a row
    if isinstance(layer, Activation) and layer.activation in ("sigmoid", "hardsigmoid"):
        return Output("values" if array or again else "sigmoid")
    if isinstance(layer, Concat) and _is_a_chance_and_the_rest(importer, layer):
        return Output("classes", "softmax")
    while isinstance(layer, Affine) and layer.activation == "identity":  # an action from -2 to 2, say
        layer = importer.builder.layers.get(layer.inputs[0])
    values = isinstance(layer, Activation) and layer.activation in ("tanh", "exp", "softplus")
    values = values or (isinstance(layer, Combine) and layer.operation == "divide")  # by its norm, as embeddings are
    if count == 1 or values or array or count == math.prod(inputs):
        return Output("values")
    importer.note(f"its {count} numbers are raw scores of classes (a softmax makes probabilities of them)")
    return Output("classes", "raw")
