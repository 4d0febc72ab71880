"""A classifier of pictures that is called with columns of a batch, as Ray Data calls one, and anything may."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..models.errors import ModelError
from ..models.files import Model, load_model
from ..models.inputs import ImageInput
from ..runtime.choose import choose_backend
from ..runtime.session import Session
from .predictions import Prediction, make_predictions
from .shipping import decode_sources

COLUMNS = ("path", "bytes")


class Classifier:
    """A network that reads pictures, loaded once and called many times.

    `model` is a bundled name, the path of a .safetensors file, or a loaded model; the other arguments are as those of
    `classify`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Model = "digits-cnn",
        *,
        dtype: str = "float32",
        target: str | None = None,
        backend: str = "auto",
        batch_size: int = 16,
    ) -> None:
        loaded = model if isinstance(model, Model) else load_model(model)
        if not isinstance(loaded.network.input, ImageInput):
            raise ModelError(f"model {loaded.network.name!r} reads features, not pictures")
        self._spec = loaded.network.input
        self._network = loaded.network
        self._session = Session(loaded, choose_backend(backend, target), dtype, batch_size)

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """The columns of a batch of N pictures with what the network says of each.

        `batch` has a column "path" (paths of pictures) or "bytes" (what their files hold). Added are "label" (text; for
        a network that gives values, these as text), "probability" (float32, NaN where there is none) and "error" (why
        there is no answer, else empty). KeyError where it has neither column.
        """
        column = next((name for name in COLUMNS if name in batch), None)
        if column is None:
            raise KeyError(f"a batch needs a column {' or '.join(COLUMNS)}; it has {', '.join(batch) or 'none'}")
        sources = [source if isinstance(source, bytes) else str(source) for source in batch[column]]
        labels: list[str] = []
        probabilities: list[float] = []
        errors: list[str] = []
        for first in range(0, len(sources), self._session.batch_size):
            part = sources[first : first + self._session.batch_size]
            pictures, failures = decode_sources(self._spec, part)
            answered = iter(self._answers(pictures))
            for position in range(len(part)):
                answer = next(answered) if position not in failures else None
                labels.append(answer.text if answer is not None else "")
                found = answer.probability if answer is not None else None
                probabilities.append(np.nan if found is None else found)
                errors.append(failures.get(position, ""))
        added = {
            "label": np.array(labels, object),
            "probability": np.array(probabilities, np.float32),
            "error": np.array(errors, object),
        }
        return {**batch, **added}

    def _answers(self, pictures: np.ndarray) -> list[Prediction]:
        result = self._session.run(pictures)
        return make_predictions(range(len(pictures)), self._network, result.classes, result.probabilities, 1)
