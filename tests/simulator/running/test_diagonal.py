"""Products with diagonal matrices without their zeros: bit by bit what the matmuls give."""

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
from trninfer.simulator.running import launch as launching
from trninfer.simulator.running.diagonal import without_zeros
from trninfer.simulator.running.kernel import execute
from trninfer.simulator.running.replay import Replayed, Replays


@nki.jit
def taps(x: Any, w: Any, columns: int) -> Any:
    """out = sum over t of w[:, t].T @ x[:, t : t + columns]; x [K, columns + taps - 1], w [K, taps, M]."""
    data = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=data, src=x)
    weights = nl.ndarray(w.shape, dtype=w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weights, src=w)
    sums = nl.ndarray((w.shape[2], columns), dtype=nl.float32, buffer=nl.psum)
    for tap in range(w.shape[1]):
        nisa.nc_matmul(dst=sums, stationary=weights[:, tap, :], moving=data[:, tap : tap + columns], accumulate=tap > 0)
    result = nl.ndarray(sums.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=sums)
    out = nl.ndarray(sums.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=result)
    return out


def names(replays: Replays) -> list[str]:
    """What the replays compute."""
    found = [each for each in replays._seen.values() if isinstance(each, Replayed)]
    return [compute.__name__ for each in found for compute, _ in each.replay._shortened]


def diagonals(numbers: NDArray[Any]) -> NDArray[Any]:
    """Weights [K, taps] as diagonal matrices [K, taps, K], read-only."""
    made = np.zeros((*numbers.shape, len(numbers)), numbers.dtype)
    made[np.arange(len(numbers)), :, np.arange(len(numbers))] = numbers
    made.setflags(write=False)
    return made


def check(x: NDArray[Any], w: NDArray[Any], columns: int, scaled: bool) -> None:
    """Compare replays with the kernel, signs of zeros and all."""
    replays = Replays(without_zeros)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launching, "_REPLAYS", replays)
        for seed in range(4):
            moved = np.roll(x, seed, axis=1)
            (result,) = simulator.run(taps, moved, w, columns, pure=True).outputs
            with np.errstate(all="ignore"):
                expected = execute(NeuronCore(find_target("trn2")), taps, (moved, w, columns), {})
            np.testing.assert_array_equal(result, expected)
            np.testing.assert_array_equal(np.signbit(result)[expected == 0], np.signbit(expected)[expected == 0])
    assert ("scale_and_add" in names(replays)) == scaled
    assert ("multiply" in names(replays)) == (not scaled)


@given(
    rows=st.sampled_from([1, 3, 127, 128]),
    number=st.integers(1, 9),
    columns=st.sampled_from([1, 3, 129, 512]),
    dtype=st.sampled_from([np.float32, np.float16]),
    seed=st.integers(0, 99),
)
def test_sums_of_diagonal_products(rows: int, number: int, columns: int, dtype: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, columns + number - 1)).astype(dtype)
    numbers = rng.standard_normal((rows, number)).astype(dtype)
    x[rng.random(x.shape) < 0.2] = -0.0
    numbers[rng.random(numbers.shape) < 0.2] = 0
    check(x, diagonals(numbers), columns, scaled=True)


@pytest.mark.parametrize("number", [np.nan, np.inf, 3e38])
def test_what_is_not_finite_spreads_as_it_does_in_a_matmul(number: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 20)).astype(np.float32)
    x[2, 7] = number
    check(x, diagonals(rng.standard_normal((5, 3)).astype(np.float32) * 2), 18, scaled=True)


def test_other_matrices_are_multiplied() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 20)).astype(np.float32)
    w = diagonals(rng.standard_normal((5, 2)).astype(np.float32)).copy()
    check(x, w, 19, scaled=False)  # that may be written to
    w[3, :, 2] = 1
    w.setflags(write=False)
    check(x, w, 19, scaled=False)
    oblong = rng.standard_normal((5, 1, 4)).astype(np.float32)
    oblong.setflags(write=False)
    check(x, oblong, 20, scaled=False)


def test_a_matmul_by_another_matrix_among_the_taps() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 20)).astype(np.float32)
    w = diagonals(rng.standard_normal((5, 4)).astype(np.float32)).copy()
    w[3, 2, 2] = 1
    w.setflags(write=False)
    replays = Replays(without_zeros)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launching, "_REPLAYS", replays)
        for _ in range(4):
            (result,) = simulator.run(taps, x, w, 17, pure=True).outputs
    np.testing.assert_array_equal(result, execute(NeuronCore(find_target("trn2")), taps, (x, w, 17), {}))
    assert [name for name in names(replays) if name in ("multiply", "scale_and_add")] == [
        "scale_and_add",
        "multiply",
        "multiply",
    ]
