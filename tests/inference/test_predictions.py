"""Answers of networks: labels with probabilities, or values."""

import copy
import pickle

import numpy as np
import pytest
from trninfer.inference.detections import answer_record
from trninfer.inference.predictions import InputNames, LabelProbability, Prediction, make_predictions
from trninfer.models import Dense, FeatureInput, Network, Output, Softmax
from trninfer.models.outputs import NamedOutput

LAYERS = (Dense("d", 2, 3), Softmax("s"))
CLASSES = Network("n", FeatureInput(2), LAYERS, ("a", "b", "c"))
VALUES = Network("n", FeatureInput(2), (Dense("d", 2, 3),), (), Output("values"))


def predict(network: Network, classes: list[int], rows: list[list[float]], top_k: int = 2) -> list[Prediction]:
    names = [f"{number}.png" for number in range(len(rows))]
    return make_predictions(names, network, np.array(classes, np.int32), np.array(rows, np.float32), top_k)


def test_the_most_probable_first() -> None:
    first, second = predict(CLASSES, [2, 0], [[0.25, 0.125, 0.625], [0.5, 0.25, 0.25]])
    assert (first.input, first.label, first.class_index, first.probability) == ("0.png", "c", 2, 0.625)
    assert first.top == (LabelProbability("c", 2, 0.625), LabelProbability("a", 0, 0.25)) and first.values is None
    assert [chance.label for chance in second.top] == ["a", "b"]  # the first of equal probabilities
    (all_of_them,) = predict(CLASSES, [2], [[0.25, 0.125, 0.625]], 9)
    assert [chance.label for chance in all_of_them.top] == ["c", "a", "b"]


def test_the_class_is_that_of_the_argmax_on_the_chip() -> None:
    """It may differ from the most probable class at a near-tie; the probabilities are reported unchanged."""
    (answer,) = predict(CLASSES, [1], [[0.5, 0.4990234375, 0.0]])
    assert (answer.label, answer.probability) == ("b", 0.4990234375) and answer.top[0].label == "a"


def test_values_have_no_label() -> None:
    (answer,) = predict(VALUES, [-1], [[0.5, -1e-9, 3.0]])
    assert (answer.label, answer.class_index, answer.probability, answer.top) == (None, None, None, ())
    assert answer.values == (0.5, np.float32(-1e-9), 3.0) and answer.text == "0.5 -9.99999972e-10 3"
    assert all(type(value) is float for value in answer.values or ())


def test_an_array_of_several_axes_has_its_shape() -> None:
    network = Network("n", FeatureInput(2), (Dense("d", 2, 6),), (), Output("values"), output_shape=(3, 1, 2))
    (answer,) = predict(network, [-1], [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    assert answer.shape == (3, 1, 2) and answer_record(answer)["shape"] == (3, 1, 2)
    (row,) = predict(VALUES, [-1], [[1.0, 2.0, 3.0]])
    assert row.shape is None and "shape" not in answer_record(row)


def test_several_outputs_each_by_its_kind() -> None:
    layers = (
        Dense("h", 2, 2),
        Dense("t", 2, 2, "sigmoid", inputs=("h",)),
        Dense("d", 2, 2, inputs=("h",)),
        Softmax("s"),
    )
    others = (
        NamedOutput("size", "h", (2, 1), Output("values")),
        NamedOutput("tags", "t", (2,), Output("sigmoid"), ("x", "y")),
    )
    network = Network("n", FeatureInput(2), layers, ("a", "b"), others=others, output_name="chances")
    (answer,) = predict(network, [1], [[0.25, 0.75, 5.0, 6.0, 0.875, 0.125]], 1)
    chances, size, tags = answer.outputs
    assert (chances.name, chances.label, chances.top) == ("chances", "b", answer.top) and len(answer.top) == 1
    assert (size.name, size.kind, size.values, size.shape, size.label) == ("size", "values", (5.0, 6.0), (2, 1), None)
    assert (tags.kind, tags.label, tags.probability, tags.class_index) == ("sigmoid", "x", 0.875, 0)
    assert (answer.label, answer.values) == ("b", None)


def test_as_many_answers_as_inputs() -> None:
    with pytest.raises(ValueError, match=r"zip\(\)"):
        make_predictions(["a", "b"], CLASSES, np.array([0]), np.zeros((1, 3), np.float32), 1)
    assert make_predictions([], CLASSES, np.empty(0, np.int32), np.empty((0, 3), np.float32), 1) == []


def test_names_of_several_inputs_are_one_name() -> None:
    names = InputNames({"left": "a.png", "bias": "1,2"})
    assert names == "left=a.png, bias=1,2" and names.sources == {"left": "a.png", "bias": "1,2"}
    for again in (pickle.loads(pickle.dumps(names)), copy.deepcopy(names)):
        assert type(again) is InputNames and again.sources == names.sources and again == names


def test_answers_are_short_to_look_at() -> None:
    assert repr(Prediction("a.png", "b", 1, 0.5, ())) == "Prediction(input='a.png', label='b', probability=0.5)"
    names = InputNames({"x": "1"})
    assert repr(Prediction(names, "b", 1, 0.5, ())).startswith("Prediction(input='x=1'")
    four, five = (Prediction(3, None, None, None, (), tuple(map(float, range(count)))) for count in (4, 5))
    assert repr(four) == "Prediction(input=3, values=(0, 1, 2, 3))"
    assert repr(five) == "Prediction(input=3, values=(0, 1, 2, 3, ...))"
