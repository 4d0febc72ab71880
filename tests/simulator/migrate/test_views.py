"""Subscripts with index arrays and masks: the slices and access patterns that replace them select the same elements."""

import numpy as np
import pytest

pytest.importorskip("libcst")
from migrated_kernels import run_migrated
from trninfer.simulator.migrate.context import Result, Tensor
from trninfer.simulator.migrate.indices import Clip, Index, arange
from trninfer.simulator.migrate.notes import CannotError
from trninfer.simulator.migrate.sums import Sum
from trninfer.simulator.migrate.views import Element, clip_whole, is_advanced, slice_text, take

A = np.arange(12 * 20, dtype=np.float32).reshape(12, 20)
SHAPE = ("12", "20")


def grid(*extents):
    """Return the index arrays of a grid, as created by nl.mgrid."""
    return [
        arange(Sum(0), Sum(extent)).placed(tuple(at == each for each in range(len(extents))))
        for at, extent in enumerate(extents)
    ]


def number(text):
    return Element(text, Index(Sum.of(text)))


def array(index):
    return Element(index.base.text, index)


def part(text):
    return Element(text, is_slice=True)


def taken(elements, tensor=None, clips=None):
    return take(Result("t", tensor or Tensor("sbuf", "", SHAPE)), elements, clips)


P, F = grid(4, 5)
ROW, COLUMN = np.arange(4)[:, None], np.arange(5)[None, :]


@pytest.mark.parametrize(
    ("first", "second", "expected", "text"),
    [
        (P, F, A[ROW, COLUMN], "t[0:4, 0:5]"),
        (P + Index(Sum(3)), F.scaled(Sum(2)) + Index(Sum(1)), A[ROW + 3, 2 * COLUMN + 1], "t[3:7, 1:10:2]"),
        (P.scaled(Sum(3)), F.scaled(Sum(4)), A[3 * ROW, 4 * COLUMN], "t[0:10:3, 0:17:4]"),
        (P, Index(Sum(7)), A[ROW, 7 + 0 * ROW], "t[0:4, 7:8]"),
        (Index(Sum(2)), F, A[2 + 0 * COLUMN, COLUMN], "t[2:3, 0:5]"),
    ],
)
def test_index_arrays_become_slices(first, second, expected, text):
    view = taken([array(first), array(second)])
    assert view.text == text and eval(view.text, {"t": A}).tolist() == expected.tolist()
    assert tuple(map(int, view.shape)) == expected.shape and view.full == view.shape


@pytest.mark.parametrize(
    ("elements", "pattern"),
    [
        ([F, P], "t.ap([[t.strides[1], 4], [t.strides[0], 5]], offset=t.offset)"),
        ([P, P + F], "t.ap([[t.strides[0] + t.strides[1], 4], [t.strides[1], 5]], offset=t.offset)"),
        ([P + Index(Sum(2)), F.scaled(Sum.of("n"))], "t.ap([[t.strides[0], 4], [t.strides[1] * n, 5]], "),
        ([P, Index(Sum.of("n + 1"))], "t[0:4, n + 1 : n + 2]"),
    ],
)
def test_indices_that_slices_cannot_express_become_access_patterns(elements, pattern):
    assert taken([array(each) for each in elements]).text.startswith(pattern)


def test_a_position_times_zero_repeats_an_element():
    p, f = np.ogrid[0:4, 0:5]
    body = """
        out = nl.ndarray((4, 5), dtype=a.dtype, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:4, 0:5]
        t = nl.ndarray((4, 5), dtype=a.dtype)
        nisa.dma_copy(dst=t[p, f], src=a[2 + p * 0, 3 + f])
        nl.store(out[p, f], t)
        return out
    """
    assert run_migrated(body, A).tolist() == A[2 + p * 0, 3 + f].tolist()
    with pytest.raises(CannotError, match="one partition is read as several"):
        taken([array(P.scaled(Sum(0))), array(F)], Tensor("sbuf", shape=SHAPE))


def test_access_patterns_take_the_elements_of_the_index_arrays():
    i, j, k = np.ogrid[0:2, 0:3, 0:2]
    body = """
        out = nl.ndarray((2, 3, 2), dtype=a.dtype, buffer=nl.shared_hbm)
        i, j, k = nl.mgrid[0:2, 0:3, 0:2]
        nl.store(out[i, j, k], nl.load(a[2 * j + 1, 5 * i + 3 * k + 2]))
        return out
    """
    np.testing.assert_array_equal(run_migrated(body, A), A[2 * j + 1, 5 * i + 3 * k + 2])


def test_a_mask_clips_a_view_and_its_full_shape_is_kept():
    clips = {-2: Clip(Sum(0), Sum.of("min(4, n)")), -1: Clip(Sum(1), Sum(3))}
    view = taken([array(P + Index(Sum(2))), array(F)], clips=clips)
    assert view.text == "t[2 : min(4, n) + 2, 1:4]"
    assert view.shape == ("min(4, n)", "3") and view.full == ("4", "5")


