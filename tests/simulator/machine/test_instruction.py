"""Memory rectangles that instructions access, compared with their bytes; dependencies of instructions."""

import nki.isa as nisa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import new
from trninfer.simulator import NkiValidationError
from trninfer.simulator.machine.instruction import Access, Allocation, engine, label_of
from trninfer.simulator.machine.memory import MemoryRegion

OWNER = Allocation(0, MemoryRegion.sbuf, 64, ("", MemoryRegion.sbuf, (8, 16), "float32"), ("", 0), False)
STEPS = st.sampled_from([(0, 0), (8, 2), (8, 4), (12, 4)])


@st.composite
def accesses(draw, pitch):
    """Draw some rows and bytes of a memory with 8 rows, or the first `run` of every `step` bytes."""
    row, byte = draw(st.integers(0, 6)), draw(st.integers(0, pitch - 5))
    row_end, byte_end = draw(st.integers(row + 1, 8)), draw(st.integers(byte + 1, pitch))
    step, run = draw(STEPS) if byte_end - byte > 12 else (0, 0)
    return Access(OWNER, row, row_end, byte, byte_end, pitch, False, step, run)


def bytes_of(access):
    """Return the accessed bytes, relative to the start of the storage."""
    columns = range(access.byte, access.byte_end)
    if access.step:
        columns = [each for each in columns if (each - access.byte) % access.step < access.run]
    return {row * access.pitch + column for row in range(access.row, access.row_end) for column in columns}


@given(accesses(pitch=40), accesses(pitch=40))
def test_rectangles_of_equal_pitch_overlap_if_they_share_a_byte(a, b):
    """An overlap is never missed; none is reported for two combs with the same step and disjoint teeth."""
    shared = bool(bytes_of(a) & bytes_of(b))
    assert a.overlaps(b) == b.overlaps(a)
    assert a.overlaps(b) or not shared
    if a.step == b.step == 0:
        assert a.overlaps(b) == shared


@given(accesses(pitch=40), accesses(pitch=24))
def test_of_two_pitches_whole_extents_are_compared(a, b):
    assert (a.low, a.high) == (min(bytes_of(a._replace(step=0))), max(bytes_of(a._replace(step=0))) + 1)
    assert a.overlaps(b) == (a.low < b.high and b.low < a.high)
    assert a.overlaps(b) or not bytes_of(a) & bytes_of(b)


def test_combs_whose_teeth_are_apart_do_not_overlap():
    """Even and odd columns of float32."""
    even = Access(OWNER, 0, 8, 0, 60, 64, False, 8, 4)
    odd, close = even._replace(byte=4, byte_end=64), even._replace(byte=2, byte_end=62)
    assert not even.overlaps(odd) and not odd.overlaps(even)
    assert even.overlaps(close) and close.overlaps(odd) and odd.overlaps(close)


def test_two_storages_never_overlap():
    other = Allocation(0, MemoryRegion.sbuf, 64, OWNER.identity, ("", 0), False)
    access = Access(OWNER, 0, 8, 0, 64, 64, True)
    assert access.overlaps(access) and not access.overlaps(access._replace(allocation=other))


def test_the_label_of_a_storage_lists_its_known_properties():
    assert label_of(("x", MemoryRegion.sbuf, (8, 16), "float32")) == "x sbuf[8, 16] float32"
    assert label_of(("", MemoryRegion.psum, (8, 16), "float32")) == "tensor psum[8, 16] float32"
    assert label_of(("stack", MemoryRegion.sbuf, (), "")) == "sbuf stack"
    assert (OWNER.line, OWNER.partitions) == ("", 8)
    assert Allocation(1, MemoryRegion.sbuf, 64, OWNER.identity, ("k.py", 7), False).line == "k.py:7"


def test_an_instruction_waits_for_instructions(core):
    first, second = (nisa.memset(new((4, 4)), 0.0) for _ in range(2))
    assert second.depends_on(first, first) is second and second.after == (first, first)
    assert repr(first).startswith("<memset on ") and "test_instruction.py:" in repr(first)
    with pytest.raises(NkiValidationError, match="depends_on of memset: 3 is not an instruction"):
        second.depends_on(3)
    assert {engine(unit.value) for unit in engine} == set(engine)
