"""The meaning of a graph's outputs, inferred from their last steps, and the order in which they are reported."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..checks import INPUT
from ..inputs import Input, SeveralInputs
from ..layers import Activation, Affine, Combine, Concat, Flatten, Layer, LayerNorm, Pool, Reshape, Softmax, Transpose
from ..outputs import Output
from .builder import BuiltOutput, NetworkBuilder
from .importer import Importer
from .view import View

ARRANGING = (Flatten, Reshape, Transpose)
FLATTENED = "a flattened image or table"  # text for a note

# Substrings that identify final outputs by name, and substrings that identify intermediate outputs.
ANSWERS = ("logit", "prob", "score", "class", "cls", "label", "conf", "policy", "softmax")
FEATURES = ("feature", "embed", "hidden", "pooler")
_ON_THE_WAY = (*FEATURES, "aux", "pool", "box", "loc", "bbox", "reg", "landmark", "anchor", "mask")


@dataclass(frozen=True)
class FoundOutput:
    """An output of a graph: its name, its view of a layer, and its meaning."""

    name: str
    view: View
    output: Output


def _computes_values(layer: Layer) -> bool:
    """Return True if a layer limits its outputs to a range that no classifier uses, or normalises them, as is done for
    embeddings."""
    if isinstance(layer, (Combine, LayerNorm)):
        return isinstance(layer, LayerNorm) or layer.operation == "divide"
    return isinstance(layer, Activation) and layer.activation in ("tanh", "exp", "softplus")


def _is_array(shape: tuple[int, ...], layer: Layer | None) -> bool:
    """Return True if the output of a layer is an image, or a table of boxes or points."""
    if len(shape) == 3:
        return max(shape[1:]) > 1 and not isinstance(layer, Pool)
    return len(shape) == 2 and min(shape) > 1


def meaning_of(importer: Importer, view: View) -> Output:
    """Infer the meaning of an output from the layer that computes it."""
    layers = importer.builder.layers
    count = math.prod(view.shape)
    layer = last_step(layers, view.layer)
    if isinstance(layer, Softmax):
        return Output("classes", "log_softmax" if layer.log else "softmax")
    array = _is_array(view.shape, layer)
    if isinstance(layer, Activation) and layer.activation in ("sigmoid", "hardsigmoid"):
        is_image = count > 1 and count in _images(importer.builder.input)  # computed from an image, perhaps flattened
        return Output("values" if array or is_image else "sigmoid")
    if isinstance(layer, Concat) and _is_a_chance_and_the_rest(importer.builder, layer):
        return Output("classes", "softmax")
    flattened = not array and _is_flattened_map(importer, view.layer)
    if flattened:
        importer.note(
            f"its {count} numbers are {FLATTENED}, so they are reported as values (--output-kind classes, if they are "
            "scores)"
        )
    if array or flattened or count in (1, math.prod(importer.builder.shapes[INPUT])) or _has_values(importer, layer):
        return Output("values")
    return Output("classes", "raw")


def _has_values(importer: Importer, layer: Layer | None) -> bool:
    """Return True if a layer computes values, which may then be scaled and shifted, such as an action from -2 to 2."""
    while isinstance(layer, Affine) and layer.activation == "identity":
        layer = importer.builder.layers.get(layer.inputs[0])
    return layer is not None and (_computes_values(layer) or layer.name in importer.values)


def _is_flattened_map(importer: Importer, name: str) -> bool:
    """Return True if the output of a layer is a flattened image or table with more than one pixel."""
    layers, shapes = importer.builder.layers, importer.builder.shapes
    layer = last_step(layers, name)
    if isinstance(layer, Concat):
        return all(_is_flattened_map(importer, read) for read in layer.inputs)
    return layer is not None and len(shapes[layer.name]) == 3 and math.prod(shapes[layer.name][1:]) > 1


def in_order(importer: Importer, outputs: Sequence[FoundOutput]) -> list[FoundOutput]:
    """Return the outputs: first the one that looks like scores, then the others in the order of the file.

    If there are several outputs, a row of numbers is interpreted as values if its name does not suggest classes or if
    another output is computed from it.
    """
    if len(outputs) == 1:
        return list(outputs)
    outputs = [
        replace(candidate, output=Output("values")) if _is_column(candidate, outputs) else candidate
        for candidate in outputs
    ]
    ancestors = _ancestors(importer.builder.layers, [candidate.view.layer for candidate in outputs])
    marks = [
        (_rank(candidate, candidate.view.layer in ancestors), position) for position, candidate in enumerate(outputs)
    ]
    leading = min(marks)[1]
    rest = [
        replace(candidate, output=Output("values")) if _is_on_the_way(candidate, ancestors) else candidate
        for position, candidate in enumerate(outputs)
        if position != leading
    ]
    return [outputs[leading], *rest]


def build_outputs(importer: Importer, outputs: Sequence[FoundOutput]) -> list[BuiltOutput]:
    """Return each output as the features of a layer, in the order of the output's axes."""
    return [
        BuiltOutput(output.name, importer.rows(output.view), output.view.shape or (1,), output.output, output.view)
        for output in outputs
    ]


