"""Descriptions of networks: an input, layers in topological order, labels and an output, checked on construction.

This module performs no computation. The reference (`golden.py`), the lowering and the importer all use this
description. Shapes describe a single example, without the batch axis: (C, H, W) for an image, (F,) for features.
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

import numpy as np

from .checks import (
    INPUT,
    MAX_ELEMENTS,
    MAX_LAYERS,
    MAX_MULTIPLY_ACCUMULATES,
    Shape,
    describe_shape,
)
from .errors import ModelError
from .inputs import ImageInput, Input, SeveralInputs, describe_input, read_input
from .json_fields import build, described, fields_of, fill, typed
from .layers import LAYER_KINDS, Layer, PixelArgmax, Softmax
from .outputs import NamedOutput, Output, read_outputs
from .schema_1 import from_schema_1

SCHEMA = 4  # for networks with boxes or a map; 3 is written for several inputs or outputs, otherwise 2
MAX_OUTPUTS = 64
_FIELDS = ("schema", "name", "input", "layers", "labels", "output")
_NEW_FIELDS = ("output_name", "output_shape", "others")


@dataclass(frozen=True)
class Network:
    """An input, the layers, and a label for each output; raises ModelError if they are inconsistent.

    The last layer computes the output. Every layer reads the outputs of earlier layers, and the output of every layer
    except the last must be read. Construction fills in the `inputs` of each layer. If `output` is not given, it follows
    from the last layer: probabilities after a softmax, raw class scores otherwise.

    If a network has several outputs, the primary one is computed by the last layer and described by `labels`, `output`,
    `output_name` and `output_shape` (see `NamedOutput`). The remaining outputs are listed in `others`, each with the
    name of the layer that computes it.
    """

    name: str
    input: Input
    layers: tuple[Layer, ...]
    labels: tuple[str, ...]
    output: Output = None  # type: ignore[assignment]  # never None after construction
    others: tuple[NamedOutput, ...] = ()
    output_name: str = "output"
    output_shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise ModelError("a network must have a name")
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
        self._check_outputs(self.shapes())

    def _check_reads(self) -> None:
        earlier: set[str] = set()
        readers, answers = self.readers(), {self.layers[-1].name, *(other.layer for other in self.others)}
        for layer in self.layers:
            if layer.name in earlier:
                raise ModelError(f"layer {layer.name!r}: this name is used twice")
            if isinstance(layer, Softmax) and (layer.name not in answers or readers[layer.name]):
                raise ModelError(f"layer {layer.name!r}: a softmax must be the last layer")
            _check_inputs(layer, earlier)
            earlier.add(layer.name)
        for layer in self.layers:
            if not readers[layer.name] and layer.name not in answers:
                raise ModelError(f"layer {layer.name!r}: no layer reads its output, although it is not the last layer")

    def _check_outputs(self, shapes: Mapping[str, Shape]) -> None:
        shape = shapes[self.layers[-1].name]
        is_labelled = self.output.kind == "classes" or (self.labels and self.output.kind not in ("boxes", "map"))
        if len(shape) != 1 or (is_labelled and len(self.labels) != shape[0]):
            raise ModelError(
                f"network {self.name!r} outputs {describe_shape(shape)}, but has {len(self.labels)} labels; "
                "it must output one value per label"
            )
        for output in self.named_outputs:
            if output.layer not in shapes or len(shapes[output.layer]) != 1:
                raise ModelError(
                    f"output {output.name!r}: layer {output.layer!r} does not exist or does not output features"
                )
            output.check(shapes[output.layer][0])
        names = [output.name for output in self.named_outputs]
        if len(set(names)) < len(names) or len(names) > MAX_OUTPUTS:
            raise ModelError(f"{len(names)} outputs; at most {MAX_OUTPUTS} are allowed, with different names")
        self._check_boxes()
        self._check_map(shapes)

    def _check_map(self, shapes: Mapping[str, Shape]) -> None:
        """Raise ModelError unless a map is the primary output, refers to an image, and has a label for each class."""
        if any(other.output.kind == "map" for other in self.others):
            raise ModelError("a map must be the primary output")
        if self.output.kind != "map":
            return
        last = self.layers[-1]
        if not isinstance(last, PixelArgmax) or not isinstance(self.input, ImageInput):
            raise ModelError("output: a map requires an image input and a pixel_argmax as the last layer")
        if shapes[last.inputs[0]][1:] != self.output_shape or len(self.labels) != last.classes:
            raise ModelError(
                f"output: a map of {describe_shape(shapes[last.inputs[0]])} scores must have one label for each class "
                f"and the shape [rows, columns], got {len(self.labels)} labels and the shape "
                f"{list(self.output_shape)[:8]}"
            )

    def _check_boxes(self) -> None:
        """Raise ModelError unless boxes are the primary output, refer to an image, and all outputs they need exist."""
        if any(other.output.kind == "boxes" for other in self.others):
            raise ModelError("boxes must be the primary output")
        head = self.output.boxes
        if head is None:
            return
        if not isinstance(self.input, ImageInput):
            raise ModelError("boxes require an image input")
        shapes = {other.name: other.shape for other in self.others}
        count = self.named_outputs[0].shape[0 if head.layout == "rows" else 1]
        if head.box_count(self.input.height, self.input.width) not in (None, count):
            raise ModelError(f"boxes: the number of boxes, {count}, does not match the strides for {self.input.shape}")
        required = {
            head.scores_from: (count, head.score_count),
            head.keypoints_from: (count, head.keypoints * head.keypoint_size),
        }
        for name in head.other_outputs:
            shape = shapes.get(name, ())
            fits = len(shape) == 3 and shape[0] == head.masks if name == head.prototypes else shape == required[name]
            if not fits:
                raise ModelError(f"boxes: the output {name!r} of shape {list(shape)} does not match the boxes")

    @cached_property
    def named_outputs(self) -> tuple[NamedOutput, ...]:
        """All outputs, with the primary one first; packed rows contain their values in this order."""
        shape = self.output_shape or (self.outputs,)
        return (NamedOutput(self.output_name, self.layers[-1].name, shape, self.output, self.labels), *self.others)

    @property
    def answer_labels(self) -> tuple[str, ...]:
        """The labels from which answers are chosen; empty if the values of the output are not labelled."""
        return self.labels if self.output.is_labelled else ()

    @cached_property
    def outputs(self) -> int:
        """The number of values in the primary output for one example."""
        return self.shapes()[self.layers[-1].name][0]

    @cached_property
    def row_size(self) -> int:
        """The number of values in all outputs for one example."""
        return sum(output.size for output in self.named_outputs)

    def unpack(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """Split rows [B, row_size] into the outputs [B, size], as views, in the order of `named_outputs`."""
        ends = np.cumsum([output.size for output in self.named_outputs])
        return tuple(np.split(rows, ends[:-1], axis=1))

    def shapes(self) -> dict[str, Shape]:
        """Return the shapes of the input ("input") and of each layer's output; raise ModelError on a mismatch."""
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
                    f"layer {layer.name!r}: one example requires more than the maximum of "
                    f"{MAX_MULTIPLY_ACCUMULATES:.2g} multiply-accumulates"
                )
            shapes[layer.name] = after
        return shapes

    def readers(self) -> Mapping[str, int]:
        """Return the number of times that layers read the input ("input") and the output of each layer."""
        return Counter(name for layer in self.layers for name in layer.inputs)

    def tensor_shapes(self) -> dict[str, Shape]:
        """Return the shapes of all tensors, keyed by name, in the order of the layers."""
        return {name: shape for layer in self.layers for name, shape in layer.tensor_shapes().items()}

    def to_json(self) -> str:
        """Return the network as a single line of JSON, which `from_json` converts back to an equal network."""
        has_new = bool(self.others or self.output_shape or isinstance(self.input, SeveralInputs))
        data: dict[str, Any] = {
            "schema": SCHEMA if self.output.kind in ("boxes", "map") else 3 if has_new else 2,
            "name": self.name,
            "input": describe_input(self.input),
            "layers": [described(layer) for layer in self.layers],
            "labels": self.labels,
            "output": described(self.output),
        }
        if has_new:
            data |= {"output_name": self.output_name, "output_shape": self.output_shape}
            data["others"] = [{**dataclasses.asdict(other), "output": described(other.output)} for other in self.others]
        return json.dumps(data)

    @staticmethod
    def from_json(text: str) -> Network:
        """Build a network from JSON as written by `to_json`, or in an earlier schema.

        Raises ModelError for unknown or missing fields and kinds.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ModelError(f"the network is not valid JSON: {error}") from None
        fields = fields_of("network", data, (*_FIELDS, *_NEW_FIELDS), ("schema", "output", *_NEW_FIELDS))
        schema = fields.get("schema", 1)
        if type(schema) is not int or not 1 <= schema <= SCHEMA:
            raise ModelError(f"network: schema is {json.dumps(schema)[:40]}; this release reads 1 to {SCHEMA}")
        if not isinstance(fields["layers"], list):
            raise ModelError("network: layers must be a list")
        built = []
        for number, layer in enumerate(fields["layers"], start=1):
            where = f"layer number {number}"
            built.append(build(LAYER_KINDS, where, from_schema_1(where, layer) if schema == 1 else layer))
        return Network(
            name=typed("network", "name", fields["name"], str),
            input=read_input(fields["input"]),
            layers=tuple(built),
            labels=typed("network", "labels", fields["labels"], tuple[str, ...]),
            output=fill(Output, "output", fields["output"]) if "output" in fields else _default_output(built[-1:]),
            others=read_outputs(fields.get("others", [])),
            output_name=typed("network", "output_name", fields.get("output_name", "output"), str),
            output_shape=typed("network", "output_shape", fields.get("output_shape", []), tuple[int, ...]),
        )


def _check_inputs(layer: Layer, earlier: set[str]) -> None:
    """Raise ModelError unless a layer reads a permitted number of layers, all of which precede it."""
    fewest, most = layer.reads()
    if not fewest <= len(layer.inputs) <= most:
        count = str(fewest) if fewest == most else f"{fewest} to {most}"
        raise ModelError(f"layer {layer.name!r}: reads {len(layer.inputs)} layers; expected {count}")
    for name in layer.inputs:
        if name != INPUT and name not in earlier:
            raise ModelError(f"layer {layer.name!r}: reads {name!r}, which is not an earlier layer")


def _default_output(layers: Sequence[Layer]) -> Output:
    """Return the output implied by the last layer: classes, as softmax probabilities or as raw scores."""
    last = layers[-1] if layers else None
    if not isinstance(last, Softmax):
        return Output("classes", "raw")
    return Output("classes", "log_softmax" if last.log else "softmax")


def __getattr__(name: str) -> Any:
    # Earlier releases defined layers, inputs and outputs in this module, so scripts may still import them from here.
    from . import checks, errors, inputs, layers, outputs

    for home in (layers, inputs, outputs, checks, errors):
        if hasattr(home, name):
            return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
