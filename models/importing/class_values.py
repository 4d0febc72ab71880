"""Determine the kind of the primary output from names in the file, and correct it by the values that ONNX Runtime
computes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..outputs import Output
from .builder import BuiltOutput
from .onnx_file import Graph
from .onnx_graph import RAW_SCORES
from .onnx_labels import labels_in
from .onnx_meaning import ANSWERS, FEATURES, FLATTENED, has_word

_CLOSE = 1e-3


def leading_output(built: BuiltOutput, graph: Graph, kind: str | None) -> Output:
    """Return the meaning of the primary output, of the kind specified by the user or else suggested by the graph."""
    if kind:
        return built.output if kind == built.output.kind else Output(kind, "raw" if kind == "classes" else "")
    if _are_named_chances(built, graph):
        return Output("classes", "softmax")
    is_raw = built.output.scores == "raw"
    are_distances = any(node.op == "ArgMin" for node in graph.nodes)  # the answer is the smallest value, as in KMeans
    if _are_regressions(built, graph) or (is_raw and (are_distances or _are_features(built))):
        return Output("values")
    return built.output


def note_on_features(built: BuiltOutput) -> str:
    """Return a note if the primary output is interpreted as values because of its name, otherwise ""."""
    if built.output.kind != "values" or not _are_features(built):
        return ""
    return (
        f"the output {built.name!r} is read as features because of its name, so its {built.label_count} numbers are "
        "values (--output-kind classes, if they are scores)"
    )


def _are_features(leading: BuiltOutput) -> bool:
    """Return True if the name of a row of numbers suggests an embedding, such as "pooler_output" of transformers."""
    is_named = has_word(leading.name, FEATURES) and not has_word(leading.name, ANSWERS)
    return is_named and len(leading.shape) == 1 and leading.shape[0] > 1


def _are_named_chances(leading: BuiltOutput, graph: Graph) -> bool:
    """Return True if the file contains a name for each element of an output that was interpreted as values. The values
    are then class probabilities."""
    is_row = len(leading.shape) == 1 and leading.shape[0] > 1
    return leading.output.kind == "values" and is_row and labels_in(graph, leading.shape[0]) is not None


def _are_regressions(leading: BuiltOutput, graph: Graph) -> bool:
    """Return True if scikit-learn's exporter uses this output name for a regressor or a transformer."""
    is_variable = graph.made_by.startswith("skl2onnx") and leading.name.startswith("variable")
    return is_variable and set(graph.outputs) == graph.scores and leading.output.scores == "raw"


def fit_to_scores(output: Output, name: str, values: np.ndarray | None, is_guessed: bool = True) -> Output:
    """Return the kind of an output of classes whose values [examples, classes] may be known.

    Raw scores that are not negative and add up to 1 are treated as probabilities, for example the mean of several
    softmaxes. The exceptions are scores that are all 0 or 1, and scores that are the same for every example. Other
    numbers from 0 to 1 are independent probabilities if the name of the output suggests that.
    """
    if output.scores != "raw" or values is None or not _are_fractions(values):
        return output
    if _are_shares(values):
        return Output("classes", "softmax")
    return Output("sigmoid") if is_guessed and "prob" in name.lower() else output


def are_classes(leading: BuiltOutput, values: np.ndarray | None, notes: Iterable[str]) -> bool:
    """Return True if an output that, according to the notes, was treated as a flattened array contains
    probabilities."""
    is_row = leading.output.kind == "values" and len(leading.shape) == 1 and leading.shape[0] > 1
    return is_row and any(FLATTENED in note for note in notes) and values is not None and _are_shares(values)


def true_notes(notes: Iterable[str], output: Output) -> tuple[str, ...]:
    """Return the notes, without those on raw scores or values if they do not apply to the output."""
    false = [RAW_SCORES] if output.scores != "raw" else []
    false += [FLATTENED] if output.kind in ("boxes", "classes") else []
    return tuple(note for note in notes if not any(text in note for text in false))


def _are_shares(values: np.ndarray) -> bool:
    """Return True if rows of values are probabilities that add up to 1, excluding rows that are constant or consist
    only of 0 and 1."""
    if not _are_fractions(values):
        return False
    is_varied = (values % 1).any() and (len(values) == 1 or (values != values[0]).any())
    return bool(is_varied and np.abs(values.sum(axis=1) - 1).max() < _CLOSE)


def _are_fractions(values: np.ndarray) -> bool:
    """Return True if there are values and all of them are from 0 to 1, up to rounding."""
    return bool(values.size and values.min() >= 0 and values.max() <= 1 + _CLOSE)
