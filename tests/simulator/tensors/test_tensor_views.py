"""View operations of NkiTensor, compared with NumPy's, and the additional rules of the chip."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import counted, tile
from trninfer.simulator import NkiValidationError, OutOfBoundsError
from trninfer.simulator.instructions.core import NeuronCore, running
from trninfer.simulator.machine.chip import find_target


@pytest.fixture
def core():
    core = NeuronCore(find_target("trn2"))
    with running(core):
        yield core


def filled(shape, buffer=nl.sbuf, dtype=nl.float32):
    tensor = nl.ndarray(shape, dtype, buffer)
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    tensor.write(values)
    return tensor, values


def test_fresh_tensor_has_row_major_strides(core):
    t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    assert (t.shape, t.strides, t.offset, t.dtype, t.buffer, t.ndim, t.size) == (
        (128, 64),
        (64, 1),
        0,
        nl.float32,
        nl.sbuf,
        2,
        128 * 64,
    )
    assert t.is_contiguous() and not t.is_indirect()
    assert t.get_pattern() == [[64, 128], [1, 64]]


def test_on_chip_indexing_keeps_two_dimensions(core):
    t, values = filled((64, 64, 64))
    assert t[0, 0, 10].shape == (1, 1)
    assert t[:, 0].shape == (64, 64)
    assert t[:, 0, 10].shape == (64, 1)
    assert t[0, ..., :].shape == (1, 64, 64)
    assert t[...].shape == (64, 64, 64)
    np.testing.assert_array_equal(t[:, 0, 10].values, values[:, 0, 10:11])


def test_hbm_indexing_drops_dimensions(core):
    t, values = filled((4, 128, 32), nl.shared_hbm)
    assert t[0].shape == (128, 32)
    assert t[1, 2, 3].shape == (1,)
    np.testing.assert_array_equal(t[1, 5].values, values[1, 5])


@st.composite
def slices(draw, extent):
    start = draw(st.integers(0, extent - 1))
    stop = draw(st.integers(start + 1, extent))
    return slice(start, stop, draw(st.integers(1, 3)))


@given(st.data())
def test_slicing_is_numpys(data):
    with running(NeuronCore(find_target("trn2"))):
        shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=2, max_size=4)))
        t, values = filled(shape, nl.shared_hbm)
        keys = tuple(data.draw(slices(extent)) for extent in shape)
        np.testing.assert_array_equal(t[keys].values, values[keys])
        step_one = (slice(keys[0].start, keys[0].stop), *keys[1:])
        on_chip, _ = filled(shape)
        np.testing.assert_array_equal(on_chip[step_one].values, values[step_one])


@given(st.data())
def test_permute_reshape_and_split_are_numpys(data):
    with running(NeuronCore(find_target("trn2"))):
        p, a, b = (data.draw(st.integers(1, 6)) for _ in range(3))
        t, values = filled((p, a, b))
        np.testing.assert_array_equal(t.permute((0, 2, 1)).values, values.transpose(0, 2, 1))
        np.testing.assert_array_equal(t.reshape((p, a * b)).values, values.reshape(p, a * b))
        np.testing.assert_array_equal(t.flatten_dims(1, 2).reshape_dim(1, (b, -1)).values, values.reshape(p, b, a))
        np.testing.assert_array_equal(
            t.rearrange(("p", "a", "b"), ("p", ("b", "a"))).values
            if a == 1 or b == 1
            else t.permute((0, 2, 1)).values.reshape(p, -1),
            values.transpose(0, 2, 1).reshape(p, -1),
        )
        np.testing.assert_array_equal(
            t.expand_dim(1).broadcast(1, 3).values, np.broadcast_to(values[:, None], (p, 3, a, b))
        )
        np.testing.assert_array_equal(t.select(2, b - 1).values, values[:, :, b - 1])
        np.testing.assert_array_equal(
            t.slice(1, 0, a).squeeze_dim(1).values if a == 1 else t.values, values[:, 0] if a == 1 else values
        )


def test_rearrange_splits_and_reorders(core):
    t, values = filled((4, 24))
    turned = t.rearrange(("b", ("h", "w")), ("b", "w", "h"), {"h": 4})
    assert turned.shape == (4, 6, 4)
    np.testing.assert_array_equal(turned.values, values.reshape(4, 4, 6).transpose(0, 2, 1))


def test_views_share_storage(core):
    t = nl.zeros((128, 64), nl.float32)
    nisa.memset(dst=t.reshape((128, 8, 8))[:, 2:4], value=1.0)
    assert t.values[:, 16:32].all() and t.values.sum() == 128 * 16


def test_ap_reads_an_explicit_pattern(core):
    t, values = filled((16, 16))
    np.testing.assert_array_equal(t.ap(pattern=[[16, 16], [1, 8]], offset=8).values, values[:, 8:])
    np.testing.assert_array_equal(t.ap(pattern=[(16, 16), (2, 8)]).values, values[:, ::2])
    # it addresses the storage rather than the view
    np.testing.assert_array_equal(t.ap([[16, 16], [2, 8]]).ap([[16, 16], [1, 4]]).values, values[:, :4])


def test_ds_is_a_start_and_a_size(core):
    t, values = filled((8, 16))
    np.testing.assert_array_equal(t[nl.ds(2, 3), nl.ds(5, 4)].values, values[2:5, 5:9])


@pytest.mark.parametrize("other,ratio", [("uint8", 4), ("int32", 1), ("bfloat16", 2)])
def test_view_reinterprets_bits(core, other, ratio):
    t, values = filled((4, 8))
    seen = t.view(other)
    assert seen.shape == (4, 8 * ratio)
    if other != "bfloat16":
        np.testing.assert_array_equal(seen.values, values.view(other))
        np.testing.assert_array_equal(seen.view("float32").values, values)
    seen.write(np.zeros(seen.shape, np.float32))
    assert not t.values.any()


def test_view_of_sixteen_bit_floats_sees_their_true_bits(core):
    t, _ = filled((2, 4), dtype=nl.bfloat16)
    np.testing.assert_array_equal(t.view("uint16").values[0], [0x0000, 0x3F80, 0x4000, 0x4040])
    np.testing.assert_array_equal(t.values[0], [0, 1, 2, 3])


@pytest.mark.parametrize(
    "wrong,text",
    [
        (lambda t: t[0:65], "0:64"),
        (lambda t: t[:, 8], "out of bounds"),
        (lambda t: t[:, -9], "out of bounds"),
        (lambda t: t[0, 0, 0], "3 indices for 2"),
        (lambda t: t[::2], "step"),
        (lambda t: t[:, "a"], "must be an integer"),
        (lambda t: t.permute((1, 0)), "partition"),
        (lambda t: t.reshape((32, 16)), "partition"),
        (lambda t: t.reshape((64, 9)), "does not hold"),
        (lambda t: t.broadcast(1, 4), "must be 1"),
        (lambda t: t.squeeze_dim(1), "must be 1"),
        (lambda t: t.expand_dim(0), "partition"),
        (lambda t: t.select(0, 0), "partition"),
        (lambda t: t.ap([[16, 32], [1, 8]]), "partition stride"),
        (lambda t: t[:, ::2].view("uint8"), "contiguous"),
        (lambda t: t[:, 0:3].view("float64"), "not an NKI data type"),
    ],
)
def test_wrong_views_are_refused(core, wrong, text):
    t = nl.ndarray((64, 8), nl.float32, nl.sbuf, name="tile")
    with pytest.raises(NkiValidationError, match=text):
        wrong(t)


def test_out_of_bounds_is_an_index_error_too(core):
    with pytest.raises(OutOfBoundsError):
        nl.ndarray((64, 8), nl.float32)[64]
    with pytest.raises(IndexError):
        nl.ndarray((64, 8), nl.float32)[64]


def test_a_tile_may_be_assigned_to_a_part_of_another(core):
    """add_buf[0:128, i, 0:512] = nl.load(inp[i]) (nki/migration/index.rst)"""
    t, part = nl.zeros((64, 3, 8), nl.bfloat16), tile(counted(64, 8))
    t[0:64, 1, 0:8] = part
    np.testing.assert_array_equal(t.values[:, 1], tile(counted(64, 8), nl.bfloat16).values)
    assert not t.values[:, [0, 2]].any() and core.program[-1].op == "tensor_copy"


def test_assignment_points_to_instructions(core):
    t = nl.ndarray((64, 8), nl.float32)
    with pytest.raises(NkiValidationError, match="tensor_copy"):
        t[:, 0] = 1.0
    with pytest.raises(NkiValidationError, match="dma_copy"):
        nl.ndarray((64, 8), nl.float32, nl.shared_hbm)[...] = t


def test_a_slice_out_of_bounds_or_backward_is_reported_as_it_is_written(core):
    t = nl.ndarray((64, 8), nl.float32, nl.sbuf, name="tile")
    with pytest.raises(OutOfBoundsError, match=r"tile sbuf\[64, 8\] float32: 4:12 of dimension 1 must lie in 0:8$"):
        t[:, 4:12]
    with pytest.raises(NkiValidationError, match="slices must have a positive step, got -1 in dimension 1"):
        t[:, ::-1]


@pytest.mark.parametrize(
    "view,text",
    [
        (lambda t: t[:, 3:3], r"tile sbuf\[64, 8\] float32: \[:, 3:3\] selects no element"),
        (lambda t: t[8:8], r"\[8:8\] selects no element"),
        (lambda t: t[:, nl.ds(8, 0)], r"\[:, nl.ds\(8, 0\)\] selects no element"),
        (lambda t: t.ap([[8, 64], [1, 9]]), r"\[\[8, 64\], \[1, 9\]\] at offset 0 reaches outside"),
        (lambda t: t.ap([[8, 65], [1, 8]]), "reaches outside"),
        (lambda t: t.ap([[8, 64], [2, 4]], offset=2), "reaches outside"),
    ],
)
def test_a_view_of_nothing_or_beyond_may_be_made_but_not_used(core, view, text):
    """nki-library's output_projection_tkg creates one for a tile past the last and does not use it; cross_entropy, on
    two cores with one row, creates an empty one."""
    t, other = nl.ndarray((64, 8), nl.float32, nl.sbuf, name="tile"), nl.zeros((64, 8), nl.float32)
    made = view(t)
    for use in (
        lambda: nisa.memset(made, 0.0),
        lambda: nisa.tensor_scalar(other, made, nl.add, 1.0),
        lambda: nisa.dma_copy(made, made),
        lambda: made.permute((0, 1)),
        lambda: made.values,
    ):
        with pytest.raises(OutOfBoundsError, match=text):
            use()
