"""Input descriptions are validated at construction."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from trninfer.models.errors import ModelError
from trninfer.models.inputs import FeatureInput, ImageInput, NamedInput, SeveralInputs, describe_input, read_input

PHOTO = ImageInput(3, 8, 9, "photo", (0.5,) * 3, (0.25,) * 3, resize=10)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: ImageInput(1, 32, 32, "guess", (0.0,), (1.0,)), "preprocess is 'guess'; allowed: digit"),
        (lambda: ImageInput(1, 32, 32, "digit", (0.0,), (0.0,)), "std"),
        (lambda: ImageInput(1, 32, 32, "digit", (0.0, 1.0), (1.0,)), "mean"),
        (lambda: FeatureInput(1 << 40), "features is"),
        (lambda: dataclasses.replace(PHOTO, resize=8), "resize is 8; 9 to 16384"),
        (lambda: dataclasses.replace(PHOTO, preprocess="none"), "resize is 10; 0 to 0"),
        (lambda: dataclasses.replace(PHOTO, channel_order="grb"), "channel_order is 'grb'; allowed: rgb, bgr"),
        (lambda: ImageInput(1, 8, 9, "photo", (0.0,), (1.0,), 9, channel_order="bgr"), "photos with three channels"),
        (lambda: ImageInput(2, 8, 9, "photo", (0.0,) * 2, (1.0,) * 2, 9), "channels must be 3"),
        (lambda: ImageInput(3, 8, 9, "none", (0.0,) * 3, (1.0,) * 3, layout="HW"), "layout HW omits an axis"),
    ],
)
def test_fields_are_checked(build, says: str) -> None:
    with pytest.raises(ModelError, match=says) as error:
        build()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("layout", "shape", "expected"),
    [
        ("CHW", (3, 8, 9), (3, 8, 9)),
        ("HWC", (3, 8, 9), (8, 9, 3)),
        ("HW", (1, 8, 9), (8, 9)),
        ("CW", (3, 1, 9), (3, 9)),
    ],
)
def test_arrays_have_the_axes_of_the_layout(layout: str, shape, expected) -> None:
    image = ImageInput(*shape, "none", (0.0,) * shape[0], (1.0,) * shape[0], layout=layout)
    assert image.array_shape == expected and image.shape == shape
    assert FeatureInput(7).shape == (7,)


PAIR = SeveralInputs((NamedInput("left", PHOTO), NamedInput("threshold", FeatureInput(2))))


def test_several_inputs_are_packed_into_rows() -> None:
    assert PAIR.shape == (3 * 8 * 9 + 2,) and PAIR.span("threshold") == (216, 218)
    left = np.random.default_rng(0).random((4, 3, 8, 9), np.float32)
    threshold = np.arange(8, dtype=np.float32).reshape(4, 2)
    rows = PAIR.pack({"threshold": threshold, "left": left})
    assert rows.shape == (4, 218)
    parts = PAIR.unpack(rows)
    np.testing.assert_array_equal(parts["left"], left)
    np.testing.assert_array_equal(parts["threshold"], threshold)


@pytest.mark.parametrize("spec", [PHOTO, FeatureInput(3), PAIR])
def test_json_round_trip(spec) -> None:
    assert read_input(json.loads(json.dumps(describe_input(spec)))) == spec


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"kind": "several"}, "the field 'parts' is missing"),
        ({"kind": "several", "parts": {}}, "parts must be a list"),
        ({"kind": "several", "parts": [1, 2]}, "input number 1 must be a JSON object"),
        ({"kind": "several", "parts": []}, "parts is 0; 2 to"),
        ({"kind": "several", "parts": [{"name": "a", "input": {"kind": "several"}}]}, "unknown kind 'several'"),
        ({"kind": "several", "parts": [{"name": "a", "input": {"kind": "features", "features": 1}}] * 2}, "not unique"),
        ({"kind": "several", "parts": [{"name": "a\n", "input": {"kind": "features", "features": 1}}]}, "printable"),
    ],
)
def test_several_inputs_in_json_are_checked(data, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        read_input(data)
