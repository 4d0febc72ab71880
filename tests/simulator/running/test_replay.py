"""Repeated launches are replayed on new arrays, with the kernel's results bit by bit."""

import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from random_arrays import normal
from trninfer import kernels, simulator
from trninfer.simulator.instructions.core import NeuronCore
from trninfer.simulator.machine.chip import find_target
from trninfer.simulator.running import launch as launching
from trninfer.simulator.running.kernel import execute
from trninfer.simulator.running.replay import ReplayableLaunch, Replays

launch = partial(simulator.run, pure=True)
DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]


@pytest.fixture(autouse=True)
def nothing_seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(launching, "_REPLAYS", Replays())
    yield


def replayed() -> int:
    """Return how many of the observed launches are replayed."""
    return sum(isinstance(found, ReplayableLaunch) for found in launching._REPLAYS._seen.values())


def afresh(kernel: Any, *arrays: Any, target: str = "trn2", **parameters: Any) -> Any:
    """Return the results of the kernel on a new core."""
    with np.errstate(all="ignore"):
        returned = execute(NeuronCore(find_target(target)), kernel, arrays, parameters)
    return returned if isinstance(returned, tuple) else (returned,)


CALLS: dict[str, tuple[list[tuple[int, ...]], dict[str, Any]]] = {
    "fused_conv2d_maxpool": (
        [(1, 3, 30, 31), (8, 3, 3, 3), (8,)],
        {"padding": 1, "pool_size": 2, "activation": "gelu"},
    ),
    "matmul_fully_optimized": ([(130, 140), (130, 520)], {}),
    "transpose": ([(130, 70)], {}),
    "bias_activation": ([(130, 300), (1, 300)], {"activation": "softmax"}),  # the accumulators
    "argmax": ([(130, 17000)], {}),  # tiles that are reinterpreted as bits
    "average_pool": ([(1, 5, 9, 8)], {"window": (3, 3), "padding": (1, 1, 1, 1)}),
    "ffnn_forward": ([(130, 70), (70, 140), (1, 140), (140, 10), (1, 10)], {}),
}


@pytest.mark.parametrize(("target", "dtype"), list(zip(("trn1", "trn2", "trn2"), DTYPES)))
@pytest.mark.parametrize("name", list(CALLS))
def test_a_replay_returns_the_results_of_the_kernel(name: str, dtype: Any, target: str) -> None:
    shapes, parameters = CALLS[name]
    kernel = kernels.kernel(name)
    for seed in range(5):
        arrays = [normal(shape, dtype, seed) for shape in shapes]
        run = launch(kernel, *arrays, target=target, **parameters)
        for result, expected in zip(run.outputs, afresh(kernel, *arrays, target=target, **parameters), strict=True):
            assert result is not None and result.dtype == expected.dtype
            np.testing.assert_array_equal(result, expected)
        assert replayed() == (seed >= 1)


def test_launches_that_share_memory_are_independent() -> None:
    results = []
    for seed in (*range(4), *range(4)):
        for name in ("matmul_fully_optimized", "ffnn_forward", "argmax"):
            arrays = [normal(shape, np.float32, seed) for shape in CALLS[name][0]]
            results.append(launch(kernels.kernel(name), *arrays).outputs[0])
    assert replayed() == 3
    for first, second in zip(results[:12], results[12:], strict=True):
        np.testing.assert_array_equal(first, second)


def test_times_and_memory_are_reported_of_every_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, list[str]]] = []
    monkeypatch.setattr(
        "trninfer.simulator.running.kernel.observers", [lambda run, shapes: seen.append((run.latency_us, shapes))]
    )
    x = normal((130, 70), np.float16, 0)
    runs = [launch(kernels.kernel("transpose"), x) for _ in range(4)]
    assert replayed() == 1
    assert len({run.latency_us for run in runs}) == len({run.memory for run in runs}) == 1
    assert seen == [(runs[0].latency_us, ["[130, 70] float16"])] * 4


def test_the_callers_arrays_are_neither_kept_nor_changed() -> None:
    x = normal((130, 70), np.float32, 0)
    before = x.copy()
    results = [launch(kernels.kernel("transpose"), x).outputs[0] for _ in range(4)]
    x += 1
    assert replayed() == 1
    for result in results:
        assert result is not None
        np.testing.assert_array_equal(result, before.T)
        assert result.flags.writeable and not np.shares_memory(result, x)


