"""The machine's limits: each error names the instruction, the operand, what came and what is allowed."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer import simulator
from trninfer.simulator import CapacityError, NkiValidationError
from trninfer.simulator.core import NeuronCore, running
from trninfer.simulator.targets import find_target


def new(shape, dtype=nl.float32, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype, buffer)


def psum(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype, nl.psum)


def hbm(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype, nl.shared_hbm)


BROKEN = {
    "129 partitions": (lambda: new((129, 4)), "partition dimension 129 exceeds maximum 128"),
    "one dimension on chip": (lambda: new((128,)), "partition and a free dimension"),
    "zero extent": (lambda: new((4, 0)), "positive integers"),
    "unknown dtype": (lambda: new((4, 4), "float12"), "'float12' is not an NKI data type"),
    "unknown buffer": (lambda: nl.ndarray((4, 4), nl.float32, "sbuf"), "buffer 'sbuf' is none of"),
    "513 moving columns": (
        lambda: nisa.nc_matmul(psum((8, 512)), new((4, 8)), new((4, 513))),
        "nc_matmul: moving .* has 513 columns, at most 512",
    ),
    "129 stationary columns": (
        lambda: nisa.nc_matmul(psum((128, 8)), new((4, 129)), new((4, 8))),
        "nc_matmul: stationary .* has 129 columns, at most 128",
    ),
    "contraction differs": (lambda: nisa.nc_matmul(psum((8, 8)), new((4, 8)), new((5, 8))), "must be equal"),
    "matmul into SBUF": (
        lambda: nisa.nc_matmul(new((8, 8)), new((4, 8)), new((4, 8))),
        "nc_matmul: dst .* must be in PSUM",
    ),
    "matmul from PSUM": (
        lambda: nisa.nc_matmul(psum((8, 8)), psum((4, 8)), new((4, 8))),
        "stationary .* must be in SBUF",
    ),
    "matmul from HBM": (
        lambda: nisa.nc_matmul(psum((8, 8)), new((4, 8)), hbm((4, 8))),
        "moving .* must be in SBUF or PSUM",
    ),
    "matmul dst shape": (lambda: nisa.nc_matmul(psum((8, 9)), new((4, 8)), new((4, 8))), "must be 8 x 8"),
    "matmul across banks": (
        lambda: nisa.nc_matmul(psum((8, 1024))[:, 300:700], new((4, 8)), new((4, 400))),
        "one PSUM bank",
    ),
    "matmul into bfloat16": (
        lambda: nisa.nc_matmul(psum((8, 8), nl.bfloat16), new((4, 8)), new((4, 8))),
        "must be float32",
    ),
    "mixed float32": (
        lambda: nisa.nc_matmul(psum((8, 8)), new((4, 8)), new((4, 8), nl.bfloat16)),
        "so must be the other",
    ),
    "integer matmul": (
        lambda: nisa.nc_matmul(psum((8, 8)), new((4, 8), nl.int8), new((4, 8), nl.int8)),
        "allowed: float8",
    ),
    "accumulate first": (
        lambda: nisa.nc_matmul(psum((8, 8)), new((4, 8)), new((4, 8)), accumulate=True),
        "must overwrite",
    ),
    "transpose dtype": (
        lambda: nisa.nc_transpose(psum((8, 4)), new((4, 8), nl.bfloat16)),
        "must have the dtype of data",
    ),
    "transpose size": (lambda: nisa.nc_transpose(psum((8, 4)), new((4, 129))), "at most 128 x 128"),
    "transpose on vector": (
        lambda: nisa.nc_transpose(new((33, 4)), new((4, 33)), engine=nisa.engine.vector),
        "at most 32 x 32",
    ),
    "DMA from PSUM": (lambda: nisa.dma_copy(hbm((4, 4)), psum((4, 4))), "dma_copy: src .*DMA cannot access PSUM"),
    "DMA into PSUM": (lambda: nisa.dma_copy(psum((4, 4)), hbm((4, 4))), "dma_copy: dst .*DMA cannot access PSUM"),
    "DMA of other size": (lambda: nisa.dma_copy(new((4, 5)), hbm((4, 4))), "has 16 elements, dst .* has 20"),
    "both in PSUM": (
        lambda: nisa.tensor_tensor(new((4, 4)), psum((4, 4)), psum((4, 4)), nl.add),
        "cannot both be in PSUM",
    ),
    "partitions differ": (lambda: nisa.tensor_copy(new((4, 4)), new((5, 4))), "same number of partitions"),
    "elements differ": (
        lambda: nisa.tensor_tensor(new((4, 4)), new((4, 4)), new((4, 5)), nl.add),
        "tensor_tensor: data2",
    ),
    "HBM operand": (lambda: nisa.tensor_copy(new((4, 4)), hbm((4, 4))), "load it with nisa.dma_copy"),
    "not a tensor": (lambda: nisa.tensor_copy(new((4, 4)), np.zeros((4, 4))), "must be an NkiTensor, came ndarray"),
    "GpSimd and PSUM": (
        lambda: nisa.tensor_copy(new((4, 4)), psum((4, 4)), engine=nisa.engine.gpsimd),
        "GpSimd Engine cannot",
    ),
    "power in PSUM": (
        lambda: nisa.tensor_tensor(psum((4, 4)), new((4, 4)), new((4, 4)), nl.power),
        "GpSimd Engine cannot",
    ),
    "wrong engine": (lambda: nisa.memset(new((4, 4)), 0, engine=nisa.engine.tensor), "engine tensor cannot run it"),
    "bits of floats": (
        lambda: nisa.tensor_tensor(new((4, 4)), new((4, 4)), new((4, 4)), nl.bitwise_and),
        "takes integers",
    ),
    "no operator": (
        lambda: nisa.tensor_tensor(new((4, 4)), new((4, 4)), new((4, 4)), nl.exp),
        "nl.exp is no ALU operator",
    ),
    "no activation": (lambda: nisa.activation(new((4, 4)), nl.add, new((4, 4))), "nl.add is no activation function"),
    "operand dtype": (
        lambda: nisa.tensor_scalar(new((4, 4)), new((4, 4)), nl.add, new((4, 1), nl.bfloat16)),
        "must be float32",
    ),
    "operand shape": (
        lambda: nisa.tensor_scalar(new((4, 4)), new((4, 4)), nl.add, new((4, 2))),
        "one element for each of the 4",
    ),
    "mixed operators": (
        lambda: nisa.tensor_scalar(
            new((4, 4), nl.int32), new((4, 4), nl.int32), nl.bitwise_and, 1, op1=nl.add, operand1=1
        ),
        "must both be bit operators",
    ),
    "scale dtype": (
        lambda: nisa.activation(new((4, 4)), nl.exp, new((4, 4)), scale=new((4, 1), nl.float16)),
        "must be float32",
    ),
    "bias dtype": (
        lambda: nisa.activation(new((4, 4)), nl.exp, new((4, 4)), bias=new((4, 1), nl.tfloat32)),
        "tfloat32",
    ),
    "reduce first axis": (lambda: nisa.tensor_reduce(new((4, 4)), nl.add, new((4, 4, 4)), 1), "last free dimension"),
    "reduce partitions": (lambda: nisa.tensor_reduce(new((4, 1)), nl.add, new((4, 4)), (0, 1)), "never the partition"),
    "reduce by equal": (lambda: nisa.tensor_reduce(new((4, 1)), nl.equal, new((4, 4)), 1), "does not reduce"),
    "max8 of 7": (lambda: nisa.max8(new((4, 8)), new((4, 7))), "8 to 16384"),
    "max8 into 7": (lambda: nisa.max8(new((4, 7)), new((4, 9))), "must have 8 elements"),
    "index dtype": (lambda: nisa.nc_find_index8(new((4, 8)), new((4, 9)), new((4, 8))), "must be uint32 or uint16"),
    "iota size": (lambda: nisa.iota(new((4, 8), nl.int32), [[1, 7]]), "makes 7 elements"),
    "memset fraction": (lambda: nisa.memset(new((4, 4), nl.int32), 0.5), "must be an integer"),
    "partition start": (lambda: nisa.tensor_copy(new((4, 4)), new((128, 4))[3:7]), "4 partition.s. from partition 3"),
    "partition count": (
        lambda: nisa.tensor_copy(new((64, 4)), new((128, 4))[32:96]),
        "64 partition.s. from partition 32",
    ),
    "row tile": (
        lambda: nisa.nc_matmul(psum((8, 8)), new((40, 8)), new((40, 8)), tile_position=(0, 0), tile_size=(32, 128)),
        "40 rows in the row tile of 32",
    ),
    "address outside": (lambda: nl.ndarray((4, 4), nl.float32, nl.sbuf, address=(126, 0)), "outside 0 to 127"),
    "address too far": (lambda: nl.ndarray((4, 4), nl.float32, nl.psum, address=(0, 16384)), "outside the 16384"),
    "address unaligned": (lambda: nl.ndarray((4, 4), nl.bfloat16, nl.psum, address=(0, 2)), "allowed: multiples of 4"),
    "too much SBUF": (lambda: new((128, 57345)), "exceed the 229376 of SBUF on trn2"),
    "too much PSUM": (lambda: psum((128, 4097)), "exceed the 16384 of PSUM on trn2"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_limit(case):
    broken, text = BROKEN[case]
    with running(NeuronCore(find_target("trn2"))), pytest.raises(NkiValidationError, match=text):
        broken()


TRN1_ONLY = {
    "copy on the Scalar Engine": lambda: nisa.tensor_copy(new((4, 4)), new((4, 4)), engine=nisa.engine.scalar),
    "a number as bias": lambda: nisa.activation(new((4, 4)), nl.exp, new((4, 4)), bias=1.0),
    "hardware DGE": lambda: nisa.dma_copy(new((4, 4)), hbm((4, 4)), dge_mode=nisa.dge_mode.hwdge),
    "tensor_scalar on the Scalar Engine": lambda: nisa.tensor_scalar(
        new((4, 4)), new((4, 4)), nl.add, 1.0, engine=nisa.engine.scalar
    ),
}


@pytest.mark.parametrize("case", TRN1_ONLY)
def test_what_trn1_lacks(case):
    with running(NeuronCore(find_target("trn1"))), pytest.raises(NkiValidationError):
        TRN1_ONLY[case]()
    with running(NeuronCore(find_target("trn2"))):
        TRN1_ONLY[case]()


def test_trn3_takes_wider_moving_tiles():
    with running(NeuronCore(find_target("trn3"))):
        nisa.nc_matmul(psum((8, 1024)), new((4, 8)), new((4, 1024)))


@pytest.mark.parametrize("accumulate", [True, None])
@pytest.mark.parametrize(
    "initialise", [lambda t: nisa.memset(t, 0), lambda t: nisa.tensor_copy(t, nl.zeros(t.shape, nl.float32))]
)
def test_no_accumulation_onto_what_another_instruction_wrote(accumulate, initialise):
    for target, allowed in (("trn1", False), ("trn2", False), ("trn3", True)):
        with running(NeuronCore(find_target(target))):
            dst = psum((8, 8))
            initialise(dst)
            if allowed:
                nisa.nc_matmul(dst, new((4, 8)), new((4, 8)), accumulate=accumulate)
            else:
                with pytest.raises(NkiValidationError, match="initialised by another instruction"):
                    nisa.nc_matmul(dst, new((4, 8)), new((4, 8)), accumulate=accumulate)


def test_accumulation_onto_half_a_tile_is_told():
    with running(NeuronCore(find_target("trn2"))):
        dst = psum((8, 16))
        nisa.nc_matmul(dst[:, 0:8], new((4, 8)), new((4, 8)))
        with pytest.raises(NkiValidationError, match="only in part"):
            nisa.nc_matmul(dst, new((4, 8)), new((4, 16)))
        nisa.nc_matmul(dst[:, 8:16], new((4, 8)), new((4, 8)))
        nisa.nc_matmul(dst, new((4, 8)), new((4, 16)))  # all of it is written now


def test_a_rectangle_that_a_matmul_overwrote_is_its_own_again():
    with running(NeuronCore(find_target("trn2"))):
        dst = psum((8, 16))
        nisa.memset(dst[:, 2:4], 0)
        nisa.nc_matmul(dst, new((4, 8)), new((4, 16)), accumulate=False)
        nisa.nc_matmul(dst, new((4, 8)), new((4, 16)), accumulate=True)


@pytest.mark.parametrize("target,bytes_", [("trn1", 192 * 1024), ("trn2", 224 * 1024), ("trn3", 256 * 1024)])
def test_sbuf_capacity_of_each_target(target, bytes_):
    with running(NeuronCore(find_target(target))):
        new((128, bytes_ // 4))
        assert nl.tile_size.sbuf_fmax_bytes == bytes_
        with pytest.raises(CapacityError, match=target):
            new((128, bytes_ // 4 + 1))


def test_instructions_need_a_kernel():
    with pytest.raises(NkiValidationError, match="inside a kernel"):
        nl.ndarray((4, 4), nl.float32)


def test_outputs_must_be_in_hbm():
    @nki.jit
    def kernel(a):
        return nl.load(a)

    with pytest.raises(NkiValidationError, match=r"must be in nl.shared_hbm"):
        simulator.run(kernel, np.zeros((4, 4), np.float32))


def test_overlapping_addresses_share_memory():
    @nki.jit
    def kernel():
        first = nl.ndarray((4, 8), nl.int32, nl.sbuf, address=(0, 64))
        second = nl.ndarray((4, 8), nl.int32, nl.sbuf, address=(0, 80))
        nisa.memset(first, 1)
        nisa.memset(second, 2)
        out = nl.ndarray((4, 8), nl.int32, nl.shared_hbm)
        nisa.dma_copy(out, first)
        return out

    (out,) = simulator.run(kernel).outputs
    np.testing.assert_array_equal(out, [[1, 1, 1, 1, 2, 2, 2, 2]] * 4)


def test_unknown_target_is_named():
    with pytest.raises(NkiValidationError, match="'trn9' is not known; allowed: trn1, trn2, trn3"):
        simulator.run(nki.jit(lambda: None), target="trn9")
