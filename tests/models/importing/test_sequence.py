"""Sequences of layers for files without a graph: each step compared with NumPy, and invalid sequences."""

from __future__ import annotations

import numpy as np
import pytest
from trninfer.models import run_network
from trninfer.models.errors import ModelError
from trninfer.models.importing.builder import BuiltOutput
from trninfer.models.importing.fold import ScaleShift
from trninfer.models.importing.sequence import Sequence
from trninfer.models.inputs import FeatureInput, ImageInput
from trninfer.models.outputs import Output

RANDOM = np.random.default_rng(2)
IMAGE = RANDOM.standard_normal((2, 4, 6, 5)).astype(np.float32)
ROW = RANDOM.standard_normal((2, 7)).astype(np.float32)


def on_image() -> Sequence:
    return Sequence(ImageInput(4, 6, 5, "none", (0.0,) * 4, (1.0,) * 4))


def run(sequence: Sequence, x: np.ndarray) -> np.ndarray:
    shape = sequence.shape
    network, tensors = sequence.builder.finish("n", [BuiltOutput("y", sequence.last, shape, Output("values"))], None)
    return run_network(network, tensors, x).scores.reshape(len(x), *shape)


def test_convolutions_with_groups_stride_and_padding() -> None:
    sequence, weight = on_image(), RANDOM.standard_normal((6, 2, 3, 2)).astype(np.float32)
    sequence.conv2d(weight, None, (1, 0, 2, 1), 2, 2)
    padded = np.pad(IMAGE, ((0, 0), (0, 0), (1, 2), (0, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), (2, 3))[:, :, ::2, ::2]
    expected = np.concatenate(
        [np.einsum("ncyxkl,ockl->noyx", windows[:, g : g + 2], weight[o : o + 3]) for g, o in ((0, 0), (2, 3))], axis=1
    )
    assert sequence.shape == expected.shape[1:] == (6, 4, 3)
    np.testing.assert_allclose(run(sequence, IMAGE), expected, rtol=1e-4, atol=1e-5)


def test_a_convolution_is_recognised_by_its_weights() -> None:
    sequence, weight, bias = on_image(), RANDOM.standard_normal((3, 4, 1, 2)), RANDOM.standard_normal(3)
    sequence.conv2d(weight, bias)
    windows = np.lib.stride_tricks.sliding_window_view(IMAGE, (1, 2), (2, 3))
    expected = np.einsum("ncyxkl,ockl->noyx", windows, weight) + bias[:, None, None]
    np.testing.assert_allclose(run(sequence, IMAGE), expected, rtol=1e-4, atol=1e-5)


def test_dense_layers_flatten_an_image_channel_by_channel() -> None:
    sequence, weight, bias = on_image(), RANDOM.standard_normal((120, 3)), RANDOM.standard_normal(3)
    sequence.dense(weight, bias)
    np.testing.assert_allclose(run(sequence, IMAGE), IMAGE.reshape(2, 120) @ weight + bias, rtol=1e-4, atol=1e-4)


def test_affine_maps_and_activations_with_parameters() -> None:
    sequence = Sequence(FeatureInput(7))
    sequence.affine(ScaleShift(np.arange(7.0), -np.ones(7)))
    sequence.activate("leaky_relu", (0.2,))
    expected = ROW * np.arange(7) - 1
    np.testing.assert_allclose(run(sequence, ROW), np.where(expected < 0, 0.2 * expected, expected), rtol=1e-5)


@pytest.mark.parametrize(("method", "reduce"), [("max", np.max), ("average", np.mean)])
def test_pools_of_windows_and_of_the_whole_image(method: str, reduce) -> None:
    sequence = on_image()
    sequence.pool(method, 3, 2)
    windows = np.lib.stride_tricks.sliding_window_view(IMAGE, (3, 3), (2, 3))[:, :, ::2, ::2]
    np.testing.assert_allclose(run(sequence, IMAGE), reduce(windows, axis=(4, 5)), rtol=1e-5, atol=1e-6)
    whole = on_image()
    whole.pool(method, 0, 0)
    np.testing.assert_allclose(run(whole, IMAGE), reduce(IMAGE, axis=(2, 3), keepdims=True), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("log", [False, True])
def test_a_softmax_of_an_image_is_over_all_of_it(log: bool) -> None:
    sequence = on_image()
    sequence.softmax(log)
    powers = np.exp(IMAGE.reshape(2, -1).astype(np.float64))
    expected = powers / powers.sum(axis=1, keepdims=True)
    network, tensors = sequence.builder.finish(
        "n", [BuiltOutput("y", sequence.last, (120,), Output("classes", "log_softmax" if log else "softmax"))], None
    )
    np.testing.assert_allclose(run_network(network, tensors, IMAGE).probabilities, expected, rtol=1e-4)


def test_features_stay_as_they_are_when_flattened() -> None:
    sequence = Sequence(FeatureInput(7))
    sequence.flatten()
    assert sequence.last == "input" and sequence.shape == (7,)


def test_steps_that_do_not_fit() -> None:
    sequence = Sequence(FeatureInput(7))
    with pytest.raises(ModelError, match=r"^a pool expects an image, but its input is 7 features$"):
        sequence.pool("max", 2, 2)
    with pytest.raises(ModelError, match=r"expects 6 features, but its input is 7"):
        sequence.dense(np.ones((6, 3)), None)
    with pytest.raises(ModelError, match=r"its bias has shape \[4\]; expected \[3\]"):
        sequence.dense(np.ones((7, 3)), np.ones(4))
    assert sequence.last == "input"
