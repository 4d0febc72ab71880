"""Replays as NumPy calls on known arrays: bit by bit what the kernel gives, whatever lies where."""

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
from trninfer.simulator.running.kernel import execute
from trninfer.simulator.running.prepared import prepared
from trninfer.simulator.running.replay import Replayed, Replays

SIZES = st.sampled_from([1, 3, 7, 16])


@nki.jit
def layer(x: Any, w: Any, bias: Any, function: str, padding: int, step: int, dtype: Any) -> Any:
    """Two products of each view of an image x [K, H, W] with w [K, 2, M], their sum with the bias [M, 1] in a padded
    image, limited where the function is "limited", added to itself, as [M, H' + 2 padding, W' + 2 padding]."""
    height, width = (x.shape[1] - 1) // step, (x.shape[2] - 1) // step
    image = nl.ndarray(x.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=image, src=x)
    weights = nl.ndarray(w.shape, dtype=w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weights, src=w)
    column = nl.ndarray(bias.shape, dtype=bias.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=column, src=bias)
    sums = nl.ndarray((w.shape[2], height, width), dtype=nl.float32, buffer=nl.psum)
    view = image[:, 0 : height * step : step, 1 : 1 + width * step : step]
    for tap in range(2):
        nisa.nc_matmul(dst=sums, stationary=weights[:, tap, :], moving=view, accumulate=tap > 0)
    nisa.tensor_scalar(dst=view, data=view, op0=nl.multiply, operand0=-0.5)
    nisa.nc_matmul(dst=sums, stationary=weights[:, 1, :], moving=view, accumulate=True)
    result = nl.ndarray((w.shape[2], height + 2 * padding, width + 2 * padding), dtype=dtype, buffer=nl.sbuf)
    nisa.memset(dst=result, value=-0.0)
    inner = result[:, padding : padding + height, padding : padding + width]
    nisa.activation(dst=inner, op=nl.relu if function == "relu" else nl.copy, data=sums, bias=column)
    if function == "limited":
        nisa.tensor_scalar(dst=inner, data=inner, op0=nl.maximum, operand0=-0.5, op1=nl.minimum, operand1=1.0)
    other = nl.ndarray(result.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.activation(dst=other, op=nl.relu if function == "relu" else nl.copy, data=result)
    twice = nl.ndarray(result.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=twice, data1=result, data2=other, op=nl.add)
    nisa.tensor_copy(dst=other[:, 0:1, :], src=twice[:, 0:1, :])
    nisa.tensor_scalar(dst=other, data=other, op0=nl.subtract, operand0=column, reverse0=True)
    out = nl.ndarray(result.shape, dtype=dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=other)
    return out


def calls(replays: Replays) -> list[str]:
    """The NumPy functions that the replays call, and the computing functions of steps that are left as they are."""
    found = [each.replay._shortened for each in replays._seen.values() if isinstance(each, Replayed)]
    return [getattr(compute, "func", compute).__name__ for steps in found for compute, _ in steps]


def check(x: NDArray[Any], w: NDArray[Any], bias: NDArray[Any], *rest: Any) -> list[str]:
    """Compare replays with the kernel, signs of zeros and all; what they call."""
    replays = Replays(prepared)
    for array in (w, bias):
        array.setflags(write=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launching, "_REPLAYS", replays)
        for seed in range(4):
            moved = np.roll(x, seed, axis=2)
            (result,) = simulator.run(layer, moved, w, bias, *rest, pure=True).outputs
            with np.errstate(all="ignore"):
                expected = execute(NeuronCore(find_target("trn2")), layer, (moved, w, bias, *rest), {})
            np.testing.assert_array_equal(result, expected)
            np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))
    return calls(replays)


@given(
    rows=st.sampled_from([1, 5, 128]),
    columns=st.sampled_from([1, 3, 127]),
    height=SIZES,
    width=SIZES,
    function=st.sampled_from(["copy", "relu", "limited"]),
    padding=st.integers(0, 1),
    step=st.integers(1, 2),
    seed=st.integers(0, 99),
)
def test_values_of_a_layer(
    rows: int, columns: int, height: int, width: int, function: str, padding: int, step: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, height * step + 1, width * step + 1)).astype(np.float32)
    x[rng.random(x.shape) < 0.02] = rng.choice([np.inf, np.nan, -0.0])
    w = rng.standard_normal((rows, 2, columns)).astype(np.float32)
    bias = rng.standard_normal((columns, 1)).astype(np.float32)
    called = check(x, w, bias, function, padding, step, nl.float32)
    assert {"add", "copyto"} <= set(called)
    assert not {"activate", "elementwise", "apply_in_turn"} & set(called)
    assert ("clip" in called) == (function == "limited")


@pytest.mark.parametrize("dtype", [nl.bfloat16, nl.float16])
def test_rounded_tiles_are_computed_as_before(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 8, 9)).astype(np.float32)
    w = rng.standard_normal((5, 2, 3)).astype(np.float16)
    bias = rng.standard_normal((3, 1)).astype(np.float32)
    called = check(x, w, bias, "limited", 1, 1, dtype)
    assert {"matmul", "activate", "apply_in_turn", "elementwise"} <= set(called)


def test_what_blas_cannot_read_is_copied_once_for_all_that_read_it() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 9, 9)).astype(np.float32)
    w = rng.standard_normal((5, 2, 3)).astype(np.float32)
    called = check(x, w, rng.standard_normal((3, 1)).astype(np.float32), "copy", 0, 2, nl.float32)
    first, second, third = [i for i, name in enumerate(called) if name == "matmul"]
    assert "copyto" not in called[first:second]
    assert "copyto" in called[second:third]  # the image has changed
