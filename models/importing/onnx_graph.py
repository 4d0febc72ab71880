"""Conversion of an ONNX graph to layers: each required node is converted by the function for its operator.

All unsupported nodes are reported together: values that depend on such a node are unknown, and the walk continues with
the remaining nodes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from ..errors import ModelError
from ..files import NotFiniteError, check_tensors
from ..layers import Flatten, Reshape, Softmax
from ..network import Network
from .builder import BuiltOutput, NetworkBuilder
from .expansions import EXPANSIONS
from .importer import Importer
from .layer_table import needed
from .onnx_attributes import integer
from .onnx_constants import CONSTANT_OPS, Folder
from .onnx_cut import Cut
from .onnx_file import Branch, Graph, Node
from .onnx_input import GraphSource
from .onnx_meaning import FoundOutput, build_outputs, in_order, meaning_of
from .onnx_patterns import join_patterns
from .operators import OPERATORS
from .operators.reducing import softmax_over
from .products import write_out_inputs, written_out
from .scores import MOVING, OF_TWO_VALUES, change_scores, reads_scores
from .view import View

RAW_SCORES = "raw scores of classes"  # text for a note
MAX_TOLD = 5  # maximum number of unsupported nodes listed in a message

RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")

# Common unsupported operators with advice; other operators get a generic message.
_REMEDIES = {
    "If": "control flow is not supported; export the network in evaluation mode, with fixed sizes",
    "NonZero": "it selects entries by their values, which is not supported; export the network without this selection "
    "(for a detector of torchvision, export only its backbone and head)",
    "LSTM": "recurrent networks are not supported",
    "com.microsoft.Attention": "attention is not supported",
    "Random": "it draws random numbers; export the network in evaluation mode, without random masks or noise",
}
_SELECTING = {"NonMaxSuppression": 2, "TopK": 1, "ArgMax": 1}  # number of inputs to suggest as outputs instead
_ALIKE = {
    "Loop": "If",
    "Scan": "If",
    "GRU": "LSTM",
    "RNN": "LSTM",
    **dict.fromkeys(RANDOM, "Random"),
    "com.microsoft.MultiHeadAttention": "com.microsoft.Attention",
}
_MISFITS = (IndexError, KeyError, TypeError, ValueError, OverflowError, ZeroDivisionError)  # raised for malformed nodes
_PLAIN = "this operator is not supported (docs/networks.md lists those that are)"


def unsupported(graph: Graph, cut: Cut) -> str:
    """Describe the operators of a cut that are not supported for any input size, or return an empty string."""
    blockers: dict[tuple[str, str], list[Node]] = {}
    for node in join_patterns(cut.nodes, graph.constants, cut.outputs):
        if not _is_known(node):
            blockers.setdefault((node.op, _remedy(node)), []).append(node)
    return _describe(blockers) if blockers else ""


def _is_constant(node: Node) -> bool:
    return node.op == "Constant" and not node.inputs


def _is_known(node: Node) -> bool:
    return node.op in OPERATORS or node.op in EXPANSIONS or node.op in CONSTANT_OPS or node.op == "If"


class Walk:
    """A walk over the nodes of a cut that converts them and collects the unsupported ones."""

    def __init__(self, graph: Graph, cut: Cut, source: GraphSource) -> None:
        needed = {name for node in cut.nodes for name in node.inputs} | set(cut.outputs)
        constants = {name: value for name, value in graph.constants.items() if name in needed}
        builder = NetworkBuilder(source.input)
        self.source = source
        self.importer = Importer(builder, constants, {}, needed, source.fixed_batch, graph.opset)
        self.importer.views |= source.views(self.importer)
        self._cut = cut
        self._constants = dict(graph.constants)
        self._nodes: Sequence[Node] = cut.nodes
        self._folder = Folder(sum(value.size for value in constants.values()), graph.opset)
        self._unknown: set[str] = set()
        self._origins: dict[str, Node] = {}  # the node that a layer was added for, by the layer's name
        self._blockers: dict[tuple[str, str], list[Node]] = {}

    def run(self) -> list[BuiltOutput]:
        """Return the outputs, with the primary one first; raise ModelError that lists all unsupported nodes."""
        for node in filter(_is_constant, self._cut.nodes):
            self._try(node)
        self._constants |= self.importer.constants
        self._nodes = join_patterns(self._cut.nodes, self.importer.constants, self._cut.outputs)
        expanded = [name for node in self._nodes if node.op in ("Expand", "Tile") for name in node.outputs]
        self.importer.readers = {name: [node for node in self._nodes if name in node.inputs] for name in expanded}
        self._try_all()
        if self._blockers:
            raise ModelError(_describe(self._blockers) + self._advice())
        for name in self._cut.outputs:
            if name in self.importer.views:
                self.importer.views[name] = written_out(self.importer, self.importer.views[name])
        outputs = build_outputs(self.importer, self._find_outputs())
        if outputs[0].output.scores == "raw":
            count = math.prod(outputs[0].shape)
            self.importer.note(f"its {count} numbers are {RAW_SCORES} (add a softmax to obtain probabilities)")
        return self._spell_out_inner_softmaxes(outputs)

    def check(self, network: Network, tensors: Mapping[str, np.ndarray]) -> None:
        """Raise ModelError if the tensors of the finished network are not finite; the message names their node."""
        try:
            check_tensors(network, tensors)
        except NotFiniteError as error:
            layer, _, part = error.tensor.rpartition(".")
            node = self._origins.get(layer.rstrip("'"))
            if node is None:
                raise
            readers = [node, *(other for other in self._nodes if node.outputs[0] in other.inputs)]  # merged into it
            found = [
                f"{reader}: its {name!r}" for reader in readers for name in reader.inputs if self._is_infinite(name)
            ]
            what = found[0] if found else f"{node}: its {part}, as computed from the file,"
            raise ModelError(f"{what} contains NaN or infinity") from None

    def _is_infinite(self, name: str) -> bool:
        """Return True if a constant of the file contains NaN or infinity in float32."""
        values = self._constants.get(name)
        with np.errstate(over="ignore"):
            return values is not None and not np.isfinite(values.astype(np.float32)).all()

    def _release(self, names: Iterable[str]) -> None:
        """Release constants that no later node reads."""
        for name in names:
            if name in self.importer.constants and name not in self._cut.outputs:
                del self.importer.constants[name]
                self._folder.release(name)

    def _find_outputs(self) -> list[FoundOutput]:
        """Return the outputs that depend on the input, in the order in which they are reported."""
        outputs_found = []
        for name in self._cut.outputs:
            view = self.importer.views.get(name)
            if view is None:
                self.importer.note(f"the output {name!r} is ignored because it does not depend on the input")
            else:
                view = view.with_batch()
                self._check_batch(name, view)
                outputs_found.append(FoundOutput(name, view, meaning_of(self.importer, view)))
        if not outputs_found:
            raise ModelError(f"the network's output {self._cut.outputs[0]!r} does not depend on its input")
        return in_order(self.importer, outputs_found)

    def _check_batch(self, name: str, view: View) -> None:
        """Raise ModelError if the inputs of a fixed batch are not the outermost axis of an output."""
        batch = self.importer.batch
        if self.importer.stacks_batch(view) and (view.place or view.outside > 1 or not view.axes[0]):
            raise ModelError(f"the output {name!r} mixes the inputs of a batch, whose size is fixed at {batch}")

    def _advice(self) -> str:
        """Return advice to select outputs that do not depend on unsupported nodes, or nothing if there are none."""
        free = [name for name in self._cut.outputs if not self._unknown & self._cut.needed(name)]
        if not free:
            return ""
        return f"; {' '.join(f'--output-name {name}' for name in free[:MAX_TOLD])} excludes it"

    def _try(self, node: Node) -> None:
        try:
            if any(name in self._unknown for name in node.inputs):
                self._unknown.update(node.outputs)
                if not _is_known(node):
                    raise ModelError(_remedy(node, self._unknown))
                return
            known = len(self.importer.builder.layers)
            self._step(node)
            self._origins.update(dict.fromkeys(islice(self.importer.builder.layers, known, None), node))
        except ModelError as error:
            self._block(node, str(error))
        except _MISFITS:
            self._block(node, "its inputs and attributes are inconsistent")

    def _block(self, node: Node, message: str) -> None:
        self._unknown.update(node.outputs)
        self._blockers.setdefault((node.op, message), []).append(node)

    def _try_all(self) -> None:
        """Convert the nodes in order, and release each value after its last consumer."""
        readers = Counter(name for node in self._nodes for name in node.inputs)
        for node in self._nodes:
            if node.outputs[0] not in self.importer.constants:
                self._try(node)
            readers.subtract(node.inputs)
            self._release(name for name in node.inputs if not readers[name])

    def _check_inputs(self, node: Node) -> None:
        """Raise ModelError if an input of a node is not known."""
        for name in node.inputs:
            if name and not self.importer.knows(name):
                later = any(name in other.outputs for other in self._nodes)
                what = "the output of a later node (the graph has a cycle)" if later else "not the output of any node"
                raise ModelError(f"reads {name!r}, which is {what}, or has an unsupported type")

    def _shape_or_size(self, node: Node, view: View) -> np.ndarray:
        shape = np.array(self.importer.extents(view), np.int64)
        if node.op == "Size":
            return np.asarray(shape.prod())
        return shape[integer(node, "start", 0) : integer(node, "end", 1 << 30)]

    def _step(self, node: Node) -> None:
        importer = self.importer
        self._check_inputs(node)
        data = [name for name in node.inputs if name in importer.views]
        if node.op == "If":
            self._take_branch(node)
        elif node.op in RANDOM:
            raise ModelError(_remedy(node))
        elif node.op in EXPANSIONS:
            for inner in EXPANSIONS[node.op](importer, node):
                self._step(inner)
        elif not data:
            arguments = [importer.constants[name] if name else None for name in node.inputs]
            positions = [position for position, name in enumerate(node.outputs) if name]
            for position, value in zip(positions, self._folder.evaluate(node, arguments)):
                importer.give(node, value, position)
        elif node.op in ("Shape", "Size"):
            importer.give(node, self._shape_or_size(node, importer.views[data[0]]))
        elif node.op not in OPERATORS:
            raise ModelError(_remedy(node))
        elif not reads_scores(importer, node) or not self._keeps_scores(node):
            OPERATORS[node.op](importer, node)
            self._check_outputs(node)

    def _keeps_scores(self, node: Node) -> bool:
        """Return True if a node that reads attention scores is part of the attention.

        Otherwise, separate layers must compute these scores.
        """
        try:
            if node.op in MOVING:
                OPERATORS[node.op](self.importer, node)
                self._check_outputs(node)
            else:
                change_scores(self.importer, node)
        except (ModelError, *_MISFITS):
            write_out_inputs(self.importer, node)
            return False
        return True

    def _take_branch(self, node: Node) -> None:
        """Continue with the branch selected by the condition, which may depend only on constants and shapes."""
        importer = self.importer
        condition = importer.constants.get(node.inputs[0])
        if condition is None or condition.size != 1:
            raise ModelError(_REMEDIES["If"])
        branch = node.attributes.get("then_branch" if condition.ravel()[0] else "else_branch")
        if not isinstance(branch, Branch) or len(branch.outputs) != len(node.outputs):
            raise ModelError("its branches must have the same number of outputs as the node")
        importer.constants |= branch.constants
        for inner in branch.nodes:
            self._step(inner)
        for position, name in enumerate(branch.outputs):
            value = importer.views.get(name, importer.constants.get(name))
            if value is None:
                raise ModelError(f"its output {name!r} is not the output of any node")
            importer.give(node, value, position)

    def _check_outputs(self, node: Node) -> None:
        for name in node.outputs:
            if name in self.importer.wanted and name not in self.importer.views and name not in self.importer.constants:
                raise ModelError(f"its output {name!r} is used, which is not supported")

    def _spell_out_inner_softmaxes(self, outputs: list[BuiltOutput]) -> list[BuiltOutput]:
        """Decompose softmaxes that other layers read, such as gates, because a softmax layer must be the last layer."""
        layers = self.importer.builder.layers
        for name in [name for name, layer in layers.items() if isinstance(layer, Softmax)]:
            if any(name in layer.inputs for layer in self.importer.builder.layers.values()):
                result = self._spell_out(name)
                outputs = [replace(built, layer=result) if built.layer == name else built for built in outputs]
        return outputs

    def _spell_out(self, name: str) -> str:
        """Replace a softmax with elementary layers and return the name of the last one."""
        builder = self.importer.builder
        softmax = builder.layers[name]
        assert isinstance(softmax, Softmax)
        known = dict(builder.layers)
        read = softmax.inputs[0]
        while isinstance(builder.layers.get(read), (Flatten, Reshape)):
            read = builder.layers[read].inputs[0]
        shape = builder.shapes[read]
        source = View.of(read, shape).reshaped((math.prod(shape),), True)
        result = self.importer.rows(softmax_over(self.importer, source, (0,), softmax.log))
        added = {other: layer for other, layer in builder.layers.items() if other not in known}
        reads = {read for layer in added.values() for read in layer.inputs}
        added = needed(known, reads) | added  # a layer that is used again may come after the softmax
        builder.layers = {}
        for other, layer in known.items():
            inputs = tuple(result if read == name else read for read in layer.inputs)
            builder.layers[other] = replace(layer, inputs=inputs)
            builder.layers.update(added if other == name else {})
        return result


def _remedy(node: Node, unknown: Collection[str] = ()) -> str:
    """Explain why an operator is not supported and what to do instead; `unknown` contains the values that cannot be
    computed."""
    op = node.op
    if op in _SELECTING:
        read = [name for name in node.inputs[: _SELECTING[op]] if name not in unknown]
        option = " ".join(f"--output-name {name}" for name in read) or "--output-name with an earlier value,"
        return f"it selects the largest scores; {option} selects the scores that it reads"
    if op.startswith("com.microsoft.nchwc."):
        return (
            "ONNX Runtime's optimiser generated it for one kind of processor; use the original file, "
            "or optimise only up to the level 'extended'"
        )
    return _REMEDIES.get(_ALIKE.get(op, op), _PLAIN)


def _describe(blockers: dict[tuple[str, str], list[Node]]) -> str:
    """Describe all unsupported nodes in one line."""
    lines = []
    first = sorted(
        blockers.items(), key=lambda entry: entry[0][1] not in (OF_TWO_VALUES, _REMEDIES["com.microsoft.Attention"])
    )
    for (_, message), nodes in first[:MAX_TOLD]:
        more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
        lines.append(f"{nodes[0]}{more}: {message}")
    if len(blockers) == 1:
        return lines[0]
    rest = f"; and {len(blockers) - MAX_TOLD} more" if len(blockers) > MAX_TOLD else ""
    return f"{len(blockers)} kinds of nodes cannot be imported: {'; '.join(lines)}{rest}"
