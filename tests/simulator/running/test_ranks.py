"""Launches on several ranks: their number, their kernels, and the results of each run."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer import simulator
from trninfer.simulator import NkiValidationError, TensorSpec
from trninfer.simulator.checking.sanitizing import sanitized


def group(*ranks):
    return ncc.ReplicaGroup([list(each) for each in ranks])


def arrays(ranks, shape=(4, 6), dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.integers(-100, 100, shape).astype(dtype),) for _ in range(ranks)]


def empty(shape, x):
    return nl.ndarray(shape, x.dtype, buffer=nl.shared_hbm)


@nki.jit
def reduced(x, groups, op=nl.add):
    src, dst = (nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm) for _ in range(2))
    nisa.dma_copy(dst=src, src=x)
    ncc.all_reduce(srcs=[src], dsts=[dst], replica_group=groups, op=op)
    out = empty(x.shape, x)
    nisa.dma_copy(dst=out, src=dst)
    return out


A = np.ones((4, 4), np.float32)


def test_the_time_is_marked_and_one_rank_is_a_world():
    (run,) = simulator.run_ranks(reduced, arrays(1), groups=group((0,)), sanitize="all")
    assert "collectives are assumed to take no time" in run.note and run.findings == []
    alone = simulator.run(reduced, arrays(1)[0][0], groups=group((0,)))
    np.testing.assert_array_equal(alone.outputs[0], arrays(1)[0][0])
    shapes = simulator.run(reduced, TensorSpec((4, 6), "float32"), groups=group((0, 1)), functional=False)
    assert shapes.latency_us == alone.latency_us  # independent of the group


def test_several_ranks_need_a_launch_of_their_own():
    with pytest.raises(NkiValidationError, match=r"runs on 1 rank; simulator.run_ranks\(kernel"):
        simulator.run(reduced, A, groups=group((0, 1)))
    for count in (0, 9):
        with pytest.raises(NkiValidationError, match=f"the number of ranks must be between 1 and 8, .*, got {count}"):
            simulator.run_ranks(reduced, [(A, group(range(9)))] * count)
    with pytest.raises(NkiValidationError, match="ranks that consist of two cores"):
        simulator.run_ranks(reduced[2], [(A,), (A,)], groups=group((0, 1)))


@nki.jit
def doubled(x, times=2.0):
    """No collective: each rank is a separate launch."""
    tile = nl.load(x)
    for _ in range(x.shape[1] // 4):
        nisa.tensor_scalar(tile, tile, nl.multiply, times)
    out = empty(x.shape, x)
    nisa.dma_copy(out, tile)
    return out


def test_each_rank_has_its_own_arguments_outputs_and_time():
    small, large = np.ones((4, 4), np.float32), np.full((128, 400), 0.5, np.float32)
    runs = simulator.run_ranks(doubled, [(small,), (large,)], target="trn3", times=1.5)
    np.testing.assert_array_equal(runs[0].outputs[0], 1.5 * small)
    np.testing.assert_allclose(runs[1].outputs[0], 0.5 * 1.5**100 * np.ones_like(large), rtol=1e-5)
    for run, x in zip(runs, (small, large)):
        alone = simulator.run(doubled, x, target="trn3", times=1.5)
        assert (run.latency_us, run.target, run.name) == (alone.latency_us, "trn3", "doubled")
    assert runs[0].latency_us < runs[1].latency_us


def test_ranks_of_two_cores_are_refused_whatever_they_run():
    with pytest.raises(NkiValidationError, match="ranks that consist of two cores are not simulated"):
        simulator.run_ranks(doubled[2], [(A,)])


def test_checks_are_those_of_the_launch():
    with pytest.raises(NkiValidationError, match=r"sanitize must be .*, got 'race'"):
        simulator.run_ranks(doubled, [(A,)], sanitize="race")
    with sanitized("all"):  # unless the launch selects the checks
        (run,) = simulator.run_ranks(doubled, [(np.full((4, 4), 3e38, np.float32),)], times=10.0)
    assert run.findings
