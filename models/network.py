"""Networks as data: an input, layers in topological order, labels and an output; checked when they are built.

Nothing here computes. The reference (`golden.py`), the lowering and the importer read the same description. Shapes are
those of one example, without the batch: (C, H, W) for an image, (F,) for features.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .checks import (
    INPUT,
    MAX_ELEMENTS,
    MAX_LABELS,
    MAX_LAYERS,
    MAX_MULTIPLY_ACCUMULATES,
    Shape,
    describe_shape,
)
from .errors import ModelError
from .inputs import INPUT_KINDS, Input
from .json_fields import build, fields_of, fill
from .layers import LAYER_KINDS, Layer, Softmax
from .outputs import Output
from .schema_1 import from_schema_1

SCHEMA = 2
_FIELDS = ("schema", "name", "input", "layers", "labels", "output")


@dataclass(frozen=True)
class Network:
    """An input, the layers, and a label for each output; ModelError when anything does not fit.

    The output is that of the last layer. Every layer reads earlier ones, and all but the last are read. After
    construction each layer's `inputs` are filled in. Without `output`, it follows from the last layer: probabilities
    after a softmax, raw scores of classes otherwise.
    """

    name: str
    input: Input
    layers: tuple[Layer, ...]
    labels: tuple[str, ...]
    output: Output = None  # type: ignore[assignment]  # never None after construction

    def __post_init__(self) -> None:
        if not self.name:
            raise ModelError("a network needs a name")
        if not 1 <= len(self.layers) <= MAX_LAYERS:
            raise ModelError(f"network {self.name!r} has {len(self.layers)} layers; 1 to {MAX_LAYERS} are allowed")
        before = (INPUT, *(layer.name for layer in self.layers))
        wired = tuple(
            layer if layer.inputs else dataclasses.replace(layer, inputs=(previous,))
            for layer, previous in zip(self.layers, before)
        )
        object.__setattr__(self, "layers", wired)
        if self.output is None:
            object.__setattr__(self, "output", _default_output(wired))
        self._check_reads()
        self._check_output(self.shapes()[wired[-1].name])

    def _check_reads(self) -> None:
        seen: set[str] = set()
        for position, layer in enumerate(self.layers):
            if layer.name in seen:
                raise ModelError(f"layer {layer.name!r}: the name is used twice")
            if isinstance(layer, Softmax) and position != len(self.layers) - 1:
                raise ModelError(f"layer {layer.name!r}: a softmax must be the last layer")
            fewest, most = layer.reads()
            if not fewest <= len(layer.inputs) <= most:
                count = str(fewest) if fewest == most else f"{fewest} to {most}"
                raise ModelError(f"layer {layer.name!r}: reads {len(layer.inputs)} layers; {count} are needed")
            for name in layer.inputs:
                if name != INPUT and name not in seen:
                    raise ModelError(f"layer {layer.name!r}: reads {name!r}, which is no layer before it")
            seen.add(layer.name)
        readers = self.readers()
        for layer in self.layers[:-1]:
            if not readers[layer.name]:
                raise ModelError(f"layer {layer.name!r}: nothing reads it, and it is not the last")

    def _check_output(self, shape: Shape) -> None:
        if len(shape) != 1 or ((self.labels or self.output.kind == "classes") and len(self.labels) != shape[0]):
            raise ModelError(
                f"network {self.name!r} ends in {describe_shape(shape)}, but has {len(self.labels)} labels; "
                "it must end in one feature for each label"
            )
        if self.output.none and (self.output.kind != "classes" or self.labels.count(self.output.none) != 1):
            raise ModelError(f"output: none is {self.output.none!r}, but no class has that label, or several have")
        if len(self.labels) > MAX_LABELS:
            raise ModelError(f"network {self.name!r} has {len(self.labels)} labels; at most {MAX_LABELS} are allowed")

    @property
    def answer_labels(self) -> tuple[str, ...]:
        """The labels that answers are chosen from; none where the output is values."""
        return () if self.output.kind == "values" else self.labels

    @cached_property
    def outputs(self) -> int:
        """The number of values in the output for one example."""
        return self.shapes()[self.layers[-1].name][0]

    def shapes(self) -> dict[str, Shape]:
        """Return the shapes of the input ("input") and of each layer's output; ModelError where they do not fit."""
        shapes: dict[str, Shape] = {INPUT: self.input.shape}
        work = 0
        for layer in self.layers:
            read = [shapes[name] for name in layer.inputs]
            after = layer.output_shape(*read)
            if math.prod(after) > MAX_ELEMENTS:
                raise ModelError(f"layer {layer.name!r}: its output of {describe_shape(after)} is too large")
            work += layer.multiply_accumulates(*read)
            if work > MAX_MULTIPLY_ACCUMULATES:
                raise ModelError(
                    f"layer {layer.name!r}: more than {MAX_MULTIPLY_ACCUMULATES:.2g} multiply-accumulates for one "
                    "example are too many"
                )
            shapes[layer.name] = after
        return shapes

    def readers(self) -> Mapping[str, int]:
        """Return how often layers read the input ("input") and each layer."""
        return Counter(name for layer in self.layers for name in layer.inputs)

    def tensor_shapes(self) -> dict[str, Shape]:
        """Return the shapes of all tensors by name, in the order of the layers."""
        return {name: shape for layer in self.layers for name, shape in layer.tensor_shapes().items()}

    def to_json(self) -> str:
        """Return the network as one line of JSON, which `from_json` converts back to an equal network."""
        return json.dumps(
            {
                "schema": SCHEMA,
                "name": self.name,
                "input": {"kind": self.input.kind, **dataclasses.asdict(self.input)},
                "layers": [{"kind": layer.kind, **dataclasses.asdict(layer)} for layer in self.layers],
                "labels": self.labels,
                "output": dataclasses.asdict(self.output),
            }
        )

    @staticmethod
    def from_json(text: str) -> Network:
        """Read the JSON of `to_json`, or of schema 1; ModelError for unknown or missing fields and kinds."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ModelError(f"the network is not valid JSON: {error}") from None
        fields = fields_of("network", data, _FIELDS, ("schema", "output"))
        schema = fields.get("schema", 1)
        if type(schema) is not int or not 1 <= schema <= SCHEMA:
            raise ModelError(f"network: schema is {json.dumps(schema)[:40]}; this release reads 1 and {SCHEMA}")
        layers, labels = fields["layers"], fields["labels"]
        if not isinstance(layers, list):
            raise ModelError("network: layers must be a list")
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise ModelError("network: labels must be a list of strings")
        if not isinstance(fields["name"], str):
            raise ModelError("network: name must be a string")
        built = []
        for number, layer in enumerate(layers, start=1):
            where = f"layer number {number}"
            built.append(build(LAYER_KINDS, where, from_schema_1(where, layer) if schema == 1 else layer))
        output = fill(Output, "output", fields["output"]) if "output" in fields else _default_output(built[-1:])
        return Network(fields["name"], build(INPUT_KINDS, INPUT, fields["input"]), tuple(built), tuple(labels), output)


def _default_output(layers: Sequence[Layer]) -> Output:
    """Return the output that follows from the last layer: classes, by softmax or as raw scores."""
    last = layers[-1] if layers else None
    if not isinstance(last, Softmax):
        return Output("classes", "raw")
    return Output("classes", "log_softmax" if last.log else "softmax")


def __getattr__(name: str) -> Any:
    # Earlier releases had layers, inputs and outputs here; scripts that build networks may still import them from here.
    from . import checks, errors, inputs, layers, outputs

    for home in (layers, inputs, outputs, checks, errors):
        if hasattr(home, name):
            return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
