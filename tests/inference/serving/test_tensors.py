"""Tensors of the protocol, as JSON and as bytes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from trninfer.inference.serving.tensors import (
    DATATYPES,
    ProtocolError,
    from_bytes,
    from_json,
    parse_datatype,
    parse_shape,
    to_bytes,
    to_json,
)


@given(st.sampled_from(sorted(DATATYPES)), arrays.array_shapes(min_dims=1, max_dims=4, max_side=5), st.data())
def test_what_is_written_is_read_back(datatype: str, shape: tuple[int, ...], data: st.DataObject) -> None:
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
    flat = json.loads(json.dumps(to_json(values)))
    nested = json.loads(json.dumps(values.tolist()))
    for form in (flat, nested):
        assert np.array_equal(from_json(form, shape, dtype, "input"), values)


def test_texts_have_their_length_before_them() -> None:
    values = np.array(["7", "sieben", "ü"], object)
    assert to_bytes(values) == b"\x01\0\0\x007\x06\0\0\0sieben\x02\0\0\0\xc3\xbc"
    assert to_json(values) == ["7", "sieben", "ü"]


@pytest.mark.parametrize(
    ("data", "shape", "datatype", "message"),
    [
        ("1 2 3", (3,), "FP32", "data must be a list of numbers"),
        (None, (3,), "FP32", "data must be a list of numbers"),
        ([1, 2], (3,), "FP32", r"data has the shape \[2\], which does not fit \[3\]"),
        ([[1, 2], [3]], (4,), "FP32", "lists of different lengths"),
        ([[1, 2, 3], [4, 5, 6]], (3, 2), "FP32", r"data has the shape \[2, 3\]"),
        (["1", "2"], (2,), "FP32", "data must be numbers"),
        ([None, 1], (2,), "FP32", "data must be numbers"),
        ([{}, []], (2,), "FP32", "input: data"),
        ([10**400], (1,), "FP32", "input: data"),
        ([256], (1,), "UINT8", "numbers that uint8 cannot hold"),
        ([-1], (1,), "UINT64", "numbers that uint64 cannot hold"),
        ([1.5], (1,), "INT32", "numbers that int32 cannot hold"),
        ([2], (1,), "BOOL", "numbers that bool cannot hold"),
    ],
)
def test_data_that_does_not_fit(data: object, shape: tuple[int, ...], datatype: str, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        from_json(data, shape, DATATYPES[datatype], "input")


def test_an_empty_tensor_is_read() -> None:
    for data in ([], [[], []]):
        assert from_json(data, (2, 0), DATATYPES["FP32"], "input").shape == (2, 0)


@pytest.mark.parametrize("shape", [None, "3", [1.0], [-1], [True], [[1]], [], [1] * 9, [1 << 40]])
def test_shapes_that_are_none(shape: object) -> None:
    with pytest.raises(ProtocolError, match="shape"):
        parse_shape(shape, "input")


@pytest.mark.parametrize("name", [None, "FP8", "BYTES", "fp32", 7, "x" * 1000])
def test_datatypes_that_are_none(name: object) -> None:
    with pytest.raises(ProtocolError, match="datatype is"):
        parse_datatype(name, "input")


def test_bytes_that_do_not_fit() -> None:
    with pytest.raises(ProtocolError, match="input: 7 bytes came; \\[2\\] of float32 takes 8"):
        from_bytes(memoryview(bytes(7)), (2,), DATATYPES["FP32"], "input")
