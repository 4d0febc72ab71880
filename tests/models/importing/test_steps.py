"""Operations on a view and numbers, or on two views, which broadcast as in NumPy and ONNX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from import_steps import importer_of, numbers, value_of
from onnx_chain import Chain, ends
from trninfer.models.errors import ModelError
from trninfer.models.importing import steps
from trninfer.models.importing.view import View
from trninfer.models.layers import Affine

X = numbers(3, 4, 5)
FILES = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FILES
@given(
    op=st.sampled_from(["Add", "Sub", "Mul", "Div", "Max"]),
    shape=st.tuples(*[st.integers(1, 5)] * 3),
    pooled=st.sets(st.integers(1, 3), min_size=1),
    others=st.sets(st.integers(1, 3)),
    turned=st.booleans(),
)
def test_one_value_is_repeated_over_another(op, shape, pooled, others, turned: bool, tmp_path: Path) -> None:
    chain = Chain(*shape)
    chain.add("Add", chain.constant(1.5))
    x = chain.add("Abs")
    small = chain.add("ReduceMean", chain.constant(sorted(pooled)), first=x)
    large = chain.add("ReduceMax", chain.constant(sorted(others)), first=x) if others else x
    small = chain.add("Add", chain.constant(0.3), first=small)  # avoids division by numbers near zero
    large = chain.add("Add", chain.constant(0.2), first=large)
    pair = (small, large) if turned else (large, small)
    chain.add(op, pair[1], first=pair[0])
    kept = [1 if axis in pooled & others else size for axis, size in enumerate(shape, 1)]
    ends(chain, int(np.prod(kept)), tmp_path)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (4, 1), (3, 1, 1), (3, 4, 5), (1, 3, 1, 1), (1, 1, 3, 1, 5)])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_numbers_broadcast_over_a_view(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    """In the layer's own order of axes, and transposed, where the numbers belong to different axes."""
    importer = importer_of(3, 4, 5)
    view, x = importer.views["x"].permuted(order), X.transpose(0, *(axis + 1 for axis in order))
    full = (1,) * (len(shape) - 3) + x.shape[1:]
    shape = tuple(1 if size == 1 else extent for size, extent in zip(shape, full[len(full) - len(shape) :]))
    random = np.random.default_rng(1)
    scale, shift = np.asarray(random.standard_normal(shape)), np.asarray(random.standard_normal())
    made = steps.affine_view(importer, view, scale, shift)
    expected = (x * scale + shift).reshape(x.shape)
    np.testing.assert_allclose(value_of(importer, made, X), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((4, 4), r"\[1, 4, 4\] cannot be broadcast to \[batch, 3, 4, 5\]"),
        ((2, 1, 1, 1), r"its constant \[2, 1, 1, 1\] differs among the entries of a batch"),
        ((2, 1, 3, 4, 5), r"\[2, 1, 3, 4, 5\] cannot be broadcast to \[batch, 3, 4, 5\]"),
    ],
)
def test_numbers_that_do_not_broadcast(shape: tuple[int, ...], says: str) -> None:
    importer = importer_of(3, 4, 5)
    with pytest.raises(ModelError, match=f"^{says}$"):
        steps.affine_view(importer, importer.views["x"], np.ones(shape), np.zeros(1))


def test_one_number_for_each_channel_is_held_once() -> None:
    importer = importer_of(3, 4, 5)
    made = steps.affine_view(importer, importer.views["x"], np.ones((3, 1, 1)), np.arange(3.0).reshape(3, 1, 1))
    layer = importer.builder.layers[made.layer]
    assert isinstance(layer, Affine) and layer.shape == (3,)
    each = importer.builder.layers[steps.affine_view(importer, made, np.ones((4, 5)), np.zeros(1)).layer]
    assert isinstance(each, Affine) and each.shape == (3, 4, 5)


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [(-np.inf, np.inf, None), (0, np.inf, "relu"), (-1, np.inf, "clip"), (-np.inf, 0.5, "clip"), (0.5, 0.5, "clip")],
)
def test_clips(low: float, high: float, kind: str | None) -> None:
    importer = importer_of(6)
    view = steps.clip(importer, importer.views["x"], low, high)
    layer = importer.builder.layers.get(view.layer)
    assert getattr(layer, "activation", None) == kind
    x = numbers(6)
    np.testing.assert_array_equal(value_of(importer, view, x), np.clip(x, low, high).astype(np.float32))


