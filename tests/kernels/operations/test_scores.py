"""Scores and answers of a program, compared with NumPy: the last layer, its epilogue, and the argmax."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from random_arrays import normal, small_integers
from single_operations import lay_out_weights, load_of, run_operations
from trninfer.kernels.program import Activation, ClassifierHead, DenseHead, Ending

F32 = np.float32


def log_softmax(x: Any) -> Any:
    largest = x.max(axis=1, keepdims=True)
    return x - largest - np.log(np.exp(x - largest).sum(axis=1, keepdims=True))


ENDINGS: dict[Ending, Any] = {
    Ending.RAW: lambda x: x,
    Ending.SOFTMAX: lambda x: np.exp(log_softmax(x)),
    Ending.LOG_SOFTMAX: log_softmax,
}


def scored(x: Any, w: Any, bias: Any, packed: int = 1, at_once: int = 0, **fields: Any) -> Any:
    """Return (scores, classes) of a dense layer on [B, C, H, W] with weights [classes, C, H, W]."""
    classes, channels = w.shape[:2]
    steps = w.reshape(classes, channels, -1).transpose(1, 2, 0)
    matrices = np.zeros((packed, channels, steps.shape[1], packed, classes), F32)
    for image in range(packed):
        matrices[image, :, :, image] = steps
    constants = np.tile(np.concatenate([[9], bias]).astype(F32), (128, 1))
    last = DenseHead(
        name="s",
        channels=classes,
        rows=1,
        columns=1,
        packed=packed,
        kernel=w.shape[2:],
        bias=1,
        sources=((0,),),
        **fields,
    )
    options: dict[str, Any] = {"packed": packed, "at_once": at_once, "constants": constants}
    units = {0: matrices.reshape(packed * channels, -1, packed * classes)}
    return run_operations([load_of(x, 0, packed), last], x, weights=lay_out_weights([units]), **options)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    ("batch", "channels", "side", "classes", "packed", "at_once"),
    [(3, 128, 1, 10, 1, 0), (1, 5, 3, 2, 1, 0), (8, 16, 2, 11, 4, 1), (129, 3, 1, 1, 1, 0), (300, 4, 1, 130, 1, 0)],
)
def test_a_dense_layer_and_its_ending(
    ending: Ending, batch: int, channels: int, side: int, classes: int, packed: int, at_once: int
) -> None:
    x, w = small_integers(batch, channels, side, side), small_integers(classes, channels, side, side, seed=1)
    bias = normal((classes,), F32)
    scores, found = scored(x, w, bias, packed, at_once, ending=ending)
    logits = np.einsum("bchw,nchw->bn", x, w).astype(np.float64) + bias
    np.testing.assert_allclose(scores, ENDINGS[ending](logits), rtol=2e-5, atol=1e-5)
    np.testing.assert_array_equal(found, logits.astype(F32).argmax(axis=1))


def test_one_image_of_16_bits() -> None:
    """The matmul then uses the image twice."""
    x, w = (small_integers(n, 8, 1, 1, dtype=ml_dtypes.bfloat16, seed=n) for n in (1, 3))
    scores, classes = scored(x, w.astype(F32), np.zeros(3))
    logits = x.astype(F32).reshape(1, 8) @ w.astype(F32).reshape(3, 8).T
    np.testing.assert_array_equal(scores.astype(F32), logits)
    assert classes.tolist() == [logits.argmax()]


def test_an_activation_goes_before_the_ending() -> None:
    x, w = normal((4, 6, 1, 1), F32), normal((5, 6, 1, 1), F32)
    scores, _ = scored(x, w, np.zeros(5), activation=Activation("relu"), ending=Ending.SOFTMAX)
    logits = np.maximum(x.reshape(4, 6) @ w.reshape(5, 6).T, 0).astype(np.float64)
    np.testing.assert_allclose(scores, np.exp(log_softmax(logits)), rtol=2e-5)


def test_the_first_of_the_largest() -> None:
    x = np.array([[1, 7, 7, 2, 7], [-3, -3, -5, -3, -4], [0, 0, 0, 0, 0]], F32).reshape(3, 5, 1, 1)
    assert scored(x, np.eye(5, dtype=F32).reshape(5, 5, 1, 1), np.zeros(5))[1].tolist() == [1, 0, 0]
    assert run_operations([load_of(x), answers_of(x)], x)[1].tolist() == [1, 0, 0]


def answers_of(x: Any, packed: int = 1, **fields: Any) -> ClassifierHead:
    return ClassifierHead(name="a", channels=x[0].size, rows=1, columns=1, packed=packed, sources=((0,),), **fields)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(("shape", "packed"), [((3, 4, 2, 3), 1), ((6, 4, 2, 3), 2), ((131, 2, 1, 1), 1)])
def test_answers_are_the_numbers_of_each_image(ending: Ending, shape: tuple[int, ...], packed: int) -> None:
    """In the order channels, rows, columns."""
    x = normal(shape, F32)
    scores, classes = run_operations([load_of(x, 0, packed), answers_of(x, packed, ending=ending)], x, packed=packed)
    flat = x.reshape(shape[0], -1)
    np.testing.assert_allclose(scores, ENDINGS[ending](flat.astype(np.float64)), rtol=2e-5, atol=1e-6)
    np.testing.assert_array_equal(classes, flat.argmax(axis=1))
