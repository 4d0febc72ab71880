"""Inputs that calibrate the scales of 8-bit values, and the agreement with float32 on these inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..models.bundled import SAMPLES
from ..models.files import WEIGHTS_DIRECTORY, Model
from ..models.golden import run_network
from ..models.inputs import ImageInput
from ..models.network import Network
from ..models.preprocess import open_image, preprocess

RANDOM = 4  # number of random inputs if there are no other inputs
AT_ONCE = 8  # number of inputs in a batch of the golden model
SUFFIXES = (".jpg", ".png")  # suffixes of the pictures in samples/


class Agreement(NamedTuple):
    """The number of calibration inputs whose class agrees with float32, and the largest difference of an output value.

    If the network returns values instead of classes, all inputs count as agreeing.
    """

    same: int
    total: int
    max_abs_error: float
    source: str


class Trace(NamedTuple):
    """The results of the golden model for calibration inputs: the largest magnitude in each layer, the classes [N] of
    the primary output, and all output values [N, row_size]."""

    largest: dict[str, float]
    classes: np.ndarray
    numbers: np.ndarray


class Calibration:
    """Calibration inputs, float32 [N, *network.input.shape], created on first use, and their description."""

    def __init__(self, make: Callable[[], np.ndarray], source: str) -> None:
        self._make = make
        self.source = source
        self._traced: tuple[Model, Trace] | None = None

    @cached_property
    def inputs(self) -> np.ndarray:
        """The calibration inputs."""
        return self._make()

    def trace(self, model: Model) -> Trace:
        """Return the golden model's results for the inputs. The results of the last model are cached."""
        if self._traced is None or self._traced[0] is not model:
            self._traced = model, _trace(model, self.inputs)
        return self._traced[1]

    def agreement(self, model: Model, classes: np.ndarray, probabilities: np.ndarray) -> Agreement:
        """Compare a session's results for the inputs with the golden model's results."""
        golden = self.trace(model)
        if model.network.output.kind == "map":
            equal = probabilities == golden.numbers
            return Agreement(int(equal.sum()), equal.size, 0.0, self.source)
        of_values = not model.network.output.is_labelled
        same = len(golden.classes) if of_values else int((classes == golden.classes).sum())
        error = float(np.abs(probabilities - golden.numbers).max(initial=0))
        return Agreement(same, len(golden.classes), error, self.source)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle: the inputs, without cached results."""
        return {"inputs": self.inputs, "source": self.source, "_traced": None}


def own_calibration(network: Network) -> Calibration:
    """Return the sample pictures for a bundled network that reads pictures, and random inputs for any other network."""
    spec = network.input
    is_bundled = (WEIGHTS_DIRECTORY / f"{network.name}.safetensors").is_file()
    pictures = sorted(path for path in SAMPLES.glob("*") if path.suffix in SUFFIXES)
    if is_bundled and isinstance(spec, ImageInput) and pictures:
        return Calibration(partial(_read, pictures, spec), f"the {len(pictures)} sample pictures")
    return Calibration(partial(_random, network.input.shape), f"{RANDOM} inputs of random numbers")


def _read(paths: Sequence[Path], spec: ImageInput) -> np.ndarray:
    examples = []
    for path in paths:
        with path.open("rb") as file:
            examples.append(preprocess(open_image(file), spec))
    return np.stack(examples)


def _random(shape: Sequence[int]) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((RANDOM, *shape), np.float32)


def _trace(model: Model, inputs: np.ndarray) -> Trace:
    largest: dict[str, float] = {}

    def watch(name: str, value: np.ndarray) -> None:
        largest[name] = max(largest.get(name, 0.0), float(np.abs(value).max(initial=0)))

    parts = [inputs[first : first + AT_ONCE] for first in range(0, len(inputs), AT_ONCE)]
    with np.errstate(all="ignore"):  # results that are not finite are rejected later
        runs = [run_network(model.network, model.tensors, part, watch) for part in parts]
    classes = np.concatenate([run.probabilities.argmax(axis=1) for run in runs])
    numbers = np.concatenate([np.concatenate([golden.probabilities for golden in run.outputs], axis=1) for run in runs])
    return Trace(largest, classes, numbers)
