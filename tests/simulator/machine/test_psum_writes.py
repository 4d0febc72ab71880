"""Last writers of the elements of a PSUM tensor, compared with a record for each element."""

import nki.isa as nisa
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import on, psum, tile
from trninfer.simulator import NkiValidationError
from trninfer.simulator.machine.psum_writes import LastWriter, PsumWrites

ROWS, COLUMNS = 6, 24


@st.composite
def slices(draw):
    """Draw rows, columns and a column step."""
    row, column = draw(st.integers(0, ROWS - 1)), draw(st.integers(0, COLUMNS - 1))
    rows, columns = slice(row, draw(st.integers(row + 1, ROWS))), draw(st.integers(column + 1, COLUMNS))
    return rows, slice(column, columns, draw(st.sampled_from([1, 1, 2, 3])))


def expected(marks):
    """Return the last writers of some elements: 0 for none, 1 for another instruction, 2 for a matmul."""
    if not marks.any():
        return LastWriter.nothing
    by_matmul = marks == 2
    if by_matmul.all():
        return LastWriter.matmul
    return LastWriter.mixed if by_matmul.any() else LastWriter.other


@given(st.lists(st.tuples(slices(), st.booleans()), max_size=8), slices())
def test_writers_are_those_of_the_elements(writes, asked):
    with on():
        tensor, known, marks = psum((ROWS, COLUMNS)), PsumWrites(), np.zeros((ROWS, COLUMNS), int)
        for key, by_matmul in writes:
            known.note(tensor[key], by_matmul)
            marks[key] = 2 if by_matmul else 1
        assert known.of(tensor[asked]) is expected(marks[asked])
        np.testing.assert_array_equal(known.by_matmul(tensor[asked]), marks[asked] == 2)
        assert known.of(tensor) is expected(marks)


def test_views_of_other_shapes_are_the_same_elements():
    with on():
        tensor, known = psum((4, 12)), PsumWrites()
        folded = tensor.reshape((4, 3, 4))
        known.note(folded[:, 0:2], by_matmul=True)
        assert known.of(tensor[:, 0:8]) is LastWriter.matmul
        assert known.of(folded[:, :, 1:3]) is LastWriter.mixed
        assert known.of(tensor[:, 8:12]) is LastWriter.nothing
        known.note(tensor[:, 4:12], by_matmul=False)
        assert known.of(folded[:, 1]) is LastWriter.other and known.of(folded[:, 0]) is LastWriter.matmul


@pytest.mark.parametrize("by_matmul", [False, True])
def test_elements_between_those_that_were_written_are_not(by_matmul):
    """Odd columns next to even ones."""
    with on():
        tensor, known = psum((4, 16)), PsumWrites()
        known.note(tensor[:, 0:16:2], by_matmul)
        assert known.of(tensor[:, 1:16:2]) is known.of(tensor[:, 1:13:2]) is LastWriter.nothing
        assert known.of(tensor) is (LastWriter.mixed if by_matmul else LastWriter.other)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_sums_of_odd_columns_begin_beside_those_of_even_ones(target):
    with on(target):
        ones, sums = tile(np.ones((4, 4))), psum((4, 16))
        nisa.nc_matmul(sums[:, 0:16:2], ones, tile(np.ones((4, 8))))
        with pytest.raises(NkiValidationError, match="which no matmul has written"):
            nisa.nc_matmul(sums[:, 1:16:2], ones, tile(np.ones((4, 8))), accumulate=True)
        for _ in range(2):
            nisa.nc_matmul(sums[:, 1:16:2], ones, tile(np.ones((4, 8))))
        np.testing.assert_array_equal(sums.values, [[4, 8] * 8] * 4)


def test_the_taps_of_a_convolution_change_nothing():
    """Writes inside the first one are not recorded, however many there are."""
    with on():
        tensor, known = psum((128, 512)), PsumWrites()
        known.note(tensor, by_matmul=True)
        for first in range(1, 300):
            known.note(tensor[:, first : first + 200], by_matmul=True)
        assert known.of(tensor[:, 5:9]) is LastWriter.matmul and len(known._writes) == 1