def fixed(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only array, as weights are."""
    array.setflags(write=False)
    return array


def fixed_bytes() -> int:
    """Return the bytes of the tiles that are kept between replays."""
    return sum(
        found.replay.fixed_bytes for found in launching._REPLAYS._seen.values() if isinstance(found, ReplayableLaunch)
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_of_weights_are_recomputed_for_other_weights(dtype: Any) -> None:
    shapes, parameters = CALLS["fused_conv2d_maxpool"]
    weights = [[fixed(normal(shape, dtype, seed)) for shape in shapes[1:]] for seed in range(2)]
    for seed, chosen in enumerate((0, 0, 0, 0, 1, 1, 0)):
        arrays = [normal(shapes[0], dtype, seed), *weights[chosen]]
        (result,) = launch(kernels.fused_conv2d_maxpool, *arrays, **parameters).outputs
        (expected,) = afresh(kernels.fused_conv2d_maxpool, *arrays, **parameters)
        np.testing.assert_array_equal(result, expected)
    assert replayed() == 1 and fixed_bytes() > 0


def test_weights_that_may_be_written_to_are_read_every_time() -> None:
    a, b = normal((130, 140), np.float32, 0), fixed(normal((130, 520), np.float32, 1))
    for seed in range(6):
        if seed == 4:  # from here on
            b = b.copy()
        if b.flags.writeable:
            b += 1
        (result,) = launch(kernels.matmul_fully_optimized, a, b).outputs
        np.testing.assert_array_equal(result, afresh(kernels.matmul_fully_optimized, a, b)[0])
    assert replayed() == 1 and fixed_bytes() > 0


def test_a_read_only_view_of_what_may_change_is_not_fixed() -> None:
    base = normal((130, 70), np.float32, 0)
    view = fixed(base[:])
    for _ in range(4):
        base += 1
        np.testing.assert_array_equal(launch(kernels.kernel("transpose"), view).outputs[0], base.T)
    assert replayed() == 1 and fixed_bytes() == 0


def test_weights_are_not_kept_alive_and_their_tiles_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = normal((130, 140), np.float32, 0), fixed(normal((130, 520), np.float32, 1))
    gone = weakref.ref(b)
    for _ in range(3):
        launch(kernels.matmul_fully_optimized, a, b)
    del b
    assert gone() is None
    launching._REPLAYS.clear()
    monkeypatch.setattr("trninfer.simulator.running.replay.MAX_FIXED_BYTES", 1000)
    b = fixed(normal((130, 520), np.float32, 2))
    for _ in range(3):
        (result,) = launch(kernels.matmul_fully_optimized, a, b).outputs
    np.testing.assert_array_equal(result, afresh(kernels.matmul_fully_optimized, a, b)[0])
    assert replayed() == 1 and fixed_bytes() == 0


@nki.jit
def add_in_part(a: Any) -> Any:
    """Read a column that was never written."""
    tile = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 0:7], src=a)
    out = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_unwritten_memory_reads_as_nan_in_every_replay() -> None:
    other = [normal((130, 140), np.float32, 0), normal((130, 520), np.float32, 1)]
    for seed in range(5):
        a = normal((4, 7), np.float32, seed)
        launch(kernels.matmul_fully_optimized, *other)  # leaves numbers in the shared memory
        (result,) = launch(add_in_part, a).outputs
        assert result is not None
        np.testing.assert_array_equal(result[:, :7], a)
        assert np.isnan(result[:, 7]).all()
    assert replayed() == 2


@nki.jit
def show(a: Any) -> Any:
    nl.device_print("a", a)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a)
    return out


@nki.jit
def at_an_address(a: Any) -> Any:
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf, address=(0, 64))
    nisa.dma_copy(dst=tile, src=a)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def scan(a: Any) -> Any:
    """Use an instruction that does not record its computation."""
    data = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=data, src=a)
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor_scan(dst=tile, data0=data, data1=data, initial=0.0, op0=nl.multiply, op1=nl.add)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.mark.parametrize("kernel", [show, at_an_address, scan])
def test_launch_that_depends_on_values_is_not_replayed(kernel: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(4):
        a = normal((4, 8), np.float32, seed)
        (result,) = launch(kernel, a).outputs
        np.testing.assert_array_equal(result, afresh(kernel, a)[0])
    assert replayed() == 0
    assert capsys.readouterr().out.count("a [[") == (8 if kernel is show else 0)


def test_numbers_that_are_equal_but_look_different_are_different_launches() -> None:
    x, bias = np.full((2, 3), -1, np.float32), np.zeros((1, 3), np.float32)
    for value in (0.0, -0.0) * 3:
        given = {"activation": "clip", "parameters": (value, 1.0)}
        (result,) = launch(kernels.kernel("bias_activation"), x, bias, **given).outputs
        assert result is not None and np.signbit(result).all() == (str(value) == "-0.0")


@given(st.lists(st.tuples(st.integers(1, 200), st.integers(1, 40)), min_size=1, max_size=3), st.sampled_from(DTYPES))
def test_any_order_of_launches(shapes: list[tuple[int, int]], dtype: Any) -> None:
    for seed in range(4):
        for shape in shapes:
            x = normal(shape, dtype, seed)
            np.testing.assert_array_equal(launch(kernels.kernel("transpose"), x).outputs[0], x.T)


def test_number_of_recordings_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trninfer.simulator.running.replay.MAX_LAUNCHES", 3)
    for rows in (*range(1, 9), *range(1, 9)):
        launch(kernels.kernel("transpose"), normal((rows, 3), np.float32, 0))
    assert len(launching._REPLAYS._seen) == 3
    launching._REPLAYS.clear()
    assert not launching._REPLAYS._seen


SCALE = 2.0


def scaled(tile: Any) -> Any:
    return nl.multiply(tile, SCALE)


class Options:
    scale = 1.0


@nki.jit
def scaled_twice(a: Any, options: Any = None) -> Any:
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(scaled(nl.load(a)), options.scale))
    return out


@pytest.mark.parametrize("functional", [True, False])
def test_a_kernel_that_its_surroundings_change_is_walked_each_time(
    functional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook: a global that a kernel reads, a helper that it calls, or an object that it receives changes."""
    options, a = Options(), np.ones((8, 4), np.float32)

    def outcomes() -> list[Any]:
        runs = [simulator.run(scaled_twice, a, options=options, functional=functional) for _ in range(4)]
        return [float(run.outputs[0][0, 0]) if functional else len(run.program) for run in runs]

    first = outcomes()
    assert len(set(first)) == 1 and (not functional or first[0] == 2.0)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    options.scale = 3.0
    assert not functional or outcomes() == [15.0] * 4
    monkeypatch.setitem(globals(), "scaled", lambda tile: nl.add(nl.multiply(tile, 7.0), 1.0))
    assert outcomes() == ([24.0] * 4 if functional else [first[0] + 1] * 4)
