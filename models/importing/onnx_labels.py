"""Class names in an ONNX file: in its metadata, its nodes, or the list from which the answer is selected."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any

from .onnx_file import Graph
from .preprocessor import read_id2label

# Metadata keys under which exporters store names; Ultralytics uses `names`.
_KEYS = ("names", "labels", "classes", "class_names", "id2label")
CLASS_NAMES = ("classlabels_strings", "classlabels_int64s", "classlabels_ints")
MAX_TEXT = 1 << 20


def labels_in(graph: Graph, count: int) -> tuple[str, ...] | None:
    """Return `count` class names found in a file, or None if there are none or their number differs."""
    for names in _candidates(graph):
        if len(names) == count and all(name and name.isprintable() for name in names):
            return names
    return None


def _candidates(graph: Graph) -> Iterator[tuple[str, ...]]:
    for key in _KEYS:
        found = _parse(graph.metadata.get(key, ""))
        if found:
            yield found
    for node in reversed(graph.nodes):  # the parts of an ensemble, which number the classes, precede its answer
        values = map(node.attributes.get, CLASS_NAMES)
        yield from (tuple(map(str, value)) for value in values if isinstance(value, tuple) and value)
        if node.op == "ai.onnx.ml.ArrayFeatureExtractor" and node.inputs:
            yield from _names_to_select(graph, node.inputs[0])
    for node in graph.nodes:
        if node.op == "Gather" and node.inputs:
            yield from _names_to_select(graph, node.inputs[0])


def _names_to_select(graph: Graph, source: str) -> Iterator[tuple[str, ...]]:
    """Yield the constant `source`, from which an index selects one entry, if it is a list of names or of integers."""
    texts, numbers = graph.texts.get(source), graph.constants.get(source)
    if texts:
        yield texts
    elif numbers is not None and numbers.dtype.kind in "iu" and numbers.size == max(numbers.shape, default=0):
        yield tuple(map(str, numbers.ravel().tolist()))


def _parse(text: str) -> tuple[str, ...] | None:
    """Parse names written as JSON, as a Python literal, or separated by commas."""
    data: Any = None
    if 0 < len(text) <= MAX_TEXT:
        for read in (json.loads, ast.literal_eval):
            try:
                data = read(text)
                break
            except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
                continue
        else:
            data = [word.strip() for word in text.split(",")]
    if isinstance(data, Mapping):
        return read_id2label(dict(data))
    if isinstance(data, (list, tuple)) and all(isinstance(name, (str, int)) for name in data):
        return tuple(map(str, data))
    return None
