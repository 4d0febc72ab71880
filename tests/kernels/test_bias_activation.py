"""Bias and activation, compared with ONNX Runtime and NumPy, and difficult cases of softmax."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from trninfer import simulator
from trninfer.kernels import kernel

bias_activation = kernel("bias_activation")  # even if another module has imported the module of that name
DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
TARGETS = ["trn1", "trn2", "trn3"]
ACTIVATIONS = ["identity", "relu", "gelu", "sigmoid", "tanh", "softmax"]
ROWS = st.one_of(st.sampled_from([1, 3, 127, 128, 129, 513]), st.integers(1, 600))
WIDTHS = st.one_of(st.sampled_from([1, 2, 10, 127, 129, 256, 257, 2048, 2049]), st.integers(1, 400))


def golden(a: NDArray[Any], bias: NDArray[Any], activation: str) -> NDArray[np.float32]:
    """Compute ONNX Runtime's Add followed by the activation, in float32."""
    operators = {"identity": "Identity", "softmax": "Softmax"}
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Add", ["a", "bias"], ["sum"]),
            onnx.helper.make_node(operators.get(activation, activation.capitalize()), ["sum"], ["y"]),
        ],
        "bias_activation",
        [
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, value.shape)
            for name, value in (("a", a), ("bias", bias))
        ],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, a.shape)],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"a": a.astype(np.float32), "bias": bias.astype(np.float32)})
    return np.asarray(result, np.float32)


def apply(a: NDArray[Any], bias: NDArray[Any], activation: str, target: str = "trn2") -> NDArray[Any]:
    (result,) = simulator.run(bias_activation, a, bias, target=target, activation=activation).outputs
    assert result is not None
    assert result.dtype == a.dtype
    return np.asarray(result)


def assert_close(result: NDArray[Any], expected: NDArray[Any]) -> None:
    """Compare within one rounding to the result's dtype and the error of float32 arithmetic."""
    rounding = {2: 2.0**-11, 4: 0.0}[result.itemsize] if result.dtype != ml_dtypes.bfloat16 else 2.0**-8
    np.testing.assert_allclose(result.astype(np.float32), expected, rtol=rounding + 3e-6, atol=rounding * 1e-3 + 1e-6)


def operands(
    rows: int, width: int, dtype: Any, bias_dtype: Any, scale: float = 3.0
) -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(rows * 10_000 + width)
    a = (random.standard_normal((rows, width)) * scale).astype(dtype)
    return a, random.standard_normal((1, width)).astype(bias_dtype)


@settings(max_examples=60)
@given(
    rows=ROWS,
    width=WIDTHS,
    activation=st.sampled_from(ACTIVATIONS),
    dtype=st.sampled_from(DTYPES),
    same_dtype=st.booleans(),
    target=st.sampled_from(TARGETS),
)
def test_any_shape(rows: int, width: int, activation: str, dtype: Any, same_dtype: bool, target: str) -> None:
    a, bias = operands(min(rows, 400_000 // width), width, dtype, dtype if same_dtype else np.float32)
    assert_close(apply(a, bias, activation, target), golden(a, bias, activation))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_rows_longer_than_a_chunk(activation: str, dtype: Any) -> None:
    a, bias = operands(131, 5003, dtype, np.float32)
    assert_close(apply(a, bias, activation, "trn1"), golden(a, bias, activation))


@pytest.mark.parametrize("width", [14_000, 32_000])
def test_softmax_of_the_longest_rows_on_the_smallest_sbuf(width: int) -> None:
    """With 14,000 columns, the bias stays in SBUF on trn1; with 32,000, it is loaded again for every 128 rows."""
    a, bias = operands(130, width, ml_dtypes.bfloat16, np.float32)
    assert_close(apply(a, bias, "softmax", "trn1"), golden(a, bias, "softmax"))


@pytest.mark.parametrize("width", [10, 300])
@pytest.mark.parametrize("offset", [0.0, 1e4, -1e4])
def test_softmax_of_large_numbers(width: int, offset: float) -> None:
    a, bias = operands(200, width, np.float32, np.float32, scale=50.0)
    a += np.float32(offset)
    result = apply(a, bias, "softmax")
    shifted = a.astype(np.float64) + bias
    exponentials = np.exp(shifted - shifted.max(axis=1, keepdims=True))
    # a + bias is rounded to float32 near 1e4, with an error of 2^-10, which becomes the relative error of the
    # exponential
    np.testing.assert_allclose(result, exponentials / exponentials.sum(axis=1, keepdims=True), rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(result.sum(axis=1), 1.0, rtol=1e-5)


def test_softmax_of_equal_numbers_and_of_one() -> None:
    np.testing.assert_array_equal(apply(np.full((3, 8), 7, np.float32), np.ones((1, 8), np.float32), "softmax"), 0.125)
    np.testing.assert_array_equal(apply(np.full((3, 1), -9, np.float32), np.ones((1, 1), np.float32), "softmax"), 1.0)


@pytest.mark.parametrize(
    ("a", "bias", "activation", "message"),
    [
        (np.zeros(4, np.float32), np.zeros((1, 4), np.float32), "relu", "a must have 2 dimensions"),
        (np.zeros((2, 4), np.float32), np.zeros(4, np.float32), "relu", "bias must have 2 dimensions"),
        (np.zeros((2, 4), np.float32), np.zeros((2, 4), np.float32), "relu", r"bias must be a row \[1, 4\]"),
        (np.zeros((2, 4), np.float32), np.zeros((1, 5), np.float32), "relu", r"got shape \(1, 5\)"),
        (
            np.zeros((2, 4), np.float32),
            np.zeros((1, 4), np.float16),
            "relu",
            "bias must be float32 or the float32 of a",
        ),
        (np.zeros((2, 4), np.int32), np.zeros((1, 4), np.float32), "relu", "a must be float32, bfloat16 or float16"),
        (np.zeros((2, 4), np.float32), np.zeros((1, 4), np.float32), "swish", "there is no activation swish"),
    ],
)
def test_arguments_that_do_not_fit(a: NDArray[Any], bias: NDArray[Any], activation: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        simulator.run(bias_activation, a, bias, activation=activation)


def test_softmax_of_rows_that_sbuf_cannot_hold() -> None:
    a, bias = simulator.TensorSpec((2, 60_000), "float32"), simulator.TensorSpec((1, 60_000), "float32")
    with pytest.raises(
        AssertionError, match="softmax supports rows of at most 32702 elements for this dtype and target, got 60000"
    ):
        simulator.run(bias_activation, a, bias, target="trn1", functional=False, activation="softmax")
    simulator.run(bias_activation, a, bias, target="trn1", functional=False, activation="relu")
