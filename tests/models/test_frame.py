"""Frames: the position of a picture in a network's image, compared with the rules of YOLO and torchvision."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.models.frame import frame_of, own_frame
from trninfer.models.inputs import ImageInput

LETTERBOX = ImageInput(3, 96, 128, "photo", (0.0,) * 3, (1.0,) * 3, 128, resize_mode="pad", pad_colour=114)


def spec(**changes):
    return dataclasses.replace(LETTERBOX, **changes)


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_padding_is_rounded_as_the_exporter_rounds_it(width, height):
    frame = frame_of(LETTERBOX, width, height)
    ratio = min(96 / height, 128 / width)
    size = max(1, round(width * ratio)), max(1, round(height * ratio))
    assert (frame.resized_width, frame.resized_height) == size
    # `LetterBox` of ultralytics: half of the padding minus 0.1, rounded
    assert (-frame.left, -frame.top) == (round((128 - size[0]) / 2 - 0.1), round((96 - size[1]) / 2 - 0.1))


@given(st.integers(2, 500), st.integers(2, 500), st.sampled_from(["crop", "squash", "pad"]))
def test_points_go_to_the_picture_and_stay_in_it(width, height, mode):
    changes = {} if mode == "pad" else {"pad_colour": 0}
    frame = frame_of(spec(resize_mode=mode, **changes), width, height)
    corner = np.array([[-frame.left, -frame.top], [frame.resized_width - frame.left, frame.resized_height - frame.top]])
    assert frame.to_picture(corner) == pytest.approx(np.array([[0, 0], [width, height]]), rel=1e-5, abs=1e-3)
    far = frame.to_picture(np.array([[-1e6, -1e6], [1e6, 1e6]]))
    assert far.tolist() == [[0, 0], [width, height]]


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_a_corner_has_no_padding_before_the_picture(width, height):
    """YOLOX rounds the resized size down, but divides boxes by the ratio before rounding."""
    frame = frame_of(spec(pad_place="corner"), width, height)
    ratio = min(96 / height, 128 / width)
    assert (frame.left, frame.top) == (0, 0)
    assert (frame.resized_width, frame.resized_height) == (max(1, int(width * ratio)), max(1, int(height * ratio)))
    assert frame.to_picture(np.array([[0.5, 0.25]])) == pytest.approx(
        np.array([[min(0.5 / ratio, width), min(0.25 / ratio, height)]]), rel=1e-5
    )


def test_a_crop_is_centred_as_torchvision_does():
    frame = frame_of(spec(resize_mode="crop", pad_colour=0, resize=150), 200, 100)
    assert (frame.resized_width, frame.resized_height) == (300, 150)
    assert (frame.left, frame.top) == (86, 27)


def test_an_array_is_its_own_picture():
    assert own_frame(LETTERBOX).to_picture(np.array([[5.5, 7.0]])).tolist() == [[5.5, 7.0]]