def _is_column(found: FoundOutput, outputs: Sequence[FoundOutput]) -> bool:
    """Return True if an output has one element per row of another output, a table: the scores of boxes."""
    shape = found.view.shape
    rows = shape[0] if len(shape) == 2 and shape[1] == 1 else shape[0] if len(shape) == 1 else 0
    tables = [other.view.shape for other in outputs if len(other.view.shape) == 2 and min(other.view.shape) > 1]
    return rows > 1 and any(table[0] == rows for table in tables)


def _rank(found: FoundOutput, is_ancestor: bool) -> float:
    """Return a sort key that is smaller for outputs that are more likely to be the answer."""
    kinds = {"softmax": 0.0, "log_softmax": 0.0, "raw": 2.0, "": 1.0 if found.output.kind == "sigmoid" else 4.0}
    rank = kinds[found.output.scores] + 2.0 * is_ancestor
    if has_word(found.name, ANSWERS):
        rank -= 1.5
    return rank + 1.5 * has_word(found.name, _ON_THE_WAY)


def _is_on_the_way(found: FoundOutput, ancestors: set[str]) -> bool:
    is_answer = has_word(found.name, ANSWERS) and not has_word(found.name, _ON_THE_WAY)
    return found.output.scores == "raw" and (found.view.layer in ancestors or not is_answer)


def has_word(name: str, words: Sequence[str]) -> bool:
    """Return True if the name of an output contains one of several words."""
    return any(word in name.lower() for word in words)


def _ancestors(layers: Mapping[str, Layer], names: Sequence[str]) -> set[str]:
    """Return the elements of `names` from which other elements are computed."""
    pending, ancestors = set(names), set()
    depends: dict[str, set[str]] = {}
    for name, layer in layers.items():
        depends[name] = set().union(*({read, *depends.get(read, ())} & pending for read in layer.inputs))
    for name in pending:
        ancestors |= depends.get(name, set()) - {name}
    return ancestors


def last_step(layers: Mapping[str, Layer], name: str) -> Layer | None:
    """Return the layer that computes a value, ignoring layers that only rearrange it."""
    layer = layers.get(name)
    while isinstance(layer, ARRANGING):
        layer = layers.get(layer.inputs[0])
    return layer


def _images(source: Input) -> list[int]:
    """Return the number of elements of each image that a network reads."""
    parts = [part.input for part in source.parts] if isinstance(source, SeveralInputs) else [source]
    return [math.prod(part.shape) for part in parts if len(part.shape) == 3]


def _is_a_chance_and_the_rest(builder: NetworkBuilder, layer: Concat) -> bool:
    """Return True if a layer concatenates 1 - p and p for a sigmoid p, as scikit-learn does for two classes."""
    if len(layer.inputs) != 2:
        return False
    rest, chance = (builder.layers.get(name) for name in layer.inputs)
    if not isinstance(rest, Affine) or not isinstance(chance, Activation):
        return False
    scale, shift = (builder.tensors[f"{rest.name}.{part}"] for part in ("scale", "shift"))
    is_complement = bool((scale == -1).all() and (shift == 1).all())
    is_single = math.prod(builder.shapes[chance.name]) == 1
    return is_single and chance.activation == "sigmoid" and rest.inputs == (chance.name,) and is_complement
