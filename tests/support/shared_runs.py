"""Runs of a small model on workers, compared with one session in this process."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from trninfer.models import Dense, FeatureInput, Model, Network, Softmax
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.session import Session, split_batches
from trninfer.runtime.timing import LayerTiming, Totals

STAND_INS = Path(__file__).parents[1] / "runtime" / "workers" / "stand_ins"
KILL, REFUSE, LOSE, FAULT, SLOW, KILL_ONCE = -1.0, -2.0, -3.0, -4.0, -5.0, -6.0  # see worker_backends.py there
FILL, FILL_ONCE = -7.0, -8.0


class Run(NamedTuple):
    classes: np.ndarray
    probabilities: np.ndarray
    layers: tuple[LayerTiming, ...]
    worker_us: dict[int, float]
    failures: dict[int, str]


def small_model() -> Model:
    random = np.random.default_rng(0)
    network = Network("small", FeatureInput(6), (Dense("dense", 6, 4), Softmax("softmax")), tuple("abcd"))
    tensors = {n: random.standard_normal(s).astype(np.float32) for n, s in network.tensor_shapes().items()}
    return Model(network, tensors, {})


def inputs(count: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(0.1, 1.0, (count, 6)).astype(np.float32)


def collect(session, batches, progress=None) -> Run:
    """Return all answers of a session, with failures by the number of the input."""
    totals = Totals(session.rows)
    classes, probabilities = [np.empty(0, np.int32)], [np.empty((0, 4), np.float32)]
    failures: dict[int, str] = {}
    first = 0
    for answer in session.stream(batches, progress):
        if answer.size:
            totals.add(answer.size, answer.times, answer.worker)
        classes.append(answer.classes)
        probabilities.append(answer.probabilities)
        failures.update({first + position: reason for position, reason in answer.failures.items()})
        first += len(answer.classes) + len(answer.failures)
    return Run(np.concatenate(classes), np.concatenate(probabilities), totals.layers(), totals.worker_us, failures)


def run_alone(x: np.ndarray, size: int) -> Run:
    """Return the results of one session in this process."""
    import worker_backends

    session = Session(small_model(), worker_backends.PlainBackend(None), launches=LaunchOptions("layer"))
    return collect(session, split_batches(x, size))


def assert_same(one: Run, other: Run) -> None:
    assert one.classes.tobytes() == other.classes.tobytes() and one.classes.dtype == np.int32
    assert one.probabilities.tobytes() == other.probabilities.tobytes()
    assert one.layers == other.layers and one.failures == other.failures
