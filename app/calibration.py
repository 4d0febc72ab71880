"""Read calibration pictures (`--calibrate`), and compare an 8-bit session with float32 on these pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .errors import UsageError, complain

if TYPE_CHECKING:
    from ..models.files import Model
    from ..runtime.calibration import Agreement, Calibration
    from ..runtime.session import BatchSession
    from .options import RunOptions


def read_calibration(folder: Path | None, model: Model) -> Calibration | None:
    """Return the first pictures of a folder, sorted by name, as inputs of a network, or None if no folder is given.

    Raises UsageError if the network does not read pictures or no picture is readable. Unreadable pictures are listed on
    standard error.
    """
    if folder is None:
        return None
    from ..inference.calibration_pictures import read_pictures
    from ..models.errors import InputError

    try:
        calibration, problems = read_pictures(folder, model)
    except InputError as error:
        raise UsageError(f"--calibrate {error}") from None
    for problem in problems:
        complain(f"--calibrate: {problem.input}: {problem.message}")
    return calibration


def is_compared(options: RunOptions) -> bool:
    """Return True if the network is also run on the calibration pictures and compared with float32."""
    return options.dtype == "float8_e4m3" and (options.verify or options.calibrate is not None)


def agreement_of(session: BatchSession, calibration: Calibration | None, batch_size: int) -> Agreement:
    """Run the calibration pictures, by default those of the network, and compare the outputs with float32."""
    import numpy as np

    from ..runtime.calibration import own_calibration
    from ..runtime.session import split_batches

    source = calibration or own_calibration(session.model.network)
    answers = list(session.stream(split_batches(source.inputs, batch_size)))
    classes = np.concatenate([answer.classes for answer in answers])
    return source.agreement(session.model, classes, np.concatenate([answer.probabilities for answer in answers]))
