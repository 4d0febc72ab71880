"""Rules that are reported but undocumented: violations cause a separate kind of warning, and AWS's kernels in similar
situations do not."""

import warnings

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer import kernels, simulator
from trninfer.kernels.activation_functions import activate
from trninfer.simulator.machine.errors import ReportedOnChipWarning

NARROW, WIDE = nl.bfloat16, nl.float32


pytestmark = pytest.mark.usefixtures("core")


def told(break_it):
    """Return a rule's messages about some instructions, by their first words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        break_it()
    return [str(warning.message) for warning in caught if warning.category is ReportedOnChipWarning]


def sbuf(*shape, dtype=WIDE):
    tile = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
    nisa.memset(tile, 1.0)
    return tile


def psum(*shape, dtype=WIDE, **more):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum, **more)


# Rules of the back end's verifier


def test_a_slot_of_16_bits_begins_with_a_word():
    bank, data = psum(8, 6, dtype=NARROW), sbuf(8, 6, dtype=NARROW)
    (message,) = told(lambda: nisa.tensor_copy(bank[:, 1:3], data[:, 0:2]))
    assert message == (
        "tensor_copy: dst psum[8, 2] bfloat16 starts at byte 2 of a partition of PSUM; 16-bit operands must start at "
        "a multiple of 4 (the back end's verifier is reported to reject others)"
    )
    assert told(lambda: nisa.tensor_copy(bank[:, 2:4], data[:, 0:2])) == []


def test_a_reshaped_view_has_more_than_one_partition():
    (message,) = told(lambda: sbuf(1, 8).reshape((1, 2, 4)))
    assert message.startswith("reshape of sbuf[1, 8] float32 to [1, 2, 4]: if a view of a single partition is reshaped")
    assert len(told(lambda: sbuf(4, 8)[2:3].reshape((1, 8)))) == 1
    for fine in (lambda: sbuf(2, 8).reshape((2, 2, 4)), lambda: sbuf(1, 8).reshape_dim(1, (2, 4))):
        assert told(fine) == []
    hbm = nl.ndarray((1, 8), dtype=WIDE, buffer=nl.private_hbm)
    assert told(lambda: hbm.reshape((1, 2, 4))) == []


@pytest.mark.parametrize(
    ("columns", "taken", "is_told"), [(8, 8, True), (16, 16, False), (16, 8, False), (24, 24, True)]
)
def test_output_rows_of_a_transpose_are_multiples_of_32_bytes(columns, taken, is_told):
    source = nl.ndarray((taken, 32), dtype=NARROW, buffer=nl.private_hbm)
    nisa.dma_copy(dst=source, src=sbuf(taken, 32, dtype=NARROW))
    turned = nl.ndarray((32, columns), dtype=NARROW, buffer=nl.sbuf)
    messages = told(lambda: nisa.dma_transpose(dst=turned[:, 0:taken], src=source))
    assert [f"rows of {2 * columns} bytes" in message for message in messages] == [True] * is_told


# PSUM words


@pytest.mark.parametrize("rows", [1, 3, 127])
def test_a_16_bit_transpose_ends_with_a_word(rows):
    bank, data = psum(8, 128, dtype=NARROW), sbuf(128, 8, dtype=NARROW)
    (message,) = told(lambda: nisa.nc_transpose(bank[:, 0:rows], data[0:rows], engine=nisa.engine.tensor))
    assert "nc_transpose: dst" in message and "even number of columns" in message
    assert told(lambda: nisa.nc_transpose(bank[:, 0 : rows + 1], data[0 : rows + 1], engine=nisa.engine.tensor)) == []


def test_words_are_counted_for_contiguous_and_separate_rows():
    bank, data = psum(4, 6, 3, dtype=NARROW), sbuf(4, 6, 3, dtype=NARROW)
    assert told(lambda: nisa.tensor_copy(bank, data)) == []  # 18 consecutive ones
    assert len(told(lambda: nisa.tensor_copy(bank[:, :, 0:2], data[:, :, 0:2]))) == 1  # two of every three
    whole, some = psum(4, 6, 4, dtype=NARROW), sbuf(4, 6, 4, dtype=NARROW)
    assert told(lambda: nisa.tensor_copy(whole[:, :, 0:2], some[:, :, 0:2])) == []
    assert len(told(lambda: nisa.tensor_copy(whole[:, :, 0], some[:, :, 0]))) == 1


def test_whole_words_are_required_only_for_16_bits_in_psum():
    data = sbuf(3, 5)
    assert told(lambda: nisa.tensor_copy(psum(3, 5), data)) == []
    assert told(lambda: nisa.tensor_copy(sbuf(3, 5, dtype=NARROW), data)) == []


# One column


@pytest.mark.parametrize("dtype", [nl.bfloat16, nl.float16])
def test_a_tile_of_one_16_bit_column_warns(dtype):
    (message,) = told(lambda: nl.ndarray((7, 1, 1), dtype=dtype, buffer=nl.sbuf))
    assert "fills only half of a word" in message
    assert told(lambda: nl.ndarray((7, 2), dtype=dtype, buffer=nl.sbuf)[:, 0:1]) == []


def test_other_memories_and_sizes_of_one_column_do_not():
    for dtype in (nl.float32, nl.uint8, nl.int32):
        assert told(lambda dtype=dtype: nl.ndarray((7, 1), dtype=dtype, buffer=nl.sbuf)) == []
    assert told(lambda: nl.ndarray((7, 1), dtype=NARROW, buffer=nl.shared_hbm)) == []
    assert told(lambda: nl.ndarray((7, 1), dtype=NARROW, buffer=nl.sbuf, address=(0, 64))) == []


def test_a_stationary_operand_of_one_16_bit_column_warns():
    left, right = sbuf(5, 3, dtype=NARROW), sbuf(5, 4, dtype=NARROW)
    (message,) = told(lambda: nisa.nc_matmul(psum(1, 4), left[:, 0:1], right))
    assert "stationary" in message and "a single column of bfloat16" in message
    assert told(lambda: nisa.nc_matmul(psum(2, 4), left[:, 0:2], right)) == []
    assert told(lambda: nisa.nc_matmul(psum(3, 1), left, right[:, 0:1])) == []
    assert told(lambda: nisa.nc_matmul(psum(1, 4), sbuf(5, 1), sbuf(5, 4))) == []


# Names


def test_a_name_is_given_once_in_a_launch():
    assert told(lambda: nl.ndarray((4, 4), WIDE, name="x")) == []
    (message,) = told(lambda: nl.ndarray((4, 8), WIDE, name="x"))
    assert message.startswith("ndarray x: another tensor of this launch")
    assert told(lambda: [nl.ndarray((4, 4), WIDE), nl.ndarray((4, 4), WIDE), nl.ndarray((4, 4), WIDE, name="y")]) == []


def test_tensor_of_a_device_loop_counts_once():
    assert told(lambda: nl.fori_loop(0, 3, lambda i: nl.ndarray((4, 4), WIDE, name="x"))) == []
    assert len(told(lambda: nl.ndarray((4, 4), WIDE, name="x"))) == 1


# Sums


def multiply(dst, adds):
    nisa.nc_matmul(dst, sbuf(2, dst.shape[0]), sbuf(2, dst.shape[1]), accumulate=adds)


def in_turn(first, second):
    """Two terms of two sums, interleaved."""
    for term in range(2):
        multiply(first, term > 0)
        multiply(second, term > 0)


def one_by_one(first, second):
    for dst in (first, second):
        for term in range(2):
            multiply(dst, term > 0)


def test_sums_of_a_bank_that_grow_in_turn_warn():
    bank = psum(4, 8)
    (message,) = told(lambda: in_turn(bank[:, 0:4], bank[:, 4:8]))
    assert "continues a sum after another one was started" in message
    assert told(lambda: one_by_one(bank[:, 0:4], bank[:, 4:8])) == []


def test_sums_of_banks_and_partitions_of_their_own_do_not():
    assert told(lambda: in_turn(psum(4, 8), psum(4, 8))) == []
    banks = psum(4, 1024)
    assert told(lambda: in_turn(banks[:, 0:512], banks[:, 512:1024])) == []
    bank = psum(128, 8)
    assert told(lambda: in_turn(bank[0:64], bank[64:128])) == []


def test_sums_at_addresses_share_the_bank_there():
    first, second, apart = (psum(4, 8, address=(0, 2048 * bank)) for bank in (0, 0, 1))
    assert told(lambda: in_turn(first[:, 0:2], apart[:, 2:4])) == []
    assert len(told(lambda: in_turn(first[:, 0:2], second[:, 2:4]))) == 1


def test_a_sum_may_grow_in_parts_of_itself():
    bank = psum(4, 8)

    def taps():
        multiply(bank, False)
        multiply(bank[:, 0:3], True)
        multiply(bank[:, 4:8], True)
        multiply(bank[:, 1:2], True)

    assert told(taps) == []


def test_a_sum_without_accumulate_is_left_to_the_compiler():
    """nki-library's attention_bwd sets a bank to zero and accumulates four sums in it alternately."""
    bank = psum(4, 8)
    nisa.memset(bank, 0.0)

    def grow():
        for _ in range(2):
            for part in (bank[:, 0:4], bank[:, 4:8]):
                nisa.nc_matmul(part, sbuf(2, 4), sbuf(2, 4))

    assert told(grow) == []


