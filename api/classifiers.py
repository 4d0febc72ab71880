"""Networks that are loaded once and called many times with pictures or rows of features."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..inference.arguments import Layout, OnError, RunArguments
from ..inference.csv_tables import Header, check_header
from ..inference.python_inputs import PathOnly, Picture, Rows
from ..models.errors import ArgumentError, InputError
from ..models.files import Model
from ..runtime.launch_options import BackendName, Dtype, EightBitLayers, Per, Target
from ..runtime.session import Session
from .answers import Answers
from .functions import answer_pictures, answer_rows, in_thread, load_for_pictures, load_for_rows

PICTURE_COLUMNS = ("image", "bytes", "path")
ROW_COLUMNS = ("features", "data")


_LOADED: weakref.WeakSet[_LoadedModel] = weakref.WeakSet()


def _begin_anew_after_fork() -> None:
    for loaded in list(_LOADED):
        loaded._begin_anew()


if hasattr(os, "register_at_fork"):  # missing on Windows
    os.register_at_fork(after_in_child=_begin_anew_after_fork)


class _LoadedModel:
    """A model with its own session, which processes one call at a time.

    A forked process opens a new session at its first call, since a thread of the parent may have held the lock at the
    time of the fork.
    """

    def __init__(self, model: Model, arguments: RunArguments) -> None:
        self.model = model
        self.arguments = arguments
        self._opened = arguments.session(model)
        self._lock = threading.Lock()
        self._is_forked = False
        _LOADED.add(self)

    @contextlib.contextmanager
    def _session(self) -> Iterator[Session]:
        """Hold the session exclusively."""
        with self._lock:
            if self._is_forked:
                self._opened = self.arguments.session(self.model)
                self._is_forked = False
            yield self._opened

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._is_forked = True

    def __repr__(self) -> str:
        info = self._opened.info
        name = type(self).__name__
        return f"<{name}: {self.model.network.name} on {info.target} in {self.arguments.dtype} ({info.name})>"


class Classifier(_LoadedModel):
    """A network that reads pictures, loaded once and called many times, from any thread.

    See `trninfer.classify` for arguments and errors. An instance can be called with the columns of a batch, as done by
    Ray Data.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Model = "digits-cnn",
        *,
        dtype: Dtype = "float32",
        target: Target | None = None,
        backend: BackendName = "auto",
        batch_size: int = 16,
        top_k: int = 5,
        layout: Layout | None = None,
        lnc: int = 1,
        launches: Per = "network",
        eight_bits: EightBitLayers = "inner",
        calibrate: str | os.PathLike[str] | None = None,
    ) -> None:
        arguments = RunArguments(
            dtype,
            target,
            backend,
            batch_size,
            top_k,
            layout=layout,
            lnc=lnc,
            launches=launches,
            eight_bits=eight_bits,
            calibrate=calibrate,
        )
        super().__init__(load_for_pictures(model, arguments), arguments)

    def classify(self, inputs: Picture | Iterable[Picture], *, on_error: OnError = "raise") -> Answers:
        """Compute predictions for pictures; see `trninfer.classify`."""
        with self._session() as session:
            return answer_pictures(inputs, self.model, session, replace(self.arguments, on_error=on_error))

    async def classify_async(self, inputs: Picture | Iterable[Picture], *, on_error: OnError = "raise") -> Answers:
        """Awaitable version of `classify`, which runs in a thread; see `trninfer.classify_async`."""
        return await in_thread(functools.partial(self.classify, on_error=on_error), inputs)

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Return the columns of a batch of N pictures, with a prediction for each picture.

        `batch` has a column "image" (arrays of pixels, as from Ray Data's `read_images`), "bytes" (file contents) or
        "path". The columns "label" (text; the values as text for a network that outputs values), "probability"
        (float32, NaN if there is none) and "error" (the reason for a missing prediction, else empty) are added. Raises
        ArgumentError if `batch` has none of these columns.
        """
        column = next((name for name in PICTURE_COLUMNS if name in batch), None)
        if column is None:
            columns = ", ".join(map(str, batch)) or "none"
            raise ArgumentError(f"a batch must have a column {', '.join(PICTURE_COLUMNS)}; its columns are {columns}")
        sources: list[Any] = [PathOnly(os.fspath(value)) if column == "path" else value for value in batch[column]]
        return {**batch, **_columns(self.classify(sources, on_error="collect"), len(sources))}


class Predictor(_LoadedModel):
    """A network that reads rows of features, loaded once and called many times, from any thread.

    See `trninfer.predict` for arguments and errors. An instance can be called with the columns of a batch, as done by
    Ray Data.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Model = "digits-ffnn",
        *,
        dtype: Dtype = "float32",
        target: Target | None = None,
        backend: BackendName = "auto",
        batch_size: int = 2048,
        top_k: int = 5,
        lnc: int = 1,
        launches: Per = "network",
        eight_bits: EightBitLayers = "inner",
    ) -> None:
        arguments = RunArguments(
            dtype, target, backend, batch_size, top_k, lnc=lnc, launches=launches, eight_bits=eight_bits
        )
        super().__init__(load_for_rows(model, arguments), arguments)

    def predict(self, inputs: Rows, *, header: Header = "auto", on_error: OnError = "raise") -> Answers:
        """Compute predictions for rows of features; see `trninfer.predict`."""
        check_header(header)
        with self._session() as session:
            return answer_rows(inputs, self.model, session, replace(self.arguments, on_error=on_error), header)

    async def predict_async(self, inputs: Rows, *, header: Header = "auto", on_error: OnError = "raise") -> Answers:
        """Awaitable version of `predict`, which runs in a thread; see `trninfer.predict_async`."""
        return await in_thread(functools.partial(self.predict, header=header, on_error=on_error), inputs)

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Return the columns of a batch of N rows, with the same additional columns as `Classifier`.

        `batch` has a column "features" or "data" of arrays [features], or a column of numbers for each feature, in
        order. Raises ArgumentError if it has neither.
        """
        features = self.model.network.input.shape[0]
        column = next((name for name in ROW_COLUMNS if name in batch), None)
        if column is not None:
            rows = np.stack([np.asarray(row) for row in batch[column]]) if len(batch[column]) else np.empty((0, 0))
        elif len(batch) == features:
            rows = np.column_stack([np.asarray(values) for values in batch.values()])
        else:
            columns = f"{len(batch)} columns"
            raise ArgumentError(
                f"a batch must have a column named features or data, or {features} columns of numbers; its columns "
                f"are {columns}"
            )
        answers = self.predict(rows, on_error="collect") if len(rows) else None
        return {**batch, **_columns(answers, len(rows))}


def _columns(answers: Answers | None, count: int) -> dict[str, np.ndarray]:
    """Return the labels, probabilities and errors of N inputs, some of which may have no prediction."""
    labels, probabilities, errors = [""] * count, [np.nan] * count, [""] * count
    for answer in answers or ():
        position = answer.input
        assert isinstance(position, int)
        labels[position] = answer.text
        probabilities[position] = np.nan if answer.probability is None else answer.probability
    for problem in answers.errors if answers is not None else ():
        if not isinstance(problem.input, int):
            raise InputError(f"{problem.input}: {problem.message}")
        errors[problem.input] = problem.message
    return {
        "label": np.array(labels, object),
        "probability": np.array(probabilities, np.float32),
        "error": np.array(errors, object),
    }
