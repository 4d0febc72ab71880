"""Kernels: definition, arguments and results, and dependencies of instructions."""

import traceback
import warnings
from dataclasses import dataclass

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from small_kernels import A, accumulate, add
from trninfer import simulator
from trninfer.simulator import NkiValidationError
from trninfer.simulator.machine.errors import EarlierNkiWarning, without_ours


@nki.jit
def yields(a):
    yield add(a, a)


@nki.jit
async def awaits(a):
    return add(a, a)


@pytest.mark.parametrize("kernel", [yields, awaits])
def test_generator_function_is_not_a_kernel(kernel):
    with pytest.raises(NkiValidationError, match="s: a kernel must not yield or await"):
        simulator.run(kernel, A)


def test_simulate_and_direct_call_return_arrays():
    np.testing.assert_array_equal(nki.simulate(add)(A, A), 2 * A)
    np.testing.assert_array_equal(add(A, A, factor=2.0), 4 * A)
    np.testing.assert_array_equal(nki.simulate(add.function)(A, A), 2 * A)
    np.testing.assert_array_equal(add[1](A, A), 2 * A)
    assert add.__doc__ == "Add two tiles."


def test_arguments_are_not_changed_unless_the_kernel_writes_them():
    @nki.jit
    def write(a, b):
        nisa.dma_copy(dst=b, src=nl.load(a))
        return b

    a, b = A.copy(), np.zeros_like(A)
    nki.simulate(write)(a, b)
    np.testing.assert_array_equal(b, A)
    np.testing.assert_array_equal(a, A)
    b[:] = 0
    simulator.run(write, a, b)
    assert not b.any()


def test_target_of_simulate_follows_the_environment(monkeypatch):
    @nki.jit
    def version(a):
        out = nl.full((1, 1), nisa.get_nc_version().value, nl.int32, nl.shared_hbm)
        return out

    for name, expected in (("gen2", 2), ("trn2", 3), ("trn3", 4), ("", 4)):
        monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", name)
        assert nki.simulate(version)(A)[0, 0] == expected


def test_an_error_leaves_no_kernel_running():
    @nki.jit
    def broken(a):
        return a[99]

    with pytest.raises(simulator.OutOfBoundsError):
        simulator.run(broken, A)
    with pytest.raises(simulator.NkiValidationError, match="inside a kernel"):
        nl.ndarray((1, 1), nl.float32)


def test_outputs_must_be_in_hbm():
    @nki.jit
    def kernel(a):
        return nl.load(a)

    with pytest.raises(NkiValidationError, match=r"must be in nl.shared_hbm"):
        simulator.run(kernel, np.zeros((4, 4), np.float32))


def test_containers_of_arrays_go_in_and_out_and_what_is_written_is_updated():
    total = np.ones((4, 6), np.float32)[:, ::2]  # a view: its own elements are updated
    rows = tuple(np.full((4, 3), float(i), np.float32) for i in range(3))
    result = nki.simulate(accumulate)(total, rows)
    assert result["count"] == 3
    np.testing.assert_array_equal(result["sum"], np.full((4, 3), 4.0))
    np.testing.assert_array_equal(total, result["sum"])
    np.testing.assert_array_equal(rows[2], np.full((4, 3), 2.0))


def test_an_array_that_is_only_read_may_be_read_only():
    np.testing.assert_array_equal(add(np.broadcast_to(np.float32(1), A.shape), A), A + 1)


def test_an_array_that_cannot_be_updated_is_reported():
    total = np.broadcast_to(np.float32(1), (4, 3))
    with pytest.raises(NkiValidationError, match=r"writes to its argument \[4, 3\] float32, a read-only array"):
        accumulate(total, ())


def test_lists_are_kernel_arguments():
    row = np.full((4, 3), 2.0, np.float32)
    result = accumulate(np.ones((4, 3), np.float32), [row, row])
    assert result["count"] == 2 and (result["sum"] == 5).all()
    assert (simulator.run(accumulate, row.copy(), rows=[row]).outputs[0]["sum"] == 4).all()


@dataclass(frozen=True)
class Window:
    first: int
    last: int

    @property
    def columns(self):
        return slice(self.first, self.last)


@dataclass(frozen=True)
class ScaledWindow(Window):
    factor: float = 2.0

    def tiles(self, a, *, step=2):
        for start in range(self.first, self.last, step):
            yield nl.load(a[:, start : min(start + step, self.last)])


