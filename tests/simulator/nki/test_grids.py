"""Tensors in the coordinates of tiles and blocks."""

import math

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import counted, in_hbm, on, tile
from trninfer import simulator
from trninfer.simulator import NkiValidationError


@nki.jit
def copy_tiles(a, tile_shape):
    """The documented example, for any size: partial tiles are clamped."""
    source = nl.tiles(a, tile_shape=tile_shape)
    out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
    target = nl.tiles(out, tile_shape=tile_shape)
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            part = source[i, j]
            buffer = nl.ndarray(part.element_shape, a.dtype, nl.sbuf)
            nisa.dma_copy(dst=buffer.data, src=part.data)
            nisa.dma_copy(dst=target[i, j].data, src=buffer.data)
    return out


@nki.jit
def copy_blocks(a, tile_shape, block_shape):
    """Copy block by block into SBUF, tile by tile within each block."""
    options = {"tile_shape": tile_shape, "block_shape": block_shape}
    source = nl.blocks(a, **options)
    out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
    target = nl.blocks(out, **options)
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            block = source[i, j]
            held = nl.tiles(nl.empty_like(block, buffer=nl.sbuf))
            inside, outside = nl.tiles(block), nl.tiles(target[i, j])
            for row in range(inside.shape[0]):
                nisa.dma_copy(dst=held[row, :].data, src=inside[row, :].data)
                for column in range(inside.shape[1]):
                    nisa.dma_copy(dst=outside[row, column].data, src=held[row, column].data)
    return out


SIZES = st.sampled_from([1, 3, 127, 128, 129, 300])


@given(rows=SIZES, columns=SIZES, height=st.sampled_from([1, 32, 128]), width=st.sampled_from([1, 64, 512]))
def test_tiles_cover_a_tensor_once(rows, columns, height, width):
    with on():
        a = np.zeros((rows, columns))
        grid = nl.tiles(in_hbm(a), tile_shape=(height, width))
        assert grid.shape == (-(-rows // height), -(-columns // width)) and grid.element_shape == a.shape
        assert grid.index_step_elements == (height, width) and grid.tile_shape == (height, width)
        for i in range(min(grid.shape[0], 5)):
            for j in range(min(grid.shape[1], 5)):
                part = grid[i, j]
                expected = a[i * height : (i + 1) * height, j * width : (j + 1) * width].shape
                assert part.element_shape == part.data.shape == expected and part.shape == ()
                assert part.is_remainder == (expected != (height, width))


@pytest.mark.parametrize("shape", [(256, 512), (300, 700), (1, 1), (129, 513)])
def test_kernels_that_copy_by_tiles_and_blocks(shape):
    a = counted(*shape)
    assert np.array_equal(simulator.run(copy_tiles, a, tile_shape=(128, 256)).outputs[0], a)
    run = simulator.run(copy_blocks, a, tile_shape=(128, 256), block_shape=(2, 2), sanitize=True)
    assert np.array_equal(run.outputs[0], a) and not run.findings


def test_rows_columns_slices_and_the_whole(core):
    a = in_hbm(counted(5, 8))
    grid = nl.tiles(a, tile_shape=(2, 3))
    for selection, expected, shape in (
        (grid, np.s_[:, :], (3, 3)),
        (grid[1], np.s_[2:4, :], (3,)),
        (grid[-1, :], np.s_[4:5, :], (3,)),
        (grid[:, 2], np.s_[:, 6:8], (3,)),
        (grid[1:, 0:2], np.s_[2:5, 0:6], (2, 2)),
        (grid[..., 1][0:2], np.s_[0:4, 3:6], (2,)),
        (grid[0][1], np.s_[0:2, 3:6], ()),
    ):
        assert selection.shape == shape and selection.is_data_representable
        np.testing.assert_array_equal(selection.data.values, a.values[expected])
        assert selection.element_shape == selection.data.shape
    assert len(grid) == 3 and grid.dtype == nl.float32 and grid.buffer is nl.shared_hbm
    block = nl.blocks(a, tile_shape=(2, 3), block_shape=(2, 1))
    assert block.shape == (2, 3) and block.block_shape == (2, 1) and block.index_step_elements == (4, 3)
    inside = nl.tiles(block[0, 1])
    assert inside.shape == (2, 1) and nl.blocks(grid[0:2], block_shape=(1, 2)).shape == (2, 2)
    np.testing.assert_array_equal(inside[1, 0].data.values, a.values[2:4, 3:6])


def test_untiled_dimensions_are_processed_in_slabs(core):
    a = in_hbm(counted(2, 3, 4, 6))
    grid = nl.tiles(a, tile_shape=(2, 3))
    assert grid.shape == (2, 3, 2, 2)
    part = grid[1, 2, 1, 0]
    assert part.element_shape == (2, 3)
    np.testing.assert_array_equal(part.data.values, a.values[1, 2, 2:4, 0:3])
    with pytest.raises(NkiValidationError, match="requires an integer index"):
        grid[0:1]


@given(rows=st.sampled_from([1, 96, 128, 200, 300]), columns=st.sampled_from([1, 5, 12]), lead=st.integers(1, 2))
def test_allocated_tiles_in_sbuf_are_apart(rows, columns, lead):
    with on() as core:
        shape = (lead, rows, columns)
        grid = nl.alloc_tiles(tile_shape=(128, 4), element_shape=shape, buffer=nl.sbuf, dtype=nl.float32, name="held")
        assert grid.shape == (lead, -(-rows // 128), -(-columns // 4)) and len(core.allocations) == 1
        values = counted(*shape)
        source = nl.tiles(in_hbm(values), tile_shape=(128, 4))
        for index in np.ndindex(*grid.shape):
            nisa.dma_copy(grid[index].data, source[index].data)
        for index in np.ndindex(*grid.shape):
            assert np.array_equal(grid[index].data.values, source[index].data.values)
            row = grid[index[:2]]
            assert row.is_data_representable and row.data.shape == source[index[:2]].data.shape
        assert grid[0].is_data_representable == (rows <= 128)
        if rows > 128:
            with pytest.raises(NkiValidationError, match="it cannot be viewed as one tensor"):
                _ = grid[0].data


def test_allocated_blocks_and_grids_like_others(core):
    blocks = nl.alloc_blocks(
        tile_shape=(128, 8), block_shape=(2, 2), element_shape=(512, 40), buffer=nl.psum, dtype=nl.float32
    )
    assert blocks.shape == (2, 3) and blocks[1, 2].is_remainder and not blocks[1, 1].is_remainder
    assert nl.tiles(blocks[1, 2]).shape == (2, 1)
    copy = nl.empty_like(blocks[0, 2], dtype=nl.bfloat16, buffer=nl.sbuf)
    assert (copy.shape, copy.block_shape, copy.element_shape) == ((1, 1), (2, 2), (256, 8))
    assert (copy.dtype, copy.buffer) == (nl.bfloat16, nl.sbuf)
    placed = nl.alloc_tiles(
        tile_shape=(64, 4), element_shape=(128, 4), buffer=nl.sbuf, dtype=nl.float32, address=(0, 64)
    )
    assert placed[1, 0].data.access.byte == 64 + 16


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"tile_shape": [128, 4]}, TypeError, "tile_shape must be a tuple of integers"),
        ({"tile_shape": (128, 4.0)}, TypeError, "must be a tuple of integers"),
        ({"tile_shape": (128, True)}, TypeError, "must be a tuple of integers"),
        ({"buffer": "sbuf"}, TypeError, "buffer must be nl.sbuf, .*, got 'sbuf'"),
        ({"tile_shape": (128, 0)}, ValueError, "must have positive entries"),
        ({"tile_shape": (128,)}, ValueError, "at least two dimensions"),
        ({"tile_shape": (1, 128, 4)}, ValueError, "no more dimensions than element_shape"),
        ({"element_shape": (256, -1)}, ValueError, "must have positive entries"),
    ],
)
def test_invalid_grids_are_refused(core, options, kind, message):
    given = {"tile_shape": (128, 4), "element_shape": (256, 8), "buffer": nl.sbuf, "dtype": nl.float32, **options}
    with pytest.raises(kind, match=message):
        nl.alloc_tiles(**given)
    assert not core.program


