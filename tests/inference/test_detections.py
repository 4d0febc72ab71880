"""Detections: run-length masks, boxes as plain values, and the answers built from them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.inference import detections
from trninfer.inference.box import Box, RunLengths
from trninfer.inference.detections import encode_mask, find_mask, picture_record, read_picture_record
from trninfer.inference.predictions import Prediction
from trninfer.models.frame import Frame


@given(
    st.integers(1, 9), st.integers(1, 9), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 9**6)
)
def test_run_lengths_are_read_back(height, width, above, before, after, seed):
    inside = np.random.default_rng(seed).random((height, width)) < 0.5
    whole = np.pad(inside, ((above, 2), (before, after)))
    mask = encode_mask(inside, before, above, whole.shape[1], whole.shape[0])
    if not inside.any():
        assert mask is None
        return
    assert (mask.to_array() == whole).all()
    assert mask.size == whole.shape and sum(mask.counts) == whole.size
    assert all(count > 0 for count in mask.counts[1:])


def test_a_mask_that_fills_columns_is_one_run():
    assert encode_mask(np.ones((4, 3), bool), 1, 0, 5, 4).counts == (4, 12, 4)
    assert encode_mask(np.ones((4, 5), bool), 0, 0, 5, 4).counts == (0, 20)


def interpolate(values, row, column):
    """Interpolate bilinearly between pixel centres, repeating the edges."""
    row, column = (min(max(place, 0), side - 1) for place, side in zip((row, column), values.shape))
    r, c = int(row), int(column)
    r2, c2 = min(r + 1, values.shape[0] - 1), min(c + 1, values.shape[1] - 1)
    upper = values[r, c] * (1 - column + c) + values[r, c2] * (column - c)
    lower = values[r2, c] * (1 - column + c) + values[r2, c2] * (column - c)
    return upper * (1 - row + r) + lower * (row - r)


@given(st.integers(2, 30), st.integers(2, 30), st.integers(0, 10**6))
def test_a_mask_is_interpolated_at_the_pixels_of_the_picture(width, height, seed):
    random = np.random.default_rng(seed)
    scale = min(16 / width, 16 / height)
    resized = max(1, round(width * scale)), max(1, round(height * scale))
    frame = Frame(width, height, *resized, -((16 - resized[0]) // 2), -((16 - resized[1]) // 2))
    prototypes, coefficients = random.standard_normal((2, 4, 4)), random.standard_normal(2)
    corners = np.array([width * 0.2, height * 0.1, width * 0.9, height * 0.8])
    small = np.tensordot(coefficients, prototypes, 1)
    mask = find_mask(coefficients, prototypes, corners, frame, (16, 16))
    found = np.zeros((height, width), bool) if mask is None else mask.to_array()
    edges = np.array([-frame.top, resized[1] - frame.top, -frame.left, resized[0] - frame.left])
    times = next(times for times in (1, 2, 4) if not (edges * times % 4).any())  # as ultralytics enlarges the sum
    places = [(place + 0.5) / times - 0.5 for place in range(4 * times)]
    image = np.array([[interpolate(small, row, column) for column in places] for row in places])
    y1, y2, x1, x2 = edges * times // 4
    image = image[y1:y2, x1:x2]
    for y in range(height):
        for x in range(width):
            value = interpolate(image, (y + 0.5) * (y2 - y1) / height - 0.5, (x + 0.5) * (x2 - x1) / width - 0.5)
            is_in_box = corners[0] <= x < corners[2] and corners[1] <= y < corners[3]
            assert abs(value) < 1e-5 or found[y, x] == (is_in_box and value > 0)


BOX = Box("cat", 1, 0.5, 1.0, 2.0, 3.0, 4.0, ((1.5, 2.5, 0.25),), RunLengths((2, 2), (1, 3)))


def test_boxes_are_written_and_read():
    answer = Prediction("a.png", None, None, None, (), boxes=(BOX, Box("dog", 0, 0.25, 0, 0, 1, 1)), size=(2, 2))
    record = json.loads(json.dumps(picture_record(answer)))
    assert read_picture_record(record) == {"boxes": answer.boxes, "size": (2, 2)}
    assert picture_record(Prediction("a", "cat", 0, 0.5, ())) == {} == read_picture_record({})
    assert "mask" not in record["boxes"][1] and "keypoints" not in record["boxes"][1]


@pytest.mark.parametrize(
    "change", [{"label": 3}, {"class_index": "1"}, {"x1": float("nan")}, {"x1": None}, {"mask": 3}]
)
def test_other_records_are_refused(change):
    with pytest.raises((TypeError, ValueError, KeyError)):
        read_picture_record({"width": 1, "height": 1, "boxes": [{**BOX.record, **change}]})


def test_bands_of_a_mask_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = np.random.default_rng(0).random((17, 23)) > 0.3
    whole = encode_mask(inside, 2, 3, 40, 20)
    monkeypatch.setattr(detections, "_BAND_PIXELS", 40)
    assert whole is not None and encode_mask(inside, 2, 3, 40, 20) == whole
    placed = np.zeros((20, 40), bool)
    placed[3:20, 2:25] = inside
    assert np.array_equal(whole.to_array(), placed)
