"""Find the value in a detector's graph that contains all boxes, before the graph selects some of them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence

from .box_spec import BoxSpec
from .builder import BuiltOutput
from .onnx_cut import needed_names, sorted_nodes
from .onnx_file import Graph, Node

SUPPRESSION = ("NonMaxSuppression", "TRT.EfficientNMS_TRT", "TRT.BatchedNMS_TRT")
_CLASS, _SCORE = "ArgMax", "ReduceMax"
SELECTING = (*SUPPRESSION, "TopK", "NonZero", _CLASS, "Loop")


def outputs_before_selection(graph: Graph) -> tuple[str, ...]:
    """Return the outputs of a detector, in which the rows of all boxes replace the output with the selected rows.

    Among the values that do not depend on a selection, these rows are the last one that every path from the image to
    the selected rows passes through. The result is empty if no output is selected.
    """
    nodes = sorted_nodes(graph.nodes)
    inputs = {entry.name for entry in graph.inputs}
    rows = {output: _last_before(nodes, inputs, needed_names(nodes, [output]), output) for output in graph.outputs}
    selected = next(filter(None, rows.values()), "")
    return (selected, *(output for output in graph.outputs if not rows[output])) if selected else ()


def selected_as_in(graph: Graph, outputs: list[BuiltOutput], spec: BoxSpec | None) -> list[BuiltOutput]:
    """Return the outputs of a detector, whose boxes are selected regardless of their classes if the graph does this and
    the specification does not state it."""
    head = outputs[0].output.boxes
    is_stated = spec is not None and "agnostic" in spec.fields
    if head is None or head.ended or is_stated or not ignores_classes(graph):
        return outputs
    output = dataclasses.replace(outputs[0].output, boxes=dataclasses.replace(head, agnostic=True))
    return [dataclasses.replace(outputs[0], output=output), *outputs[1:]]


def ignores_classes(graph: Graph) -> bool:
    """Return True if a graph selects boxes regardless of their classes, as Ultralytics exports with `agnostic_nms`.

    An ArgMax finds the class of each box, and a ReduceMax its score; the last selection depends on the score alone. A
    plugin of TensorRT has an attribute instead.
    """
    if any(node.attributes.get("class_agnostic") == 1 for node in graph.nodes if node.op in SUPPRESSION):
        return True
    depends_on: dict[str, frozenset[str]] = {}  # the operators _CLASS and _SCORE on which each value depends
    last: frozenset[str] = frozenset()
    nodes = sorted_nodes(graph.nodes)
    needed = needed_names(nodes, graph.outputs)
    for node in nodes:
        found = frozenset(itertools.chain.from_iterable(depends_on.get(name, ()) for name in node.inputs))
        found |= {node.op} & {_CLASS, _SCORE}
        depends_on |= dict.fromkeys(node.outputs, found)
        if node.op in SELECTING and node.op != _CLASS and needed.intersection(node.outputs):
            last = found
    has_class = any(_CLASS in depends_on.get(name, ()) for name in graph.outputs)
    return has_class and last == {_SCORE}


def _nearest_common(dominators: Sequence[int], depths: Sequence[int], one: int, other: int) -> int:
    """Return the last value that dominates two values."""
    while one != other:
        if depths[one] < depths[other]:
            one, other = other, one
        one = dominators[one]
    return one


def _last_before(nodes: Sequence[Node], inputs: set[str], needed: set[str], output: str) -> str:
    """Return the last value that dominates `output` and depends on no selection, or "" if nothing is selected.

    Shapes are ignored because they do not depend on the content of the image.
    """
    places = {name: 0 for name in inputs}  # position of the node that computes each value; 0 is the image
    dominators, depths, are_selected, outputs_of = [0], [0], [False], [""]
    for node in nodes:
        read = [places[name] for name in node.inputs if name in places]
        if not read or node.op in ("Shape", "Size") or not needed.intersection(node.outputs):
            continue
        common = functools.reduce(functools.partial(_nearest_common, dominators, depths), read)
        places |= dict.fromkeys(filter(None, node.outputs), len(outputs_of))
        dominators.append(common)
        depths.append(depths[common] + 1)
        are_selected.append(node.op in SELECTING or any(are_selected[parent] for parent in read))
        outputs_of.append(node.outputs[0] if len(node.outputs) == 1 else "")
    parent = places.get(output, 0)
    if not are_selected[parent]:
        return ""
    while parent and (are_selected[parent] or not outputs_of[parent]):
        parent = dominators[parent]
    return outputs_of[parent]
