"""Two NeuronCores as one logical core: shared memory, synchronisation, and errors if they do not synchronise."""

import warnings

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki_tensors import uniform
from trninfer import simulator
from trninfer.simulator import NkiValidationError, TensorSpec
from trninfer.simulator.timing.constants import machine


@nki.jit
def reciprocals(a):
    """The example in nki/get-started/about/lnc.rst: one tile per core, or both on one."""
    out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
    for i in [nl.program_id(0)] if nl.num_programs() > 1 else range(2):
        tile = nl.load(a[i])
        nisa.reciprocal(tile, tile)
        nisa.dma_copy(out[i], tile)
    return out


def test_the_documented_example_has_the_same_result_on_one_and_two_cores():
    a = uniform(2, 128, 128, low=1, high=2)
    for kernel in (reciprocals, reciprocals[1], reciprocals[2], reciprocals[(2,)]):
        run = simulator.run(kernel, a)
        np.testing.assert_allclose(run.outputs[0], 1 / a, rtol=1e-6)
    np.testing.assert_allclose(nki.simulate(reciprocals)[2](a), 1 / a, rtol=1e-6)


def test_memory_is_a_cores_own_but_for_shared_hbm():
    @nki.jit
    def kernel(a):
        rank = nl.program_id(0)
        private = nl.ndarray((1, 4), nl.float32, nl.private_hbm)
        placed = nl.ndarray((1, 4), nl.float32, nl.sbuf, address=(0, 0))
        nisa.memset(placed, float(rank + 1))
        nisa.dma_copy(private, placed)
        shared = nl.ndarray((2, 4), nl.float32, nl.shared_hbm)
        nisa.core_barrier(shared, (0, 1))
        back = nl.load(private)
        nisa.tensor_tensor(back, back, placed, nl.add)
        nisa.dma_copy(shared[rank : rank + 1], back)
        return shared

    assert simulator.run(kernel[2], np.zeros((1, 1), np.float32)).outputs[0][:, 0].tolist() == [2, 4]


def test_each_turn_of_a_loop_makes_its_own_shared_tensor():
    @nki.jit
    def kernel(a):
        rank, outs = nl.program_id(0), []
        for i in range(3):
            out = nl.ndarray((2, 4), nl.float32, nl.shared_hbm)
            tile = nl.full((1, 4), 10 * i + rank, nl.float32)
            nisa.dma_copy(out[rank : rank + 1], tile)
            outs.append(out)
        return tuple(outs)

    outputs = simulator.run(kernel[2], np.zeros((1, 1), np.float32)).outputs
    assert [out[:, 0].tolist() for out in outputs] == [[0, 1], [10, 11], [20, 21]]


@nki.jit
def unmatched(a, first, second):
    """Each core runs the instructions listed for it."""
    rank = nl.program_id(0)
    shared, other = nl.ndarray((4, 4), nl.float32, nl.shared_hbm), nl.ndarray((4, 4), nl.float32, nl.shared_hbm)
    src, dst = nl.zeros((4, 4), nl.float32), nl.ndarray((4, 4), nl.float32)
    for step in (first, second)[rank]:
        if step == "barrier":
            nisa.core_barrier(shared, (0, 1))
        elif step == "other":
            nisa.core_barrier(other, (0, 1))
        else:
            nisa.sendrecv(src, dst, 1 - rank, 1 - rank, int(step))
    return shared


A = np.zeros((1, 1), np.float32)


@pytest.mark.parametrize(
    "first, second, text",
    [
        (("barrier",), (), r"core 0 waits at core_barrier \(data .*test_pair.py:\d+, but core 1 has ended"),
        ((), ("barrier",), r"core 1 waits at core_barrier .*, but core 0 has ended"),
        (("1",), (), r"core 0 waits at sendrecv \(pipe_id 1, .*, but core 1 has ended"),
        (
            ("barrier",),
            ("1",),
            r"core 0 waits at core_barrier .*py:\d+ and core 1 waits at sendrecv .*neither can continue",
        ),
        (("1",), ("2",), r"sendrecv \(pipe_id 1, .* and core 1 waits at sendrecv \(pipe_id 2, "),
        (("barrier",), ("other",), r"core 0 waits at core_barrier .* and core 1 waits at core_barrier"),
        (("barrier", "barrier"), ("barrier",), r"core 0 waits at .*, but core 1 has ended"),
    ],
)
def test_a_deadlock_names_both_sides(first, second, text):
    with pytest.raises(NkiValidationError, match=text):
        simulator.run(unmatched[2], A, first=first, second=second)


def test_exception_of_a_core_is_raised_once():
    @nki.jit
    def kernel(a):
        shared = nl.ndarray((4, 4), nl.float32, nl.shared_hbm)
        if nl.program_id(0) == 1:
            raise RuntimeError("of core 1")
        nisa.core_barrier(shared, (0, 1))
        return shared

    with pytest.raises(RuntimeError, match="of core 1"), warnings.catch_warnings():
        warnings.simplefilter("error")
        simulator.run(kernel[2], A)


