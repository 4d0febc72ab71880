"""The machine's limits: each error names the instruction, the operand, the actual value and what is allowed."""

import warnings

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki_tensors import hbm, new, normal, on, psum, tile, uniform
from trninfer.simulator import NkiValidationError
from trninfer.simulator.instructions.core import NeuronCore, running
from trninfer.simulator.machine.chip import find_target
from trninfer.simulator.machine.errors import UndefinedOnChipWarning

BROKEN = {
    "129 partitions": (lambda: new((129, 4)), "partition dimension 129 exceeds maximum 128"),
    "one dimension on chip": (lambda: new((128,)), "partition and a free dimension"),
    "zero extent": (lambda: new((4, 0)), "positive integers"),
    "unknown dtype": (lambda: new((4, 4), "float12"), "'float12' is not an NKI data type"),
    "unknown buffer": (lambda: nl.ndarray((4, 4), nl.float32, "sbuf"), "buffer 'sbuf' must be one of"),
    "513 moving columns": (
        lambda: nisa.nc_matmul(psum((8, 512)), new((4, 8)), new((4, 513))),
        "nc_matmul: moving .* has 513 columns; at most 512",
    ),
    "129 stationary columns": (
        lambda: nisa.nc_matmul(psum((128, 8)), new((4, 129)), new((4, 8))),
        "nc_matmul: stationary .* has 129 columns; at most 128",
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
        "the other must be float32 too",
    ),
    "integer matmul": (
        lambda: nisa.nc_matmul(psum((8, 8)), new((4, 8), nl.int8), new((4, 8), nl.int8)),
        "stationary .* must be one of float8",
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
    "DMA of other size": (lambda: nisa.dma_copy(new((4, 5)), hbm((4, 4))), "has 16 elements, but dst .* has 20"),
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
    "not a tensor": (lambda: nisa.tensor_copy(new((4, 4)), np.zeros((4, 4))), "must be an NkiTensor, got ndarray"),
    "GpSimd and PSUM": (
        lambda: nisa.tensor_copy(new((4, 4)), psum((4, 4)), engine=nisa.engine.gpsimd),
        "GpSimd Engine cannot",
    ),
    "power in PSUM": (
        lambda: nisa.tensor_tensor(psum((4, 4)), new((4, 4)), new((4, 4)), nl.power),
        "GpSimd Engine cannot",
    ),
    "wrong engine": (lambda: nisa.memset(new((4, 4)), 0, engine=nisa.engine.tensor), "does not run on engine tensor"),
    "bits of floats": (
        lambda: nisa.tensor_tensor(new((4, 4)), new((4, 4)), new((4, 4)), nl.bitwise_and),
        "is bitwise",
    ),
    "no operator": (
        lambda: nisa.tensor_tensor(new((4, 4)), new((4, 4)), new((4, 4)), nl.exp),
        "nl.exp is not an ALU operator",
    ),
    "no activation": (
        lambda: nisa.activation(new((4, 4)), nl.add, new((4, 4))),
        "nl.add is not an activation function",
    ),
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
    "iota size": (lambda: nisa.iota(new((4, 8), nl.int32), [[1, 7]]), "generates 7 elements"),
    "memset fraction": (lambda: nisa.memset(new((4, 4), nl.int32), 0.5), "must be an integer"),
    "partition start": (lambda: nisa.tensor_copy(new((4, 4)), new((128, 4))[3:7]), "4 partition.s. from partition 3"),
    "partition count": (
        lambda: nisa.tensor_copy(new((64, 4)), new((128, 4))[32:96]),
        "64 partition.s. from partition 32",
    ),
    "row tile": (
        lambda: nisa.nc_matmul(psum((8, 8)), new((40, 8)), new((40, 8)), tile_position=(0, 0), tile_size=(32, 128)),
        "40 rows do not fit a row tile of size 32",
    ),
    "address outside": (lambda: nl.ndarray((4, 4), nl.float32, nl.sbuf, address=(126, 0)), "outside 0 to 127"),
    "address too far": (lambda: nl.ndarray((4, 4), nl.float32, nl.psum, address=(0, 16384)), "outside the 16384"),
    "address unaligned": (
        lambda: nl.ndarray((4, 4), nl.bfloat16, nl.psum, address=(0, 2)),
        "multiples of 2048",
    ),
    "too much SBUF": (lambda: new((128, 57345)), "exceed the 212984 of SBUF on trn2"),
    "too much PSUM": (lambda: psum((128, 4097)), "exceed the 16384 of PSUM on trn2"),
}
TRN1_ONLY = {
    "copy on the Scalar Engine": lambda: nisa.tensor_copy(new((4, 4)), new((4, 4)), engine=nisa.engine.scalar),
    "a number as bias": lambda: nisa.activation(new((4, 4)), nl.exp, new((4, 4)), bias=1.0),
    "hardware DGE": lambda: nisa.dma_copy(new((4, 4)), hbm((4, 4)), dge_mode=nisa.dge_mode.hwdge),
    "tensor_scalar on the Scalar Engine": lambda: nisa.tensor_scalar(
        new((4, 4)), new((4, 4)), nl.add, 1.0, engine=nisa.engine.scalar
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_limit(case):
    broken, text = BROKEN[case]
    with running(NeuronCore(find_target("trn2"))), pytest.raises(NkiValidationError, match=text):
        broken()


@pytest.mark.parametrize("case", TRN1_ONLY)
def test_instructions_missing_on_trn1_are_refused(case):
    with running(NeuronCore(find_target("trn1"))), pytest.raises(NkiValidationError):
        TRN1_ONLY[case]()
    with running(NeuronCore(find_target("trn2"))):
        TRN1_ONLY[case]()


def test_five_dimensions_and_no_more_reach_an_engine():
    values = normal(2, 2, 2, 2, 2, 2)
    with on():
        six = tile(values)
        nisa.tensor_copy(new(values.shape), six)  # dense: one free dimension
        turned = six.permute((0, 5, 4, 3, 2, 1))
        with pytest.raises(NkiValidationError, match="at most 4 free dimensions"):
            nisa.tensor_copy(new(values.shape), turned)
        five = tile(values[..., 0]).permute((0, 4, 3, 2, 1))
        out = new(five.shape)
        nisa.tensor_copy(out, five)
        np.testing.assert_array_equal(out.values, values[..., 0].transpose(0, 4, 3, 2, 1))


# Partitions at which an operand may start, by its number of partitions (trainium_inferentia2_arch.rst,
# start_partition).
@pytest.mark.parametrize("count", [1, 32, 33, 64, 65, 128])
@pytest.mark.parametrize("start", [0, 1, 16, 31, 32, 64, 96])
def test_operands_start_at_a_quadrant_or_a_half(start, count):
    if start + count > 128:
        return
    allowed = start in ((0, 32, 64, 96) if count <= 32 else (0, 64) if count <= 64 else (0,))
    with running(NeuronCore(find_target("trn2"))):
        part = new((128, 4))[start : start + count]
        out = new((count, 4))
        if allowed:
            nisa.tensor_copy(out, part)
        else:
            with pytest.raises(NkiValidationError, match=f"src .* covers {count} partition.s. from partition {start}"):
                nisa.tensor_copy(out, part)


@pytest.mark.parametrize(
    "write",
    [
        lambda dst, data: nisa.tensor_copy(dst, data),
        lambda dst, data: nisa.activation(dst, nl.copy, data),
        lambda dst, data: nisa.tensor_tensor(dst, data, nl.zeros(data.shape, nl.float32), nl.add),
        lambda dst, data: nisa.dma_copy(dst, data),
        lambda dst, data: nisa.exponential(dst, nl.log(data)),
    ],
)
def test_the_last_write_to_a_broadcast_destination_remains(trn3_core, write):
    data = tile(uniform(4, 8, low=1, high=2))
    column = nl.ndarray((4, 1), nl.float32)
    write(column.ap(pattern=[[1, 4], [0, 8]]), data)
    np.testing.assert_allclose(column.values, data.values[:, 7:], rtol=1e-6)


def wide(columns, dtype=nl.uint8):
    return nl.ndarray((2, columns), dtype, nl.sbuf)


@pytest.mark.parametrize(
    "view",
    [
        lambda: wide(65535),
        lambda: wide(100000)[:, 0:65535],
        lambda: wide(90000).reshape((2, 3, 30000)),  # too long if joined, but not as it is
        lambda: wide(80000).reshape((2, 2, 40000))[:, :, 0:1].reshape((2, 2, 1))[:, 0:1],
        lambda: wide(65534)[:, 0:65534:32767],
    ],
)
def test_patterns_with_16_bit_sizes_and_strides_are_accepted(core, view):
    nisa.memset(view(), 1)


@pytest.mark.parametrize(
    "view",
    [
        lambda: wide(65536),
        lambda: wide(80000).reshape((2, 2, 40000)),
        lambda: wide(80000).reshape((2, 2, 40000))[:, :, 0:8],
        lambda: wide(65537)[:, 0:65537:32768],
        lambda: wide(70000).ap([[70000, 2], [32768, 2], [1, 4]]),
    ],
)
def test_patterns_beyond_16_bits_are_refused(core, view):
    """trainium_inferentia2_arch.rst: each free axis has a size of uint16 and a stride of int16, in elements."""
    with pytest.raises(NkiValidationError, match=r"memset: dst .* strides .* up to 65535 elements .* at most 32767"):
        nisa.memset(view(), 1)


def test_views_of_more_than_five_dimensions_are_refused_in_hbm_too(core):
    """nki-language-guide.rst, "Tensor Values". Contiguous dimensions count as one."""
    many = (2, 3, 2, 3, 2, 3)
    there = nl.ndarray(many, nl.float32, nl.shared_hbm)
    nisa.dma_copy(nl.ndarray(many, nl.float32, nl.shared_hbm), there)
    turned = there.permute((5, 4, 3, 2, 1, 0))
    with pytest.raises(NkiValidationError, match=r"dma_copy: src shared_hbm.* has strides .* at most 5 dimensions"):
        nisa.dma_copy(nl.ndarray(turned.shape, nl.float32, nl.shared_hbm), turned)


@pytest.mark.parametrize("size,shift,told", [(128, 0, False), (128, 64, True), (64, 32, False)])
def test_tensors_read_together_start_at_one_partition(core, size, shift, told):
    """A tile of 128 partitions starts at 0; one with 64 may be placed to match."""
    low, high = new((size, 8)), new((size, 8))
    parts = low[0:32], high[shift : shift + 32]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nisa.memset(low, 1.0)
        nisa.memset(high, 2.0)
        nisa.tensor_tensor(new((32, 8)), *parts, nl.add)
        nisa.scalar_tensor_tensor(new((32, 8)), parts[0], nl.multiply, 2.0, nl.add, parts[1])
    about = [str(warning.message) for warning in caught if warning.category is UndefinedOnChipWarning]
    assert len(about) == (2 if told else 0)
    assert all("starts at partition 0" in message and "at 64" in message for message in about)


def test_a_tensor_in_psum_is_read_beside_any_partition(core):
    data, accumulated = new((128, 8)), psum((128, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UndefinedOnChipWarning)
        nisa.memset(data, 1.0)
        nisa.memset(accumulated, 1.0)
        nisa.tensor_tensor(new((64, 8)), data[0:64], accumulated[64:128], nl.add)


def after_idle():
    """Continue a sum after an instruction that may have changed it."""
    data, total = tile(normal(4, 8)), new((4, 1))
    nisa.tensor_scalar_reduce(new((4, 8)), data, nl.add, 1.0, nl.add)
    nisa.select_reduce(new((4, 8)), new((4, 8), nl.uint8), data, 0.0)
    nisa.tensor_scalar_reduce(new((4, 8)), data, nl.add, 1.0, nl.add, total, reduce_cmd=nisa.reduce_cmd.reduce)


TOLD = {
    "idle between": ("trn2", after_idle, "accumulators that select_reduce with reduce_cmd idle may have changed"),
    "16-bit transposes": (
        "trn1",
        lambda: nisa.nc_transpose(psum((8, 4), nl.bfloat16), tile(normal(4, 8), nl.bfloat16)),
        "writes only float32",
    ),
    "8-bit transposes": (
        "trn2",
        lambda: nisa.nc_transpose(psum((8, 4), nl.float8_e5m2), tile(normal(4, 8), nl.float8_e5m2)),
        "stored as 16-bit elements",
    ),
}


@pytest.mark.parametrize("case", TOLD)
def test_undocumented_behaviour_is_reported(case):
    target, run, text = TOLD[case]
    with on(target), pytest.warns(UndefinedOnChipWarning, match=text):
        run()
