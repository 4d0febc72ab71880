"""Tiles and row groups cover an axis exactly once."""

import math
import warnings

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import on
from nki_tensors import tile as tile_of
from trninfer import simulator
from trninfer.kernels.tiling.tiles import PARTITIONS, copy_by_hardware, even_tiles, reshaped, row_groups, tiles
from trninfer.simulator.machine.errors import ReportedOnChipWarning


@given(extent=st.integers(1, 2000), size=st.integers(1, 600))
def test_tiles_cover_the_axis_in_order(extent: int, size: int) -> None:
    cover = tiles(extent, size)
    assert [position for tile in cover for position in range(tile.start, tile.end)] == list(range(extent))
    assert [tile.index for tile in cover] == list(range(len(cover)))
    assert all(tile.size == tile.end - tile.start == size for tile in cover[:-1])
    assert 0 < cover[-1].size <= size


@given(extent=st.integers(1, 2000), most=st.integers(1, 600))
def test_even_tiles_are_as_few_as_possible_and_nearly_equal(extent: int, most: int) -> None:
    cover = even_tiles(extent, most)
    assert [position for tile in cover for position in range(tile.start, tile.end)] == list(range(extent))
    assert len(cover) == -(-extent // most)
    assert max(tile.size for tile in cover) <= most
    assert all(tile.size == cover[0].size for tile in cover[:-1])


@given(rows=st.integers(1, 5000), rows_per_partition=st.integers(1, 40))
def test_row_groups_cover_the_rows_and_fill_the_partitions(rows: int, rows_per_partition: int) -> None:
    groups = row_groups(rows, rows_per_partition)
    assert [row for group in groups for row in range(group.start, group.end)] == list(range(rows))
    for group in groups:
        assert group.end - group.start == group.partitions * group.rows
        assert group.rows <= rows_per_partition
    assert all(group.partitions == PARTITIONS for group in groups[:-1])
    assert groups[-1].partitions == PARTITIONS or groups[-1].rows == 1


@given(st.integers(1, 2), st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_a_reshaped_view_is_what_reshape_makes(partitions: int, free: list[int], data: st.DataObject) -> None:
    """A single partition is viewed without `reshape`, whose view the back end of the compiler rejects."""
    left, wanted = math.prod(free), []
    while left > 1:
        wanted.append(data.draw(st.sampled_from([each for each in range(1, left + 1) if left % each == 0])))
        left //= wanted[-1]
        if len(wanted) == 3:
            wanted.append(left)
            break
    shape = (partitions, *(wanted or [1]))
    numbers = np.arange(math.prod((partitions, *free)), dtype=np.float32).reshape((partitions, *free))
    with on("trn2"), warnings.catch_warnings():
        warnings.simplefilter("error", ReportedOnChipWarning)
        view = reshaped(tile_of(numbers), shape)
        assert view.shape == shape
        np.testing.assert_array_equal(view.values, numbers.reshape(shape))


def test_many_partitions_ask_for_hardware_descriptors_whatever_the_batch() -> None:
    """The image of a batch of 1 is an argument, which the compiler would assign to GpSimd; a single row is converted
    first."""

    @nki.jit
    def moved(image, row):
        out = nl.ndarray((1, 3, 40), dtype=image.dtype, buffer=nl.shared_hbm)
        many = nl.ndarray((3, 40), dtype=image.dtype, buffer=nl.sbuf)
        one = nl.ndarray((1, 40), dtype=image.dtype, buffer=nl.sbuf)
        copy_by_hardware(dst=many, src=image)
        copy_by_hardware(dst=one, src=row)
        nisa.tensor_copy(dst=many[0:1, :], src=one)
        copy_by_hardware(dst=out, src=many)
        return out

    run = simulator.run(
        moved, simulator.TensorSpec((1, 3, 40), "float32"), simulator.TensorSpec((1, 40), "float32"), functional=False
    )
    made = [(dma.partitions, dma.dge, dma.software) for i in run.program if (dma := i.dma) is not None]
    assert made == [(3, True, False), (1, False, False), (3, True, False)]
