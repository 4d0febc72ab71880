"""Invalid operands according to AWS's documentation: each is rejected with one line that states the actual and the
allowed values."""

import nki.isa as nisa
import nki.language as nl
import pytest
from nki_tensors import hbm, new, psum
from trninfer.simulator import NkiValidationError
from trninfer.simulator.instructions.core import NeuronCore, running
from trninfer.simulator.machine.chip import find_target

WRONG = {
    # memset: the value has the type of dst (nki/migration/index.rst)
    "float into integers": (lambda: nisa.memset(new((4, 4), nl.int32), 2.0), "memset: value 2.0 of dst .* integer"),
    "too large an integer": (lambda: nisa.memset(new((4, 4), nl.uint8), 256), "must be an integer of 0 to 255"),
    "negative unsigned": (lambda: nisa.memset(new((4, 4), nl.uint16), -1), "must be an integer of 0 to 65535"),
    "packed": (lambda: nisa.memset(new((4, 4), nl.float8_e4m3fn_x4), 1), "memset: only 0 can be set"),
    "text": (lambda: nisa.memset(new((4, 4)), "0"), "memset: value must be a number, got '0'"),
    "text into HBM": (lambda: nl.full((4, 4), "x", nl.float32, nl.shared_hbm), "full: fill_value must be a number"),
    # bit operators
    "bits of floats": (
        lambda: nisa.tensor_scalar(new((4, 4)), new((4, 4)), nl.bitwise_and, 1),
        "must contain integers, because nl.bitwise_and is bitwise",
    ),
    "bits with a float": (
        lambda: nisa.tensor_scalar(new((4, 4), nl.int32), new((4, 4), nl.int32), nl.bitwise_and, 1.5),
        "operand0 of nl.bitwise_and must be an integer or an integer tile, got 1.5",
    ),
    "bits with a column of floats": (
        lambda: nisa.tensor_scalar(new((4, 4), nl.int32), new((4, 4), nl.int32), nl.bitwise_and, new((4, 1))),
        "operand0 of nl.bitwise_and must be an integer",
    ),
    "bits and arithmetic": (
        lambda: nisa.tensor_scalar(
            new((4, 4), nl.int32), new((4, 4), nl.int32), nl.bitwise_and, 1, op1=nl.add, operand1=1
        ),
        "must both be bit operators or both arithmetic",
    ),
    "bits in scalar_tensor_tensor": (
        lambda: nisa.scalar_tensor_tensor(
            new((4, 4), nl.int32), new((4, 4), nl.int32), nl.bitwise_and, 1, nl.add, new((4, 4), nl.int32)
        ),
        "op0=nl.bitwise_and must be arithmetic",
    ),
    # engines
    "power from PSUM": (
        lambda: nisa.tensor_tensor(new((4, 4)), psum((4, 4)), new((4, 4)), nl.power),
        "GpSimd Engine cannot access PSUM",
    ),
    "rsqrt of an operand in PSUM": (
        lambda: nisa.tensor_scalar(new((4, 4)), new((4, 4)), nl.add, psum((4, 1)), op1=nl.rsqrt),
        "GpSimd Engine cannot access PSUM",
    ),
    "addition on GpSimd": (
        lambda: nisa.tensor_scalar(new((4, 4)), new((4, 4)), nl.add, 1.0, engine=nisa.engine.gpsimd),
        "supports only nl.rsqrt",
    ),
    "subtraction on Scalar": (
        lambda: nisa.tensor_scalar(new((4, 4)), new((4, 4)), nl.subtract, 1.0, engine=nisa.engine.scalar),
        "the Scalar Engine of trn2 does not support op0 and op1",
    ),
    "column that is no float32": (
        lambda: nisa.tensor_scalar(new((4, 4)), new((4, 4)), nl.add, new((4, 1), nl.bfloat16)),
        "operand0 .* must be float32",
    ),
    # activation
    "scale that is no float32": (
        lambda: nisa.activation(new((4, 4)), nl.exp, new((4, 4)), scale=new((4, 1), nl.bfloat16)),
        "activation: scale .* must be float32",
    ),
    "no reduce_op": (
        lambda: nisa.activation(new((4, 4)), nl.exp, new((4, 4)), reduce_cmd=nisa.reduce_cmd.reduce),
        "requires reduce_op=nl.add",
    ),
    "reduction by maximum": (
        lambda: nisa.activation(new((4, 4)), nl.exp, new((4, 4)), reduce_op=nl.maximum),
        "reduce_op must be nl.add",
    ),
    "command by its name": (
        lambda: nisa.activation(new((4, 4)), nl.exp, new((4, 4)), reduce_op=nl.add, reduce_cmd="reduce"),
        "reduce_cmd must be one of nisa.reduce_cmd idle, .*, got 'reduce'",
    ),
    # max8 and nc_find_index8
    "7 elements": (lambda: nisa.max8(new((4, 8)), new((4, 7))), "8 to 16384 elements in a partition, got 7"),
    "16385 elements": (lambda: nisa.max8(new((4, 8)), new((4, 16385))), "8 to 16384 elements"),
    "four dimensions": (lambda: nisa.max8(new((4, 8)), new((4, 2, 2, 4))), "must have at most 3 dimensions, got 4"),
    "nine values": (
        lambda: nisa.nc_find_index8(new((4, 8), nl.uint32), new((4, 9)), new((4, 9))),
        "vals .* must have 8 elements",
    ),
    "signed places": (
        lambda: nisa.nc_find_index8(new((4, 8), nl.int32), new((4, 9)), new((4, 8))),
        "must be uint32 or uint16",
    ),
    # dma_transpose
    "static transpose": (
        lambda: nisa.dma_transpose(new((4, 4)), hbm((4, 4)), dge_mode=nisa.dge_mode.swdge),
        "dge_mode must be unknown or hwdge",
    ),
    "transpose that skips without indices": (
        lambda: nisa.dma_transpose(new((4, 4)), hbm((4, 4)), oob_mode=nisa.oob_mode.skip),
        "oob_mode skip requires a src that is indexed by a vector",
    ),
    "axes that are a number": (lambda: nisa.dma_transpose(new((4, 4)), hbm((4, 4)), axes=1), "axes 1 of src"),
    "mode by its name": (
        lambda: nisa.dma_copy(new((4, 4)), hbm((4, 4)), dge_mode="none"),
        "dge_mode must be one of nisa.dge_mode unknown, .*, got 'none'",
    ),
    # views and shapes
    "shape of nothing": (lambda: hbm(()), "must consist of one or more positive integers"),
    "address that is a number": (lambda: new((4, 4), address=5), "address: 5 must be integers"),
    "half an address": (lambda: new((4, 4), address=(0,)), r"address \(0,\) must be \(partition, byte"),
    "address between bytes": (lambda: new((4, 4), address=(0, 1.5)), "must be integers"),
    "slice between elements": (lambda: new((4, 4))[:, 0:2.0], "slice of dimension 1: .* must be integers"),
    "reshape to one dimension": (lambda: new((4, 4)).reshape(16), "the partition dimension must stay 4, got 16"),
    "reshape to floats": (lambda: new((4, 4)).reshape((4, 4.0)), "must be integers"),
    "broadcast to nothing": (lambda: new((4, 1, 4)).broadcast(1, 0), "size must be at least 1, got 0"),
    "pattern without pairs": (lambda: new((4, 4)).ap([4, 4]), "pair: 4 must be integers"),
    "pattern of triples": (lambda: new((4, 4)).ap([[4, 4, 1]]), "must be pairs"),
    "every other partition": (lambda: new((16, 32)).ap([[64, 8], [1, 32]]), "partition stride must be the 32 elements"),
    "iota of numbers": (lambda: nisa.iota(new((4, 4), nl.int32), [1, 4]), "pattern .* must be integers"),
    "iota between integers": (lambda: nisa.iota(new((4, 4), nl.int32), [[1.5, 4]]), "must be integers"),
    "no tile": (lambda: nl.exp(3.0), "accept tiles, got float"),
    "sum over partitions": (lambda: nl.sum(new((4, 4)), axis=0), "nl.sum: axis 0 of .* must be the last free"),
    "no instruction": (lambda: nisa.memset(new((4, 4)), 0.0).depends_on(3), "3 is not an instruction"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_operands_are_reported(case):
    broken, text = WRONG[case]
    with running(NeuronCore(find_target("trn2"))), pytest.raises(NkiValidationError, match=text) as error:
        broken()
    assert "\n" not in str(error.value)
