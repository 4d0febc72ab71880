"""Elements of views: their positions and values, and the memory rectangle that they access."""

import itertools

import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import counted, hbm, in_hbm, new, on, psum, tile
from trninfer.simulator.tensors.strided import Form

SHAPE = (6, 4, 10)


@st.composite
def views(draw, tensor):
    """Draw a slice of a tensor, with some dimensions after the first permuted."""
    keys = []
    for extent in tensor.shape:
        start = draw(st.integers(0, extent - 1))
        keys.append(slice(start, draw(st.integers(start + 1, extent)), draw(st.sampled_from([1, 1, 2, 3]))))
    if tensor.buffer in (nl.sbuf, nl.psum):
        keys[0] = slice(*keys[0].indices(tensor.shape[0])[:2])
    view = tensor[tuple(keys)]
    return view.permute((0, 2, 1)) if draw(st.booleans()) else view


def starts(view):
    """Return the first byte of each element, relative to the start of the storage: [partition, byte] on the chip."""
    size = view.access.pitch // view.row if view.storage.on_chip else view._dtype.itemsize
    elements = [
        view.offset + sum(stride * at for stride, at in zip(view.strides, place))
        for place in itertools.product(*map(range, view.shape))
    ]
    if view.storage.on_chip:
        return [(element // view.row, element % view.row * size) for element in elements]
    return [divmod(element * size, view.access.pitch) for element in elements]


@given(st.data(), st.sampled_from(["sbuf", "psum", "hbm"]), st.sampled_from([nl.float32, nl.bfloat16]))
def test_the_rectangle_of_a_view_holds_its_elements(data, where, dtype):
    """On the chip it is minimal: rows are partitions, and the bytes range from the first to the last."""
    with on():
        tensor = {"sbuf": new, "psum": psum, "hbm": hbm}[where](SHAPE, dtype)
        view = data.draw(views(tensor))
        access, size = view.access, 4 if dtype == nl.float32 else 2
        found = starts(view)
        for row, byte in found:
            assert access.row <= row < access.row_end and access.byte <= byte <= access.byte_end - size
            assert access.step == 0 or (byte - access.byte) % access.step < access.run
        if where != "hbm":
            rows, columns = zip(*found)
            assert (access.row, access.row_end) == (min(rows), max(rows) + 1)
            assert (access.byte, access.byte_end) == (min(columns), max(columns) + size)
        assert access.covers == (view.size == 240)
        assert view.size == len(set(found)) and view.free_size == view.size // view.shape[0]


@given(st.data(), st.sampled_from(["sbuf", "hbm"]))
def test_views_share_the_memory_that_they_are_of(data, where):
    with on():
        tensor = (tile if where == "sbuf" else in_hbm)(counted(*SHAPE))
        view, expected = data.draw(views(tensor)), counted(*SHAPE)
        marked = np.isin(expected, view.values)
        assert marked.sum() == view.size  # all other numbers are outside
        view.write(-view.values)
        np.testing.assert_array_equal(tensor.values, np.where(marked, -expected, expected))


def test_rows_that_wrap_around_are_a_run():
    """20 elements from the 30th of each row of 40 on: the rectangle would be too narrow."""
    with on():
        access = hbm((6, 40)).ap([[40, 3], [1, 20]], 30).access
        assert (access.low, access.high) == (4 * 30, 4 * (2 * 40 + 30 + 20))


def test_a_view_of_one_element_many_times_covers_nothing_else():
    with on():
        vector = hbm((1, 12))
        assert vector.access.covers and vector.ap([[12, 1], [1, 12]]).access.covers
        assert not vector.ap([[0, 12]]).access.covers


def test_the_rectangle_of_a_tile_at_an_explicit_address():
    with on():
        tensor = nl.ndarray((32, 8), nl.float32, nl.sbuf, address=(64, 256))
        access = tensor[1:3, 2:4].access
        assert (access.row, access.row_end, access.byte, access.byte_end) == (65, 67, 256 + 8, 256 + 16)


def test_forms():
    """Rows of an HBM view are as long as its outermost stride; combs are detected on the chip."""
    part = Form((3, 4, 2), (100, 10, 1), 4, on_chip=False)
    assert (part.size, part.free_size, part.pitch, part.outer, part.extent) == (24, 8, 100, 3, 32)
    even = Form((128, 8), (64, 2), 4, on_chip=True)
    assert (even.pitch, even.outer, even.extent, even.step, even.run) == (0, 128, 15, 2, 1)
    dense = Form((128, 2, 8), (64, 8, 1), 4, on_chip=True)
    assert (dense.extent, dense.step, dense.run, dense.distinct) == (16, 0, 0, 2048)
    repeated = Form((4, 3), (1, 0), 4, on_chip=False)
    assert (repeated.size, repeated.distinct) == (12, 0)
    assert Form((4, 3), (1, 0), 2, on_chip=False).pattern == ((1, 0), (4, 3, 2))


def test_views_of_one_form_have_one():
    with on():
        tensor = new((8, 16))
        assert tensor[0:4, 0:8].form is tensor[0:4, 8:16].form is not tensor[0:4, 0:9].form
        assert tensor[0:4].form is not tensor[4:8].form  # engines start at different partitions


@pytest.mark.parametrize(("dtype", "kept"), [(nl.float32, 1 + 2.0**-12), (nl.bfloat16, 1.0), (nl.int32, 1)])
def test_values_are_rounded_when_they_are_written(dtype, kept):
    with on():
        tensor = new((1, 2), dtype)
        tensor.write(np.array([[1 + 2.0**-12, 3.0]], np.float32))
        assert tensor.values.tolist() == [[kept, 3]]


@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16, nl.int32])
def test_computed_values_are_written(dtype):
    """At once if possible, even if the computation reads the destination."""
    with on():
        values = np.array([[1.5, 2.5, -3.5]], np.float32)
        tensor = tile(values if dtype != nl.int32 else values.astype(np.int32), dtype)
        before = tensor.values.astype(np.float32)
        tensor.compute(np.add, before, np.float32(1))
        expected = new((1, 3), dtype)
        expected.write(before + 1)
        np.testing.assert_array_equal(tensor.values, expected.values)
        shifted = tile(counted(1, 4))
        shifted[:, 1:4].compute(np.add, shifted[:, 0:3].values, shifted[:, 0:3].values)
        assert shifted.values.tolist() == [[0, 0, 2, 4]]


def test_attributes_of_a_strided_tensor():
    with on():
        tensor = nl.ndarray((4, 2, 8), nl.bfloat16, nl.sbuf, name="x")
        assert (tensor.dtype, tensor.buffer, tensor.name, tensor.ndim) == ("bfloat16", nl.sbuf, "x", 3)
        assert tensor.label == "x sbuf[4, 2, 8] bfloat16" and tensor[:, 0].label == "x sbuf[4, 8] bfloat16"
        assert tensor.get_pattern() == [[16, 4], [8, 2], [1, 8]]
        assert tensor.is_contiguous() and tensor[2:4, 1].is_contiguous() and not tensor[:, :, 0:4].is_contiguous()
        assert not hbm((4, 8))[0:2, 0:4].is_contiguous() and hbm((4, 8))[1:3].is_contiguous()
