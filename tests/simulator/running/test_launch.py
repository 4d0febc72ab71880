"""Ways to run a kernel: jit, simulate, run."""

import warnings

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
import small_kernels
from small_kernels import A, add
from trninfer import simulator
from trninfer.simulator import NkiValidationError
from trninfer.simulator.machine.errors import EarlierNkiWarning


@nki.jit()
def twice(a):
    inner = add(a, a)
    return inner, add(inner, a)


@nki.jit
def rounded(a):
    tile = nl.ndarray(a.shape, nl.bfloat16, nl.sbuf)
    nisa.dma_copy(tile, a)
    out = nl.ndarray(a.shape, nl.bfloat16, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def test_run_returns_a_tuple_and_kernels_call_each_other():
    run = simulator.run(twice, A)
    np.testing.assert_array_equal(run.outputs[0], 2 * A)
    np.testing.assert_array_equal(run.outputs[1], 3 * A)


def test_shape_only_launch_has_the_same_program_and_no_values():
    seen = simulator.run(add, A, A)
    walked = simulator.run(
        add, simulator.TensorSpec(A.shape, "float32"), simulator.TensorSpec(A.shape, "float32"), functional=False
    )
    assert walked.outputs == (None,)
    assert [i.op for i in walked.program] == [i.op for i in seen.program]


def test_spec_needs_a_walk():
    with pytest.raises(simulator.NkiValidationError, match="functional=False"):
        simulator.run(add, simulator.TensorSpec((3, 4), "float32"), A)


def test_instructions_know_their_source_line():
    run = simulator.run(add, A, A)
    line = next(i.line for i in run.program if i.op == "tensor_tensor")
    assert line[0] == small_kernels.__file__
    with open(small_kernels.__file__) as source:
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


@pytest.mark.parametrize("precise", ["1", "0"])
def test_narrow_floats_are_rounded_unless_precision_is_asked_for(monkeypatch, precise):
    monkeypatch.setenv("NKI_PRECISE_FP", precise)
    values = np.array([[1 + 2.0**-12, np.pi]], np.float32)
    result = nki.simulate(rounded)(values)
    expected = values.astype(ml_dtypes.bfloat16) if precise == "1" else values
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def test_numbers_for_members_of_an_enum_are_accepted_with_a_note():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        for _ in range(2):
            nisa.dma_copy(out, nl.load(a), dge_mode=3)
        return out

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        np.testing.assert_array_equal(nki.simulate(kernel)(A), A)
    assert [(str(note.message), note.category) for note in told] == [
        (
            "dma_copy: dge_mode 3 is from an earlier version of NKI and is interpreted as nisa.dge_mode.none",
            EarlierNkiWarning,
        )
    ]


@nki.jit
def rank_of(a):
    """Each core writes its rank to its row."""
    cores = nl.num_programs(0)
    tile = nl.load(a[0:1])
    nisa.memset(tile, value=nl.program_id(0) + 1)
    out = nl.ndarray((cores, a.shape[1]), a.dtype, nl.shared_hbm)
    rank = nl.program_id(0)
    nl.store(out[rank : rank + 1], tile)
    return out


def test_launch_specifies_the_number_of_cores(monkeypatch):
    for said in (None, "1", "2"):
        if said is not None:
            monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", said)
        assert simulator.run(rank_of, A, lnc=1).outputs[0].tolist() == [[1] * 4]
        for _ in range(3):  # executed, recorded and, on a single core, replayed
            (rows,) = simulator.run(rank_of, A, lnc=2, pure=True).outputs
            assert rows.tolist() == [[1] * 4, [2] * 4]
    assert len(simulator.run(rank_of, A).outputs[0]) == 2  # the environment, unless something else specifies it
    with pytest.raises(NkiValidationError, match="lnc, the number of cores in a logical core, must be 1 or 2, got 3"):
        simulator.run(rank_of, A, lnc=3)
    with pytest.raises(NkiValidationError, match="two cores require NeuronCore-v3"):
        simulator.run(rank_of, A, lnc=2, target="trn1")
