"""Pixel classes computed in a launch, compared with NumPy: numbers of classes, ties, dtypes, targets, batches,
packing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer.models.files import Model
from trninfer.models.inputs import ImageInput
from trninfer.models.layers import Conv2d, PixelArgmax
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

pytestmark = [  # rules of the chip; the convolution that computes the scores causes a warning about its bias on trn1
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings("ignore:activation. op=nl.copy is used with a bias"),
    pytest.mark.filterwarnings("ignore:ndarray tensor .* a single"),  # the input of that convolution has one pixel
]
CLASSES = (1, 2, 8, 9, 21, 150, 1000)


def copying(classes: int, height: int, width: int) -> Model:
    """Return a network that copies its input to the scores: integers up to 256 are exact in every dtype, and so are
    ties."""
    spec = ImageInput(classes, height, width, "none", (0.0,) * classes, (1.0,) * classes)
    layers = (Conv2d("copy", classes, classes, kernel_size=(1, 1)), PixelArgmax("classes", classes))
    weights = np.eye(classes, dtype=np.float32).reshape(classes, classes, 1, 1)
    tensors = {"copy.weight": weights, "copy.bias": np.zeros(classes, np.float32)}
    return Model(Network("maps", spec, layers, (), Output("values")), tensors, {})


def check(
    classes: int,
    height: int,
    width: int,
    batch: int,
    dtype: str = "float32",
    target: str = "trn2",
    per: str = "network",
) -> None:
    rng = np.random.default_rng([classes, height, width, batch])
    x = rng.integers(-100, min(100, -95 + classes), (batch, classes, height, width)).astype(np.float32)
    session = Session(copying(classes, height, width), SimulatedBackend(target), dtype, batch, LaunchOptions(per=per))
    found = session.run(x).probabilities
    assert per == "layer" or session.launches_note is None, session.launches_note
    np.testing.assert_array_equal(found, x.argmax(1).reshape(batch, -1))


@pytest.mark.parametrize(("classes", "dtype"), [*zip(CLASSES, 3 * ("float32", "bfloat16", "float16"))])
def test_any_number_of_classes_and_the_first_of_equals(classes: int, dtype: str) -> None:
    check(classes, 5, 9, 2, dtype)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("per", ["network", "layer"])
def test_targets_and_layer_by_layer(target: str, per: str) -> None:
    check(21, 13, 11, 3, "bfloat16", target, per)


@pytest.mark.parametrize("batch", [1, 3, 16])
def test_batches(batch: int) -> None:
    check(9, 6, 7, batch)


@pytest.mark.parametrize("pixels", [1, 2, 127, 128, 129, 257])
def test_pixels_that_fill_no_block(pixels: int) -> None:
    check(3, 1, pixels, 1, "float16")
    check(2, pixels, 1, 2, "float32", per="layer")


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data())
def test_random_maps(data: Any) -> None:
    check(
        data.draw(st.integers(1, 300)),
        data.draw(st.integers(1, 30)),
        data.draw(st.integers(1, 30)),
        data.draw(st.sampled_from([1, 2, 3, 4, 7, 16])),
        data.draw(st.sampled_from(["float32", "bfloat16", "float16"])),
        data.draw(st.sampled_from(["trn1", "trn2", "trn3"])),
        data.draw(st.sampled_from(["network", "layer"])),
    )
