"""Calls of instructions for a value that they no longer return: the message states the change, and other errors stay
the same."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer import simulator

A = np.ones((8, 8), np.float32)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: nisa.tensor_scalar(a, nl.multiply, 2.0),
        lambda a: nisa.activation(nl.exp, a),
        lambda a: nisa.tensor_tensor(data1=a, data2=a, op=nl.add),
        lambda a: nisa.nc_matmul(a, a),
        lambda a: nisa.tensor_copy(a, a, dtype=nl.bfloat16),
    ],
)
def test_use_of_the_result_of_an_old_call_explains_the_change(call):
    @nki.jit
    def kernel(a):
        tile = call(nl.load(a))
        return tile

    with pytest.raises(TypeError, match=r"since NKI 0\.2, instructions return nothing: allocate dst and pass it"):
        simulator.run(kernel, A)


def test_other_wrong_calls_keep_their_message():
    @nki.jit
    def no_value(a):
        tile = nl.load(a)
        nisa.tensor_scalar(tile, tile, nl.add)

    @nki.jit
    def of_python(a):
        return int(a, b=1)

    for kernel, message in ((no_value, "operand0'$"), (of_python, "int")):
        with pytest.raises(TypeError, match=message) as caught:
            simulator.run(kernel, A)
        assert "since NKI 0.2" not in str(caught.value)
