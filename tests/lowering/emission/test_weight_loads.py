"""The loads of an operation's weights, compared with the weights that each output tile reads."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.kernels.program import Unit, WeightLoad
from trninfer.kernels.tiling.packing import tile_sizes
from trninfer.lowering.emission.weight_loads import LOAD_BYTES, SHARED_BYTES, placed, tiles_read, weight_loads

SIZES = st.lists(st.sampled_from([1, 16, 32, 100, 128]), min_size=1, max_size=5)


@given(SIZES, SIZES, st.data(), st.sampled_from([1, 2, 9, 49]), st.sampled_from([2, 4]))
def test_every_unit_is_loaded_once_before_it_is_needed(
    rows: list[int], columns: list[int], data: st.DataObject, matrices: int, item_bytes: int
) -> None:
    places = st.integers(0, len(rows) - 1)
    spans = [sorted(data.draw(st.tuples(places, places))) for _ in columns]
    reads = [range(first, last + 1) for first, last in spans]
    loads = weight_loads(rows, columns, reads, matrices, item_bytes)
    assert [load.out_tile for load in loads] == sorted(load.out_tile for load in loads)
    found = []
    for load in loads:
        assert load.elements == sum(unit.elements for unit in load.units) > 0
        first = 0
        for unit in load.units:
            assert unit.first == first and unit.elements == matrices * columns[unit.out_tile]
            assert rows[unit.in_tile] == load.rows
            assert unit.out_tile >= load.out_tile  # loaded with the first tile that needs any part of it
            first += unit.elements
            found.append((unit.out_tile, unit.in_tile))
        assert len(load.units) == 1 or load.elements * item_bytes <= LOAD_BYTES
    assert sorted(found) == [(tile, t) for tile, own in enumerate(reads) for t in own]


def test_small_tiles_of_outputs_share_a_load() -> None:
    (load,) = weight_loads([64], [128, 128, 10], [range(1)] * 3, 9, 2)
    assert [(unit.out_tile, unit.first) for unit in load.units] == [(0, 0), (1, 9 * 128), (2, 2 * 9 * 128)]


def test_large_tiles_are_loads_of_their_own() -> None:
    loads = weight_loads([128, 128], [128, 128], [range(2)] * 2, 49, 4)
    assert [(load.out_tile, len(load.units)) for load in loads] == [(0, 1), (0, 1), (1, 1), (1, 1)]


@given(st.integers(1, 6), st.integers(1, 100), st.integers(1, 100))
def test_groups_read_the_tiles_of_their_channels(groups: int, each_in: int, each_out: int) -> None:
    """Compared with the matrix of a grouped convolution, which has ones where an output reads an input."""
    matrix = np.kron(np.eye(groups), np.ones((each_out, each_in)))
    rows = tile_sizes(groups * each_in, 128)
    columns = tile_sizes(groups * each_out, 128)
    starts = np.cumsum([0, *rows])
    first = 0
    for size in columns:
        outputs = (first, first + size)
        read = matrix[slice(*outputs)].any(axis=0)
        expected = [t for t in range(len(rows)) if read[starts[t] : starts[t + 1]].any()]
        found = tiles_read(rows, (groups * each_in, groups * each_out), groups, outputs)
        assert list(found) == expected if groups > 1 else list(found) == list(range(len(rows)))
        first += size


@pytest.mark.parametrize("rows", [[128], [128, 16], [32, 32, 32]])
def test_without_groups_all_tiles_are_read(rows: list[int]) -> None:
    assert tiles_read(rows, (sum(rows), 300), 1, (128, 256)) == range(len(rows))


@given(st.lists(st.tuples(st.sampled_from([1, 24, 128]), st.integers(1, 2000)), max_size=9), st.sampled_from([2, 4]))
def test_small_loads_share_a_dma(sizes: list[tuple[int, int]], item_bytes: int) -> None:
    """Every load has a separate position in a run of whole partitions, and runs follow one another without gaps."""
    loads = [WeightLoad(0, rows, (Unit(0, 0, 0, elements),)) for rows, elements in sizes]
    found = placed(loads, 5, SHARED_BYTES // item_bytes)
    assert [(load.rows, load.units) for load in found] == [(load.rows, load.units) for load in loads]
    runs = list(dict.fromkeys(load.run for load in found))
    ends = [5, *(run.end for run in runs)]
    assert [run.offset for run in runs] == ends[:-1]
    for run in runs:
        own = [load for load in found if load.run == run]
        assert run.rows == max(load.rows for load in own)
        assert [load.first for load in own] == [sum(each.elements for each in own[:n]) for n in range(len(own))]
        assert run.elements == sum(load.elements for load in own)
        assert len(own) == 1 or run.elements * item_bytes <= SHARED_BYTES
    together = [one.elements + other.elements for one, other in itertools.pairwise(runs)]
    assert all(elements * item_bytes > SHARED_BYTES for elements in together)


@pytest.mark.parametrize(("reach", "expected"), [(0, [1]), (1, [0, 1, 2]), (128, [0, 1, 2]), (129, [0, 1, 2, 3])])
def test_with_a_reach_only_tiles_near_the_outputs_are_read(reach: int, expected: list[int]) -> None:
    assert list(tiles_read([128] * 5, (640, 640), 1, (128, 256), reach)) == expected
