"""Constraints on tensor operands, as worded in the documentation and in messages."""

import nki.isa as nisa
import nki.language as nl
import pytest
from nki_tensors import hbm, new, psum
from trninfer.simulator import NkiValidationError
from trninfer.simulator.instructions.operands import among
from trninfer.simulator.instructions.tensor_operands import DmaTensor, OneElement, Tile, TileOrNumber
from trninfer.simulator.machine.memory import SBUF


@pytest.mark.parametrize(
    "operand, words",
    [
        (Tile(), "SBUF or PSUM"),
        (
            Tile(buffers=(SBUF,), dtypes=("uint32", "uint16"), elements=(1, 1)),
            "SBUF, uint32 or uint16, one element in a ",
        ),
        (
            Tile(refused=("int32",), size_of="dst", dtype_of="data"),
            "SBUF or PSUM, not int32, dtype of data, size of dst",
        ),
        (
            Tile(partitions=16, elements=(8, 9), dimensions=3),
            "a multiple of 16 partitions, 8 to 9 elements in a partition",
        ),
        (TileOrNumber(partitions_of="dst"), "a number, or SBUF or PSUM, partitions of dst"),
        (DmaTensor(), "SBUF or HBM"),
        (OneElement(("int32", "int64")), "one element in SBUF or HBM of int32 or int64"),
    ],
)
def test_limits_in_words(operand, words):
    assert words in operand.limits


def test_a_list_of_names():
    assert [among("a"), among("ab"), among("abcd"), among("abcde")] == [
        "a",
        "a or b",
        "a, b, c or d",
        "one of a, b, c, d, e",
    ]
    assert among([d for d in vars(nl) if d.startswith("float3")]) == "float32"


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: nisa.max8(psum((4, 8)), new((4, 7))),
            "max8: src .* must have 8 to 16384 elements .*, got 7",
        ),
        (lambda: nisa.iota(psum((4, 8)), [[1, 8]]), "iota: dst .* must be in SBUF$"),
        (lambda: nisa.dma_transpose(hbm((4, 8)), hbm((8, 4))), "dma_transpose: dst .* must be in SBUF$"),
        (lambda: nisa.nc_transpose(new((40, 8)), new((8, 40))), "dst .* must be in PSUM, the only memory"),
        (lambda: nisa.topk(new((8, 1)), new((8, 1)), new((8, 9), nl.bfloat16), 8), "val_dst .* must be bfloat16"),
    ],
)
def test_messages_name_the_operand_and_what_is_allowed(core, call, message):
    with pytest.raises(NkiValidationError, match=message):
        call()