@nki.jit
def scaled_windows(a, windows, *, offset=0.0):
    """Multiply the columns of each window by its factor and add an offset; the others are 0."""
    out = nl.zeros(a.shape, a.dtype, nl.shared_hbm)

    def result(tile, factor):
        return nl.add(nl.multiply(tile, factor), offset)

    for window in sorted(windows, key=lambda w: w.first):
        tiles = [result(tile, window.factor) for tile in window.tiles(a)]
        for tile, (first, last) in zip(tiles, ((s, min(s + 2, window.last)) for s in range(*_ends(window), 2))):
            nl.store(out[:, first:last], tile)
    return out


def _ends(window):
    return window.first, window.last


def test_kernels_take_objects_and_any_python():
    """Frozen dataclasses with inheritance, generators, closures, comprehensions, lambdas, keyword-only parameters."""
    a = np.arange(28, dtype=np.float32).reshape(4, 7)
    windows = (ScaledWindow(4, 7, 3.0), ScaledWindow(0, 3))
    expected = np.zeros_like(a)
    expected[:, 4:7], expected[:, 0:3] = a[:, 4:7] * 3 + 1, a[:, 0:3] * 2 + 1
    for pure in (False, True, True):
        run = simulator.run(scaled_windows, a, windows=windows, offset=1.0, pure=pure)
        np.testing.assert_array_equal(run.outputs[0], expected)
    walked = simulator.run(scaled_windows, a, windows=windows, offset=1.0, functional=False)
    assert walked.latency_us == run.latency_us
    other = simulator.run(scaled_windows, a, windows=windows[:1], offset=1.0, pure=True).outputs[0]
    assert not other[:, 0:3].any()


def test_an_array_inside_an_object_is_refused():
    with pytest.raises(
        NkiValidationError, match=r"scaled_windows: ScaledWindow.factor is an array; pass arrays as arg"
    ):
        scaled_windows(A, (ScaledWindow(0, 2, A),))


@nki.jit
def two_names(a):
    x = nl.load(a)
    b, c = nl.ndarray(a.shape, a.dtype), nl.ndarray(a.shape, a.dtype)
    nisa.activation(b, nl.copy, x, name="first")
    nisa.tensor_scalar(c, x, nl.add, 1.0, name="second")
    nisa.tensor_tensor(c, c, b, nl.add)
    out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
    nl.store(out, c)
    return out


@pytest.mark.parametrize("edges", [[("second", "first")], [("second", ["first"])]])
def test_with_schedule_adds_what_an_instruction_waits_for(edges):
    a = np.ones((128, 512), np.float32)
    for kernel, waits in ((two_names, False), (two_names.with_schedule(edges), True)):
        run = simulator.run(kernel, a)
        events = {event.name: event for event in run.timeline if event.name}
        assert (events["second"].start_ns >= events["first"].done_ns) == waits
        assert run.outputs[0][0, 0] == 3


def test_with_schedule_takes_names_of_the_kernel_in_its_order():
    a = np.ones((4, 4), np.float32)
    with pytest.raises(simulator.NkiValidationError, match="no instruction is named 'third'"):
        simulator.run(two_names.with_schedule([("third", "first")]), a)
    with pytest.raises(simulator.NotSimulatedError, match="comes before"):
        simulator.run(two_names.with_schedule([("first", "second")]), a)


def test_options_of_an_earlier_jit_are_accepted_with_a_note():
    with pytest.warns(EarlierNkiWarning, match=r"nki.jit\(platform_target=...\).*is ignored") as told:

        @nki.jit(platform_target="trn2")
        def kernel(a):
            return add(a, a)

    assert told[0].filename == __file__
    np.testing.assert_array_equal(nki.simulate(kernel)(A), 2 * A)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nki.jit()(lambda a: a)


@nki.jit
def scaled(a, *, factor=2.0):
    return add(a, a)


def test_a_call_that_does_not_match_the_parameters_is_named_without_frames_of_the_simulator():
    for given, options, reason in [
        ((), {}, "missing a required argument: 'a'"),
        ((A, A), {}, "too many positional arguments"),
        ((A,), {"by": 3}, "got an unexpected keyword argument 'by'"),
    ]:
        with pytest.raises(NkiValidationError) as caught:
            scaled(*given, **options)
        assert str(caught.value) == f"the call does not match scaled(a, *, factor=2.0): {reason}"
        assert isinstance(caught.value, TypeError)
        files = {frame.filename for frame in traceback.extract_tb(without_ours(caught.value))}
        assert files == {__file__}
