"""The four matrix multiplications, compared with NumPy.

With small integers, every partial sum is exact in float32, so results must be equal bit for bit in any order of
accumulation; real numbers are compared with float64 within the error bound of float32 accumulation.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from random_arrays import small_integers
from trninfer import kernels, simulator
from trninfer.simulator import NkiValidationError

DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
TARGETS = ["trn1", "trn2", "trn3"]
LADDER = [
    kernels.matmul_tiled,
    kernels.matmul_hoist_load,
    kernels.matmul_block_free_dimension,
    kernels.matmul_fully_optimized,
]
EXTENTS = st.one_of(st.sampled_from([1, 3, 127, 128, 129, 511, 512, 513]), st.integers(1, 600))


def assert_multiplies(kernel: Any, lhsT: NDArray[Any], rhs: NDArray[Any], target: str = "trn2", **blocks: Any) -> Any:
    run = simulator.run(kernel, lhsT, rhs, target=target, **blocks)
    result = run.outputs[0]
    expected = (lhsT.astype(np.float32).T @ rhs.astype(np.float32)).astype(lhsT.dtype)
    assert result is not None
    assert result.dtype == lhsT.dtype
    np.testing.assert_array_equal(result.astype(np.float32), expected.astype(np.float32))
    return run


@settings(max_examples=40)
@given(
    kernel=st.sampled_from(LADDER),
    M=EXTENTS,
    N=EXTENTS,
    K=EXTENTS,
    dtype=st.sampled_from(DTYPES),
    target=st.sampled_from(TARGETS),
)
def test_any_shape(kernel: Any, M: int, N: int, K: int, dtype: Any, target: str) -> None:
    assert_multiplies(kernel, small_integers(K, M, dtype=dtype), small_integers(K, N, dtype=dtype, seed=1), target)


@settings(max_examples=25)
@given(
    M=EXTENTS,
    N=st.integers(1, 1200),
    K=EXTENTS,
    blocks=st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 4)),
    dtype=st.sampled_from(DTYPES),
)
def test_any_blocks(M: int, N: int, K: int, blocks: tuple[int, int, int], dtype: Any) -> None:
    lhsT, rhs = small_integers(K, M, dtype=dtype), small_integers(K, N, dtype=dtype, seed=1)
    m, n, k = blocks
    assert_multiplies(kernels.matmul_block_free_dimension, lhsT, rhs, tiles_in_block_m=m, tiles_in_block_n=n)
    assert_multiplies(
        kernels.matmul_fully_optimized, lhsT, rhs, tiles_in_block_m=m, tiles_in_block_n=n, tiles_in_block_k=k
    )


@pytest.mark.parametrize("kernel", LADDER)
@pytest.mark.parametrize(("M", "K", "N"), [(64, 1, 10), (1797, 64, 32), (1797, 32, 10), (1, 300, 1)])
def test_layers_of_small_networks(kernel: Any, M: int, K: int, N: int) -> None:
    assert_multiplies(kernel, small_integers(K, M), small_integers(K, N, seed=1))


@pytest.mark.parametrize("kernel", LADDER)
def test_real_numbers(kernel: Any) -> None:
    random = np.random.default_rng(0)
    lhsT = random.standard_normal((700, 150)).astype(np.float32)
    rhs = random.standard_normal((700, 530)).astype(np.float32)
    (result,) = simulator.run(kernel, lhsT, rhs).outputs
    exact = lhsT.T.astype(np.float64) @ rhs.astype(np.float64)
    # 700 roundings of partial sums around sqrt(700), with an error of at most 2^-24 each
    np.testing.assert_allclose(result, exact, rtol=0, atol=700 * 2.0**-24 * 4 * np.sqrt(700))


def test_partial_results_wait_in_float32() -> None:
    """Blocks of K whose sums leave the range of 16 bits and return must not be rounded between blocks."""
    lhsT = np.ones((512, 1), ml_dtypes.bfloat16)
    # Every fourth row belongs to the same block: the sums are 1153, -1152, 1024 and -1024. In bfloat16, 1153 would lose
    # the 1.
    rhs = np.tile(np.array([[9], [-9], [8], [-8]], ml_dtypes.bfloat16), (128, 1))
    rhs[0, 0] = 10
    assert_multiplies(
        kernels.matmul_fully_optimized, lhsT, rhs, tiles_in_block_m=1, tiles_in_block_n=1, tiles_in_block_k=1
    )


@pytest.mark.parametrize(("M", "N", "K"), [(512, 1024, 1024), (1797, 10, 500), (128, 128, 4096)])
def test_the_plan_reads_each_operand_once_where_both_fit(M: int, N: int, K: int) -> None:
    lhsT, rhs = small_integers(K, M), small_integers(K, N, seed=1)
    run = assert_multiplies(kernels.matmul_fully_optimized, lhsT, rhs, "trn1")
    assert run.hbm_bytes == lhsT.nbytes + rhs.nbytes + 4 * M * N


@pytest.mark.parametrize("target", TARGETS)
def test_each_rung_reads_less_and_is_faster(target: str) -> None:
    M, N, K = 1024, 2048, 1024
    lhsT, rhs = simulator.TensorSpec((K, M), "bfloat16"), simulator.TensorSpec((K, N), "bfloat16")
    runs = [simulator.run(kernel, lhsT, rhs, target=target, functional=False) for kernel in LADDER]
    loads = [run.hbm_bytes // 2 - M * N for run in runs]
    assert loads == [
        K * M * (N // 512) + K * N * (M // 128),  # both for every tile of the result
        K * M + K * N * (M // 128),
        K * M + K * N * (M // 256),
        K * M + K * N,
    ]
    times = [run.latency_us for run in runs]
    assert times == sorted(times, reverse=True)
    assert times[-1] < times[0] / 2


@pytest.mark.parametrize("kernel", LADDER)
@pytest.mark.parametrize(
    ("lhsT", "rhs", "message"),
    [
        (np.zeros(4, np.float32), np.zeros((4, 4), np.float32), "lhsT must have 2 dimensions"),
        (np.zeros((4, 4), np.float32), np.zeros((4, 4, 1), np.float32), "rhs must have 2 dimensions"),
        (np.zeros((4, 2), np.float32), np.zeros((5, 2), np.float32), "must have the same K"),
        (np.zeros((4, 2), np.float32), np.zeros((4, 2), np.float16), "must have the same dtype"),
        (np.zeros((4, 2), np.int32), np.zeros((4, 2), np.int32), "lhsT must be float32, bfloat16 or float16"),
    ],
)
def test_arguments_that_do_not_fit(kernel: Any, lhsT: NDArray[Any], rhs: NDArray[Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        simulator.run(kernel, lhsT, rhs)


@pytest.mark.parametrize(
    ("kernel", "blocks", "message"),
    [
        (kernels.matmul_fully_optimized, (2, 0, 0), "pass all three block sizes, .* tiles_in_block_n=0"),
        (kernels.matmul_fully_optimized, (16, 4, 32), "blocks need .* of the .* bytes of an SBUF partition"),
        (kernels.matmul_block_free_dimension, (0, 2), "tiles_in_block_m must be at least 1, got 0"),
        (kernels.matmul_block_free_dimension, (2, 0), "tiles_in_block_n must be at least 1, got 0"),
    ],
)
def test_blocks_that_do_not_fit(kernel: Any, blocks: tuple[int, ...], message: str) -> None:
    operand = simulator.TensorSpec((4096, 2048), "float32")
    names = ("tiles_in_block_m", "tiles_in_block_n", "tiles_in_block_k")
    parameters: dict[str, Any] = dict(zip(names, blocks, strict=False))
    with pytest.raises(AssertionError, match=message):
        simulator.run(kernel, operand, operand, functional=False, **parameters)


@pytest.mark.parametrize("kernel", LADDER)
def test_k_beyond_sbuf(kernel: Any) -> None:
    """K of 40,000: the middle versions report that it is too long, the first and last accept it."""
    lhsT = simulator.TensorSpec((40_000, 130), "float32")
    rhs = simulator.TensorSpec((40_000, 520), "float32")
    if kernel in (kernels.matmul_tiled, kernels.matmul_fully_optimized):
        assert simulator.run(kernel, lhsT, rhs, target="trn1", functional=False).outputs == (None,)
    else:
        with pytest.raises(AssertionError, match="K = 40000 is too long"):
            simulator.run(kernel, lhsT, rhs, target="trn1", functional=False)


@pytest.mark.parametrize(("dtype", "longest"), [("float32", 8_704), ("bfloat16", 17_664)])
def test_the_longest_k_of_the_middle_rungs_is_as_documented(dtype: str, longest: int) -> None:
    for kernel in (kernels.matmul_hoist_load, kernels.matmul_block_free_dimension):
        shapes = [
            [simulator.TensorSpec((length, width), dtype) for width in (128, 512)] for length in (longest, longest + 1)
        ]
        simulator.run(kernel, *shapes[0], target="trn1", functional=False)
        with pytest.raises(AssertionError, match="is too long"):
            simulator.run(kernel, *shapes[1], target="trn1", functional=False)


def test_the_lab_s_second_layer_fits_on_every_rung() -> None:
    """K of 8192 in float32: blocks of the free dimension shrink until all of K fits in trn1's SBUF."""
    lhsT = simulator.TensorSpec((8192, 256), "float32")
    rhs = simulator.TensorSpec((8192, 1024), "float32")
    for kernel in LADDER:
        try:
            simulator.run(kernel, lhsT, rhs, target="trn1", functional=False)
        except NkiValidationError as error:
            pytest.fail(f"{kernel}: {error}")
