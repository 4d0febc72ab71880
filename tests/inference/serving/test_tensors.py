"""Tensors of the protocol, as JSON and as bytes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from trninfer.inference.serving import tensors
from trninfer.inference.serving.tensors import (
    DATATYPES,
    ProtocolError,
    from_bytes,
    from_json,
    parse_datatype,
    to_bytes,
    to_json,
)


@given(st.sampled_from(sorted(DATATYPES)), arrays.array_shapes(min_dims=1, max_dims=4, max_side=5), st.data())
def test_written_tensors_are_read_back(datatype: str, shape: tuple[int, ...], data: st.DataObject) -> None:
    dtype = DATATYPES[datatype]
    if datatype == "BF16":
        values = data.draw(arrays.arrays(np.float32, shape, elements=st.floats(-8, 8, width=16))).astype(dtype)
    elif dtype.kind == "f":
        elements = st.floats(allow_nan=False, allow_infinity=False, width=8 * dtype.itemsize)
        values = data.draw(arrays.arrays(dtype, shape, elements=elements))
    else:
        values = data.draw(arrays.arrays(dtype, shape))
    back = from_bytes(memoryview(to_bytes(values)), shape, dtype, "input")
    assert back.dtype == dtype and back.tobytes() == values.tobytes()
    nested = json.dumps(values.tolist()).encode()
    for form in (to_json(values), nested, nested.replace(b",", b" ,\n"), json.dumps(values.ravel().tolist()).encode()):
        assert np.array_equal(from_json(form, shape, dtype, "input"), values)


def test_texts_have_their_length_before_them() -> None:
    values = np.array(["7", "sieben", "ü"], object)
    assert to_bytes(values) == b"\x01\0\0\x007\x06\0\0\0sieben\x02\0\0\0\xc3\xbc"
    assert json.loads(to_json(values)) == ["7", "sieben", "ü"]


@pytest.mark.parametrize(
    ("data", "shape", "datatype", "message"),
    [
        ("1 2 3", (3,), "FP32", "data must be a list of numbers"),
        (None, (3,), "FP32", "data must be a list of numbers"),
        ([1, 2], (3,), "FP32", r"data contains 2 values, which does not match the shape \[3\]"),
        ([], (3,), "FP32", "does not match the shape"),
        ([[1, 2], [3]], (4,), "FP32", "nested lists"),
        ([[1, 2, 3], [4, 5, 6]], (3, 2), "FP32", r"nested lists, which does not match the shape \[3, 2\]"),
        ([[1], [2]], (2,), "FP32", "nested lists"),
        ([[], 1], (2,), "FP32", "nested lists"),
        (["1", "2"], (2,), "FP32", "data must be a list of numbers"),
        ([None, 1], (2,), "FP32", "data must be numbers of float32: Expected `float`, got `null`"),
        ([True, 1], (2,), "FP32", "got `bool`"),
        ([{}, []], (2,), "FP32", "input: data"),
        ([10**400], (1,), "FP32", "Number out of range"),
        ([10**400], (1,), "INT64", "numbers outside the range of int64"),
        ([10**5000], (1,), "INT64", "input: data must be numbers"),
        ([256], (1,), "UINT8", "numbers outside the range of uint8"),
        ([-1], (1,), "UINT64", "numbers outside the range of uint64"),
        ([1.5], (1,), "INT32", "data must be numbers of int32: Expected `int`, got `float`"),
        ([2], (1,), "BOOL", "numbers outside the range of bool"),
    ],
)
def test_data_that_does_not_fit(data: object, shape: tuple[int, ...], datatype: str, message: str) -> None:
    text = "[1%s]" % ("0" * 5000) if data == [10**5000] else json.dumps(data)
    with pytest.raises(ProtocolError, match=message):
        from_json(text.encode(), shape, DATATYPES[datatype], "input")


def test_numbers_are_parsed_and_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "PIECE_BYTES", 7)
    monkeypatch.setattr(tensors, "PIECE_NUMBERS", 3)
    values = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    assert np.array_equal(from_json(to_json(values), (5, 4), DATATYPES["FP32"], "input"), values)
    numbers = json.dumps([[1, 20], [300, 4000]]).encode()
    assert from_json(numbers, (2, 2), DATATYPES["UINT16"], "input").tolist() == [[1, 20], [300, 4000]]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_json_has_no_numbers_that_are_not_finite(value: float) -> None:
    with pytest.raises(ValueError, match="cannot represent NaN"):
        to_json(np.array([1, value], np.float32))


@pytest.mark.parametrize("name", ["", "FP8", "BYTES", "fp32", "x" * 1000])
def test_datatypes_that_are_none(name: str) -> None:
    with pytest.raises(ProtocolError, match="datatype is"):
        parse_datatype(name, "input")


def test_bytes_that_do_not_fit() -> None:
    with pytest.raises(ProtocolError, match="received 0 bytes"):
        from_bytes(memoryview(b""), (0, 4), DATATYPES["FP32"], "input")
    with pytest.raises(ProtocolError, match="input: received 7 bytes; \\[2\\] of float32 takes 8"):
        from_bytes(memoryview(bytes(7)), (2,), DATATYPES["FP32"], "input")