def test_slices_and_numbers_keep_two_dimensions():
    for elements, text, shape in (
        ([part("0:4"), number("n")], "t[0:4, n : n + 1]", ("4", "1")),
        ([number("3"), part("2:8")], "t[3, 2:8]", ("6",)),
        ([part("a:a + 3"), part(":")], "t[a:a + 3, :]", ("3", "20")),
        ([part("nl.ds(a, 3)")], "t[nl.ds(a, 3)]", ("3", "20")),
        ([part("0:12:2"), part(":")], "t[0:12:2, :]", None),
        ([part("...")], "t[...]", None),
        ([part(":4"), part("-2:")], "t[:4, -2:]", None),
    ):
        view = taken(elements)
        assert (view.text, view.shape) == (text, shape)
    assert taken([part("0:4"), number("1")], Tensor("psum", "", SHAPE)).text == "t[0:4, 1]"
    assert taken([part("0:4")], Tensor("hbm")).shape is None  # it may have more dimensions


def test_blocks_are_selected_by_numbers():
    blocks = Tensor("sbuf", "", ("128", "20"), blocks=2)
    assert taken([number("i"), number("2")], blocks).text == "t[i, 2]"
    view = taken([number("i"), number("2"), array(P), array(F)], blocks)
    assert (view.text, view.tensor.blocks) == ("t[i, 2][0:4, 0:5]", 0)
    with pytest.raises(CannotError, match="a block dimension may be indexed only by a number: process the blocks one"):
        taken([part(":"), number("2")], blocks)


def test_rows_at_indices_in_sbuf():
    element = Element("which", rows=("n", "1"))
    view = taken([element, array(F.scaled(Sum(2)) + Index(Sum(1)))], Tensor("hbm"), {-2: Clip(Sum(0), Sum(1))})
    assert view.text == (
        "t.ap([[t.strides[0], n], [2 * t.strides[1], 5]], offset=t.offset + t.strides[1], vector_offset=which)"
    )
    assert view.shape == ("n", "5")
    with pytest.raises(CannotError, match=r"a tile cannot be an index: read rows of a tensor in HBM with t.ap"):
        taken([element, array(F)])
    with pytest.raises(CannotError, match="rows that are selected by a tile cannot also"):
        taken([element, array(P)], Tensor("hbm"))


@pytest.mark.parametrize(
    ("elements", "clips", "why"),
    [
        ([array(P), part("0:4")], None, "index arrays and slices cannot be combined in one subscript"),
        ([array(P.scaled(Sum(-1))), array(F)], None, "an index cannot count down"),
        ([array(P), array(grid(5, 5)[0])], None, "index arrays along one axis must have the same size"),
        ([part("...")], {-2: Clip(Sum(0), Sum(2))}, "a mask on slices of a tile of unknown rank"),
        ([part("0:4:2")], {-2: Clip(Sum(0), Sum(2))}, "a mask on a slice with a step or from the end"),
        ([part("0:4")], {-3: Clip(Sum(0), Sum(2))}, "a mask cannot have more axes than the tile"),
    ],
)
def test_indices_without_a_counterpart_are_refused(elements, clips, why):
    with pytest.raises(CannotError, match=why):
        taken(elements, clips=clips)


@pytest.mark.parametrize(
    ("elements", "clips", "text", "full"),
    [
        ([part("0:4"), part(":")], {-2: Clip(Sum(0), Sum(3))}, "t[0:3, :]", ("4", "20")),
        ([part("2:6")], {-1: Clip(Sum(1), Sum(5))}, "t[2:6, 1:6]", ("4", "20")),
        ([part("nl.ds(s, 4)"), part("0:n")], {-2: Clip(Sum(0), Sum.of("m"))}, "t[s : s + m, 0:n]", ("4", "n")),
        ([number("3"), part("0:4")], {-1: Clip(Sum(0), Sum(2))}, "t[3, 0:2]", ("4",)),
    ],
)
def test_slices_under_a_mask(elements, clips, text, full):
    view = taken(elements, clips=clips)
    assert (view.text, view.full) == (text, full)


def test_a_whole_tile_under_a_mask():
    rows, columns = {-2: Clip(Sum(0), Sum.of("n"))}, {-1: Clip(Sum(1), Sum(4))}
    known, unknown = Result("t", Tensor("sbuf", "", SHAPE)), Result("t", Tensor("sbuf"))
    assert clip_whole(known, rows).text == clip_whole(unknown, rows).text == "t[0:n]"
    assert clip_whole(known, columns).text == "t[:, 1:5]"
    assert clip_whole(known, {**rows, **columns}).shape == ("n", "4") and clip_whole(known, rows).full == SHAPE
    column = Result("t", Tensor("sbuf", "", ("12", "1")))
    assert clip_whole(column, {**rows, **columns}).text == "t[0:n]"  # a mask does not affect a single element
    assert clip_whole(column, columns).text == "t"


def test_small_things():
    assert slice_text("0", "n") == "0:n" and slice_text("0", "n + 1") == "0 : n + 1"
    assert is_advanced([part(":"), array(P)]) and not is_advanced([part(":"), number("n")])
