"""The part of an ONNX graph that the requested outputs depend on, in topological order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import ModelError
from ..network import MAX_OUTPUTS
from .onnx_file import Graph, Node
from .onnx_labels import CLASS_NAMES

MAX_CUT_OFF = 8  # maximum number of final nodes to remove because they only select the answer
MAX_NAMED = 8  # maximum number of outputs listed in a message

_POINTING = ("ArgMax", "ai.onnx.ml.ZipMap")  # operators that select the largest score
_CLASSIFIER, _SELECTION = "ai.onnx.ml.LinearClassifier", "ai.onnx.ml.ArrayFeatureExtractor"
_PASSING_ON = ("Cast", "Identity", "Squeeze", "Unsqueeze")  # operators that may follow those


@dataclass(frozen=True)
class Cut:
    """The part of a graph that the requested outputs depend on, and the inputs that it reads."""

    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    sources: tuple[str, ...]
    notes: tuple[str, ...]

    def needed(self, output: str) -> set[str]:
        """Return the names of all values that one output depends on."""
        return needed_names(self.nodes, [output])


def cut_graph(graph: Graph, wanted: Sequence[str] = ()) -> Cut:
    """Return the part of the graph that the outputs `wanted` (by default, all possible answers) depend on.

    Raises ModelError if there are no such outputs.
    """
    producers: dict[str, Node] = {}
    inputs = {entry.name for entry in graph.inputs}
    for node in graph.nodes:
        for name in filter(None, node.outputs):
            if name in producers or name in graph.constants or name in inputs:
                raise ModelError(f"{node}: its output {name!r} is already the output of another node")
            producers[name] = node
    outputs, notes = _choose(graph, producers, wanted)
    nodes = sorted_nodes(graph.nodes)
    names = needed_names(nodes, outputs)
    sources = tuple(entry.name for entry in graph.inputs if entry.name in names)
    if not sources:
        listed = ", ".join(map(repr, outputs[:MAX_NAMED]))
        raise ModelError(f"no output depends on an input of the network ({listed})")
    live = tuple(node for node in nodes if names.intersection(node.outputs))
    return Cut(tuple(outputs), live, sources, tuple(notes))


def needed_names(nodes: Iterable[Node], outputs: Iterable[str]) -> set[str]:
    """Return the names of all values that `outputs` depend on; the nodes must be in topological order."""
    names = set(outputs)
    for node in reversed(tuple(nodes)):
        if names.intersection(node.outputs):
            names.update(filter(None, node.inputs))
    return names


def sorted_nodes(nodes: Sequence[Node]) -> list[Node]:
    """Sort the nodes topologically, otherwise in the order of the file, since files from Keras may not be sorted.

    Nodes in cycles are placed at the end in their original order.
    """
    producers = {name: node for node in nodes for name in node.outputs if name}
    order = {id(node): number for number, node in enumerate(nodes)}
    ordered: dict[int, Node] = {}

    def missing_before(node: Node) -> list[Node]:
        before = {id(producers[name]): producers[name] for name in node.inputs if name in producers}
        return [other for key, other in before.items() if key not in ordered]

    for first in nodes:
        waiting = [first]
        opened: set[int] = set()
        while waiting:
            node = waiting[-1]
            missing = missing_before(node)
            if id(node) in opened or not missing:
                waiting.pop()
                if not missing:
                    ordered.setdefault(id(node), node)
                continue
            opened.add(id(node))
            waiting += sorted(missing, key=lambda other: -order[id(other)])
    return [*ordered.values(), *(node for node in nodes if id(node) not in ordered)]


def _choose(graph: Graph, producers: Mapping[str, Node], wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the possible answers, taken before nodes that only select the largest score, and these nodes."""
    for name in wanted:
        if name not in producers:
            raise ModelError(
                f"the graph has no value {name!r}; its outputs are {', '.join(map(repr, graph.outputs[:MAX_NAMED]))}"
            )
    if wanted:
        return list(dict.fromkeys(wanted)), []
    notes = []
    scores = [name for name in graph.outputs if name in graph.scores]
    candidates = scores or list(graph.outputs)
    if len(candidates) < len(graph.outputs):
        others = ", ".join(map(repr, [name for name in graph.outputs if name not in candidates][:MAX_NAMED]))
        notes.append(f"of the {len(graph.outputs)} outputs, {others} are ignored because they contain integers or text")
    selected = []
    for output in candidates:
        if output not in producers:
            raise ModelError(f"the network's output {output!r} is not computed by any node")
        source, cut_off = _before_pointing(producers, output)
        if len(candidates) > 1 and _is_handed_on(producers, source):
            notes.append(f"the output {output!r} is ignored because it is an unchanged input")
            continue
        notes += cut_off
        selected.append(source)
    selected = list(dict.fromkeys(selected))
    if len(selected) > MAX_OUTPUTS:
        raise ModelError(
            f"the network has {len(selected)} outputs; select at most {MAX_OUTPUTS} of them with --output-name"
        )
    return selected, notes


def _is_handed_on(producers: Mapping[str, Node], output: str) -> bool:
    """Return True if a value is an unchanged input of the graph, such as the unused state of a stateless network."""
    for _ in range(MAX_CUT_OFF):
        node = producers.get(output)
        if node is None:
            return True
        if node.op not in ("Identity", "Cast") or not node.inputs:
            return False
        output = node.inputs[0]
    return False


def _selects_a_class(node: Node, source: Node) -> bool:
    """Return True if a node selects the score of one of the two classes of a linear classifier, as skl2onnx writes
    LinearSVC."""
    names = (source.attributes.get(name) for name in CLASS_NAMES)
    is_binary = any(isinstance(labels, tuple) and len(labels) == 2 for labels in names)
    return (node.op, source.op, is_binary) == (_SELECTION, _CLASSIFIER, True)


def _before_pointing(producers: Mapping[str, Node], output: str) -> tuple[str, list[str]]:
    """Return the scores from which an output selects the largest, and the omitted nodes."""
    notes: list[str] = []
    ahead = output
    for _ in range(MAX_CUT_OFF):
        node = producers.get(ahead)
        if node is None or not producers.keys() & set(node.inputs[:1]):
            return output, notes
        is_pointing = node.op in _POINTING or _selects_a_class(node, producers[node.inputs[0]])
        if not is_pointing and node.op not in _PASSING_ON:
            return output, notes
        ahead = node.inputs[0]
        if is_pointing:
            output = ahead
            notes.append(f"{node} is removed, because its input contains the scores")
    raise ModelError(f"{node}: it reads its own output, or there are too many nodes of this operator")
