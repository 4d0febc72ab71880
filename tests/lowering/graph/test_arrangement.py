"""The host's rearrangement of a launch's input."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_networks import conv, labels, model_of, picture
from trninfer.lowering.graph.arrangement import Arrangement, image_of
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import Concat, Dense, Flatten, Layer, Transpose
from trninfer.models.network import Network

FLOAT32 = np.dtype(np.float32)


def test_an_image_is_arranged_as_its_phases_with_zeros_around_it() -> None:
    value = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 3, 4)
    arranged = Arrangement((1, 0, 0, 2), (2, 3)).arrange(value, 2, FLOAT32)
    whole = np.zeros((2, 1, 4, 6), np.float32)
    whole[0, 0, 1:, :4] = value[0, 0]
    expected = [whole[:, 0, row::2, column::3] for row in range(2) for column in range(3)]
    np.testing.assert_array_equal(arranged, np.stack(expected, 1))
    cut = Arrangement((0, 0, -1, -2), (2, 2)).arrange(value, 1, FLOAT32)
    np.testing.assert_array_equal(cut, value[:, :, :2, :2].reshape(1, 4, 1, 1))


def test_what_needs_no_arranging_is_not_copied() -> None:
    value = np.ones((2, 1, 3, 4), np.float32)
    assert Arrangement().arrange(value, 2, FLOAT32) is value
    filled = Arrangement().arrange(value, 4, FLOAT32)
    np.testing.assert_array_equal(filled, np.concatenate([value, 0 * value]))  # missing pictures are zeros
    assert Arrangement().arrange(value, 2, np.dtype(ml_dtypes.bfloat16)).dtype == ml_dtypes.bfloat16


@given(st.tuples(*[st.integers(0, 2)] * 4), st.tuples(*[st.integers(1, 4)] * 2), st.integers(1, 5), st.integers(1, 5))
def test_every_pixel_is_in_its_phase(
    zeros: tuple[int, int, int, int], phases: tuple[int, int], high: int, wide: int
) -> None:
    top, left, bottom, right = zeros
    down, across = phases
    bottom += -(top + high + bottom) % down
    right += -(left + wide + right) % across
    value = np.arange(1, 1 + 2 * high * wide, dtype=np.float32).reshape(1, 2, high, wide)
    arranged = Arrangement((top, left, bottom, right), phases).arrange(value, 1, FLOAT32)
    for channel, row, column in np.ndindex(2, high, wide):
        r, c = top + row, left + column
        place = (channel * down + r % down) * across + c % across
        assert arranged[0, place, r // down, c // across] == value[0, channel, row, column]
    assert arranged.sum() == value.sum()  # everything else is zero


@pytest.mark.parametrize(
    ("layers", "shape"),
    [
        ((conv("a", 3, 4, 3), Flatten("flat"), Dense("b", 120, 2)), (3, 6, 5)),
        ((Flatten("flat"), Dense("b", 90, 2)), (90, 1, 1)),  # read only as features
        (
            (Transpose("turn", (3, 30), (1, 0), (30, 1, 3)), conv("a", 30, 4, 1), Flatten("f"), Dense("b", 12, 2)),
            (30, 1, 3),
        ),
        ((Transpose("turn", (3, 30), (1, 0), (90,)), Dense("b", 90, 2)), (90, 1, 1)),
    ],
)
def test_the_input_is_an_image_as_it_is_read(layers: tuple[Layer, ...], shape: tuple[int, int, int]) -> None:
    model = model_of(Network("n", picture(3, 6, 5), layers, labels(2)))
    image = image_of(model)
    assert image.shape == shape
    x = np.random.default_rng(1).standard_normal((2, 3, 6, 5)).astype(np.float32)
    first = layers[0]
    expected = first.run({}, x) if isinstance(first, Transpose) else x
    np.testing.assert_array_equal(image.of(x), expected.reshape(2, *shape))


def test_a_transpose_that_is_not_alone_is_left_to_others() -> None:
    layers = (
        Transpose("turn", (3, 30), (1, 0), (90,), inputs=("input",)),
        Flatten("flat", inputs=("input",)),
        Concat("both", inputs=("turn", "flat")),
        Dense("b", 180, 2),
    )
    model = model_of(Network("n", picture(3, 6, 5), layers, labels(2)))
    assert image_of(model).order == (0, 1, 2)


def test_features_are_images_of_one_pixel() -> None:
    model = model_of(Network("n", FeatureInput(7), (Dense("a", 7, 2),), labels(2)))
    assert image_of(model).shape == (7, 1, 1)
    assert image_of(model).of(np.ones((3, 7), np.float32)).shape == (3, 7, 1, 1)
