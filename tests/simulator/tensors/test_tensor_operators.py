"""Python operators and NumPy functions on tensors are rejected with a message that names NKI's equivalent."""

import operator
import re

import numpy as np
import pytest
from trninfer import simulator
from trninfer.simulator import NkiValidationError
from trninfer.simulator.nki import language as nl
from trninfer.simulator.tensors import tensor_operators


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (
            lambda t: t + t,
            r"\+ of sbuf\[64, 8\] float32: NKI has no operators on tensors; nl.add or nisa.tensor_tensor",
        ),
        (lambda t: 2 * t, "nl.multiply"),
        (lambda t: 1.0 - t, "nl.subtract"),
        (lambda t: t / 2, "nisa.reciprocal"),
        (lambda t: t**2, "nl.square"),
        (lambda t: t @ t, "nisa.nc_matmul"),
        (lambda t: -t, "nl.negative"),
        (lambda t: operator.iadd(t, 1), "nl.add"),
        (lambda t: t[0, 0] > 0, "not known while a kernel is traced, nl.greater compares"),
        (lambda t: t <= 0, "nl.less_equal"),
        (np.sqrt, r"numpy.sqrt of sbuf\[64, 8\] float32: NumPy runs on the host"),
        (lambda t: np.float32(2) * t, "numpy.multiply of"),
        (lambda t: np.ones((64, 8)) + t, "numpy.add of"),
        (list, "not iterable"),
    ],
)
def test_a_refused_operator_names_the_function_to_call(core, use, text):
    with pytest.raises(TypeError, match=text) as caught:
        use(nl.zeros((64, 8), nl.float32))
    assert isinstance(caught.value, NkiValidationError) or use is list


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("astype", r"a tensor has no 'astype'; use nl.copy\(tile, dtype\)"),
        ("sum", r"nl.sum\(tile, axis\)"),
        ("T", "nl.transpose"),
        ("item", "nl.device_print: its contents are not known"),
    ],
)
def test_a_missing_method_names_the_function_to_call(core, name, text):
    tensor = nl.zeros((64, 8), nl.float32)
    assert not hasattr(tensor, name)
    with pytest.raises(NkiValidationError, match=text):
        getattr(tensor, name)


@pytest.mark.parametrize(
    ("read", "text", "ours"),
    [
        (lambda x: x.nonsense, "a tensor has no 'nonsense'$", True),
        (lambda x: x.shape.nonsense, "'tuple' object has no attribute 'nonsense'", False),
    ],
)
def test_an_attribute_that_tensors_lack_is_named_when_the_error_leaves_the_kernel(read, text, ours):
    with pytest.raises(AttributeError, match=text) as caught:
        simulator.run(read, simulator.TensorSpec((8, 8), "float32"), functional=False)
    assert isinstance(caught.value, NkiValidationError) == ours


def test_every_function_that_is_named_is_there():
    for hint in tensor_operators._METHODS.values():
        for name in re.findall(r"nl\.(\w+)", hint):
            assert hasattr(nl, name)
