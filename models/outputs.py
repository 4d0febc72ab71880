"""The outputs of a network and the meaning of their values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .boxes import BoxHead
from .checks import MAX_LABELS, check_choice, check_printable
from .errors import ModelError
from .json_fields import fields_of, fill, typed

OUTPUT_KINDS = ("classes", "sigmoid", "values", "boxes", "map")
LABELLED_KINDS = ("classes", "sigmoid")  # kinds with a label for each value
CLASS_SCORES = ("raw", "softmax", "log_softmax")
MAX_VALUES = 1 << 22  # elements of an unlabelled output: an image of 3x1024x1024


@dataclass(frozen=True)
class Output:
    """The meaning of the last layer's values, selected by `kind`.

    "classes": scores of mutually exclusive classes; `scores` is "raw", "softmax" (probabilities) or "log_softmax"
    (logarithms of probabilities). "sigmoid": independent probabilities, one for each label, or a single one. "values":
    plain numbers, such as a regression result or an embedding. "boxes": objects in a picture, encoded as described by
    `boxes`. "map": the class of each pixel, which the last layer, a `PixelArgmax`, computes from scores
    [classes, rows, columns].

    For classes, `none` may specify the label of inputs that belong to no other class.
    """

    kind: str = "classes"
    scores: str = ""
    none: str = ""
    boxes: BoxHead | None = field(default=None, metadata={"late": True})

    def __post_init__(self) -> None:
        check_choice("output", "kind", self.kind, OUTPUT_KINDS)
        check_choice("output", "scores", self.scores, CLASS_SCORES if self.kind == "classes" else ("",))
        if (self.kind == "boxes") != (self.boxes is not None):
            raise ModelError(
                f"output: kind is {self.kind}, but boxes are {'missing' if self.boxes is None else 'given'}"
            )

    @property
    def is_labelled(self) -> bool:
        """True if the output has a probability for each label, so that a label can be chosen as the answer."""
        return self.kind in LABELLED_KINDS


@dataclass(frozen=True)
class NamedOutput:
    """One output of a network: its name, the layer that computes it, its shape, its meaning, and its labels.

    The layer's output must be features; `shape` is the shape of an example in the original file, such as (896, 16) for
    boxes or (rows, columns) for a map. There is one label per value, or no labels; boxes and maps have one label per
    class.
    """

    name: str
    layer: str
    shape: tuple[int, ...]
    output: Output
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_printable("output name", self.name)

    @cached_property
    def size(self) -> int:
        """The number of values for one example."""
        return math.prod(self.shape)

    @property
    def answer_labels(self) -> tuple[str, ...]:
        """The labels from which answers are chosen; empty if the values are not labelled."""
        return self.labels if self.output.is_labelled else ()

    def check(self, width: int) -> None:
        """Raise ModelError unless shape and labels match the layer's `width` features."""
        where = f"output {self.name!r}"
        if self.size != width or min(self.shape, default=0) < 1:
            raise ModelError(f"{where}: its shape is {list(self.shape)[:8]}, but layer {self.layer!r} outputs {width}")
        if self.output.boxes is not None:
            self.output.boxes.check_shape(self.shape)
            expected, description = self.output.boxes.classes, "classes of boxes"
        else:
            expected, description = width, "numbers"
        if self.output.kind == "map":  # `Network` checks the layer that computes the classes
            if len(self.shape) != 2:
                raise ModelError(f"{where}: a map must have rows and columns, not {list(self.shape)[:8]}")
        elif (self.labels or self.output.kind in ("classes", "boxes")) and len(self.labels) != expected:
            raise ModelError(
                f"{where}: {expected} {description}, but {len(self.labels)} labels; expected one label for each"
            )
        if len(self.labels) > MAX_LABELS:
            raise ModelError(f"{where}: {len(self.labels)} labels; at most {MAX_LABELS} are allowed")
        if self.output.none and (self.output.kind != "classes" or self.labels.count(self.output.none) != 1):
            raise ModelError(f"{where}: none is {self.output.none!r}, which must be the label of exactly one class")


def read_outputs(data: Any) -> tuple[NamedOutput, ...]:
    """Build outputs from a list of JSON objects; raise ModelError for unknown or missing fields."""
    if not isinstance(data, list):
        raise ModelError("network: others must be a list")
    outputs = []
    for number, item in enumerate(data, start=1):
        where = f"output number {number}"
        fields = fields_of(where, item, ("name", "layer", "shape", "output", "labels"))
        outputs.append(
            NamedOutput(
                typed(where, "name", fields["name"], str),
                typed(where, "layer", fields["layer"], str),
                typed(where, "shape", fields["shape"], tuple[int, ...]),
                fill(Output, where, fields["output"]),
                typed(where, "labels", fields["labels"], tuple[str, ...]),
            )
        )
    return tuple(outputs)