@pytest.mark.parametrize(("kernel", "warns"), [("psum_side_by_side", True), ("psum_within", False)])
def test_the_checks_of_the_self_test(kernel, warns):
    left, right = np.ones((300, 4), np.float32), np.ones((300, 30), np.float32)
    found = told(lambda: simulator.run(getattr(kernels, kernel), left, right, target="trn2"))
    assert bool(found) is warns


# Issues in aws-neuron-sdk


def test_a_copy_with_a_bias_warns():
    data, bias = sbuf(4, 8), sbuf(4, 1)
    for call in (
        lambda: nisa.activation(data, nl.copy, data, bias=bias),
        lambda: nisa.activation(data, nl.copy, data, bias=0.5),
        lambda: nisa.activation_reduce(data, nl.copy, data, nl.add, sbuf(4, 1), bias=bias),
    ):
        (message,) = told(call)
        assert "issue 1296" in message and "nisa.tensor_scalar" in message
    assert told(lambda: nisa.activation(data, nl.copy, data, scale=2.0)) == []
    assert told(lambda: nisa.activation(data, nl.relu, data, bias=bias)) == []


@pytest.mark.parametrize("activation", ["identity", "clip", "relu"])
def test_the_kernels_of_the_package_are_not_warned_of(activation):
    data, bias, dst = sbuf(4, 8), sbuf(4, 1), sbuf(4, 8)
    parameters = (0.0, 6.0) if activation == "clip" else ()
    assert told(lambda: activate(dst, data, activation, parameters, bias, bias)) == []
    assert (dst.values == 2).all()
