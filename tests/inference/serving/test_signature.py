"""The tensors that networks declare to clients."""

from __future__ import annotations

import numpy as np
import pytest
import trninfer
from trninfer.inference.serving.signature import Signature, TensorSpec
from trninfer.inference.serving.workers import InputAnswer
from trninfer.models import Dense, FeatureInput, Flatten, ImageInput, Network, Output, Softmax
from trninfer.models.errors import InputError
from trninfer.models.inputs import NamedInput, SeveralInputs
from trninfer.models.outputs import NamedOutput

HEAD = (Flatten("flatten"), Dense("head", 12, 2), Softmax("softmax"))
PHOTO = ImageInput(3, 2, 2, "photo", (0.0,) * 3, (1.0,) * 3, 2, "HWC")


def test_images_are_in_the_layout_of_their_file() -> None:
    signature = Signature(Network("net", PHOTO, HEAD, ("a", "b")))
    assert signature.inputs == (TensorSpec("input", "FP32", (-1, 2, 2, 3), takes_pictures=True),)
    values = np.arange(24, dtype=np.float64).reshape(2, 2, 2, 3)
    sources = signature.sources({"input": values})
    assert [source.dtype for source in sources] == [np.float32] * 2
    assert np.array_equal(sources[1], values[1].transpose(2, 0, 1))
    with pytest.raises(InputError, match=r"input has the shape \[2, 3, 2, 2\]; expected \[N, 2, 2, 3\]"):
        signature.sources({"input": values.transpose(0, 3, 1, 2)})
    with pytest.raises(InputError, match="input contains NaN"):
        signature.sources({"input": np.full((1, 2, 2, 3), np.nan)})


def test_answers_of_classes() -> None:
    signature = Signature(Network("net", PHOTO, HEAD, ("a", "b")))
    answers = [InputAnswer(1, np.array([0.25, 0.75], np.float32), 2, 3.0)] * 2
    arrays = signature.arrays(answers)
    assert list(arrays) == [spec.name for spec in signature.outputs] == ["probabilities", "class_index", "label"]
    assert arrays["label"].tolist() == ["b", "b"] and signature.labels() == {"probabilities": ("a", "b")}


def test_several_inputs_and_outputs_go_by_their_names() -> None:
    spec = SeveralInputs((NamedInput("x", FeatureInput(2)), NamedInput("y", FeatureInput(1))))
    layers = (Dense("hidden", 3, 4, "relu"), Dense("head", 4, 2), Softmax("softmax"))
    others = (NamedOutput("label", "hidden", (2, 2), Output("values")),)
    network = Network("net", spec, layers, ("a", "b"), others=others, output_name="chances")
    signature = Signature(network)
    assert [(part.name, part.shape) for part in signature.inputs] == [("x", (-1, 2)), ("y", (-1, 1))]
    shapes = [("chances", (-1, 2)), ("label_output", (-1, 2, 2)), ("class_index", (-1,)), ("label", (-1,))]
    assert [(output.name, output.shape) for output in signature.outputs] == shapes
    rows = signature.sources({"y": np.array([[3.0], [6.0]]), "x": np.array([[1.0, 2.0], [4.0, 5.0]])})
    assert [row.tolist() for row in rows] == [[1, 2, 3], [4, 5, 6]]
    with pytest.raises(InputError, match="not have the same number of examples: x has 2, y has 1"):
        signature.sources({"y": np.array([[3.0]]), "x": np.array([[1.0, 2.0], [4.0, 5.0]])})
    arrays = signature.arrays([InputAnswer(0, np.arange(6, dtype=np.float32), 1, 1.0)])
    assert arrays["label_output"].tolist() == [[[2, 3], [4, 5]]] and arrays["label"].tolist() == ["a"]


def test_the_tensors_of_the_bundled_models() -> None:
    for name, outputs in (("digits-cnn", 11), ("digits-ffnn", 10)):
        signature = Signature(trninfer.load_model(name).network)
        assert signature.outputs[0] == TensorSpec("probabilities", "FP32", (-1, outputs))
    values = Signature(Network("net", FeatureInput(2), (Dense("d", 2, 3),), (), Output("values")))
    assert values.outputs == (TensorSpec("values", "FP32", (-1, 3)),) and values.labels() == {}
