"""Import of PyTorch state dicts in .safetensors files: VGGs, perceptrons, and sequences specified by the user.

A state dict contains weights, but no structure. The structure of a VGG is inferred from the tensor names: torchvision
and timm number all modules of `features` consecutively (convolutions, batch normalizations, activations and pools), so
a gap indicates a pool. The structure of a perceptron follows from the order of its layers; its activation is unknown
and must be specified.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..checks import Shape
from ..errors import ModelError
from ..layers import ACTIVATION_PARAMETERS
from ..outputs import Output
from ..tensor_file import TensorFile, check_types, read_tensors
from .builder import NetworkBuilder
from .fold import batch_norm
from .picture import PreprocessingOptions, network_input
from .sequence import Sequence
from .spelled import BATCH_NORM_EPSILON, NORM_PARTS, build_spelled

# Convolutions between pools, from "Very Deep Convolutional Networks for Large-Scale Image Recognition", table 1.
VGG_BLOCKS: dict[tuple[int, ...], str] = {
    (1, 1, 2, 2, 2): "vgg11",
    (2, 2, 2, 2, 2): "vgg13",
    (2, 2, 3, 3, 3): "vgg16",
    (2, 2, 4, 4, 4): "vgg19",
}
VGG_SHRINKS = 32  # five pools of size 2

ACTIVATIONS = tuple(name for name, parameters in ACTIVATION_PARAMETERS.items() if not parameters)

KNOWN = (
    "supported are networks of the VGG family (torchvision's and timm's names) and plain multilayer perceptrons; "
    "--layers describes any other sequence. Alternatively, export to ONNX: model.load_state_dict(weights); "
    "model.eval(); "
    "torch.onnx.export(model, example_input, 'model.onnx')"
)


@dataclass(frozen=True)
class BuiltStateDict:
    """A built sequence: its last layer, its description, the meaning of its output, and the assumptions made."""

    builder: NetworkBuilder
    last: str
    name: str
    output: Output
    notes: tuple[str, ...] = ()


def build_state_dict(
    file: TensorFile, options: PreprocessingOptions, activation: str | None, layers: str | None = None
) -> BuiltStateDict:
    """Return the layers of a state dict; raise ModelError if its structure is unknown.

    `activation` is the activation between the layers of a perceptron; the metadata of the file may also specify it.
    `layers` describes an arbitrary sequence; see `spelled.py`.
    """
    shapes = {name: entry.shape for name, entry in file.entries.items() if not name.endswith("num_batches_tracked")}
    for name, shape in shapes.items():
        if not 1 <= len(shape) <= 4 or 0 in shape:
            raise ModelError(f"tensor {name!r} of shape {list(shape)} does not belong to a known network; {KNOWN}")
    check_types(file, shapes)
    if layers is not None:
        sequence, output = build_spelled(file, shapes, layers, options)
        return BuiltStateDict(sequence.builder, sequence.last, file.path.stem, output)
    if any(name.startswith("features.") for name in shapes):
        sequence, name = _vgg(file, shapes, options)
    else:
        sequence, name = _perceptron(file, shapes, options, activation or file.metadata.get("activation"))
    if math.prod(sequence.shape) == 1:
        return BuiltStateDict(sequence.builder, sequence.last, name, Output("values"))
    note = "its last layer outputs raw class scores; a softmax converts them to probabilities"
    return BuiltStateDict(sequence.builder, sequence.last, name, Output("classes", "softmax"), (note,))


def _vgg(file: TensorFile, shapes: Mapping[str, Shape], options: PreprocessingOptions) -> tuple[Sequence, str]:
    modules = sorted(int(match[1]) for name in shapes if (match := re.fullmatch(r"features\.(\d{1,4})\.weight", name)))
    convolutions = [i for i in modules if len(shapes[f"features.{i}.weight"]) == 4]
    normalized = len(modules) > len(convolutions)
    blocks = _blocks(convolutions, 2 + normalized)
    head = _vgg_head(shapes)
    _check_vgg(shapes, convolutions, blocks, head, normalized)
    first, last = shapes[f"features.{convolutions[0]}.weight"], shapes[f"features.{convolutions[-1]}.weight"]
    flat = math.prod(shapes[f"{head[0]}.weight"][1:])
    side = math.isqrt(flat // max(1, last[0]))
    if side < 1 or last[0] * side**2 != flat:
        raise ModelError(f"{head[0]!r} takes {flat} features, which are not a square image of {last[0]} channels")
    tensors = read_tensors(file, shapes)
    builder = Sequence(network_input((first[1], side * VGG_SHRINKS, side * VGG_SHRINKS), options))
    last_of_blocks = [convolutions[end - 1] for end in itertools.accumulate(blocks)]
    for i in convolutions:
        builder.conv2d(tensors[f"features.{i}.weight"], tensors[f"features.{i}.bias"], (1, 1, 1, 1))
        if normalized:
            gamma, beta, mean, variance = (tensors[f"features.{i + 1}.{part}"] for part in NORM_PARTS)
            builder.affine(batch_norm(gamma, beta, mean, variance, BATCH_NORM_EPSILON))
        builder.activate("relu")
        if i in last_of_blocks:
            builder.pool("max", 2, 2)
    builder.flatten()
    _dense(builder, tensors, head, "relu")
    return builder, VGG_BLOCKS[blocks] + "_bn" * normalized


def _check_vgg(
    shapes: Mapping[str, Shape], convolutions: list[int], blocks: tuple[int, ...], head: list[str], normalized: bool
) -> None:
    """Raise ModelError unless the names and shapes of the tensors match a VGG network."""
    expected = {f"{module}.{part}" for module in head for part in ("weight", "bias")}
    for i in convolutions:
        expected |= {f"features.{i}.weight", f"features.{i}.bias"}
        if normalized:
            expected |= {f"features.{i + 1}.{part}" for part in NORM_PARTS}
    _check_names(shapes, expected, "a VGG")
    if not head:
        raise ModelError("its dense layers are missing: classifier.0.weight and so on, or pre_logits.fc1.weight")
    if blocks not in VGG_BLOCKS:
        raise ModelError(f"it has convolutions in blocks of {list(blocks)}, which does not match any VGG network")
    for i in convolutions:
        if shapes[f"features.{i}.weight"][2:] != (3, 3):
            raise ModelError(f"tensor 'features.{i}.weight' has shape {list(shapes[f'features.{i}.weight'])}, not 3x3")


def _blocks(convolutions: list[int], modules: int) -> tuple[int, ...]:
    """Return the number of convolutions before each pool.

    Each convolution occupies `modules` entries of `features`, and each pool one more entry.
    """
    blocks = [0]
    for i, following in zip(convolutions, [*convolutions[1:], None]):
        blocks[-1] += 1
        if following is not None and following - i == modules + 1:
            blocks.append(0)
        elif following is not None and following - i != modules:
            raise ModelError(f"'features.{i}' and 'features.{following}' are not numbered as in a VGG network")
    return tuple(blocks)


def _vgg_head(shapes: Mapping[str, Shape]) -> list[str]:
    """Return the dense layers of a VGG in order, as named by timm or in the classifier of torchvision."""
    if "pre_logits.fc1.weight" in shapes:
        return ["pre_logits.fc1", "pre_logits.fc2", "head.fc"]
    names = [name.removesuffix(".weight") for name in shapes if re.fullmatch(r"classifier(\.\d{1,4})?\.weight", name)]
    return sorted(names, key=_numbers)


def _perceptron(
    file: TensorFile, shapes: Mapping[str, Shape], options: PreprocessingOptions, activation: str | None
) -> tuple[Sequence, str]:
    layers = [name.removesuffix(".weight") for name, shape in shapes.items() if name.endswith("weight")]
    for name, shape in shapes.items():
        if len(shape) != (2 if name.endswith("weight") else 1):
            raise ModelError(f"tensor {name!r} of shape {list(shape)} does not belong to a known network; {KNOWN}")
    biases = {f"{layer}.bias" for layer in layers} & set(shapes)
    _check_names(shapes, {f"{layer}.weight" for layer in layers} | biases, "a multilayer perceptron")
    if not layers:
        raise ModelError(f"it has no weights; {KNOWN}")
    ordered = _in_order(layers, shapes)
    if len(ordered) > 1 and activation not in ACTIVATIONS:
        reason = f"not {activation!r}; " if activation else ""
        raise ModelError(
            f"its weights do not determine the activation between its {len(ordered)} "
            f"layers: {reason}set it with --activation "
            f"({', '.join(ACTIVATIONS)})"
        )
    builder = Sequence(network_input(shapes[f"{ordered[0]}.weight"][1:], options))
    _dense(builder, read_tensors(file, shapes), ordered, activation or "identity")
    return builder, "perceptron"


def _order_that_fits(takes: Mapping[str, int], gives: Mapping[str, int]) -> list[str]:
    """Return the layers in the order in which the output size of each matches the input size of the next, up to the
    point at which this order is no longer unique."""
    ordered = [layer for layer in takes if takes[layer] not in gives.values()][:1]
    while ordered:
        following = [layer for layer in takes if takes[layer] == gives[ordered[-1]] and layer not in ordered]
        if len(following) != 1:
            break
        ordered += following
    return ordered


def _in_order(layers: list[str], shapes: Mapping[str, Shape]) -> list[str]:
    """Return the dense layers in execution order: by the numbers in their names, or else in the order that fits."""
    takes = {layer: shapes[f"{layer}.weight"][1] for layer in layers}
    gives = {layer: shapes[f"{layer}.weight"][0] for layer in layers}
    if len({re.sub(r"\d+", "#", layer) for layer in layers}) == 1:
        ordered = sorted(layers, key=_numbers)
        if all(gives[a] == takes[b] for a, b in itertools.pairwise(ordered)):
            return ordered
    ordered = _order_that_fits(takes, gives)
    if len(ordered) != len(layers):
        names = ", ".join(f"{layer} {list(shapes[f'{layer}.weight'])}" for layer in layers[:6])
        raise ModelError(
            f"the order of its layers can be inferred neither from numbers in their names nor from shapes: {names}"
        )
    return ordered


def _dense(builder: Sequence, tensors: Mapping[str, np.ndarray], layers: list[str], activation: str) -> None:
    """Add dense layers with an activation between them, followed by the final probabilities."""
    for position, layer in enumerate(layers):
        weight = tensors[f"{layer}.weight"]
        weight = weight.reshape(weight.shape[0], -1).T  # timm stores dense layers as convolutions
        builder.dense(np.ascontiguousarray(weight), tensors.get(f"{layer}.bias"))
        if position < len(layers) - 1 and activation != "identity":
            builder.activate(activation)
    if layers and math.prod(builder.shape) > 1:
        builder.softmax()


def _check_names(shapes: Mapping[str, Shape], expected: set[str], what: str) -> None:
    missing = sorted(expected - set(shapes), key=_numbers)
    if missing:
        raise ModelError(f"the tensor {missing[0]!r} of {what} is missing")
    foreign = sorted(set(shapes) - expected, key=_numbers)
    if foreign:
        raise ModelError(f"tensor {foreign[0]!r} {list(shapes[foreign[0]])} does not belong to {what}; {KNOWN}")


def _numbers(name: str) -> tuple[list[int], str]:
    """Return a sort key that compares the numbers in a name numerically."""
    return [int(digits[:9]) for digits in re.findall(r"\d+", name)], name
