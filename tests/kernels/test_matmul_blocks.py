"""Blocks of a product: panels in SBUF, their loads, and groups of tiles in PSUM, compared with NumPy.

The inputs are small integers, so sums are exact in any order.
"""

from typing import Any

import nki.language as nl
import numpy as np
import pytest
from nki_tensors import in_hbm, on
from random_arrays import small_integers
from trninfer.kernels.matmul_blocks import Block, load_panels, multiply_block, padded, panels, whole_rows
from trninfer.kernels.matmul_plan import GROUP, TILE_M, TILE_N
from trninfer.kernels.tiling.tiles import DMA_BYTES, Tile, tiles
from trninfer.kernels.tiling.warm_up import warm_bank


def multiply(sizes: tuple[int, int, int], dtype: str = nl.float32, depth: int = 100, **options: Any) -> Any:
    """Multiply a [K, M] and a [K, N] matrix as one block of the result, in blocks of `depth` tiles of K.

    `first`: columns of the operands' first panels. `first_bytes`: bytes of the first loads. `warm`: whether sums start
    from zeros that warm up the Tensor Engine.
    """
    M, N, K = sizes
    left, right = small_integers(K, M), small_integers(K, N, seed=1)
    lhsT, rhs = in_hbm(left, dtype), in_hbm(right, dtype)
    result = nl.ndarray((M, N), dtype, nl.shared_hbm)
    m, n = (Tile(0, 0, size, size) for size in (M, N))
    blocks = tiles(-(-K // 128), depth)
    partial = nl.ndarray((128, -(-M // TILE_M), N), nl.float32) if len(blocks) > 1 else None
    warm = warm_bank(128, TILE_N, 2) if options.get("warm") else None
    for k in blocks:
        first_m, first_n = options.get("first", (M, N))
        operands = panels(lhsT, k, m, first_m), panels(rhs, k, n, first_n)
        load_panels(*operands, lhsT, rhs, k, options.get("first_bytes", DMA_BYTES))
        multiply_block(result, Block(m, n, k, *operands), K, partial, warm)
        warm = None
    return result.values, left.T @ right


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16])
@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((1, 1, 1), {}),
        ((1, 3, 129), {}),
        ((127, 513, 128), {}),
        ((129, 1, 257), {"depth": 1}),  # partial results, and a single column
        ((300, 600, 384), {"depth": 2, "first": (128, 512)}),  # several panels
        ((256, 1024, 300), {"first": (128, 512), "first_bytes": 1, "warm": True}),  # one tile of K at a time
        ((8 * 128, 4 * 512, 3), {"warm": True}),  # 32 tiles: the last group is copied out pair by pair
        ((5 * 128 + 1, 10, 200), {}),  # more tiles of M than a group
    ],
)
def test_a_block_is_a_product(target: str, dtype: str, sizes: tuple[int, int, int], options: Any) -> None:
    with on(target):
        found, expected = multiply(sizes, dtype, **options)
        np.testing.assert_array_equal(found, expected.astype(np.dtype(dtype)).astype(np.float32))


def test_each_panel_is_as_wide_as_all_before() -> None:
    with on("trn2"):
        found = panels(in_hbm(np.zeros((4, 1200), np.float32)), Tile(0, 0, 1, 1), Tile(1, 200, 1000, 1200), 128)
        spans = [(panel.columns.start, panel.columns.end) for panel in found]
        assert spans == [(200, 328), (328, 456), (456, 712), (712, 1200)]
        assert [panel.tensor.shape for panel in found] == [(128, 1, end - start) for start, end in spans]


def test_a_last_tile_of_one_16_bit_column_has_another_beside_it() -> None:
    assert [padded(columns, nl.bfloat16) for columns in (1, 2, 128, 129, 257)] == [2, 2, 128, 130, 258]
    assert [padded(columns, nl.float32) for columns in (1, 129)] == [1, 129]
    with on("trn2"):
        (panel,) = panels(in_hbm(np.zeros((4, 129)), nl.float16), Tile(0, 0, 1, 1), Tile(0, 0, 129, 129), 129)
        assert panel.tensor.shape == (128, 1, 130)
        assert (panel.tensor[:, :, 129:].values == 0).all()


def test_the_first_loads_take_turns() -> None:
    """Each load is one tile of K, so the first matmul waits for 128 rows of both operands."""
    with on("trn2") as core:
        multiply((128, 512, 256), first_bytes=1)
        loads = [step.hbm_bytes for step in core.program if step.op == "dma_copy"][:4]
    assert loads == [128 * 128 * 4, 128 * 512 * 4] * 2


def test_groups_fill_half_of_psum() -> None:
    """The other half is copied out in the meantime; on NeuronCore-v2, a group consists of whole rows of tiles."""
    assert GROUP * TILE_N * 4 == 8 * 2048 // 2
    for target, is_whole in (("trn1", True), ("trn2", False), ("trn3", False)):
        with on(target):
            assert whole_rows() is is_whole
