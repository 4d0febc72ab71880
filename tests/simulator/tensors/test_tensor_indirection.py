"""Columns of a tile at offsets stored in SBUF: offset i is index[i % G, i // G] (NkiTensor.indirect)."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki_tensors import counted, indices, new, normal, on, psum, tile
from trninfer.simulator import NkiValidationError, OutOfBoundsError
from trninfer.simulator.machine.errors import UndefinedOnChipWarning


def snake(offsets, group, partitions):
    """Return an index [partitions, K] that contains the offsets in every group of partitions."""
    columns = -(-len(offsets) // group)
    held = np.zeros((group, columns), np.int32)
    for i, offset in enumerate(offsets):
        held[i % group, i // group] = offset
    return indices(np.tile(held, (-(-partitions // group), 1))[:partitions])


@pytest.mark.parametrize("partitions", [1, 3, 16, 127, 128])
@pytest.mark.parametrize("count", [1, 2, 17, 40])
def test_reads_gather_and_writes_scatter(trn3_core, partitions, count):
    if count > partitions < 16:
        count = partitions  # fewer partitions than a group contain fewer offsets
    random = np.random.default_rng(partitions + count)
    data, offsets = normal(partitions, 50), random.permutation(50)[:count]
    index = snake(offsets, 16, partitions)
    gathered = new((partitions, count))
    nisa.tensor_copy(gathered, tile(data).indirect(index, count))
    np.testing.assert_array_equal(gathered.values, data[:, offsets])
    scattered = tile(np.zeros((partitions, 50)))
    nisa.activation(scattered.indirect(index, count), nl.square, gathered)
    expected = np.zeros((partitions, 50), np.float32)
    expected[:, offsets] = data[:, offsets] ** 2
    np.testing.assert_array_equal(scattered.values, expected)


def test_the_whole_index_is_used_by_default(trn3_core):
    data, held = counted(16, 64), np.random.default_rng(0).integers(0, 64, (16, 3))
    view = tile(data).indirect(indices(held, nl.uint32))
    assert view.shape == (16, 48) and view.is_indirect()
    out = new((16, 48))
    nisa.tensor_copy(out, view)
    np.testing.assert_array_equal(out.values, data[:, held.T.reshape(-1)])


TAKEN = {
    "tensor_copy": (lambda d, s: nisa.tensor_copy(d, s), lambda a: a),
    "tensor_tensor": (lambda d, s: nisa.tensor_tensor(d, s, tile(np.ones((32, 3))), nl.add), lambda a: a + 1),
    "tensor_scalar": (lambda d, s: nisa.tensor_scalar(d, s, nl.subtract, 1.0, True), lambda a: 1 - a),
    "tensor_scalar_reduce": (
        lambda d, s: nisa.tensor_scalar_reduce(d, s, nl.add, 1.0, nl.add, new((32, 1))),
        lambda a: a + 1,
    ),
    "tensor_scalar_cumulative": (
        lambda d, s: nisa.tensor_scalar_cumulative(d, s, nl.multiply, nl.add, 1.0),
        lambda a: np.cumsum(a, axis=1, dtype=np.float32),
    ),
    "activation": (lambda d, s: nisa.activation(d, nl.relu, s), lambda a: np.maximum(a, 0)),
    "activation_reduce": (lambda d, s: nisa.activation_reduce(d, nl.abs, s, nl.add, new((32, 1))), np.abs),
    "activate2": (lambda d, s: nisa.activate2(d, nl.copy, s, 2.0, 1.0, nl.multiply, nl.subtract), lambda a: a * 2 - 1),
    "exponential": (lambda d, s: nisa.exponential(d, s), np.exp),
    "tensor_copy_predicated": (
        lambda d, s: nisa.tensor_copy_predicated(d, 5.0, s),
        lambda a: np.where(a != 0, np.float32(5), np.float32(7)),
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_every_instruction_that_the_documentation_names(trn3_core, name):
    run, golden = TAKEN[name]
    data, offsets = np.round(normal(32, 9)), [8, 0, 4]
    source = tile(np.abs(data), nl.uint8) if name == "tensor_copy_predicated" else tile(data)
    index, out = snake(offsets, 16, 32), tile(np.full((32, 5), 7.0))
    run(out.indirect(snake([4, 1, 3], 16, 32), 3), source.indirect(index, 3))
    expected = np.full((32, 5), 7, np.float32)
    expected[:, [4, 1, 3]] = golden(source.values.astype(np.float32)[:, offsets])
    np.testing.assert_allclose(out.values, expected, rtol=1e-6)


def test_reductions_of_columns(trn3_core):
    data, out = counted(20, 9), tile(np.zeros((20, 4)))
    nisa.tensor_reduce(out.indirect(snake([2], 16, 20), 1), nl.add, tile(data).indirect(snake([8, 1], 16, 20), 2), 1)
    np.testing.assert_array_equal(out.values[:, 2], data[:, 8] + data[:, 1])


def test_matmuls_hold_offsets_in_groups_of_32(trn3_core):
    left, right = normal(64, 60), normal(64, 90)
    rows, columns, places = np.arange(0, 60, 2)[:30], np.arange(89, 49, -1), np.arange(0, 80, 2)[::-1]
    out, dense = psum((30, 80)), psum((30, 40))
    stationary = tile(left, nl.bfloat16).indirect(snake(rows, 32, 64), 30)
    moving = tile(right, nl.bfloat16).indirect(snake(columns, 32, 64), 40)
    nisa.nc_matmul(dense, stationary, moving)
    exact = tile(left, nl.bfloat16).values[:, rows].T @ tile(right, nl.bfloat16).values[:, columns]
    np.testing.assert_allclose(dense.values, exact, rtol=1e-4, atol=1e-4)
    index = indices(np.concatenate([places[:30, None], np.pad(places[30:], (0, 20))[:, None]], axis=1))
    with pytest.raises(NkiValidationError, match=r"has 40 columns, but its index .* has 30 offsets"):
        nisa.nc_matmul(out.indirect(index, 40), stationary, moving)


def test_a_scattered_sum_begins_and_accumulates_by_the_element(trn3_core):
    ones, out = tile(np.ones((64, 64)), nl.bfloat16), psum((64, 6))
    for offsets in ([0, 1], [1, 5]):  # column 1 is written twice
        nisa.nc_matmul(out.indirect(snake(offsets, 32, 64), 2), ones, ones[:, 0:2])
    np.testing.assert_array_equal(out.values[:, [0, 1, 5]], np.tile([64.0, 128.0, 64.0], (64, 1)))
    assert np.isnan(out.values[:, [2, 3, 4]]).all()


def test_offsets_are_read_when_an_instruction_runs_and_wait_for_their_writer(trn3_core):
    index, out = snake([3], 16, 16), new((16, 1))
    view = tile(counted(16, 8)).indirect(index, 1)
    written = nisa.memset(index, 5)
    read = nisa.tensor_copy(out, view)
    assert np.array_equal(out.values[:, 0], counted(16, 8)[:, 5])
    assert any(access.overlaps(written.writes[0]) for access in read.reads)


def test_other_offsets_in_other_groups_are_reported(trn3_core):
    index = indices(np.arange(32)[:, None])
    with pytest.warns(UndefinedOnChipWarning, match="the partitions of index .* from 16 contain different offsets"):
        nisa.tensor_copy(new((32, 1)), tile(counted(32, 40)).indirect(index, 1))


def eight(dtype=nl.float32):
    return tile(counted(32, 8), dtype)


def placed(shape, dtype, partition, byte):
    tensor = nl.ndarray(shape, dtype, nl.sbuf, address=(partition, byte))
    nisa.memset(tensor, 0)
    return tensor


def copied(view, **options):
    return nisa.tensor_copy(new(view.shape), view, **options)


WRONG = {
    "outside": (lambda v: copied(v([8])), "index 8 at run time is out of bounds; it must be 0 to 7"),
    "too few": (lambda v: copied(eight().indirect(snake([1], 16, 32))), "specify num_elem"),
    "another operand": (
        lambda v: nisa.tensor_tensor(new((32, 1)), new((32, 1)), v([1]), nl.add),
        "this operand does not support",
    ),
    "a DMA": (lambda v: nisa.dma_copy(new((32, 1)), v([1])), "dma_copy: .* this operand does not support"),
    "another instruction": (lambda v: nisa.reciprocal(new((32, 1)), v([1])), "reciprocal: .* does not support"),
    "GpSimd": (lambda v: copied(v([1]), engine=nisa.engine.gpsimd), "use vector or scalar"),
    "into PSUM": (
        lambda v: nisa.activation(psum((32, 8)).indirect(snake([1], 16, 32), 1), nl.copy, new((32, 1))),
        "Scalar Engine can only scatter into SBUF",
    ),
    "float32 matmul": (
        lambda v: nisa.nc_matmul(psum((1, 4)), eight().indirect(snake([1], 32, 32), 1), tile(counted(32, 4))),
        "must be one of float16, bfloat16",
    ),
    "a tile of the array": (
        lambda v: nisa.nc_matmul(
            psum((1, 4)),
            eight(nl.bfloat16).indirect(snake([1], 32, 32), 1),
            tile(counted(32, 4), nl.bfloat16),
            tile_position=(32, 0),
            tile_size=(32, 128),
        ),
        r"tile_position must be \(0, 0\)",
    ),
    "index in the middle": (
        lambda v: copied(placed((16, 8), nl.float32, 0, 0).indirect(placed((48, 1), nl.int32, 0, 64)[16:32], 1)),
        "starts at partition 16; it must start at a multiple of 32",
    ),
    "apart": (
        lambda v: copied(placed((16, 8), nl.float32, 32, 0).indirect(placed((16, 1), nl.int32, 0, 64), 1)),
        "starts at partition 32, but index .* at 0",
    ),
    "floats": (lambda v: eight().indirect(new((32, 1))), "offsets must be an integer tensor in SBUF"),
    "other partitions": (lambda v: eight().indirect(indices([[1]])), "must have the tile's 32 partitions"),
    "half a column": (lambda v: eight().indirect(snake([1], 16, 32), 1.5), "num_elem must be a positive integer"),
    "every other": (lambda v: eight()[:, ::2].indirect(snake([1], 16, 32), 1), "contiguous in each partition"),
    "twice": (lambda v: v([1]).indirect(snake([0], 16, 32), 1), "already indirect"),
    "cut": (lambda v: v([1, 2])[:, 0:1], "cannot be sliced or moved"),
    "seen as another dtype": (lambda v: v([1, 2]).view(nl.int32), "take it before the index"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_columns_get_a_line(trn3_core, case):
    run, text = WRONG[case]
    with pytest.raises(NkiValidationError, match=text) as told:
        run(lambda offsets: eight().indirect(snake(offsets, 16, 32), len(offsets)))
    assert "\n" not in str(told.value)
    assert isinstance(told.value, OutOfBoundsError) == (case == "outside")


def test_before_neuroncore_v4_there_are_none(core):
    with pytest.raises(NkiValidationError, match=r"requires NeuronCore-v4 \(trn3\), got trn2"):
        nisa.tensor_copy(new((16, 1)), tile(counted(16, 8)).indirect(snake([1], 16, 16), 1))


def test_shape_only_runs_know_no_offsets():
    with on("trn3", functional=False) as core:
        out = psum((64, 6))
        ones, index = new((64, 64), nl.bfloat16), new((64, 1), nl.int32)
        nisa.nc_matmul(out.indirect(index, 2), ones, ones[:, 0:2])
        nisa.tensor_copy(new((64, 2)), out.indirect(index, 2))
        assert [instruction.op for instruction in core.program] == ["nc_matmul", "tensor_copy"]
