"""A network as data: an input, an ordered tuple of layers and labels, checked when it is built.

Nothing here computes. The golden model (`golden.py`), the weight layout and the runtime read the same description, so
that a network is told once. Shapes are those of one example, without the batch: (C, H, W) for an image, (F,) for
features. To add a kind of layer: a frozen dataclass with `kind`, `tensor_shapes` and `output_shape`, an entry in
`LAYER_KINDS`, and its arithmetic in `golden.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import types
import typing
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

Shape = tuple[int, ...]

ACTIVATIONS = ("identity", "relu", "gelu", "sigmoid", "tanh")
PREPROCESSING = ("digit", "photo")

# Bounds that no real network comes near: they keep a hostile file from asking for terabytes.
MAX_SIDE = 16_384
MAX_CHANNELS = 65_536
MAX_FEATURES = 1 << 24
MAX_KERNEL_SIZE = 63
MAX_ELEMENTS = 1 << 28
MAX_LAYERS = 1_000


class ModelError(ValueError):
    """A network or a model file that cannot be used; the message is one line for the user."""


@dataclass(frozen=True)
class Conv2d:
    """Convolution of stride 1, then bias, activation and max pooling (stride = size, rows left over are dropped).

    Tensors: `<name>.weight` [out_channels, in_channels, kernel_size, kernel_size] and `<name>.bias` [out_channels].
    The activation comes before the pool, as in the networks that people train; only gelu, which is not monotone, can
    tell the difference.
    """

    name: str
    in_channels: int
    out_channels: int
    kernel_size: int
    padding: int = 0
    pool_size: int = 1
    activation: str = "identity"

    kind: ClassVar[str] = "conv2d"

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_range(self.name, "in_channels", self.in_channels, 1, MAX_CHANNELS)
        _check_range(self.name, "out_channels", self.out_channels, 1, MAX_CHANNELS)
        _check_range(self.name, "kernel_size", self.kernel_size, 1, MAX_KERNEL_SIZE)
        _check_range(self.name, "padding", self.padding, 0, MAX_KERNEL_SIZE)
        _check_range(self.name, "pool_size", self.pool_size, 1, 2)
        _check_choice(self.name, "activation", self.activation, ACTIVATIONS)

    def tensor_shapes(self) -> dict[str, Shape]:
        """Names and shapes of the tensors that this layer reads."""
        k = self.kernel_size
        return {
            f"{self.name}.weight": (self.out_channels, self.in_channels, k, k),
            f"{self.name}.bias": (self.out_channels,),
        }

    def output_shape(self, input_shape: Shape) -> Shape:
        """(C, H, W) in, (C', H', W') out; ModelError where the input does not fit."""
        if len(input_shape) != 3 or input_shape[0] != self.in_channels:
            raise ModelError(
                f"layer {self.name!r}: takes {self.in_channels} channels of an image, but what comes before gives "
                f"{describe_shape(input_shape)}"
            )
        sides = [(side + 2 * self.padding - self.kernel_size + 1) // self.pool_size for side in input_shape[1:]]
        if min(sides) < 1:
            raise ModelError(
                f"layer {self.name!r}: a {self.kernel_size}x{self.kernel_size} kernel with padding {self.padding} and "
                f"pool {self.pool_size} leaves nothing of {describe_shape(input_shape)}"
            )
        return (self.out_channels, sides[0], sides[1])


@dataclass(frozen=True)
class Dense:
    """y = activation(x @ weight + bias).

    Tensors: `<name>.weight` [in_features, out_features] and `<name>.bias` [out_features].
    """

    name: str
    in_features: int
    out_features: int
    activation: str = "identity"

    kind: ClassVar[str] = "dense"

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_range(self.name, "in_features", self.in_features, 1, MAX_FEATURES)
        _check_range(self.name, "out_features", self.out_features, 1, MAX_FEATURES)
        _check_choice(self.name, "activation", self.activation, ACTIVATIONS)

    def tensor_shapes(self) -> dict[str, Shape]:
        """Names and shapes of the tensors that this layer reads."""
        return {
            f"{self.name}.weight": (self.in_features, self.out_features),
            f"{self.name}.bias": (self.out_features,),
        }

    def output_shape(self, input_shape: Shape) -> Shape:
        """(F,) in, (F',) out; ModelError where the input does not fit."""
        if input_shape != (self.in_features,):
            hint = "; put a flatten before it" if len(input_shape) == 3 else ""
            raise ModelError(
                f"layer {self.name!r}: takes {self.in_features} features, but what comes before gives "
                f"{describe_shape(input_shape)}{hint}"
            )
        return (self.out_features,)


@dataclass(frozen=True)
class AveragePool:
    """Average over windows that lie side by side (stride = window); rows and columns left over are dropped.

    With the window as large as the image, it is a global average pool. No tensors.
    """

    name: str
    window_height: int
    window_width: int

    kind: ClassVar[str] = "average_pool"

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_range(self.name, "window_height", self.window_height, 1, MAX_SIDE)
        _check_range(self.name, "window_width", self.window_width, 1, MAX_SIDE)

    def tensor_shapes(self) -> dict[str, Shape]:
        """No tensors."""
        return {}

    def output_shape(self, input_shape: Shape) -> Shape:
        """(C, H, W) in, (C, H', W') out; ModelError where the input does not fit."""
        if len(input_shape) != 3 or input_shape[1] < self.window_height or input_shape[2] < self.window_width:
            raise ModelError(
                f"layer {self.name!r}: averages over {self.window_height}x{self.window_width} pixels of an image, but "
                f"what comes before gives {describe_shape(input_shape)}"
            )
        return (input_shape[0], input_shape[1] // self.window_height, input_shape[2] // self.window_width)


@dataclass(frozen=True)
class Flatten:
    """(C, H, W) to (C * H * W,), channel by channel and row by row."""

    name: str

    kind: ClassVar[str] = "flatten"

    def __post_init__(self) -> None:
        _check_name(self.name)

    def tensor_shapes(self) -> dict[str, Shape]:
        """No tensors."""
        return {}

    def output_shape(self, input_shape: Shape) -> Shape:
        """Any shape in, one axis out."""
        return (math.prod(input_shape),)


@dataclass(frozen=True)
class Softmax:
    """Probabilities over the features; always the last layer."""

    name: str

    kind: ClassVar[str] = "softmax"

    def __post_init__(self) -> None:
        _check_name(self.name)

    def tensor_shapes(self) -> dict[str, Shape]:
        """No tensors."""
        return {}

    def output_shape(self, input_shape: Shape) -> Shape:
        """(F,) in, (F,) out; ModelError for an image."""
        if len(input_shape) != 1:
            raise ModelError(
                f"layer {self.name!r}: takes features, but what comes before gives {describe_shape(input_shape)}"
            )
        return input_shape


@dataclass(frozen=True)
class ImageInput:
    """An image [channels, height, width] and how a picture becomes it.

    `preprocess` names the way (see `preprocess.py`); its result, in 0..1, is then (value - mean) / std by channel.
    `resize` is for "photo" alone: the shorter side of the picture, in pixels, before height x width are cut from its
    middle.
    """

    channels: int
    height: int
    width: int
    preprocess: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resize: int = 0

    kind: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        _check_range("input", "channels", self.channels, 1, MAX_CHANNELS)
        _check_range("input", "height", self.height, 1, MAX_SIDE)
        _check_range("input", "width", self.width, 1, MAX_SIDE)
        _check_choice("input", "preprocess", self.preprocess, PREPROCESSING)
        for field, values in (("mean", self.mean), ("std", self.std)):
            if len(values) != self.channels or not all(math.isfinite(value) for value in values):
                raise ModelError(f"input: {field} is {values}, but {self.channels} finite numbers are needed")
        if min(self.std) <= 0:
            raise ModelError(f"input: std is {self.std}, but each must be above 0")
        if self.preprocess != "photo":
            _check_range("input", "resize", self.resize, 0, 0)
            return
        _check_range("input", "resize", self.resize, max(self.height, self.width), MAX_SIDE)
        if self.channels not in (1, 3):
            raise ModelError(f"input: channels is {self.channels}; a photo has 3, red, green and blue, or 1, grey")

    @property
    def shape(self) -> Shape:
        """(C, H, W)."""
        return (self.channels, self.height, self.width)


@dataclass(frozen=True)
class FeatureInput:
    """A row of numbers, used as it comes."""

    features: int

    kind: ClassVar[str] = "features"

    def __post_init__(self) -> None:
        _check_range("input", "features", self.features, 1, MAX_FEATURES)

    @property
    def shape(self) -> Shape:
        """(F,)."""
        return (self.features,)


Layer = Conv2d | Dense | AveragePool | Flatten | Softmax
Input = ImageInput | FeatureInput

LAYER_KINDS: dict[str, type[Layer]] = {kind.kind: kind for kind in (Conv2d, Dense, AveragePool, Flatten, Softmax)}
INPUT_KINDS: dict[str, type[Input]] = {kind.kind: kind for kind in (ImageInput, FeatureInput)}


@dataclass(frozen=True)
class Network:
    """An input, the layers in order, and a label for each output; ModelError when anything does not fit."""

    name: str
    input: Input
    layers: tuple[Layer, ...]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.name:
            raise ModelError("a network needs a name")
        if not 1 <= len(self.layers) <= MAX_LAYERS:
            raise ModelError(f"network {self.name!r} has {len(self.layers)} layers; 1 to {MAX_LAYERS} are allowed")
        seen: set[str] = set()
        shape = self.input.shape
        for position, layer in enumerate(self.layers):
            if layer.name in seen:
                raise ModelError(f"layer {layer.name!r}: the name is used twice")
            seen.add(layer.name)
            if isinstance(layer, Softmax) and position != len(self.layers) - 1:
                raise ModelError(f"layer {layer.name!r}: a softmax must be the last layer")
            shape = output_shape(layer, shape)
            if math.prod(shape) > MAX_ELEMENTS:
                raise ModelError(f"layer {layer.name!r}: its output of {describe_shape(shape)} is too large")
        if len(shape) != 1 or len(self.labels) != shape[0]:
            raise ModelError(
                f"network {self.name!r} ends in {describe_shape(shape)}, but has {len(self.labels)} labels; "
                "it must end in one feature for each label"
            )

    def tensor_shapes(self) -> dict[str, Shape]:
        """Names and shapes of all tensors, in the order of the layers."""
        return {name: shape for layer in self.layers for name, shape in layer.tensor_shapes().items()}

    def layer_shapes(self) -> list[tuple[Shape, Shape]]:
        """(input shape, output shape) of each layer, in order."""
        shapes = []
        shape = self.input.shape
        for layer in self.layers:
            after = layer.output_shape(shape)
            shapes.append((shape, after))
            shape = after
        return shapes

    def to_json(self) -> str:
        """The network as one line of JSON, which `from_json` reads back to an equal network."""
        return json.dumps(
            {
                "name": self.name,
                "input": {"kind": self.input.kind, **dataclasses.asdict(self.input)},
                "layers": [{"kind": layer.kind, **dataclasses.asdict(layer)} for layer in self.layers],
                "labels": self.labels,
            }
        )

    @staticmethod
    def from_json(text: str) -> Network:
        """Read what `to_json` wrote; ModelError for anything else: unknown or missing fields, kinds and types."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ModelError(f"the network is not valid JSON: {error}") from None
        fields = _fields("network", data, ("name", "input", "layers", "labels"))
        layers, labels = fields["layers"], fields["labels"]
        if not isinstance(layers, list):
            raise ModelError("network: layers must be a list")
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise ModelError("network: labels must be a list of strings")
        if not isinstance(fields["name"], str):
            raise ModelError("network: name must be a string")
        return Network(
            fields["name"],
            _build(INPUT_KINDS, "input", fields["input"]),
            tuple(_build(LAYER_KINDS, f"layer number {number}", layer) for number, layer in enumerate(layers, start=1)),
            tuple(labels),
        )


def output_shape(layer: Layer, input_shape: Shape) -> Shape:
    """Shape after `layer` of one example of `input_shape`; ModelError where they do not fit."""
    return layer.output_shape(input_shape)


def describe_shape(shape: Shape) -> str:
    """A shape in words, for messages: '64 features' or 'an image of 1x32x32'."""
    if len(shape) == 1:
        return f"{shape[0]} features"
    return f"an image of {'x'.join(map(str, shape))}"


def _check_name(name: str) -> None:
    if not name or not name.isprintable() or name != name.strip():
        raise ModelError(f"layer name {name!r} must be printable, not empty, and without spaces at its ends")


def _check_range(where: str, field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ModelError(f"{_place(where)}: {field} is {value}; {low} to {high} are allowed")


def _check_choice(where: str, field: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ModelError(f"{_place(where)}: {field} is {value!r}; allowed are {', '.join(allowed)}")


def _place(where: str) -> str:
    return "input" if where == "input" else f"layer {where!r}"


_Kind = TypeVar("_Kind")


def _fields(where: str, data: Any, allowed: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a JSON object, which must be exactly the allowed ones (but for optional ones left out)."""
    if not isinstance(data, dict):
        raise ModelError(f"{where} must be a JSON object, not {type(data).__name__}")
    unknown = [key for key in data if key not in allowed]
    if unknown:
        raise ModelError(f"{where}: unknown field {unknown[0]!r}; allowed are {', '.join(allowed)}")
    missing = [key for key in allowed if key not in data and key not in optional]
    if missing:
        raise ModelError(f"{where}: the field {missing[0]!r} is missing")
    return data


def _build(kinds: dict[str, type[_Kind]], where: str, data: Any) -> _Kind:
    """An input or a layer from its JSON object, by its `kind`, with every field's type checked."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise ModelError(f"{where}: unknown kind {kind!r}; known are {', '.join(kinds)}")
    cls: Any = kinds[kind]
    hints = typing.get_type_hints(cls)
    declared = dataclasses.fields(cls)
    optional = tuple(field.name for field in declared if field.default is not dataclasses.MISSING)
    fields = _fields(where, data, ("kind", *(field.name for field in declared)), optional)
    values = {key: _typed(where, key, value, hints[key]) for key, value in fields.items() if key != "kind"}
    built: _Kind = cls(**values)
    return built


def _typed(where: str, key: str, value: Any, hint: Any) -> Any:
    """`value` as the field's type: int, str, or a tuple of floats. A bool is no int."""
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is str and isinstance(value, str):
        return value
    if isinstance(hint, types.GenericAlias) and isinstance(value, list):
        numbers = all(isinstance(item, (int, float)) and not isinstance(item, bool) for item in value)
        with contextlib.suppress(OverflowError):  # of a whole number beyond any float
            if numbers:
                return tuple(float(item) for item in value)
    wanted = {int: "a whole number", str: "a string"}.get(hint, "a list of numbers")
    raise ModelError(f"{where}: {key} must be {wanted}, not {json.dumps(value)[:40]}")
