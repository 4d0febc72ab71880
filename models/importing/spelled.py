"""State dicts of sequences that the user describes: `--layers "conv1, relu, maxpool:2, flatten, fc1, relu, fc2"`.

A step is the name of a module in the state dict (the part of a tensor name before `.weight`), followed by
`:padding=1`, `:stride=2` or `:groups=8` if these apply to a convolution, or one of the following:
the name of an activation, `maxpool:WINDOW[:STRIDE]`,
`avgpool:WINDOW[:STRIDE]`, `globalpool`, `flatten`, `softmax`, `logsoftmax`, `dropout`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ..checks import MAX_SIDE, Shape
from ..errors import ModelError
from ..layers import ACTIVATION_PARAMETERS
from ..outputs import Output
from ..tensor_file import TensorFile, read_tensors
from .fold import batch_norm
from .picture import PreprocessingOptions, network_input
from .sequence import Sequence

BATCH_NORM_EPSILON = 1e-5  # PyTorch's default; a state dict does not contain the value
MAX_STEPS = 1_000
NORM_PARTS = ("weight", "bias", "running_mean", "running_var")

_DEFAULTS = {"leaky_relu": (0.01,), "elu": (1.0,), "hardsigmoid": (1 / 6, 0.5)}  # PyTorch's defaults
_PARTS = {"padding": 0, "stride": 1, "groups": 1}
_MAX_GUESSED = 1_024  # maximum side of a square image to try


def build_spelled(
    file: TensorFile, shapes: Mapping[str, Shape], layers: str, options: PreprocessingOptions
) -> tuple[Sequence, Output]:
    """Build the steps of `layers` with the tensors of a file; raise ModelError that names a step that does not fit."""
    steps = [step.strip() for step in layers.split(",") if step.strip()]
    if not 1 <= len(steps) <= MAX_STEPS:
        raise ModelError(f"--layers has {len(steps)} steps; 1 to {MAX_STEPS} are allowed")
    modules = {name.rsplit(".", 1)[0] for name in shapes if "." in name}
    kinds = {step.split(":")[0] for step in steps}
    left = sorted(module for module in modules if module not in kinds)
    if left:
        raise ModelError(f"--layers does not use the module {left[0]!r} of the state dict")
    tensors = read_tensors(file, shapes)
    first = next((step for step in steps if step.split(":")[0] in modules), None)
    if first is None:
        raise ModelError("--layers uses no module of the state dict")
    shape = _first_shape(steps, first, shapes, options)
    sequence = Sequence(network_input(shape, options))
    for number, step in enumerate(steps, start=1):
        try:
            _step(sequence, tensors, modules, step)
        except ModelError as error:
            raise ModelError(f"--layers, step {number} ({step}): {error}") from None
    return sequence, _meaning(steps[-1], sequence)


def _meaning(last: str, sequence: Sequence) -> Output:
    if last == "softmax":
        return Output("classes", "softmax")
    if last == "logsoftmax":
        return Output("classes", "log_softmax")
    if last == "sigmoid":
        return Output("sigmoid")
    return Output("values") if math.prod(sequence.shape) == 1 else Output("classes", "raw")


def _pool(sequence: Sequence, name: str, parts: list[str]) -> None:
    """Append a pool that is specified by its window and, if it differs, its stride."""
    window, stride = int(_number(parts[0])), int(_number(parts[-1]))
    if min(window, stride) < 1:
        raise ModelError("window and stride must be at least 1")
    sequence.pool("max" if name == "maxpool" else "average", window, stride)


def _step(sequence: Sequence, tensors: Mapping[str, np.ndarray], modules: set[str], step: str) -> None:
    name, *parts = step.split(":")
    if name in modules:
        _module(sequence, tensors, name, _parts(parts))
    elif name in ACTIVATION_PARAMETERS:
        parameters = tuple(_number(part) for part in parts) or _DEFAULTS.get(name, ())
        sequence.activate(name, parameters)
    elif name in ("maxpool", "avgpool") and 1 <= len(parts) <= 2:
        _pool(sequence, name, parts)
    elif name == "globalpool" and not parts:
        sequence.pool("average", 0, 0)
    elif name == "flatten" and not parts:
        sequence.flatten()
    elif name in ("softmax", "logsoftmax") and not parts:
        sequence.softmax(name == "logsoftmax")
    elif name != "dropout":
        raise ModelError("neither a module of the state dict nor a known step")


def _module(sequence: Sequence, tensors: Mapping[str, np.ndarray], name: str, parts: dict[str, int]) -> None:
    weight, bias = tensors.get(f"{name}.weight"), tensors.get(f"{name}.bias")
    if f"{name}.running_var" in tensors:
        if any(f"{name}.{part}" not in tensors for part in NORM_PARTS):
            raise ModelError("a batch normalisation must have weight, bias, running_mean and running_var")
        gamma, beta, mean, variance = (tensors[f"{name}.{part}"] for part in NORM_PARTS)
        sequence.affine(batch_norm(gamma, beta, mean, variance, BATCH_NORM_EPSILON))
    elif weight is not None and weight.ndim == 4:
        sequence.conv2d(weight, bias, (parts["padding"],) * 4, parts["stride"], parts["groups"])
    elif weight is not None and weight.ndim == 2:
        sequence.dense(np.ascontiguousarray(weight.T), bias)
    else:
        raise ModelError("its weight fits neither a convolution nor a dense layer")


def _parts(parts: list[str]) -> dict[str, int]:
    found = dict(_PARTS)
    for part in parts:
        key, _, value = part.partition("=")
        if key not in found:
            raise ModelError(f"{key!r} is unknown; known keys are {', '.join(found)}")
        found[key] = int(_number(value))
    return found


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ModelError(f"{text!r} is not a number") from None
    if not abs(value) < 1e6:
        raise ModelError(f"{text!r} is out of range")
    return value


def _first_shape(steps: list[str], first: str, shapes: Mapping[str, Shape], options: PreprocessingOptions) -> Shape:
    """Return the input shape of the first module: features, or an image of the given size.

    If no size is given, the square size that fits is used.
    """
    weight = shapes.get(f"{first.split(':')[0]}.weight", ())
    if len(weight) == 2:
        return weight[1:]
    if len(weight) != 4:
        raise ModelError("its first module is neither a convolution nor a dense layer")
    channels = weight[1] * _parts(first.split(":")[1:])["groups"]
    if options.size:
        return (channels, *options.size)
    for side in range(1, min(_MAX_GUESSED, MAX_SIDE) + 1):
        if _fits(steps, shapes, side):
            return (channels, side, side)
    raise ModelError("the image size cannot be inferred from the layers; set it with --input-size HxW")


def _fits(steps: list[str], shapes: Mapping[str, Shape], side: int) -> bool:
    """Return True if a square image with this side matches the input size of the first dense layer."""
    channels = 0
    for step in steps:
        name, *parts = step.split(":")
        weight = shapes.get(f"{name}.weight", ())
        if len(weight) == 4:
            stated = _parts(parts)
            if stated["stride"] < 1:
                return False
            side = (side + 2 * stated["padding"] - weight[2]) // stated["stride"] + 1
            channels = weight[0]
        elif len(weight) == 2:
            return channels * side**2 == weight[1]
        elif name in ("maxpool", "avgpool") and parts:
            window, stride = int(_number(parts[0])), max(1, int(_number(parts[-1])))
            side = (side - window) // stride + 1
        elif name == "globalpool":
            return False  # every size fits
        if side < 1:
            return False
    return False
