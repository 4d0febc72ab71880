"""Read the calibration pictures in a folder, from which the scales of float8_e4m3 are computed."""

from __future__ import annotations

import itertools
import os

import numpy as np

from ..models.errors import InputError
from ..models.files import Model
from ..models.inputs import ImageInput
from ..runtime.calibration import Calibration
from .pictures import PictureBatches
from .search import InputProblem, find_pictures

MOST_PICTURES = 64
AT_ONCE = 8  # number of pictures read at once


def read_pictures(folder: str | os.PathLike[str], model: Model) -> tuple[Calibration, list[InputProblem]]:
    """Read the first MOST_PICTURES pictures of a folder as inputs of a network; also return the pictures that cannot be
    read.

    Raises InputError if the network does not read pictures, or if no picture can be read.
    """
    spec, name = model.network.input, os.fsdecode(folder)
    if not isinstance(spec, ImageInput):
        raise InputError(f"{name}: {model.network.name} does not read pictures, so this option has no effect; omit it")
    paths, problems = find_pictures([name])
    batches = PictureBatches(paths[:MOST_PICTURES], spec, AT_ONCE)
    examples = list(itertools.chain.from_iterable(batch for _, batch in batches))[:MOST_PICTURES]
    problems += batches.problems
    if not examples:
        raise InputError(f"{name}: contains no readable pictures; expected a folder of pictures")
    inputs = np.stack(examples)
    plural = "" if len(inputs) == 1 else "s"
    return Calibration(lambda: inputs, f"{len(inputs)} picture{plural} of {name}"), problems
