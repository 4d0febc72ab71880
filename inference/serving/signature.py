"""The tensors of requests and responses in the Open Inference Protocol.

    input          [N, *example]       in the layout of the model file (channels first or last); for a network that
                                       reads pictures also BYTES [N]: PNG, JPEG and other picture files
    probabilities  FP32 [N, C]         for a network of classes or of independent labels
    values         FP32 [N, C]         for any other network
    class_index    INT32 [N]           the most probable class, computed by the argmax on the device
    label          BYTES [N]           the label of the most probable class
    scores         FP32 [N, C]         the scores before the softmax, for a network that ends in raw scores

A network imported from ONNX uses the names in its file, such as `image` and `logits`, for its input and for its scores
(or probabilities). The name `input` is always accepted in requests.

A network with several inputs has a separately named tensor for each of them, and so does a network with several
outputs, for which `class_index` and `label` refer to the primary output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...models.errors import InputError
from ...models.files import Model
from ...models.inputs import ImageInput, PartInput, SeveralInputs
from ...models.network import Network
from ..arrays import in_layout
from .workers import InputAnswer

INPUT, CLASS_INDEX, LABEL, SCORES = "input", "class_index", "label", "scores"
_TAKEN = ("probabilities", "values", CLASS_INDEX, LABEL)


@dataclass(frozen=True)
class TensorSpec:
    """The name, datatype and shape of a tensor; -1 in the shape is the number of examples.

    `other_name` is an alternative name in requests; `takes_pictures` is True if picture files may be sent instead of
    numbers.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    other_name: str = ""
    takes_pictures: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the tensor in the format of the metadata."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}

    def to_config(self) -> dict[str, Any]:
        """Return the tensor in the format of Triton's configuration, with the dimensions of one example."""
        datatype = {"BYTES": "STRING"}.get(self.datatype, self.datatype)
        return {"name": self.name, "data_type": f"TYPE_{datatype}", "dims": list(self.shape[1:]) or [1]}


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a network; `input_name` and `output_name` are the names in its original file, if
    known."""

    network: Network
    input_name: str = ""
    output_name: str = ""

    @classmethod
    def of(cls, model: Model) -> Signature:
        """Return the signature of a model, with the names in its metadata."""
        return cls(model.network, model.metadata.get("input_name", ""), model.metadata.get("output_name", ""))

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Return the tensors of a request."""
        spec = self.network.input
        if isinstance(spec, SeveralInputs):
            return tuple(TensorSpec(name, "FP32", (-1, *_example(part))) for name, part in self._parts.items())
        takes_pictures = isinstance(spec, ImageInput) and spec.preprocess != "none"
        name = self.input_name or INPUT
        return (TensorSpec(name, "FP32", (-1, *_example(spec)), INPUT if name != INPUT else "", takes_pictures),)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Return the tensors of a response."""
        tensors = [
            TensorSpec(name, "FP32", (-1, *output.shape))
            for name, output in zip(self._output_names, self.network.named_outputs)
        ]
        if self.network.answer_labels:
            tensors += [TensorSpec(CLASS_INDEX, "INT32", (-1,)), TensorSpec(LABEL, "BYTES", (-1,))]
        if self._own_output:
            tensors.append(TensorSpec(self._own_output, "FP32", (-1, *self.network.named_outputs[0].shape)))
        return tuple(tensors)

    @property
    def _own_output(self) -> str:
        """Return the name of the primary output in the file, otherwise the name of the raw scores, or "" if neither has
        a name."""
        is_taken = self.output_name in _TAKEN or self.network.others
        name = "" if is_taken else self.output_name
        return name or (SCORES if self.network.output.scores == "raw" and not self.network.others else "")

    def sources(self, tensors: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Convert the tensors of a request to inputs of the network, float32. Raises InputError if they do not
        match."""
        arrays = {name: _examples(name, tensors[name], spec) for name, spec in self._parts.items()}
        counts = {name: len(values) for name, values in arrays.items()}
        if len(set(counts.values())) > 1:
            counts_text = ", ".join(f"{name} has {count}" for name, count in counts.items())
            raise InputError(f"the inputs do not have the same number of examples: {counts_text}")
        spec = self.network.input
        return list(spec.pack(arrays) if isinstance(spec, SeveralInputs) else next(iter(arrays.values())))

    def arrays(self, answers: Sequence[InputAnswer]) -> dict[str, np.ndarray]:
        """Return the tensors of the predictions, keyed by name; BYTES tensors are arrays of objects."""
        rows = np.stack([answer.scores for answer in answers])
        outputs = zip(self._output_names, self.network.named_outputs, self.network.unpack(rows))
        tensors = {name: values.reshape(len(rows), *output.shape) for name, output, values in outputs}
        if self.network.answer_labels:
            tensors[CLASS_INDEX] = np.array([answer.class_index for answer in answers], np.int32)
            tensors[LABEL] = np.array(self.network.answer_labels, object)[tensors[CLASS_INDEX]]
        if self._own_output:
            scores = [answer.scores if answer.raw is None else answer.raw for answer in answers]
            tensors[self._own_output] = np.stack(scores).reshape(len(rows), *self.network.named_outputs[0].shape)
        return tensors

    def labels(self) -> dict[str, tuple[str, ...]]:
        """Return the labels of each tensor of scores that has labels."""
        outputs = zip(self._output_names, self.network.named_outputs)
        labels_of_outputs = {name: output.answer_labels for name, output in outputs if output.answer_labels}
        if self._own_output and self.network.answer_labels:
            labels_of_outputs[self._own_output] = self.network.answer_labels
        return labels_of_outputs

    @property
    def _parts(self) -> dict[str, PartInput]:
        spec = self.network.input
        if isinstance(spec, SeveralInputs):
            return {part.name: part.input for part in spec.parts}
        return {self.input_name or INPUT: spec}

    @property
    def _output_names(self) -> list[str]:
        if not self.network.others:
            return ["probabilities" if self.network.answer_labels else "values"]
        names = [output.name for output in self.network.named_outputs]
        return [f"{name}_output" if name in (CLASS_INDEX, LABEL) else name for name in names]


def _example(spec: PartInput) -> tuple[int, ...]:
    return spec.array_shape if isinstance(spec, ImageInput) else spec.shape


def _examples(name: str, values: np.ndarray, spec: PartInput) -> np.ndarray:
    """Convert a tensor to inputs of the network, float32 [N, *shape]."""
    if values.shape[1:] != _example(spec) or not len(values):
        shape = ", ".join(map(str, _example(spec)))
        raise InputError(f"{name} has the shape {list(values.shape)}; expected [N, {shape}] with N >= 1")
    try:
        if isinstance(spec, ImageInput):
            return in_layout(values, spec)
        with np.errstate(over="ignore"):
            numbers = values.astype(np.float32)
        if not np.isfinite(numbers).all():
            raise InputError("contains NaN, infinity or numbers outside the range of float32")
        return numbers
    except InputError as error:
        raise InputError(f"{name} {error}") from None
