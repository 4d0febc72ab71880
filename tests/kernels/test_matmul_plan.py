"""The plan of `matmul_fully_optimized`: what it reads and holds, compared with hand-computed values and a walk over its
blocks."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer import simulator
from trninfer.kernels import matmul_fully_optimized
from trninfer.kernels.matmul_plan import Blocks, Plan, Product, best_plan, choose_plan, evaluate

SMALLEST = simulator.TARGETS["trn1"].sbuf_bytes


def walked(M: int, N: int, K: int, plan: Plan) -> int:
    """Return the number of elements read if an operand's block stays until another of its blocks is needed."""
    m_blocks, n_blocks, k_blocks = range(0, M, plan.block_m), range(0, N, plan.block_n), range(0, K, plan.depth * 128)
    order = [(m, n) for n in n_blocks for m in m_blocks] if plan.n_outer else list(product(m_blocks, n_blocks))
    held: dict[str, Any] = {}
    read = 0
    for m, n in order:
        for k in k_blocks:
            rows = min(K - k, plan.depth * 128)
            for operand, start, columns in (
                ("lhsT", m, min(M - m, plan.block_m)),
                ("rhs", n, min(N - n, plan.block_n)),
            ):
                if held.get(operand) != (start, k):
                    held[operand] = start, k
                    read += rows * columns
    return read


@given(
    st.integers(1, 2000),
    st.integers(1, 4000),
    st.integers(1, 4000),
    st.tuples(st.integers(1, 8), st.integers(1, 4), st.integers(1, 16)),
    st.booleans(),
)
def test_a_plan_knows_what_is_read(M: int, N: int, K: int, blocks: tuple[int, int, int], n_outer: bool) -> None:
    m, n, k = blocks
    plan = evaluate(Product(M, N, K, 4), Blocks(min(M, m * 128), min(N, n * 512), min(k, -(-K // 128)), n_outer), 2)
    assert plan.loaded == walked(M, N, K, plan)


def test_a_plan_knows_what_it_holds() -> None:
    """Bytes per partition in float32: depth x columns of each block, outgoing results, and partial results."""
    leaving = 2 * 4 * 512 * 4  # two groups of four tiles
    whole = evaluate(Product(128, 512, 256, 4), Blocks(128, 512, 2), 2)
    assert whole.held == 2 * 4 * (128 + 512) + leaving  # one block of each operand, which nothing replaces
    rows = evaluate(Product(256, 512, 256, 4), Blocks(128, 512, 2), 2)
    assert rows.held == 2 * 4 * (2 * 128 + 512) + leaving
    columns = evaluate(Product(128, 1024, 256, 4), Blocks(128, 512, 2), 2)
    assert columns.held == 2 * 4 * (128 + 2 * 512) + leaving
    cut = evaluate(Product(256, 512, 512, 4), Blocks(256, 512, 2), 2)
    assert cut.held == 2 * 4 * 2 * (256 + 512) + leaving + 2 * 512 * 4


@settings(max_examples=60)
@given(st.integers(1, 20_000), st.integers(1, 20_000), st.integers(1, 40_000), st.sampled_from([2, 4]))
def test_the_best_plan_fits_in_the_smallest_sbuf(M: int, N: int, K: int, size: int) -> None:
    plan = best_plan(Product(M, N, K, size), SMALLEST)
    assert plan.held <= SMALLEST
    assert plan.loaded >= K * (M + N)


@pytest.mark.parametrize(("M", "N", "K"), [(512, 1024, 1024), (1797, 10, 500), (128, 128, 4096), (1, 1, 1)])
def test_both_operands_are_read_once_where_both_fit(M: int, N: int, K: int) -> None:
    assert best_plan(Product(M, N, K, 4), SMALLEST).loaded == K * (M + N)


def test_more_sbuf_is_never_worse() -> None:
    """A tenth of the size increases the amount that is loaded."""
    loaded = [
        best_plan(Product(4000, 6000, 3000, 4), size).loaded for size in (24_000, 60_000, 120_000, 240_000, 10**7)
    ]
    assert loaded == sorted(loaded, reverse=True) and loaded[-1] == 3000 * (4000 + 6000) < loaded[0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("M", "N", "K"), [(2100, 9000, 500), (9000, 1000, 700), (3000, 3000, 3000), (130, 600, 9000)])
def test_the_plan_knows_what_the_kernel_reads(M: int, N: int, K: int, dtype: str) -> None:
    lhsT, rhs = simulator.TensorSpec((K, M), dtype), simulator.TensorSpec((K, N), dtype)
    run = simulator.run(matmul_fully_optimized, lhsT, rhs, target="trn1", functional=False)
    size = 4 if dtype == "float32" else 2
    assert run.hbm_bytes == size * (best_plan(Product(M, N, K, size), SMALLEST).loaded + M * N)


def test_blocks_that_are_asked_for() -> None:
    """Sizes in tiles, limited to the existing tiles, and held once."""
    plan = choose_plan(Product(1000, 2000, 700, 2), SMALLEST, (2, 3, 4))
    assert (plan.block_m, plan.block_n, plan.depth, plan.n_outer) == (256, 1536, 4, False)
    plan = choose_plan(Product(100, 200, 300, 2), SMALLEST, (2, 3, 4))
    assert (plan.block_m, plan.block_n, plan.depth) == (100, 200, 3)
    assert choose_plan(Product(100, 200, 300, 2), SMALLEST, (0, 0, 0)) == best_plan(Product(100, 200, 300, 2), SMALLEST)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ((2, 0, 0), "pass all three block sizes, each at least 1, or none of them; got .* tiles_in_block_n=0"),
        ((1, 1, -1), "pass all three block sizes, .* tiles_in_block_k=-1"),
        ((16, 4, 32), r"blocks need \d+ of the 196608 bytes of an SBUF partition; got tiles_in_block_m=16"),
    ],
)
def test_blocks_that_do_not_fit(blocks: tuple[int, int, int], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        choose_plan(Product(2048, 2048, 4096, 4), SMALLEST, blocks)
