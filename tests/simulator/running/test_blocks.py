"""Products with matrices of blocks without the zeros between them: bit by bit what the matmuls give."""

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from trninfer import simulator
from trninfer.simulator.instructions.core import NeuronCore
from trninfer.simulator.machine.chip import find_target
from trninfer.simulator.running import blocks as finding
from trninfer.simulator.running import launch as launching
from trninfer.simulator.running.blocks import (
    FEWEST_COLUMNS,
    Blocks,
    _is_exact,
    blocks_of,
    by_runs,
    cut,
)
from trninfer.simulator.running.kernel import execute
from trninfer.simulator.running.prepared import prepared
from trninfer.simulator.running.replay import Replayed, Replays


@nki.jit
def windows(x: Any, w: Any, columns: int, padding: int, growth: float) -> Any:
    """The sum over t of w[:, t].T @ x[:, :, t : t + columns] in an image with `padding` columns of -0.0 on each side;
    x [K, H, columns + taps - 1], w [K, taps, M]. With a growth, of the first window times growth to the power t.

    The lower rows of the image are another tile, whose matmuls take turns with those of the upper rows.
    """
    data = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=data, src=x)
    weights = nl.ndarray(w.shape, dtype=w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weights, src=w)
    height = x.shape[1]
    image = nl.ndarray((w.shape[2], height, columns + 2 * padding), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(dst=image, value=-0.0)
    tiles = [(0, height)] if height < 4 else [(0, height // 2), (height // 2, height)]
    for tap in range(w.shape[1]):
        first = tap if growth == 1 else 0
        for top, end in tiles:
            nisa.nc_matmul(
                dst=image[:, top:end, padding : padding + columns],
                stationary=weights[:, tap, :],
                moving=data[:, top:end, first : first + columns],
                accumulate=tap > 0,
            )
        if growth != 1:
            nisa.tensor_scalar(dst=data, data=data, op0=nl.multiply, operand0=growth)
    result = nl.ndarray(image.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=image)
    out = nl.ndarray(image.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=result)
    return out


def block_matrix(blocks: Blocks, rows: int, columns: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """A matrix of blocks, `rows` and `columns` of each in a run, other numbers 0."""
    own, other = (
        np.arange(runs * blocks.number * size) // size % blocks.number
        for runs, size in ((blocks.row_runs, rows), (blocks.column_runs, columns))
    )
    numbers = rng.standard_normal((len(own), len(other)), np.float32)
    return np.where(own[:, None] == other, numbers, np.float32(0))


def check(x: NDArray[Any], w: NDArray[Any], columns: int, padding: int, growth: float = 1) -> tuple[list[str], int]:
    """Compare replays with the kernel bit by bit, NaN but as NaN; return how a replay computes its products without
    zeros, and how many of those of all replays were computed from whole matrices."""
    replays, wholes = Replays(prepared), []
    w.setflags(write=False)
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(launching, "_REPLAYS", replays)
        multiply = finding.multiply_whole
        patch.setattr(finding, "multiply_whole", lambda operands: (wholes.append(operands), multiply(operands)))
        for seed in range(4):
            moved = np.roll(x, seed, axis=2)
            (result,) = simulator.run(windows, moved, w, columns, padding, growth, pure=True).outputs
            expected = execute(NeuronCore(find_target("trn2")), windows, (moved, w, columns, padding, growth), {})
            np.testing.assert_array_equal(result, expected)
            numbers = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(result)[numbers], np.signbit(expected)[numbers])
    found = [each.replay._shortened for each in replays._seen.values() if isinstance(each, Replayed)]
    names = [getattr(compute, "__name__", "") for steps in found for compute, _ in steps]
    return [name for name in names if name == "by_blocks"], len(wholes)


@st.composite
def block_shapes(draw: st.DrawFn) -> tuple[Blocks, int, int]:
    """Blocks, and rows and columns of each in a run, of at most 128 rows and columns."""
    count = draw(st.sampled_from([32, 16, 8, 4, 3, 2]))
    sizes = []
    for _ in range(2):
        runs = draw(st.sampled_from([1, 1, 2, 4]).filter(lambda runs: runs * count <= 128))
        sizes.append((runs, draw(st.integers(1, 128 // (runs * count)))))
    (row_runs, rows), (column_runs, columns) = sizes
    return Blocks(count, row_runs, column_runs), rows, columns


@given(
    shape=block_shapes(),
    taps=st.sampled_from([3, 2, 1]),
    image=st.tuples(st.sampled_from([3, 1, 8]), st.sampled_from([28, 9, 14, 49, 56, 1, 3])),
    padding=st.sampled_from([0, 1]),
    dtype=st.sampled_from([np.float32, np.float16]),
    full=st.sampled_from([None, None, 0, 1]),
    seed=st.integers(0, 99),
)
def test_products_by_blocks_have_the_bits_of_matmuls(shape, taps, image, padding, dtype, full, seed) -> None:
    """`full` is the tap that has no zeros, which ends a sum of blocks, or comes before one."""
    rng = np.random.default_rng(seed)
    w = np.stack([block_matrix(*shape, rng) for _ in range(taps)], axis=1).astype(dtype)
    if full is not None and full < taps:
        w[:, full] = rng.standard_normal((w.shape[0], w.shape[2]))
    x = rng.standard_normal((w.shape[0], image[0], image[1] + taps - 1)).astype(dtype)
    x[rng.random(x.shape) < 0.2] = -0.0
    assert check(x, w, image[1], padding)[1] == 0


@pytest.mark.parametrize("blocks", [Blocks(32, 4, 4), Blocks(32, 2, 1), Blocks(8, 1, 1), Blocks(16, 1, 2)])
@pytest.mark.parametrize("number", [0.5, np.nan, np.inf, 3e38])
def test_what_is_not_finite_spreads_over_the_blocks(blocks: Blocks, number: float) -> None:
    rng = np.random.default_rng(0)
    sizes = [128 // (blocks.number * runs) for runs in blocks[1:]]
    matrices = [block_matrix(blocks, *sizes, rng) * 4 for _ in range(3)]
    x = rng.standard_normal((128, 3, 34)).astype(np.float32)
    x[40, 2, 7] = number
    found, wholes = check(x, np.stack(matrices, axis=1), 32, 1)
    if _is_exact(128, 128, 96, blocks):  # of the BLAS that is here
        assert found == ["by_blocks"] * 3
        assert bool(wholes) == (number != 0.5)


@pytest.mark.parametrize("blocks", [Blocks(32, 4, 4), Blocks(32, 2, 2)])
def test_numbers_that_become_infinite_within_a_launch(blocks: Blocks) -> None:
    rng = np.random.default_rng(0)
    sizes = [128 // (blocks.number * runs) for runs in blocks[1:]]
    w = np.zeros((128, 2, 128), np.float32)
    w[:] = block_matrix(blocks, *sizes, rng)[:, None, :]
    x = rng.standard_normal((128, 4, 32)).astype(np.float32)
    x[3, 2, 7] = 1e20
    check(x, w, 32, 0, growth=1e30)


@pytest.mark.parametrize("height", [3, 8])
def test_blocks_that_differ_accumulate_in_one_tile(height: int) -> None:
    rng = np.random.default_rng(0)
    kinds = [Blocks(32, 4, 4), Blocks(8, 1, 1), Blocks(8, 1, 1), Blocks(32, 4, 4), Blocks(32, 4, 4)]
    taps = [block_matrix(blocks, *(128 // (blocks.number * runs) for runs in blocks[1:]), rng) for blocks in kinds]
    x = rng.standard_normal((128, height, 36)).astype(np.float32)
    assert check(x, np.stack(taps, axis=1), 32, 0)[1] == 0


def test_blocks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_is_exact", lambda *sizes: True)
    rng = np.random.default_rng(0)
    for blocks in (Blocks(32, 4, 4), Blocks(32, 1, 2), Blocks(8, 1, 1)):
        matrix = block_matrix(blocks, 2, 1, rng)
        found = blocks_of(matrix, 64)
        assert found == blocks
        # Put together again, the blocks are the matrix.
        whole = np.zeros_like(matrix)
        for number, block in enumerate(cut(matrix, blocks)):
            rows, columns = (
                by_runs(np.arange(size), runs, blocks.number)[number].reshape(-1)
                for size, runs in zip(matrix.shape, blocks[1:])
            )
            whole[np.ix_(rows, columns)] = block.T
        np.testing.assert_array_equal(whole, matrix)
    assert blocks_of(matrix, FEWEST_COLUMNS - 1) is None
    assert blocks_of(rng.standard_normal((32, 32)).astype(np.float32), 64) is None
    matrix[0, -1] = 1  # outside of the blocks
    assert (blocks_of(matrix, 64) or Blocks(1, 1, 1)).number < 8
