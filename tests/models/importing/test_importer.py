"""Inputs of nodes are read as the data, weights or numbers that an operator needs; others are rejected by name."""

from __future__ import annotations

import numpy as np
import pytest
from import_steps import importer_of, numbers, value_of
from trninfer.models.errors import ModelError
from trninfer.models.importing.importer import Importer, without_height
from trninfer.models.importing.onnx_file import Node
from trninfer.models.importing.view import View


def node(*inputs: str, outputs: tuple[str, ...] = ("y",)) -> Node:
    return Node("Op", "n", inputs, outputs, {})


MIXES = "cannot operate along the batch axis, because this would mix separate inputs"


@pytest.fixture
def importer() -> Importer:
    importer = importer_of(3, 4, 5)
    importer.constants |= {
        "doubles": np.array([[1.0, 1e300]]),
        "halves": np.ones((2, 3), np.float16),
        "whole": np.arange(3),
        "truth": np.array(True),
        "none": np.zeros((0, 3), np.float32),
        "one": np.array([[7]]),
    }
    return importer


def test_data_and_constants_by_position(importer: Importer) -> None:
    assert importer.data(node("halves", "x"), 1) is importer.views["x"]
    assert importer.constant(node("x", "", "whole"), 1) is None
    assert importer.constant(node("x"), 5) is None
    np.testing.assert_array_equal(importer.constant(node("x", "whole"), 1), [0, 1, 2])


def test_weights_are_float32_and_what_it_cannot_hold_is_infinite(importer: Importer) -> None:
    assert importer.weight(node("halves"), 0).dtype == np.float32
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(importer.weight(node("doubles"), 0, (2,)), [[1, np.inf]])
    assert importer.optional(node("x"), 3) is None
    assert importer.scalar(node("x"), 3, -1.5) == -1.5 and importer.scalar(node("one"), 0, 0) == 7.0


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (lambda i: i.data(node("whole")), "its input number 1 is constant"),
        (lambda i: i.data(node("x", ""), 1), "its input number 2 is missing"),
        (lambda i: i.data(node("x"), 4), "its input number 5 is missing"),
        (
            lambda i: i.constant(node("", "x"), 1),
            "its input number 2 depends on the network's input; it must be a constant",
        ),
        (lambda i: i.constant(node("text"), 0), "its input 'text' has an unsupported type"),
        (lambda i: i.weight(node(""), 0), "its input number 1 is missing"),
        (
            lambda i: i.weight(node("halves"), 0, (1, 3)),
            "its weight 'halves', float16 of shape [2, 3], is not supported",
        ),
        (lambda i: i.weight(node("whole"), 0), "its weight 'whole', int64 of shape [3], is not supported"),
        (lambda i: i.weight(node("truth"), 0), "its weight 'truth', bool of shape [], is not supported"),
        (lambda i: i.weight(node("none"), 0), "its weight 'none', float32 of shape [0, 3], is not supported"),
        (lambda i: i.optional(node("whole"), 0), "its weight 'whole', int64 of shape [3], is not supported"),
        (lambda i: i.scalar(node("whole"), 0, 0), "its input number 1 is not a scalar"),
        (lambda i: i.axis(i.views["x"], 4), "axis 4 is out of bounds for an input of shape [batch, 3, 4, 5]"),
        (lambda i: i.axis(i.views["x"], -5), "axis -5 is out of bounds for an input of shape [batch, 3, 4, 5]"),
        (lambda i: i.axis(i.views["x"], 0), MIXES),
        (lambda i: i.axis(i.views["x"], -4), MIXES),
    ],
)  # fmt: skip
def test_unreadable_operands_are_refused(importer: Importer, read, says: str) -> None:
    with pytest.raises(ModelError) as error:
        read(importer)
    assert str(error.value) == says


def test_axes_are_counted_without_the_batch(importer: Importer) -> None:
    view = importer.views["x"]
    assert [importer.axis(view, axis) for axis in (1, 3, -1, -3)] == [0, 2, 2, 0]
    alone = View(view.layer, view.axes, False)
    assert [importer.axis(alone, axis) for axis in (0, 2, -3)] == [0, 2, 0]
    assert importer.describe(alone) == "[3, 4, 5]"


def test_outputs_are_given_by_position(importer: Importer) -> None:
    view = importer.views["x"]
    importer.give(node(outputs=("a", "", "c")), view)
    importer.give(node(outputs=("a", "", "c")), view, 1)  # left out
    importer.give(node(outputs=("a", "", "c")), view, 3)  # beyond them
    importer.give(node(outputs=("a", "", "c")), np.ones(2), 2)
    assert set(importer.views) == {"x", "a"} and "c" in importer.constants and "" not in importer.constants


def test_images_of_one_or_two_sides() -> None:
    importer = importer_of(3, 4, 5)
    view = importer.views["x"]
    assert importer.image(node("x")) == view and importer.planes(view) == "input"
    importer.views["sound"] = view.reshaped((3, 20), True)
    assert importer.builder.shapes[importer.planes(importer.image(node("sound")))] == (3, 1, 20)
    importer.views["row"] = view.reshaped((60,), True)
    with pytest.raises(ModelError, match=r"^expects images, but its input is \[batch, 60\]$"):
        importer.image(node("row"))
    importer.views["alone"] = View(view.layer, view.axes, False)
    with pytest.raises(ModelError, match=r"^expects images, but its input is \[3, 4, 5\]$"):
        importer.image(node("alone"))
    layer = View.of("a", (3, 1, 20))
    assert without_height(layer, 3) is layer and without_height(layer, 2).shape == (3, 20)


def test_rows_are_in_the_logical_order() -> None:
    importer = importer_of(3, 4, 5)
    x = numbers(3, 4, 5)
    name = importer.rows(importer.views["x"].permuted((2, 0, 1)))
    np.testing.assert_array_equal(value_of(importer, View.of(name, (60,)), x), x.transpose(0, 3, 1, 2).reshape(2, 60))


def test_a_batch_is_an_axis_like_others_but_nothing_operates_along_a_fixed_one() -> None:
    importer = importer_of(6)
    single = importer.single(importer.views["x"])
    assert single.shape == (1, 6) and not single.batched and importer.axis(single, 0) == 0
    fixed = importer_of(6, batch=2)
    single = fixed.single(fixed.views["x"])
    assert single.shape == (1, 6) and fixed.extents(single) == (2, 6)
    with pytest.raises(ModelError, match=MIXES):
        fixed.axis(single, 0)


def test_a_constant_that_a_fixed_batch_repeats() -> None:
    importer, row = importer_of(6, batch=2), np.arange(6)
    view = importer.views["x"]
    np.testing.assert_array_equal(importer.of_one_input(view, np.stack([row, row])), [row])
    assert importer.of_one_input(view, np.stack([row, row + 1])).shape == (2, 6)
    assert importer.of_one_input(view, row).shape == (6,)


def test_notes_are_made_once() -> None:
    importer = importer_of(6)
    for text in ("a", "b", "a"):
        importer.note(text)
    assert importer.notes == ["a", "b"]
