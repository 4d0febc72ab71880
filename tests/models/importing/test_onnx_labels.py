"""Class names stored in an ONNX file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_chain import Chain, checked
from trninfer.models.importing import import_network
from trninfer.models.outputs import Output


def chain(count: int = 3) -> Chain:
    made = Chain(4)
    made.gemm(4, count)
    return made


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("names", "{0: 'cat', 1: 'dog', 2: 'fish'}"),  # as written by Ultralytics
        ("labels", json.dumps(["cat", "dog", "fish"])),
        ("classes", "cat, dog, fish"),
        ("id2label", json.dumps({"0": "cat", "1": "dog", "2": "fish"})),
    ],
)
def test_names_in_the_metadata(key: str, text: str, tmp_path: Path) -> None:
    model = chain().model()
    helper.set_model_props(model, {key: text, "author": "nobody"})
    imported = checked(model, tmp_path)
    assert imported.network.labels == ("cat", "dog", "fish") and imported.labels_from == "the file itself"
    assert checked(model, tmp_path, labels=("a", "b", "c")).network.labels == ("a", "b", "c")


@pytest.mark.parametrize(
    "text", ["{0: 'cat', 1: 'dog'}", "", "(" * 5000, "{0: open('x')}", "['cat', 'dog', 'a\\x1bb']"]
)
def test_names_of_another_number_are_ignored(text: str, tmp_path: Path) -> None:
    model = chain().model()
    helper.set_model_props(model, {"names": text})
    imported = checked(model, tmp_path)
    assert imported.network.labels == ("0", "1", "2") and imported.labels_from == ""


@pytest.mark.parametrize(
    ("attribute", "values", "expected"),
    [
        ("classlabels_int64s", [5, 6, 7], ("5", "6", "7")),
        ("classlabels_strings", ["a", "b", "c"], ("a", "b", "c")),
    ],
)
def test_scikit_learns_classes(attribute: str, values: list, expected: tuple[str, ...], tmp_path: Path) -> None:
    made = chain()
    made.add("Softmax", axis=1)
    made.add("ZipMap", domain="ai.onnx.ml", **{attribute: values})
    model = made.model()
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    model.graph.output[0].ClearField("type")
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    assert import_network(path).network.labels == expected


@pytest.mark.parametrize("words", [False, True])
def test_the_list_that_an_answer_is_picked_from(words: bool, tmp_path: Path) -> None:
    """skl2onnx: the index of the largest score selects one of the classes."""
    made = chain()
    scores = made.value
    if words:
        made.weights.append(helper.make_tensor("classes", TensorProto.STRING, [3], [b"x", b"y", b"z"]))
    else:
        made.weights.append(numpy_helper.from_array(np.array([5, 6, 7], np.int64), "classes"))
    made.add("ArgMax", axis=1, keepdims=0)
    picked = made.add("ArrayFeatureExtractor", made.value, first="classes", domain="ai.onnx.ml")
    model = made.model(outputs=[scores, picked])
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.STRING if words else TensorProto.INT64
    assert checked(model, tmp_path).network.labels == (("x", "y", "z") if words else ("5", "6", "7"))


def test_the_answer_names_the_classes_that_its_parts_number(tmp_path: Path) -> None:
    """scikit-learn's ensembles: the estimators learn class indices."""
    made = chain()
    for attribute, values in (("classlabels_ints", [0, 1, 2]), ("classlabels_strings", ["a", "b", "c"])):
        numbers = {"coefficients": made.random.standard_normal(9).tolist(), "intercepts": [0.0] * 3}
        made.add("LinearClassifier", outputs=2, domain="ai.onnx.ml", **{attribute: values}, **numbers)
        made.value += "'"  # the scores, which are the second output
    model = made.model()
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    assert checked(model, tmp_path).network.labels == ("a", "b", "c")


def test_chances_with_names_are_classes(tmp_path: Path) -> None:
    """Naive Bayes ends in an exponential, and the file contains its classes."""
    made = chain()
    made.add("Exp")
    model = made.model()
    assert checked(model, tmp_path).network.output == Output("values")
    helper.set_model_props(model, {"classes": "a,b,c"})
    network = checked(model, tmp_path).network
    assert network.output == Output("classes", "softmax") and network.labels == ("a", "b", "c")
