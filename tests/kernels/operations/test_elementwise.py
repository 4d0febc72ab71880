"""Elementwise operations of a program, compared with NumPy, with one or two images on the partitions."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from random_arrays import normal
from single_operations import columns_of, load_of, run_operations
from trninfer.kernels.operations.elementwise import MANY_PIXELS
from trninfer.kernels.program import IDENTITY, Activation, Affine, Combine, Slope

F32 = np.float32
FUNCTIONS: dict[str, Any] = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum}


def combined(x: Any, y: Any, arithmetic: str, packed: int = 1, activation: Activation = IDENTITY) -> Any:
    size = dict(zip(("channels", "rows", "columns"), x.shape[1:]))
    out = Combine(name="c", **size, packed=packed, arithmetic=arithmetic, activation=activation, sources=((0,), (1,)))
    return run_operations([load_of(x, 0, packed), load_of(y, 1, packed), out], x, y, packed=packed)


@pytest.mark.parametrize("arithmetic", FUNCTIONS)
@pytest.mark.parametrize(("channels", "packed"), [(3, 2), (130, 1)])
def test_two_values(arithmetic: str, channels: int, packed: int) -> None:
    x, y = (normal((4, channels, 3, 5), F32, seed) for seed in range(2))
    np.testing.assert_array_equal(combined(x, y, arithmetic, packed), FUNCTIONS[arithmetic](x, y))


@pytest.mark.parametrize("arithmetic", FUNCTIONS)
@pytest.mark.parametrize("columns", [1, MANY_PIXELS // 4 - 1, MANY_PIXELS // 4])
def test_a_number_for_each_channel(arithmetic: str, columns: int) -> None:
    """With one instruction, or with one for each image."""
    x, y = normal((3, 5, 4, columns), F32), normal((3, 5, 1, 1), F32, 1)
    np.testing.assert_array_equal(combined(x, y, arithmetic), FUNCTIONS[arithmetic](x, y))


def test_an_activation_is_of_the_exact_sum() -> None:
    """If the sum were rounded to 16 bits before the activation, 256 + 1 would be 256."""
    x, y = (np.full((1, 2, 1, 2), number).astype(ml_dtypes.bfloat16) for number in (256, 1))
    found = combined(x, y, "add", activation=Activation("step", (256.5,)))
    assert (found == 1).all()
    assert (combined(x, -2 * x, "add", activation=Activation("relu")) == 0).all()


@pytest.mark.parametrize("packed", [1, 2])
def test_scales_and_shifts_of_channels(packed: int) -> None:
    x, scale, shift = normal((4, 30, 3, 5), F32), normal((30,), F32, 1), normal((30,), F32, 2)
    constants = columns_of([7], np.tile(scale, packed), np.tile(shift, packed))
    affine = Affine(
        name="a",
        channels=30,
        rows=3,
        columns=5,
        packed=packed,
        constants=1,
        sources=((0,),),
        activation=Activation("relu"),
    )
    found = run_operations([load_of(x, 0, packed), affine], x, packed=packed, constants=constants)
    expected = np.maximum(x * scale[:, None, None] + shift[:, None, None], 0)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_two_tiles_have_columns_of_their_own() -> None:
    x, scale, shift = normal((2, 131, 2, 2), F32), normal((131,), F32, 1), normal((131,), F32, 2)
    affine = Affine(name="a", channels=131, rows=2, columns=2, sources=((0,),))
    constants = columns_of(scale[:128], shift[:128], scale[128:], shift[128:])
    found = run_operations([load_of(x), affine], x, constants=constants)
    np.testing.assert_allclose(found, x * scale[:, None, None] + shift[:, None, None], rtol=1e-6, atol=1e-6)
    slope = Slope(name="s", channels=131, rows=2, columns=2, constants=1, sources=((0,),))
    found = run_operations([load_of(x), slope], x, constants=columns_of([3], scale))
    np.testing.assert_allclose(found, np.where(x > 0, x, x * scale[:, None, None]), rtol=1e-6)


def test_numbers_of_each_element() -> None:
    """[P, elements of an image], the scales followed by the shifts."""
    x, scale, shift = normal((3, 4, 2, 3), F32), normal((4, 2, 3), F32, 1), normal((4, 2, 3), F32, 2)
    constants = np.zeros((128, 12), F32)
    constants[:4] = np.concatenate([scale.reshape(4, 6), shift.reshape(4, 6)], axis=1)
    affine = Affine(
        name="a", channels=4, rows=2, columns=3, by_element=True, activation=Activation("tanh"), sources=((0,),)
    )
    found = run_operations([load_of(x), affine], x, constants=constants)
    np.testing.assert_allclose(found, np.tanh(x * scale + shift), rtol=2e-6, atol=1e-6)
    slope = Slope(name="s", channels=4, rows=2, columns=3, constants=6, by_element=True, sources=((0,),))
    found = run_operations([load_of(x), slope], x, constants=constants)
    np.testing.assert_allclose(found, np.where(x > 0, x, x * shift), rtol=1e-6)
