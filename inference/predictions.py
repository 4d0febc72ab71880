"""The predictions of a network for an input: labels with probabilities, or values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..models.network import Network

if TYPE_CHECKING:
    from .box import Box
    from .class_maps import ClassMap


@dataclass(frozen=True)
class LabelProbability:
    """A label and its probability."""

    label: str
    class_index: int
    probability: float


class InputNames(str):
    """The sources of several inputs of a network, keyed by input name. Its string form lists all of them on one
    line."""

    sources: dict[str, str]

    def __new__(cls, sources: Mapping[str, str]) -> InputNames:
        """Create the names from `sources`, which maps input names to file names or numbers."""
        names = super().__new__(cls, ", ".join(f"{name}={source}" for name, source in sources.items()))
        names.sources = dict(sources)
        return names

    def __getnewargs__(self) -> tuple[dict[str, str]]:  # type: ignore[override]  # used when copying
        return (self.sources,)


@dataclass(frozen=True)
class Answer:
    """The interpretation of one output of a network for one input.

    For classes or independent labels, it contains the most probable label, and `top`. For values (a regression, an
    embedding, a single probability), it contains `values` and no label.
    """

    label: str | None
    class_index: int | None
    probability: float | None
    top: tuple[LabelProbability, ...]
    values: tuple[float, ...] | None

    @property
    def text(self) -> str:
        """Return the label, the values separated by spaces, each box with its confidence, or each class with its
        percentage."""
        return self.label or " ".join(f"{value:.9g}" for value in self.values or ())


@dataclass(frozen=True)
class OutputAnswer(Answer):
    """The prediction of one of several outputs: its name, its kind ("classes", "sigmoid" or "values"), and its shape in
    the original file."""

    name: str
    kind: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Prediction:
    """The prediction for an input, which is a file name, a row number, or `InputNames`.

    It has the same fields as `Answer`. If there are several outputs, `outputs` contains all of them, with the primary
    output first, and the other fields repeat the values of the primary output. For a network of boxes, `boxes` contains
    the boxes of the picture in order of decreasing confidence, and `size` is its width and height. For a network of
    class maps, `map` is the map of the picture. In both cases, the label, class and probability are None. If the values
    are an array of several axes, such as a picture, `shape` is its shape in the original file.
    """

    input: str | int
    label: str | None
    class_index: int | None
    probability: float | None
    top: tuple[LabelProbability, ...]
    values: tuple[float, ...] | None = None
    outputs: tuple[OutputAnswer, ...] = ()
    boxes: tuple[Box, ...] | None = None
    size: tuple[int, int] | None = None
    map: ClassMap | None = None
    shape: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        name = self.input if isinstance(self.input, int) else str(self.input)
        if self.boxes is not None:
            return f"Prediction(input={name!r}, boxes={self.boxes!r})"
        if self.map is not None:
            return f"Prediction(input={name!r}, map={self.map!r})"
        if self.values is None:
            return f"Prediction(input={name!r}, label={self.label!r}, probability={self.probability})"
        values = ", ".join(f"{value:.6g}" for value in self.values[:4])
        return f"Prediction(input={name!r}, values=({values}{', ...' if len(self.values) > 4 else ''}))"

    @property
    def text(self) -> str:
        """Return the label, the values separated by spaces, each box with its confidence, or each class with its
        percentage."""
        if self.map is not None:
            return self.map.text
        if self.boxes is not None:
            return ", ".join(f"{box.label} {box.confidence:.2f}" for box in self.boxes)
        return self.label or " ".join(f"{value:.9g}" for value in self.values or ())


MakePredictions = Callable[[Sequence["str | int"], Network, np.ndarray, np.ndarray], "list[Prediction]"]


class PredictionSink(Protocol):
    """Destination of predictions as they are made."""

    def add(self, predictions: Sequence[Prediction]) -> bool:
        """Add predictions; return True if more are accepted."""


def make_predictions(
    inputs: Sequence[str | int], network: Network, classes: np.ndarray, probabilities: np.ndarray, top_k: int
) -> list[Prediction]:
    """Return a prediction for each input, with its `top_k` most probable labels.

    `classes`, int32 [N], are the classes of the primary output, and `probabilities` [N, row_size] contains all outputs.
    Without labels, the predictions are the values themselves.
    """
    rows = network.unpack(probabilities)
    leading = _answers(network.answer_labels, classes, rows[0], top_k)
    if not network.others:
        shape = network.named_outputs[0].shape
        return [_prediction(name, answer, (), shape) for name, answer in zip(inputs, leading, strict=True)]
    found = [leading] + [
        _answers(output.answer_labels, part.argmax(axis=1), part, top_k)
        for output, part in zip(network.others, rows[1:])
    ]
    predictions = []
    for name, *answers in zip(inputs, *found, strict=True):
        outputs = tuple(
            OutputAnswer(
                label=answer.label,
                class_index=answer.class_index,
                probability=answer.probability,
                top=answer.top,
                values=answer.values,
                name=output.name,
                kind=output.output.kind,
                shape=output.shape,
            )
            for answer, output in zip(answers, network.named_outputs)
        )
        predictions.append(_prediction(name, answers[0], outputs, network.named_outputs[0].shape))
    return predictions


def _prediction(
    name: str | int, answer: Answer, outputs: tuple[OutputAnswer, ...], shape: tuple[int, ...]
) -> Prediction:
    return Prediction(
        input=name,
        label=answer.label,
        class_index=answer.class_index,
        probability=answer.probability,
        top=answer.top,
        values=answer.values,
        outputs=outputs,
        shape=shape if answer.values is not None and len(shape) > 1 else None,
    )


def _answers(labels: Sequence[str], classes: np.ndarray, probabilities: np.ndarray, top_k: int) -> list[Answer]:
    """Return the predictions of one output [N, size]."""
    if not labels:
        return [Answer(None, None, None, (), tuple(row)) for row in probabilities.astype(float).tolist()]
    answers = []
    top = np.argsort(-probabilities, axis=1, kind="stable")[:, :top_k]
    for index, row, best in zip(classes.tolist(), probabilities, top.tolist(), strict=True):
        chances = tuple(LabelProbability(labels[i], i, float(row[i])) for i in best)
        answers.append(Answer(labels[index], index, float(row[index]), chances, None))
    return answers
