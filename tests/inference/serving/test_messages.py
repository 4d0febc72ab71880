"""Requests and responses of the inference protocol."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.inference.serving.messages import InferAnswer, InferRequest, parse_request, render_response
from trninfer.inference.serving.signature import TensorSpec
from trninfer.inference.serving.tensors import ProtocolError, TooManyExamples

INPUTS = (TensorSpec("input", "FP32", (-1, 2)),)
OUTPUTS = (
    TensorSpec("probabilities", "FP32", (-1, 3)),
    TensorSpec("class_index", "INT32", (-1,)),
    TensorSpec("label", "BYTES", (-1,)),
)
TENSOR = {"name": "input", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
ARRAYS = {
    "probabilities": np.array([[0.25, 0.5, 0.25], [1, 0, 0]], np.float32),
    "class_index": np.array([1, 0], np.int32),
    "label": np.array(["green", "red"], object),
}
LABELS = {"probabilities": ("red", "green", "blue")}


def parse(document: Any, tail: bytes = b"", length: int | None = None) -> InferRequest:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    if length is None and tail:
        length = len(text)
    return parse_request(text + tail, length, INPUTS, OUTPUTS, 4)


def test_a_request_in_json() -> None:
    request = parse({"id": "7", "inputs": [TENSOR], "outputs": [{"name": "label"}]})
    assert request.id == "7" and request.inputs["input"].tolist() == [[1.0, 2.0]]
    assert [(output.name, output.binary) for output in request.outputs] == [("label", False)]


def test_all_outputs_are_returned_by_default() -> None:
    for asked in ({}, {"outputs": []}):
        assert [output.name for output in parse({"inputs": [TENSOR], **asked}).outputs] == [s.name for s in OUTPUTS]


def test_raw_tensors_follow_the_json() -> None:
    tensor = {"name": "input", "shape": [1, 2], "datatype": "FP16", "parameters": {"binary_data_size": 4}}
    raw = np.array([1.5, -2], "<f2").tobytes()
    request = parse({"inputs": [tensor], "parameters": {"binary_data_output": True}}, raw)
    assert request.inputs["input"].tolist() == [[1.5, -2.0]] and all(output.binary for output in request.outputs)
    outputs = [{"name": "label", "parameters": {"binary_data": False}}]
    request = parse({"inputs": [tensor], "parameters": {"binary_data_output": True}, "outputs": outputs}, raw)
    assert not request.outputs[0].binary


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": None}, r"Expected `array`, got `null` - at `\$.inputs`"),
        ({"inputs": []}, "inputs are missing: input"),
        ({"inputs": [3]}, r"Expected `object`, got `int` - at `\$.inputs\[0\]`"),
        ({"inputs": [TENSOR, TENSOR]}, "input 'input' is given twice"),
        ({"inputs": [{**TENSOR, "name": "other"}]}, "input 'other' is not known; the model reads input"),
        ({"inputs": [{**TENSOR, "name": None}]}, r"Expected `str`, got `null` - at `\$.inputs\[0\].name`"),
        ({"inputs": [{**TENSOR, "parameters": 3}]}, "Expected `object`, got `int`"),
        ({"inputs": [{**TENSOR, "parameters": {"binary_data_size": 4}}]}, "binary_data_size must be"),
        ({"inputs": [{**TENSOR, "parameters": {"binary_data_size": -4}}]}, "binary_data_size"),
        ({"inputs": [{k: v for k, v in TENSOR.items() if k != "data"}]}, "either data or binary_data_size is required"),
        ({"inputs": [{**TENSOR, "datatype": "FP9"}]}, "datatype is 'FP9'"),
        ({"outputs": [{"name": "nothing"}]}, "output 'nothing' is unknown"),
        ({"outputs": [{"name": "label"}, {"name": "label"}]}, "requested twice"),
        ({"outputs": [{"name": "label", "parameters": {"binary_data": 1}}]}, "binary_data"),
        ({"outputs": [{"name": "label", "parameters": {"classification": "2"}}]}, "classification"),
        ({"id": 7}, r"got `int` - at `\$.id`"),
        ({"id": "x" * 201}, r"length <= 200 - at `\$.id`"),
        ({"parameters": []}, r"Expected `object`, got `array` - at `\$.parameters`"),
    ],
)
def test_requests_that_are_wrong(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        parse({"inputs": [TENSOR], **change})


SHAPES = [
    None,
    "3",
    [1.0],
    [-1],
    [True],
    [[1]],
    [],
    [1] * 9,
    [1 << 40],
    [1, 3],
    [0, 2],
    [2],
    [0, 4294967295, 4294967295],
]


@pytest.mark.parametrize("shape", [*SHAPES, [1 << 70], [10**1000], [1, 2, 1]])
def test_shapes_that_the_input_does_not_have(shape: object) -> None:
    with pytest.raises(ProtocolError, match=r"input has the shape .*; expected \[N, 2\], N from 1 up"):
        parse({"inputs": [{**TENSOR, "shape": shape}]})


def test_no_more_examples_than_allowed() -> None:
    with pytest.raises(TooManyExamples, match="5 inputs; a request may contain at most 4"):
        parse({"inputs": [{**TENSOR, "shape": [5, 2], "data": [1]}]})
    assert TooManyExamples.status == 413


@pytest.mark.parametrize(
    "text",
    [
        b'{"more": [' + b"{}," * 1_000_000 + b"{}], ",
        b'{"more": ' + b"[" * 500 + b"1" + b"]" * 500 + b", " + b'"other": [' + b"[]," * 1_000_000 + b"[]], ",
    ],
)
def test_fields_that_are_not_known_take_no_memory(text: bytes) -> None:
    """The `json` module creates an object for each."""
    body = text + json.dumps({"inputs": [TENSOR]})[1:].encode()
    tracemalloc.start()
    try:
        assert parse(body).inputs["input"].tolist() == [[1.0, 2.0]]
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_texts_of_any_length_among_the_numbers_take_no_memory() -> None:
    """A single array would need the length of the longest text for each element."""
    body = json.dumps({"inputs": [{**TENSOR, "data": ["a" * 30_000] + ["b"] * 7000}]}).encode()
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="data must be a list of numbers"):
            parse(body)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not valid JSON"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{", "not valid JSON"),
        (b'{"inputs": NaN}', "not valid JSON"),
        (b'{"inputs": [-Infinity]}', "not valid JSON"),
        (b'{"more": ' + b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "not valid JSON"),
        (b'{"id": "\xff"}', "not valid JSON"),
        (b'{"id": "\\ud800"}', "not valid JSON"),
    ],
)
def test_bodies_that_are_no_request(text: bytes, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        parse(text)


def test_lengths_that_do_not_fit() -> None:
    with pytest.raises(ProtocolError, match="Inference-Header-Content-Length is 900, but the body has"):
        parse({"inputs": [TENSOR]}, length=900)
    with pytest.raises(ProtocolError, match="3 bytes follow the last tensor"):
        parse({"inputs": [TENSOR]}, b"abc")
    tensor = {"name": "input", "shape": [1, 2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}
    with pytest.raises(ProtocolError, match="the number of bytes after the JSON"):
        parse({"inputs": [tensor]}, bytes(7))


def test_a_response_in_json() -> None:
    request = parse({"id": "a", "inputs": [TENSOR]})
    response = render_response(request, InferAnswer({"model_name": "m"}, ARRAYS, LABELS), OUTPUTS)
    assert response.json_length is None
    document = json.loads(response.body)
    assert document["model_name"] == "m" and document["id"] == "a"
    assert document["outputs"][1] == {"name": "class_index", "datatype": "INT32", "shape": [2], "data": [1, 0]}
    assert document["outputs"][2]["data"] == ["green", "red"]


def test_a_response_with_raw_tensors_and_classifications() -> None:
    asked = [
        {"name": "label", "parameters": {"binary_data": True}},
        {"name": "probabilities", "parameters": {"classification": 2}},
    ]
    request = parse({"inputs": [TENSOR], "outputs": asked})
    response = render_response(request, InferAnswer({}, ARRAYS, LABELS), OUTPUTS)
    document = json.loads(response.body[: response.json_length])
    label, probabilities = document["outputs"]
    assert label["parameters"] == {"binary_data_size": 16} and "data" not in label
    assert response.body[response.json_length :] == b"\x05\0\0\0green\x03\0\0\0red"
    assert (probabilities["datatype"], probabilities["shape"]) == ("BYTES", [2, 2])
    assert probabilities["data"] == ["0.500000:1:green", "0.250000:0:red", "1.000000:0:red", "0.000000:1:green"]


def test_output_without_classes_is_reported() -> None:
    request = parse({"inputs": [TENSOR], "outputs": [{"name": "label", "parameters": {"classification": 2}}]})
    with pytest.raises(ProtocolError, match="output 'label' is not a distribution over classes"):
        render_response(request, InferAnswer({}, ARRAYS, LABELS), OUTPUTS)


def test_no_response_holds_nan() -> None:
    arrays = {**ARRAYS, "probabilities": np.full((1, 3), np.nan, np.float32)}
    with pytest.raises(ValueError, match="cannot represent NaN"):
        render_response(parse({"inputs": [TENSOR]}), InferAnswer({}, arrays, LABELS), OUTPUTS)


NAMES = "inputs outputs id name shape datatype data parameters binary_data_size"
KEYS = st.sampled_from(NAMES.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, JSON), st.binary(max_size=20), st.none() | st.integers(0, 300))
def test_any_request_is_read_or_refused(document: dict[str, Any], tail: bytes, length: int | None) -> None:
    try:
        parse_request(json.dumps(document).encode() + tail, length, INPUTS, OUTPUTS, 4)
    except ProtocolError as error:
        assert len(str(error)) < 400 and "\n" not in str(error)


@given(st.binary(max_size=200))
def test_any_bytes_are_json_or_refused(text: bytes) -> None:
    try:
        parse(text)
    except ProtocolError as error:
        assert "\n" not in str(error)
