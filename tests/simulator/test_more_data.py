"""Statistics, gathers, searches, shuffles, random numbers and DMA sums, against NumPy."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.simulator import NkiValidationError, OutOfBoundsError
from trninfer.simulator.core import NeuronCore, running
from trninfer.simulator.targets import find_target

FREE = st.sampled_from([1, 2, 7, 64, 129])


def on(target="trn2"):
    return running(NeuronCore(find_target(target)))


@pytest.fixture
def core():
    core = NeuronCore(find_target("trn3"))
    with running(core):
        yield core


def tile(values, dtype=nl.float32, buffer=nl.sbuf):
    tensor = nl.ndarray(np.shape(values), dtype, buffer)
    tensor.write(np.asarray(values))
    return tensor


def like(tensor, dtype=None):
    return nl.ndarray(tensor.shape, dtype or tensor.dtype)


def uniform(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def integers(high, *shape, seed=0):
    return np.random.default_rng(seed).integers(0, high, shape)


# Statistics


@given(free=st.integers(1, 1300), dtype=st.sampled_from([nl.float32, nl.bfloat16]))
def test_bn_stats_and_bn_aggr_give_mean_and_variance(free, dtype):
    with on():
        data = tile(uniform(5, free) + 3, dtype)
        pieces = -(-free // 512)
        stats, result = nl.ndarray((5, 6 * pieces), nl.float32), nl.ndarray((5, 2), nl.float32)
        for piece in range(pieces):
            part = data[:, piece * 512 : min(free, piece * 512 + 512)]
            nisa.bn_stats(stats[:, piece * 6 : piece * 6 + 6], part)
        nisa.bn_aggr(result, stats)
        np.testing.assert_allclose(result.values[:, 0], data.values.mean(axis=1), rtol=1e-5)
        np.testing.assert_allclose(result.values[:, 1], data.values.var(axis=1), rtol=1e-4, atol=1e-6)


def test_bn_stats_separates_even_and_odd_elements(core):
    data, stats = tile([[1.0, 10.0, 3.0, 30.0, 5.0]]), nl.ndarray((1, 6), nl.float32)
    nisa.bn_stats(stats, data)
    assert np.array_equal(stats.values, [[3, 3, 8, 2, 20, 200]])


def test_limits_of_statistics(core):
    with pytest.raises(NkiValidationError, match="at most 512"):
        nisa.bn_stats(nl.ndarray((4, 6), nl.float32), tile(uniform(4, 513)))
    with pytest.raises(NkiValidationError, match="6 elements"):
        nisa.bn_stats(nl.ndarray((4, 5), nl.float32), tile(uniform(4, 8)))
    with pytest.raises(NkiValidationError, match="multiple of 3"):
        nisa.bn_aggr(nl.ndarray((4, 2), nl.float32), tile(uniform(4, 8)))
    with pytest.raises(NkiValidationError, match="2 elements"):
        nisa.bn_aggr(nl.ndarray((4, 3), nl.float32), tile(uniform(4, 6)))


@given(
    partitions=st.sampled_from([1, 3, 64, 128]),
    free=FREE,
    case=st.sampled_from([(nl.add, np.sum), (nl.average, np.mean), (nl.maximum, np.max)]),
)
def test_tensor_partition_reduce(partitions, free, case):
    op, expected = case
    with on():
        data, dst = tile(uniform(partitions, free)), nl.ndarray((1, free), nl.float32)
        nisa.tensor_partition_reduce(dst, op, data)
        np.testing.assert_allclose(dst.values[0], expected(data.values, axis=0), rtol=1e-4, atol=1e-5)


def test_tensor_partition_reduce_of_bits_and_its_limits(core):
    data, dst = tile(integers(16, 128, 4), nl.int32), nl.ndarray((1, 4), nl.int32)
    nisa.tensor_partition_reduce(dst, nl.bitwise_or, data)
    assert np.array_equal(dst.values[0], np.bitwise_or.reduce(data.values, axis=0))
    with pytest.raises(NkiValidationError, match=r"op=nl.multiply is not allowed"):
        nisa.tensor_partition_reduce(dst, nl.multiply, data)
    with pytest.raises(NkiValidationError, match="takes integers"):
        nisa.tensor_partition_reduce(nl.ndarray((1, 4), nl.float32), nl.bitwise_or, data)
    with pytest.raises(NkiValidationError, match="1 partition"):
        nisa.tensor_partition_reduce(nl.ndarray((2, 4), nl.int32), nl.add, data)
    with pytest.raises(NkiValidationError, match="must be in SBUF"):
        nisa.tensor_partition_reduce(dst, nl.add, tile(uniform(4, 4), buffer=nl.psum))


# Gathers and shuffles


@given(free=FREE, count=st.sampled_from([1, 5, 600]), dtype=st.sampled_from([nl.float32, nl.int8, nl.bfloat16]))
def test_nc_n_gather(free, count, dtype):
    with on():
        data, index = tile(integers(100, 9, free), dtype), tile(integers(free, 9, count, seed=1), nl.uint32)
        dst = nl.ndarray((9, count), dtype)
        nisa.nc_n_gather(dst, data, index)
        assert np.array_equal(dst.values, np.take_along_axis(data.values, index.values.astype(int), axis=1))


@given(groups=st.integers(1, 8), columns=st.integers(1, 4), each=st.sampled_from([1, 2, 4]), left=st.integers(0, 15))
def test_local_gather(groups, columns, each, left):
    with on():
        partitions, count = 16 * groups, 16 * columns - left
        data = tile(uniform(partitions, 40))
        index = tile(integers(40 - each, partitions, columns, seed=1), nl.uint16)
        dst = nl.ndarray((partitions, count, each), nl.float32)
        nisa.local_gather(dst, data, index, each, count)
        for group in range(groups):
            rows = slice(16 * group, 16 * group + 16)
            flat = index.values[rows].flatten(order="F")[:count].astype(int)
            expected = np.stack([data.values[rows, k : k + each] for k in flat], axis=1)
            assert np.array_equal(dst.values[rows], expected)


def test_limits_of_gathers(core):
    data, index = tile(uniform(16, 8)), tile(integers(8, 16, 1), nl.uint32)
    with pytest.raises(NkiValidationError, match="must be uint32"):
        nisa.nc_n_gather(nl.ndarray((16, 1), nl.float32), data, tile(integers(8, 16, 1), nl.int32))
    with pytest.raises(NkiValidationError, match="dtype of data"):
        nisa.nc_n_gather(nl.ndarray((16, 1), nl.bfloat16), data, index)
    with pytest.raises(OutOfBoundsError, match=r"index 8 .* allowed 0 to 7"):
        nisa.nc_n_gather(nl.ndarray((16, 1), nl.float32), data, tile(np.full((16, 1), 8), nl.uint32))
    short = tile(integers(8, 16, 1), nl.uint16)
    with pytest.raises(NkiValidationError, match="multiple of 16 partitions"):
        nisa.local_gather(nl.ndarray((8, 16), nl.float32), data[:8], short[:8])
    with pytest.raises(NkiValidationError, match="num_elem_per_idx 3"):
        nisa.local_gather(nl.ndarray((16, 48), nl.float32), data, short, 3)
    with pytest.raises(NkiValidationError, match="17 indices"):
        nisa.local_gather(nl.ndarray((16, 17), nl.float32), data, short, 1, 17)
    with pytest.raises(NkiValidationError, match="must have 16 elements"):
        nisa.local_gather(nl.ndarray((16, 15), nl.float32), data, short)
    with pytest.raises(NkiValidationError, match="must be uint16"):
        nisa.local_gather(nl.ndarray((16, 16), nl.float32), data, index)


@given(quadrants=st.integers(1, 4), seed=st.integers(0, 5))
def test_nc_stream_shuffle(quadrants, seed):
    with on():
        partitions = 32 * quadrants
        mask = [int(lane) for lane in integers(32, 32, seed=seed)]
        mask[3] = 255
        src, dst = tile(uniform(partitions, 5)), tile(uniform(partitions, 5, seed=9))
        expected = dst.values.copy()
        for partition in range(partitions):
            if partition % 32 != 3:
                expected[partition] = src.values[partition - partition % 32 + mask[partition % 32]]
        nisa.nc_stream_shuffle(dst, src, mask)
        assert np.array_equal(dst.values, expected)


def test_shuffle_in_place_and_from_one_partition(core):
    data = tile(uniform(32, 4))
    before = data.values.copy()
    nisa.nc_stream_shuffle(data, data, [(i + 1) % 32 for i in range(32)])
    assert np.array_equal(data.values, np.roll(before, -1, axis=0))
    spread = nl.ndarray((32, 4), nl.float32)
    nisa.nc_stream_shuffle(spread, data[0:1], [0] * 32)
    assert np.array_equal(spread.values, np.tile(data.values[0], (32, 1)))


def test_limits_of_shuffle(core):
    data = tile(uniform(128, 4))
    with pytest.raises(NkiValidationError, match="32 elements, each 0 to 31 or 255"):
        nisa.nc_stream_shuffle(like(data), data, [32] + [0] * 31)
    with pytest.raises(NkiValidationError, match="dtype of src"):
        nisa.nc_stream_shuffle(like(data, nl.bfloat16), data, [0] * 32)
    with pytest.raises(NkiValidationError, match="reads partition 5"):
        nisa.nc_stream_shuffle(nl.ndarray((32, 4), nl.float32), data[0:5], [5] * 32)
    with pytest.raises(NkiValidationError, match="starts at partition 32"):
        nisa.nc_stream_shuffle(nl.ndarray((64, 4), nl.float32), data[32:64], [0] * 32)


# Searches


def test_nc_match_replace8_takes_equal_values_in_turn(core):
    data = tile([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]])
    vals, dst, index = tile([[3, 8, 8, 8, 8, 8, 8, 8]]), like(data), nl.ndarray((1, 8), nl.uint32)
    nisa.nc_match_replace8(dst, data, vals, -1.0, index)
    assert np.array_equal(index.values, [[2, 10, 9, 8, 7, 6, 5, 4]])
    assert np.array_equal(dst.values, [[1, 2, -1, 4, -1, -1, -1, -1, -1, -1, -1]])


@given(free=st.integers(8, 60), high=st.sampled_from([4, 1000]))
def test_match_replace_after_max8_finds_the_next_largest(free, high):
    with on():
        data = tile(integers(high, 6, free).astype(np.float32))
        top, rest, index = nl.ndarray((6, 8), nl.float32), like(data), nl.ndarray((6, 8), nl.uint16)
        nisa.max8(top, data)
        nisa.nc_match_replace8(rest, data, top, -1.0, index)
        positions = np.argsort(-data.values, axis=1, kind="stable")[:, :8]
        assert np.array_equal(np.sort(index.values, axis=1), np.sort(positions, axis=1))
        expected = data.values.copy()
        np.put_along_axis(expected, positions, -1, axis=1)
        assert np.array_equal(rest.values, expected)


def test_match_replace_marks_what_is_missing(core):
    data, index = tile(np.arange(8.0)[None]), nl.ndarray((1, 8), nl.uint16)
    nisa.nc_match_replace8(like(data), data, tile([[9, 1, 1, 2, 3, 4, 5, 6]]), 0.0, index)
    assert np.array_equal(index.values, [[0xFFFF, 0xFFFF, 1, 2, 3, 4, 5, 6]])
    with pytest.raises(NkiValidationError, match="uint32 or uint16"):
        nisa.nc_match_replace8(like(data), data, data, 0.0, like(data, nl.int32))
    with pytest.raises(NkiValidationError, match="8 to 16384"):
        nisa.nc_match_replace8(nl.ndarray((1, 7), nl.float32), data[:, :7], data, 0.0)
    with pytest.raises(NkiValidationError, match="8 elements"):
        nisa.nc_match_replace8(like(data), data, data[:, :7], 0.0)


@given(groups=st.integers(1, 2), n=st.integers(8, 60), data=st.data())
def test_topk(groups, n, data):
    count = data.draw(st.integers(1, n))
    columns = -(-n // 16)
    with on():
        source = tile(integers(50, 16 * groups, columns), nl.bfloat16)
        values, index = nl.ndarray((16 * groups, count), nl.bfloat16), nl.ndarray((16 * groups, count), nl.uint32)
        nisa.topk(values, index, source, n)
        for group in range(groups):
            rows = slice(16 * group, 16 * group + 16)
            snake = source.values[rows].flatten(order="F")[:n]
            assert np.array_equal(values.values[rows], np.tile(np.sort(snake)[n - count :], (16, 1)))
            assert np.array_equal(snake[index.values[rows]], values.values[rows])
            assert all(len(set(row)) == count for row in index.values[rows].tolist())


def test_limits_of_topk(core):
    source, values, index = (
        tile(uniform(16, 2), nl.bfloat16),
        nl.ndarray((16, 4), nl.bfloat16),
        nl.ndarray((16, 4), nl.uint32),
    )
    for n in (7, 33):
        with pytest.raises(NkiValidationError, match="n must be 8 to 65535"):
            nisa.topk(values, index, source, n)
    with pytest.raises(NkiValidationError, match=r"src .* must be bfloat16"):
        nisa.topk(values, index, like(source, nl.float32), 16)
    with pytest.raises(NkiValidationError, match="allowed 1 to 8"):
        nisa.topk(nl.ndarray((16, 9), nl.bfloat16), nl.ndarray((16, 9), nl.uint32), source, 8)
    with pytest.raises(NkiValidationError, match="multiple of 16"):
        nisa.topk(values[:8], index[:8], source[:8], 16)


def test_nonzero_with_count(core):
    source = tile(np.tile([0, 1, 1, 0, 0, 1, 0, 0], (32, 1)), nl.int32)
    dst = tile(np.full((32, 9), 77), nl.int32)
    nisa.nonzero_with_count(dst, source, 16)
    expected = np.full((32, 9), 77)
    expected[[0, 16]] = [17, 18, 21, -1, -1, -1, -1, -1, 3]
    assert np.array_equal(dst.values, expected)
    with pytest.raises(NkiValidationError, match="9 elements"):
        nisa.nonzero_with_count(dst[:, :8], source)
    with pytest.raises(NkiValidationError, match="float32 or int32"):
        nisa.nonzero_with_count(dst, like(source, nl.int16))
    with on("trn1"), pytest.raises(NkiValidationError, match="NeuronCore-v3"):
        nisa.nonzero_with_count(dst, source)


def test_sequence_bounds(core):
    ids = tile([[0, 1, 1, 2, 2, 2, 0, 3, 3]], nl.int32)
    dst = nl.ndarray((1, 2, 9), nl.int32)
    nisa.sequence_bounds(dst, ids)
    assert np.array_equal(dst.values[0], [[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]])
    with pytest.raises(NkiValidationError, match="of shape"):
        nisa.sequence_bounds(nl.ndarray((1, 9, 2), nl.int32), ids)
    with pytest.raises(NkiValidationError, match="float32 or int32"):
        nisa.sequence_bounds(dst, like(ids, nl.uint32))


# Random numbers


def test_rng_repeats_for_a_seed_and_fills_the_range(core):
    seed, first, second = tile([[42]], nl.int32), nl.ndarray((128, 512), nl.uint8), nl.ndarray((128, 512), nl.uint8)
    nisa.set_rng_seed(seed)
    nisa.rng(first)
    nisa.rng(second)
    assert not np.array_equal(first.values, second.values)
    nisa.set_rng_seed(seed)
    nisa.rng(second)
    assert np.array_equal(first.values, second.values)
    counts = np.bincount(first.values.reshape(-1), minlength=256)
    assert counts.min() > 180 and counts.max() < 340  # 256 expected, standard deviation 16
    assert abs(np.corrcoef(first.values[:, :-1].ravel(), first.values[:, 1:].ravel())[0, 1]) < 0.02


@given(words=st.lists(st.integers(0, 2**32 - 1), min_size=6, max_size=6))
def test_the_generator_is_xorwow(words):
    with on("trn2"):
        nisa.rand_set_state(tile([words], nl.uint32))
        dst, state = nl.ndarray((1, 3), nl.uint32), nl.ndarray((1, 6), nl.uint32)
        nisa.rng(dst, nisa.engine.gpsimd)
        nisa.rand_get_state(state)
        x, y, z, w, v, d = words
        for value in dst.values[0]:
            t = x ^ (x >> 2)
            x, y, z, w = y, z, w, v
            v = ((v ^ (v << 4)) ^ (t ^ (t << 1))) % 2**32
            d = (d + 362437) % 2**32
            assert value == (d + v) % 2**32
        assert state.values[0].tolist() == [x, y, z, w, v, d]


def test_dropout(core):
    data, chance = tile(np.ones((128, 400))), tile(np.linspace(0, 1, 128, dtype=np.float32)[:, None])
    dst = like(data)
    nisa.dropout(dst, data, chance)
    share = 1 - dst.values.mean(axis=1)
    assert share[0] == 0 and share[-1] == 1 and np.abs(share - chance.values[:, 0]).max() < 0.12
    with pytest.raises(NkiValidationError, match="0 to 1"):
        nisa.dropout(dst, data, 1.5)
    with pytest.raises(NkiValidationError, match="dtype of data"):
        nisa.dropout(like(data, nl.bfloat16), data, 0.5)


def test_rand2_is_uniform_between_its_bounds(core):
    dst, low = nl.ndarray((128, 500), nl.float32), tile(np.arange(128.0)[:, None])
    nisa.rand2(dst, low, 200.0)
    assert (dst.values >= low.values).all() and (dst.values <= 200).all()
    assert np.abs(dst.values.mean(axis=1) - (low.values[:, 0] + 200) / 2).max() < 12
    with pytest.raises(NkiValidationError, match="must be less than"):
        nisa.rand2(dst, 1.0, 1.0)


def test_limits_of_random_numbers():
    with on("trn1"):
        with pytest.raises(NkiValidationError, match="gpsimd cannot run it"):
            nisa.rng(nl.ndarray((4, 4), nl.int32), nisa.engine.gpsimd)
        with pytest.raises(NkiValidationError, match="NeuronCore-v3"):
            nisa.rand_get_state(nl.ndarray((4, 6), nl.uint32))
    with on("trn2"):
        with pytest.raises(NkiValidationError, match="must be one of int8"):
            nisa.rng(nl.ndarray((4, 4), nl.float32))
        with pytest.raises(NkiValidationError, match="NeuronCore-v4"):
            nisa.rand2(nl.ndarray((4, 4), nl.float32), 0.0, 1.0)
        with pytest.raises(NkiValidationError, match="vector cannot run it"):
            nisa.rand_set_state(nl.zeros((4, 24), nl.uint32), nisa.engine.vector)
        with pytest.raises(NkiValidationError, match="6 elements"):
            nisa.rand_set_state(nl.zeros((4, 24), nl.uint32))
        with pytest.raises(NkiValidationError, match=r"\[1, 1\]"):
            nisa.set_rng_seed(nl.zeros((1, 2), nl.uint32))


# DMA sums


@given(count=st.integers(1, 16), dtype=st.sampled_from([nl.float32, nl.bfloat16]))
def test_dma_compute_adds(count, dtype):
    with on():
        sources = [tile(uniform(8, 6, seed=seed), dtype, nl.shared_hbm) for seed in range(count)]
        dst = nl.ndarray((8, 6), nl.float32)
        nisa.dma_compute(dst, sources, nl.add, [1.0] * count)
        np.testing.assert_allclose(dst.values, sum(s.values for s in sources), rtol=1e-5, atol=1e-5)


def test_dma_compute_scatters_and_gathers(core):
    table, rows = tile(uniform(10, 6), buffer=nl.shared_hbm), tile(uniform(3, 6, seed=1))
    index, before = tile([[7], [0], [4]], nl.int32), table.values.copy()
    view = table.vector_select(0, index)
    nisa.dma_compute(view, [view, rows], nl.add)
    expected = before.copy()
    expected[[7, 0, 4]] += rows.values
    np.testing.assert_allclose(table.values, expected)
    start = rows.values.copy()
    nisa.dma_compute(rows, [rows, table.vector_select(0, index)], nl.add)
    np.testing.assert_allclose(rows.values, start + expected[[7, 0, 4]], rtol=1e-6)


def test_dma_compute_skips_what_is_out_of_bounds(core):
    table, rows = tile(uniform(10, 6), buffer=nl.shared_hbm), tile(uniform(3, 6, seed=1))
    view = table.vector_select(0, tile([[7], [10], [4]], nl.int32))
    with pytest.raises(OutOfBoundsError, match="index 10"):
        nisa.dma_compute(view, [view, rows], nl.add)
    expected = table.values.copy()
    expected[[7, 4]] += rows.values[[0, 2]]
    nisa.dma_compute(view, [view, rows], nl.add, oob_mode=nisa.oob_mode.skip)
    np.testing.assert_allclose(table.values, expected)


def test_limits_of_dma_compute(core):
    a, dst = tile(uniform(4, 8), buffer=nl.shared_hbm), nl.ndarray((4, 8), nl.float32)
    with pytest.raises(NkiValidationError, match=r"reduce_op must be nl.add"):
        nisa.dma_compute(dst, [a, a], nl.multiply)
    with pytest.raises(NkiValidationError, match="1 to 16 srcs"):
        nisa.dma_compute(dst, [a] * 17, nl.add)
    with pytest.raises(NkiValidationError, match="scales must be"):
        nisa.dma_compute(dst, [a, a], nl.add, [1.0, 2.0])
    with pytest.raises(NkiValidationError, match="must have the 32 elements"):
        nisa.dma_compute(dst, [a[:, :4]], nl.add)
    view = a.vector_select(0, tile(np.zeros((4, 1)), nl.int32))
    with pytest.raises(NkiValidationError, match="2 srcs of which one is indirect"):
        nisa.dma_compute(dst, [view], nl.add)
    with pytest.raises(NkiValidationError, match="unique_indices"):
        nisa.dma_compute(dst, [dst, view], nl.add, unique_indices=False)
