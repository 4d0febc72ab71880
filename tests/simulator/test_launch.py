"""Ways to run a kernel: jit, simulate, run."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer import simulator


@nki.jit
def add(a, b, factor=1.0):
    """Add two tiles."""
    left, right = nl.load(a), nl.load(b)
    total = nl.ndarray(a.shape, a.dtype)
    nisa.tensor_tensor(total, left, right, nl.add)
    nisa.tensor_scalar(total, total, nl.multiply, factor)
    out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
    nl.store(out, total)
    return out


@nki.jit()
def twice(a):
    inner = add(a, a)
    return inner, add(inner, a)


A = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_simulate_and_direct_call_give_arrays():
    np.testing.assert_array_equal(nki.simulate(add)(A, A), 2 * A)
    np.testing.assert_array_equal(add(A, A, factor=2.0), 4 * A)
    np.testing.assert_array_equal(nki.simulate(add.function)(A, A), 2 * A)
    np.testing.assert_array_equal(add[1](A, A), 2 * A)
    assert add.__doc__ == "Add two tiles."


def test_run_gives_a_tuple_and_kernels_inline():
    run = simulator.run(twice, A)
    np.testing.assert_array_equal(run.outputs[0], 2 * A)
    np.testing.assert_array_equal(run.outputs[1], 3 * A)


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


def test_shape_only_walk_gives_no_values_and_the_same_program():
    seen = simulator.run(add, A, A)
    walked = simulator.run(
        add, simulator.TensorSpec(A.shape, "float32"), simulator.TensorSpec(A.shape, "float32"), functional=False
    )
    assert walked.outputs == (None,)
    assert [i.op for i in walked.program] == [i.op for i in seen.program]


def test_spec_needs_a_walk():
    with pytest.raises(simulator.NkiValidationError, match="functional=False"):
        simulator.run(add, simulator.TensorSpec((3, 4), "float32"), A)


def test_one_core_only():
    with pytest.raises(simulator.NkiValidationError, match="one NeuronCore"):
        add[2]


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


def test_instructions_know_their_source_line():
    run = simulator.run(add, A, A)
    line = next(i.line for i in run.program if i.op == "tensor_tensor")
    assert line[0] == __file__
    with open(__file__) as source:
        assert "tensor_tensor" in source.readlines()[line[1] - 1]


def test_device_print_prints_at_once(capsys):
    @nki.jit
    def shout(a):
        nl.device_print("tile", nl.load(a))
        return a

    nki.simulate(shout)(A)
    assert "tile" in capsys.readouterr().out


def test_no_reorder_marks_its_instructions():
    @nki.jit
    def ordered(a):
        with nl.no_reorder():
            tile = nl.load(a)
        return add(a, a) if tile is None else a

    assert simulator.run(ordered, A).program[0].ordered


def test_a_view_made_before_the_first_write_sees_it():
    @nki.jit
    def overwrite(a):
        seen = a[0:1]
        before = nl.load(seen)
        nisa.dma_copy(dst=a, src=nl.full(a.shape, 9.0, a.dtype))
        after = nl.load(seen)
        out = nl.ndarray((2, a.shape[1]), a.dtype, nl.shared_hbm)
        nl.store(out[0:1], before)
        nl.store(out[1:2], after)
        return out

    (out,) = simulator.run(overwrite, A).outputs
    np.testing.assert_array_equal(out, [A[0], [9.0] * 4])
    assert A[0, 0] == 0
