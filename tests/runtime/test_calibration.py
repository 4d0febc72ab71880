"""Inputs for computing scales: the defaults, their statistics, and the agreement of answers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from random_networks import labels, model_of, picture
from trninfer.models.files import load_model
from trninfer.models.golden import run_network
from trninfer.models.layers import Conv2d, Dense, Flatten
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.runtime.calibration import AT_ONCE, RANDOM, Calibration, own_calibration

LAYERS = (Conv2d("a", 3, 4, (3, 3), (1, 1, 1, 1), activation="relu"), Flatten("flat"), Dense("b", 4 * 36, 5))
NETWORK = Network("n", picture(3, 6, 6), LAYERS, labels(5))


def calibration(count: int) -> Calibration:
    inputs = np.random.default_rng(count).standard_normal((count, 3, 6, 6)).astype(np.float32)
    return Calibration(lambda: inputs, f"{count} inputs")


@pytest.mark.parametrize("count", [1, AT_ONCE, 2 * AT_ONCE + 1])
def test_the_largest_magnitude_of_each_layer_is_that_of_all_inputs(count: int) -> None:
    model, given = model_of(NETWORK), calibration(count)
    values: dict[str, np.ndarray] = {}
    golden = run_network(NETWORK, model.tensors, given.inputs, values.__setitem__)
    trace = given.trace(model)
    assert trace.largest == pytest.approx({name: np.abs(value).max() for name, value in values.items()}, rel=1e-6)
    np.testing.assert_allclose(trace.numbers, golden.probabilities, rtol=1e-5)
    assert given.trace(model) is trace


def test_agreement_counts_classes_and_finds_the_largest_difference() -> None:
    model, given = model_of(NETWORK), calibration(7)
    trace = given.trace(model)
    wrong = trace.classes.copy()
    wrong[2] = (wrong[2] + 1) % 5
    numbers = trace.numbers.copy()
    numbers[4, 1] += 0.25
    agreement = given.agreement(model, wrong, numbers)
    assert (agreement.same, agreement.total, agreement.source) == (6, 7, "7 inputs")
    assert agreement.max_abs_error == pytest.approx(0.25, rel=1e-5)


def test_values_have_no_classes_that_differ() -> None:
    model = model_of(Network("n", picture(3, 6, 6), LAYERS, (), Output("values")))
    given = calibration(3)
    numbers = given.trace(model).numbers
    assert given.agreement(model, np.full(3, -1), numbers)[:3] == (3, 3, 0.0)


def test_a_bundled_network_has_its_samples_and_others_random_numbers() -> None:
    samples = own_calibration(load_model("digits-cnn").network)
    assert samples.source == "the 8 sample pictures" and samples.inputs.shape == (8, 1, 32, 32)
    other = own_calibration(NETWORK)
    assert other.source == f"{RANDOM} inputs of random numbers" and other.inputs.shape == (RANDOM, 3, 6, 6)
    np.testing.assert_array_equal(other.inputs, own_calibration(NETWORK).inputs)


def test_workers_receive_only_the_inputs() -> None:
    given = calibration(2)
    given.trace(model_of(NETWORK))
    sent = pickle.loads(pickle.dumps(given))
    np.testing.assert_array_equal(sent.inputs, given.inputs)
    assert sent.source == given.source and sent._traced is None
