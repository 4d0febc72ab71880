"""The warning for features that are scaled differently from the training data."""

from __future__ import annotations

import numpy as np
import pytest
import trninfer
from trninfer.inference.feature_range import KEY, feature_range, range_note
from trninfer.models import Dense, FeatureInput, Model, Network, Softmax

NETWORK = Network("net", FeatureInput(4), (Dense("d", 4, 2), Softmax("s")), ("a", "b"))


def model(stated: str | None) -> Model:
    return Model(NETWORK, {}, {} if stated is None else {KEY: stated})


@pytest.mark.parametrize(
    "stated", [None, "", "[1]", "[1, 1]", "[2, 1]", '["a", 2]', "[0, NaN]", "{}", "[0, 1e999]", "3"]
)
def test_a_file_that_states_none(stated: str | None) -> None:
    assert feature_range(model(stated)) is None
    assert range_note(model(stated), np.full((9, 4), 1e6)) is None


def test_rows_that_fit() -> None:
    rows = np.random.default_rng(0).uniform(0, 16, (50, 4))
    for fitting in (rows, rows + 5, rows[:1] * 0, np.where(rows > 15.99, 900, rows), rows[:0]):
        assert range_note(model("[0, 16]"), fitting) is None


def test_rows_that_are_scaled_otherwise() -> None:
    rows = np.random.default_rng(0).uniform(0, 16, (50, 4))
    note = range_note(model("[0, 16]"), np.rint(rows * 255 / 16))
    assert note is not None and "but net was trained on 0 to 16" in note
    assert range_note(model("[0, 16]"), rows / 16) is not None
    assert range_note(model("[-1, 1]"), rows) is not None


def test_the_bundled_network_states_its_range() -> None:
    assert feature_range(trninfer.load_model("digits-ffnn")) == (0, 16)


@pytest.mark.filterwarnings("error")
def test_a_signalling_nan_is_no_warning_of_numpys() -> None:
    rows = np.full((9, 4), 0x7FA00000, np.uint32).view(np.float32)
    assert range_note(model("[0, 16]"), rows) is None