def test_limits_of_grids(core):
    a, chip = in_hbm(counted(4, 6)), tile(counted(4, 6))
    grid = nl.tiles(a, tile_shape=(2, 3))
    for call, kind, message in (
        (lambda: nl.tiles(a), TypeError, "pass tile_shape if the source is a tensor"),
        (lambda: nl.tiles(3, tile_shape=(2, 3)), TypeError, "must be a tensor or a grid, got int"),
        (
            lambda: nl.tiles(a, tile_shape=(1, 2, 3)),
            ValueError,
            "a tile of 3 dimensions is too large for a tensor of 2",
        ),
        (lambda: nl.tiles(chip, tile_shape=(3,)), ValueError, "must have the 2 dimensions of .*, on chip"),
        (lambda: nl.blocks(a, tile_shape=(2, 3), block_shape=(2,)), ValueError, "block_shape"),
        (lambda: grid[2, 0], IndexError, "coordinate 2 is out of bounds; it must be 0 to 1"),
        (lambda: grid[0, 0, 0], IndexError, "3 coordinates for a grid of 2 dimensions"),
        (lambda: grid[0:0], IndexError, "at least one"),
        (lambda: grid[1.0], TypeError, "must be an integer or a slice, got float"),
        (lambda: grid[nisa.scalar_load(tile([[1]], nl.int32))], NkiValidationError, "index_step_elements"),
        (lambda: list(grid), TypeError, "not iterable"),
        (lambda: nisa.tensor_copy(chip, nl.tiles(chip, tile_shape=(4, 6))), NkiValidationError, "NkiTileGrid"),
    ):
        with pytest.raises(kind, match=message):
            call()


def test_views_take_no_time_and_no_memory(core):
    nl.tiles(in_hbm(counted(4, 6)), tile_shape=(2, 3))[0, :]
    assert not core.program and math.prod(core.allocations[0].identity[2]) == 24 and len(core.allocations) == 1
