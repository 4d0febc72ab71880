"""The tensors of a network as the Open Inference Protocol names them: what is sent, and what comes back.

input          [N, *example]     as the model file has its examples (channels first or last)
probabilities  FP32 [N, C]       of a network of classes or of independent labels
values         FP32 [N, C]       of any other
class_index    INT32 [N]         the most probable class, by the argmax on the device
label          BYTES [N]         its label
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...models.errors import InputError
from ...models.network import ImageInput, Network
from ..arrays import in_layout
from ..predictions import make_predictions
from .workers import InputAnswer

INPUT = "input"


@dataclass(frozen=True)
class TensorSpec:
    """A tensor's name, datatype and shape; -1 is the number of examples."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """The tensor as metadata has it."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


@dataclass(frozen=True)
class Signature:
    """What a network reads and returns."""

    network: Network

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The tensors of a request."""
        return (TensorSpec(INPUT, "FP32", (-1, *self._example)),)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The tensors of an answer."""
        scores = "probabilities" if self.network.answer_labels else "values"
        tensors = [TensorSpec(scores, "FP32", (-1, self.network.outputs))]
        if self.network.answer_labels:
            tensors += [TensorSpec("class_index", "INT32", (-1,)), TensorSpec("label", "BYTES", (-1,))]
        return tuple(tensors)

    def sources(self, values: np.ndarray) -> list[np.ndarray]:
        """The examples of an array [N, *example] as the network reads them, float32; InputError for others."""
        if values.shape[1:] != self._example or not len(values):
            shape = ", ".join(map(str, self._example))
            raise InputError(f"{INPUT} has the shape {list(values.shape)}; [N, {shape}] is needed, N from 1 up")
        spec = self.network.input
        if isinstance(spec, ImageInput):
            return list(in_layout(values, spec))
        with np.errstate(over="ignore"):
            numbers = values.astype(np.float32)
        if not np.isfinite(numbers).all():
            raise InputError("holds NaN, infinity, or numbers beyond float32")
        return list(numbers)

    def arrays(self, answers: Sequence[InputAnswer]) -> dict[str, np.ndarray]:
        """The tensors of the answers, by name; BYTES as an array of objects. "label_names" are those of all classes."""
        scores = np.stack([answer.scores for answer in answers])
        classes = np.array([answer.class_index for answer in answers], np.int32)
        labels = self.network.answer_labels
        if not labels:
            return {"values": scores}
        told = make_predictions(range(len(answers)), labels, classes, scores, 1)
        names = np.array([answer.label for answer in told], object)
        tensors = {"probabilities": scores, "class_index": classes, "label": names}
        return {**tensors, "label_names": np.array(labels, object)}

    @property
    def _example(self) -> tuple[int, ...]:
        spec = self.network.input
        return spec.array_shape if isinstance(spec, ImageInput) else spec.shape
