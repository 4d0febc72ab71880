"""Layers that repeat axes of size one, compared bit by bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from import_steps import importer_of, numbers, value_of
from onnx_chain import Chain, assert_imports
from trninfer.models.checks import MAX_KERNEL_SIZE
from trninfer.models.errors import ModelError
from trninfer.models.importing.spread import spread
from trninfer.models.importing.view import View


@pytest.mark.parametrize(
    ("shape", "wide"),
    [
        ((1,), (7,)),
        ((1, 1, 1), (3, 4, 5)),
        ((3, 1, 1), (3, 4, 5)),
        ((1, 4, 1), (3, 4, 5)),
        ((1, 1, 5), (3, 4, 5)),
        ((3, 1, 5), (3, 4, 5)),
        ((3, 4, 1), (3, 4, 129)),
        ((3, 4, 1), (3, 4, 1)),
        ((1, 1, 1), (1, 1, MAX_KERNEL_SIZE)),
    ],
)
def test_every_number_is_repeated_exactly(shape: tuple[int, ...], wide: tuple[int, ...]) -> None:
    importer, x = importer_of(*shape), numbers(*shape)
    made = spread(importer, "input", wide)
    assert (made == "input") == (shape == wide)
    np.testing.assert_array_equal(value_of(importer, View.of(made, wide), x), np.broadcast_to(x, (2, *wide)))


@pytest.mark.parametrize(("shape", "wide"), [((2, 1, 1), (3, 4, 5)), ((1,), (3, 4, 5)), ((3, 4, 5), (3, 1, 5))])
def test_only_axes_of_one_are_repeated(shape: tuple[int, ...], wide: tuple[int, ...]) -> None:
    with pytest.raises(ModelError) as error:
        spread(importer_of(*shape), "input", wide)
    assert str(error.value) == f"{list(shape)} cannot be broadcast to {list(wide)}"


def test_more_pixels_than_a_window_has() -> None:
    with pytest.raises(ModelError, match=r"^repeats a constant over 1025 pixels; at most 1024 are allowed$"):
        spread(importer_of(1, 1, 1), "input", (1, 1, MAX_KERNEL_SIZE + 1))


def test_one_feature_is_repeated_over_others(tmp_path: Path) -> None:
    """A duelling network: the value of a state, and the advantage of each action over the mean."""
    chain = Chain(7)
    chain.gemm(7, 5)
    advantages = chain.value
    mean = chain.add("ReduceMean", chain.constant([1]), first=advantages)
    centred = chain.add("Sub", mean, first=advantages)
    chain.value = "x"
    chain.gemm(7, 1)
    chain.add("Add", centred)
    assert assert_imports(chain, tmp_path).network.outputs == 5