@pytest.mark.parametrize(
    "wrong, text",
    [
        (lambda: simulator.run(reciprocals[3]), "a launch grid must have 1 or 2 cores"),
        (lambda: simulator.run(reciprocals[2, 2]), "a launch grid must have 1 or 2 cores"),
        (
            lambda: simulator.run(reciprocals[2], uniform(2, 4, 4), target="trn1"),
            "two cores require NeuronCore-v3",
        ),
    ],
)
def test_limits_of_two_cores(wrong, text):
    with pytest.raises(NkiValidationError, match=text):
        wrong()


def test_two_cores_take_half_the_time_of_what_is_bound_by_an_engine():
    @nki.jit
    def work(a, count):
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        share = count // nl.num_programs()
        tile = nl.load(a[nl.program_id(0)])
        for _ in range(share):
            nisa.activation(tile, nl.copy, tile)
        nisa.dma_copy(out[nl.program_id(0)], tile)
        return out

    spec = TensorSpec((2, 128, 512), "float32")
    one, two = (simulator.run(work[cores], spec, functional=False, count=200) for cores in (1, 2))
    assert two.latency_us - two.launch_us == pytest.approx((one.latency_us - one.launch_us) / 2, rel=0.1)
    assert two.flops == one.flops and "scaled" in two.note and one.note is None
    assert two.mfu == 0 and two.bound_by == "scalar"


def test_a_meeting_waits_for_the_later_core():
    @nki.jit
    def late(a, busy):
        shared = nl.ndarray((2, 128, 512), nl.float32, nl.shared_hbm)
        tile = nl.zeros((128, 512), nl.float32)
        for _ in range(busy[nl.program_id(0)]):
            nisa.activation(tile, nl.copy, tile)
        nisa.dma_copy(shared[nl.program_id(0)], tile)
        nisa.core_barrier(shared, (0, 1))
        nisa.dma_copy(shared[nl.program_id(0)], tile)
        return shared

    both, first, second, none = (
        simulator.run(late[2], A, busy=busy, functional=False) for busy in ((50, 50), (50, 0), (0, 50), (0, 0))
    )
    assert first.latency_us == pytest.approx(second.latency_us) and none.latency_us < first.latency_us
    assert first.latency_us == pytest.approx(both.latency_us, rel=0.05)
    for run in (both, first, second):
        starts = [event.start_ns for event in run.timeline if event.op == "core_barrier"]
        assert len(starts) == 2 and starts[0] == pytest.approx(starts[1], abs=0.1)
        assert {event.engine[:6] for event in run.timeline} == {"core 0", "core 1"}


def test_the_arguments_that_either_core_writes_are_updated():
    @nki.jit
    def fill(a):
        tile = nl.full((1, 4), nl.program_id(0) + 1, nl.float32)
        nisa.dma_copy(a[nl.program_id(0) : nl.program_id(0) + 1], tile)
        return a

    a = np.zeros((2, 4), np.float32)
    nki.simulate(fill)[2](a)
    assert a[:, 0].tolist() == [1, 2]


def test_two_cores_that_load_at_once_share_the_stack_of_hbm():
    @nki.jit
    def kernel(a):
        rank = nl.program_id(0)
        for i in range(8):
            tile = nl.load(a[rank, :, 8192 * i : 8192 * (i + 1)])
        out = nl.ndarray((2, 128, 1), a.dtype, nl.shared_hbm)
        nisa.dma_copy(out[rank], tile[:, 0:1])
        return out

    a = simulator.TensorSpec((2, 128, 8 * 8192), "bfloat16")
    one, two = (simulator.run(kernel[cores], a, functional=False) for cores in (1, 2))
    m = machine("trn2")
    moved = 128 * 8 * 8192 * 2
    rates = [moved / (run.latency_us - run.launch_us) / 1000 for run in (one, two)]
    assert rates[1] <= m.hbm_stack_rate * m.hbm_shared_efficiency / 2 < rates[0] <= m.dma_sustained
    alone = simulator.run(kernel[2], a, functional=False, constants={"hbm_shared_efficiency": 2.0})
    assert alone.latency_us == one.latency_us


def test_a_core_beside_one_that_moves_nothing_has_the_stack_of_hbm_to_itself():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        if nl.program_id(0) == 0:
            nisa.dma_copy(out, nl.load(a))
        return out

    a = simulator.TensorSpec((128, 16 * 1024), "float32")
    one, two = (simulator.run(kernel, a, functional=False, lnc=lnc) for lnc in (1, 2))
    assert (one.latency_us, one.hbm_bytes) == (two.latency_us, two.hbm_bytes)
