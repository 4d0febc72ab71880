"""Rules for indices known only at run time: rejected indices, and their display in messages."""

import nki.isa as nisa
import nki.language as nl
import pytest
from nki_tensors import counted, hbm, in_hbm, indices, new, on, psum
from trninfer.simulator import NkiValidationError
from trninfer.simulator.tensors.index_rules import check_columns, check_scalar, check_vector, shown_key


@pytest.mark.parametrize(
    "key, shown",
    [
        (3, "[3]"),
        ((slice(0, 4), ...), "[0:4, ...]"),
        ((slice(None), slice(2, None), -1), "[:, 2:, -1]"),
        ((nl.ds(4, 8), slice(None, 3)), "[nl.ds(4, 8), :3]"),
    ],
)
def test_an_index_is_shown_as_it_is_written(key, shown):
    assert shown_key(key) == shown


@pytest.fixture(name="table")
def fixture_table(core):
    return in_hbm(counted(6, 4))


def test_a_register_a_scalar_or_one_number_in_sbuf_is_an_index(table):
    long = nisa.scalar_load(in_hbm([[2]], nl.int64))
    for index in (nisa.register_alloc(2), indices([[1]]), indices([[1]], nl.uint32), long):
        check_scalar(table, index, "select")
    check_scalar(new((4, 8)), indices([[1]]), "select")
    with pytest.raises(
        NkiValidationError, match=r"select of sbuf.*an int64 scalar can only address HBM; load an int32"
    ):
        check_scalar(new((4, 8)), long, "select")


@pytest.mark.parametrize(
    "index, message",
    [
        (lambda: 1.5, r"select of shared_hbm\[6, 4\] float32: the index must be an integer, .* got float"),
        (lambda: indices([[1, 2]]), r"index sbuf\[1, 2\] int32 must be one int32 or uint32 in SBUF, or a register"),
        (lambda: indices([[1]], nl.int16), r"index sbuf\[1, 1\] int16 must be one int32 or uint32"),
        (lambda: psum((1, 1), nl.int32), r"index psum\[1, 1\] int32 must be one int32 or uint32 in SBUF"),
        (lambda: hbm((1, 1), nl.int32), "must be one int32 or uint32 in SBUF"),
    ],
)
def test_other_indices_are_refused(table, index, message):
    with pytest.raises(NkiValidationError, match=message):
        check_scalar(table, index(), "select")


def test_a_vector_of_indices_chooses_rows_of_hbm(table):
    rows = indices([[1], [5]])
    check_vector(table, rows, "vector_select")
    for tensor, index, message in (
        (table, [1, 5], r"the indices must be int32 or uint32 in SBUF, \[rows, 1\], got list"),
        (table, indices([[1], [5]], nl.uint8), "got sbuf.* uint8"),
        (table, hbm((2, 1), nl.int32), "got shared_hbm"),
        (new((6, 4)), rows, "vector_select of sbuf.*: only tensors in HBM can be indexed by a vector"),
    ):
        with pytest.raises(NkiValidationError, match=message):
            check_vector(tensor, index, "vector_select")


def test_offsets_of_columns_are_as_many_as_partitions():
    with on():
        tile, offsets = new((4, 8)), indices([[0, 1]] * 4, nl.int16)
        check_columns(tile, offsets, None)
        check_columns(tile, offsets, 2)
        for tensor, index, count, message in (
            (hbm((4, 8)), offsets, None, "indirect of shared_hbm.*: requires a tile in SBUF or PSUM"),
            (tile[:, 0:8:2], offsets, None, "contiguous in each partition"),
            (
                tile,
                indices([[0.0]] * 4, nl.float32),
                None,
                r"must be an integer tensor in SBUF with shape \[4, K\], got sbuf",
            ),
            (tile, 3, None, "got int"),
            (tile, indices([[0]] * 3), None, "must have the tile's 4 partitions"),
            (tile, offsets, 0, "num_elem must be a positive integer, got 0"),
            (tile, offsets, 1.0, r"num_elem must be a positive integer, got 1\.0"),
        ):
            with pytest.raises(NkiValidationError, match=message):
                check_columns(tensor, index, count)
