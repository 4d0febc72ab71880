"""The UCI digits: the split by form, and the pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trninfer
from trninfer.tools.digits import uci


def test_the_sample_batch_is_the_held_out_forms() -> None:
    pytest.importorskip("sklearn")
    training, held_out = uci.load_split()
    assert len(training.labels) + len(held_out.labels) == 1797
    samples = Path(trninfer.__file__).resolve().parent / "samples"
    np.testing.assert_array_equal(np.fromfile(samples / "digits-X.bin", "<f4").reshape(-1, 64), held_out.features)
    np.testing.assert_array_equal(np.fromfile(samples / "digits-Y.bin", "<i4"), held_out.labels)


def test_labels_in_another_order_are_refused() -> None:
    with pytest.raises(ValueError, match="no form starts at digit 0"):
        uci.check_forms(np.zeros(1797, np.int32))
    with pytest.raises(ValueError, match="12 digits, but the split was made for 1797"):
        uci.check_forms(np.arange(12))


def test_no_digit_of_the_held_out_forms_is_in_training_as_well() -> None:
    pytest.importorskip("sklearn")
    training, held_out = uci.load_split()
    seen = {row.tobytes() for row in training.features}
    assert not [row for row in held_out.features if row.tobytes() in seen]


def test_an_enlarged_digit_keeps_its_ink() -> None:
    features = np.zeros((8, 8), np.float32)
    features[2:6, 3:5] = 16
    picture = np.asarray(uci.as_picture(features), np.float32)
    assert picture.shape == (160, 160)
    assert picture[:32].min() == picture[-32:].min() == 255
    ink = (255 - picture).sum() / 255 / (12 * 12)
    assert ink == pytest.approx(8, rel=0.05)


def test_an_enlarged_digit_is_smooth_ink_of_the_side_that_is_asked_for() -> None:
    features = np.zeros(64, np.float32)
    features[0] = 20  # above the maximum
    ink = np.asarray(uci.enlarge(features, 40))
    assert ink.shape == (40, 40) and ink[0, 0] == 255 and ink[20:].max() == ink[:, 20:].max() == 0
    rounded = np.asarray(uci.enlarge(features, 40, margin=1))
    # cells of 4 pixels; the former corner is now inside
    assert rounded[:4].max() < 255 and rounded[4:8, 4:8].min() > 100


def test_forms_that_begin_with_a_digit_less() -> None:
    """If the first 0 of a form is missing, it begins with 1; anything else is a different order."""
    labels = np.zeros(1797, np.int32)
    for start in uci.FORM_STARTS:
        labels[start : start + 10] = np.arange(10)
    uci.check_forms(labels)
    labels[uci.FORM_STARTS[3] : uci.FORM_STARTS[3] + 9] = np.arange(1, 10)
    uci.check_forms(labels)
    labels[uci.FORM_STARTS[5] + 4] = 0
    with pytest.raises(ValueError, match="no form starts at digit 646: the data are not in the order"):
        uci.check_forms(labels)


def test_the_last_three_forms_are_held_out() -> None:
    pytest.importorskip("sklearn")
    training, held_out = uci.load_split()
    assert (len(training.labels), len(held_out.labels)) == (1415, 382)
    assert training.features.dtype == np.float32 and training.labels.dtype == np.int32
    assert (training.features.min(), training.features.max()) == (0, 16)
