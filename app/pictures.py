"""Reading pictures into batches of a network's input, a batch at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np

from ..models.network import ImageInput
from ..models.preprocess import InputError, open_image, preprocess
from .inputs import STANDARD_INPUT, InputProblem


class PictureBatches:
    """Iterates over batches [B, C, H, W] of the pictures that can be read.

    `names` has what was read so far, in the order of the batches, and `problems` what could not be.
    """

    def __init__(self, paths: Sequence[str], spec: ImageInput, batch_size: int) -> None:
        self._paths = paths
        self._spec = spec
        self._batch_size = batch_size
        self.names: list[str] = []
        self.problems: list[InputProblem] = []

    def __iter__(self) -> Iterator[np.ndarray]:
        batch: list[np.ndarray] = []
        for path in self._paths:
            try:
                batch.append(read_picture(path, self._spec))
                self.names.append(path)
            except InputError as error:
                self.problems.append(InputProblem(path, str(error)))
            if len(batch) == self._batch_size:
                yield np.stack(batch)
                batch = []
        if batch:
            yield np.stack(batch)


def read_picture(path: str, spec: ImageInput) -> np.ndarray:
    """A picture (of a path, or "-" for standard input) as float32 [C, H, W]; InputError where it cannot be used."""
    if path != STANDARD_INPUT:
        return preprocess(open_image(path), spec)
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError("no picture is piped into standard input")
    return preprocess(open_image(sys.stdin.buffer), spec)