@pytest.mark.parametrize(("low", "high"), [(1, 0.5), (np.nan, 1)])
def test_a_clip_to_nothing(low: float, high: float) -> None:
    importer = importer_of(6)
    with pytest.raises(ModelError, match=r"^the range of the clip, .*, is empty$"):
        steps.clip(importer, importer.views["x"], low, high)


@pytest.mark.parametrize(
    ("operation", "function"),
    [("add", np.add), ("subtract", np.subtract), ("divide", np.divide), ("maximum", np.maximum)],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_two_views_in_different_orders_of_their_axes(operation: str, function, swapped: bool) -> None:
    """The image is square, so its transpose reveals swapped operands and swapped axes."""
    importer, x = importer_of(3, 4, 4), np.abs(numbers(3, 4, 4)) + 0.5
    view = importer.views["x"]
    pair, arrays = (view, view.permuted((0, 2, 1))), (x, x.transpose(0, 1, 3, 2))
    if swapped:
        pair, arrays = pair[::-1], arrays[::-1]
    made = steps.combine_views(importer, operation, *pair)
    np.testing.assert_allclose(value_of(importer, made, x), function(*arrays), rtol=1e-6)


@pytest.mark.parametrize(("operation", "function"), [("subtract", np.subtract), ("divide", np.divide)])
@pytest.mark.parametrize("wide", [(1, 4, 5), (3, 1, 1), (3, 4, 5)])
def test_a_smaller_view_first(operation: str, function, wide: tuple[int, ...]) -> None:
    """If the operands are swapped, the sign or the fraction is inverted afterwards."""
    importer, x = importer_of(1, 1, 1), np.abs(numbers(1, 1, 1)) + 0.5
    large = steps.affine_view(
        importer, importer.views["x"], np.arange(1.0, 1 + np.prod(wide)).reshape(wide), np.ones(1)
    )
    assert large.shape == wide  # numbers with more entries than a view repeat it
    made = steps.combine_views(importer, operation, importer.views["x"], large)
    expected = function(x, x * np.arange(1.0, 1 + np.prod(wide)).reshape(wide) + 1)
    np.testing.assert_allclose(value_of(importer, made, x), expected, rtol=1e-5)


def test_views_that_do_not_broadcast() -> None:
    importer = importer_of(3, 4, 5)
    view = importer.views["x"]
    with pytest.raises(ModelError, match=r"^cannot combine \[batch, 3, 4, 5\] and \[batch, 3, 5, 4\]$"):
        steps.combine_views(importer, "add", view, view.permuted((0, 2, 1)))
    with pytest.raises(ModelError, match=r"^cannot combine \[batch, 3, 4, 5\] and \[batch, 60\], which have"):
        steps.combine_views(importer, "add", view, view.reshaped((60,), True))


def test_views_are_widened_along_axes_of_one() -> None:
    importer = importer_of(3, 1, 1)
    made = steps.widen(importer, importer.views["x"].reshaped((3, 1, 1, 1), True), (3, 2, 5, 7))
    x = numbers(3, 1, 1)
    np.testing.assert_array_equal(value_of(importer, made, x), np.broadcast_to(x[..., None], (2, 3, 2, 5, 7)))
    importer = importer_of(3, 1, 1)  # axes that still have size one, as do their neighbours
    made = steps.widen(importer, importer.views["x"].reshaped((3, 1, 1, 1, 1), True), (3, 1, 5, 1, 7))
    expected = np.broadcast_to(x[:, :, :, :, None, None], (2, 3, 1, 5, 1, 7))
    np.testing.assert_array_equal(value_of(importer, made, x), expected)


def test_axes_that_are_repeated_by_turns_are_too_many() -> None:
    importer = importer_of(3, 1, 4)
    channels, _, columns = importer.views["x"].axes
    with pytest.raises(
        ModelError,
        match=r"^cannot broadcast an input of \[batch, 1, 3, 1, 4\] to \[2, 3, 2, 4\]; at most three axes",
    ):
        steps.widen(importer, View("input", ((), channels, (), columns)), (2, 3, 2, 4))
