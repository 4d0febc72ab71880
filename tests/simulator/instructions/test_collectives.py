"""Collectives on several ranks, compared with NumPy; invalid calls, and ranks that wait in vain."""

import ml_dtypes
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer import simulator
from trninfer.simulator import NkiValidationError
from trninfer.simulator.machine.errors import ReportedOnChipWarning

UFUNCS = {"add": np.add, "minimum": np.minimum, "maximum": np.maximum}


def group(*ranks):
    return ncc.ReplicaGroup([list(each) for each in ranks])


def arrays(ranks, shape=(4, 6), dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.integers(-100, 100, shape).astype(dtype),) for _ in range(ranks)]


def outputs(kernel, given, **options):
    return [run.outputs[0] for run in simulator.run_ranks(kernel, given, **options)]


def empty(shape, x):
    return nl.ndarray(shape, x.dtype, buffer=nl.shared_hbm)


def own(x, buffer=nl.private_hbm):
    """Return a copy of an input that a collective may read."""
    copied = nl.ndarray(x.shape, x.dtype, buffer=buffer)
    nisa.dma_copy(dst=copied, src=x)
    return copied


@nki.jit
def reduced(x, groups, op=nl.add):
    total = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
    ncc.all_reduce(srcs=[own(x)], dsts=[total], replica_group=groups, op=op)
    return own(total, nl.shared_hbm)


@nki.jit
def gathered(x, groups, size, dim=0, in_sbuf=False):
    shape = (x.shape[0] * size, x.shape[1]) if dim == 0 else (x.shape[0], x.shape[1] * size)
    out = empty(shape, x)
    if in_sbuf:
        tile = nl.ndarray(shape, x.dtype, buffer=nl.sbuf)
        ncc.all_gather(srcs=[nl.load(x)], dsts=[tile], replica_group=groups, collective_dim=dim)
        nisa.dma_copy(dst=out, src=tile)
    else:
        ncc.all_gather(srcs=[x], dsts=[out], replica_group=groups, collective_dim=dim)
    return out


@nki.jit
def scattered(x, groups, size, op=nl.add):
    out = empty((x.shape[0] // size, x.shape[1]), x)
    ncc.reduce_scatter(srcs=[x], dsts=[out], replica_group=groups, collective_dim=0, op=op)
    return out


@nki.jit
def transposed(x, groups):
    out = empty(x.shape, x)
    ncc.all_to_all(srcs=[x], dsts=[out], replica_group=groups, collective_dim=0)
    return out


@nki.jit
def permuted(x, pairs):
    out = empty(x.shape, x)
    nisa.dma_copy(dst=out, src=x)
    ncc.collective_permute(srcs=[x], dsts=[out], source_target_pairs=pairs)
    return out


@nki.jit
def ring_sum(x, groups, size, rows):
    """Compute the sum over all ranks with a ring, and the owner of each part."""
    total, ids = empty(x.shape, x), empty((size, 1), rows)
    part = nl.load(x)
    held = nl.load(x)
    for turn in range(size):
        if turn:
            received = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
            ncc.collective_permute_implicit(
                srcs_by_channel=[[part]], dsts_by_channel=[[received]], replica_group=groups
            )
            part = received
            nisa.tensor_tensor(dst=held, data1=held, data2=part, op=nl.add)
        rank = ncc.collective_permute_implicit_current_processing_rank_id(turn, groups)
        nisa.dma_copy(dst=ids[turn : turn + 1], src=rows.ap([[1, 1], [1, 1]], scalar_offset=rank, indirect_dim=0))
    nisa.dma_copy(dst=total, src=held)
    return total, ids


@given(st.integers(1, 8), st.sampled_from(sorted(UFUNCS)), st.integers(0, 9))
@settings(max_examples=15, deadline=None)
def test_reductions_are_those_of_numpy(ranks, op, seed):
    given_ = arrays(ranks, (ranks, 3), seed=seed)
    whole = UFUNCS[op].reduce([a for (a,) in given_])
    everyone = group(range(ranks))
    for found in outputs(reduced, given_, groups=everyone, op=getattr(nl, op)):
        np.testing.assert_array_equal(found, whole)
    for rank, found in enumerate(outputs(scattered, given_, groups=everyone, size=ranks, op=getattr(nl, op))):
        np.testing.assert_array_equal(found, whole[rank : rank + 1])


def test_sums_are_rounded_once_and_integers_not_at_all():
    given_ = [(np.full((2, 2), value, ml_dtypes.bfloat16),) for value in (256, 1, 1)]
    (first, *_) = outputs(reduced, given_, groups=group(range(3)))
    assert first.dtype == ml_dtypes.bfloat16 and (first.astype(np.float32) == 258).all()  # 256 + 1 is 256 in bfloat16
    numbers = [(np.full((2, 2), 16777217, np.int32),), (np.zeros((2, 2), np.int32),)]
    assert (outputs(reduced, numbers, groups=group((0, 1)))[1] == 16777217).all()


def test_groups_are_independent_and_ordered():
    given_ = arrays(4)
    a, b, c, d = (each for (each,) in given_)
    found = outputs(reduced, given_, groups=group((0, 2), (1, 3)))
    for rank, want in enumerate((a + c, b + d, a + c, b + d)):
        np.testing.assert_array_equal(found[rank], want)
    found = outputs(gathered, given_, groups=group((2, 0), (1, 3)), size=2)
    np.testing.assert_array_equal(found[0], np.concatenate([c, a]))


@pytest.mark.parametrize("dim, in_sbuf", [(0, False), (0, True), (1, True)])
def test_gathers_are_concatenations(dim, in_sbuf):
    given_ = arrays(3)
    for found in outputs(gathered, given_, groups=group(range(3)), size=3, dim=dim, in_sbuf=in_sbuf):
        np.testing.assert_array_equal(found, np.concatenate([a for (a,) in given_], axis=dim))


def test_all_to_all_exchanges_parts_and_permutes_follow_pairs():
    given_ = arrays(4)
    found = outputs(transposed, given_, groups=group(range(4)))
    for rank in range(4):
        np.testing.assert_array_equal(found[rank], np.stack([a[rank] for (a,) in given_]))
    found = outputs(permuted, given_, pairs=((0, 1), (1, 0), (3, 2)))
    for rank, source in enumerate((1, 0, 3, 3)):  # 3 is not a target
        np.testing.assert_array_equal(found[rank], given_[source][0])


def test_a_ring_passes_on_the_declared_tensors():
    ids = np.arange(3, dtype=np.int32).reshape(3, 1)
    given_ = [(a, group(range(3)), 3, ids) for (a,) in arrays(3)]
    runs = simulator.run_ranks(ring_sum, given_)
    for rank, run in enumerate(runs):
        np.testing.assert_array_equal(run.outputs[0], sum(each[0] for each in given_))
        assert run.outputs[1].ravel().tolist() == [rank, (rank - 1) % 3, (rank - 2) % 3]


def test_a_ring_that_reduces():
    @nki.jit
    def kernel(x, y):
        out = empty(x.shape, x)
        ncc.collective_permute_implicit_reduce([[x]], [[y]], [[out]], group(range(3)), nl.maximum)
        return out

    given_ = [(a, b) for (a,), (b,) in zip(arrays(3), arrays(3, seed=1))]
    for rank, found in enumerate(outputs(kernel, given_)):
        np.testing.assert_array_equal(found, np.maximum(*given_[rank - 1]))


def test_the_number_of_a_rank_is_a_register():
    @nki.jit
    def kernel(rows):
        out = empty((1, 1), rows)
        nisa.dma_copy(dst=out, src=rows.ap([[1, 1], [1, 1]], scalar_offset=ncc.rank_id(), indirect_dim=0))
        return out

    rows = np.array([[7], [8], [9]], np.int32)
    assert [found.item() for found in outputs(kernel, [(rows,)] * 3)] == [7, 8, 9]
    assert simulator.run(kernel, rows).outputs[0].item() == 7


def test_several_tensors_go_in_one_collective():
    @nki.jit
    def kernel(x, y):
        totals = [nl.ndarray(each.shape, each.dtype, buffer=nl.private_hbm) for each in (x, y)]
        ncc.all_reduce(srcs=[own(x), own(y)], dsts=totals, replica_group=group((0, 1)), op=nl.add)
        return tuple(own(total, nl.shared_hbm) for total in totals)

    given_ = [(a, b) for (a,), (b,) in zip(arrays(2), arrays(2, (3, 5), np.int32))]
    for run in simulator.run_ranks(kernel, given_):
        for at in range(2):
            np.testing.assert_array_equal(run.outputs[at], given_[0][at] + given_[1][at])


A = np.ones((4, 4), np.float32)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda x, o: ncc.all_reduce([x], [o], group((0, 1)), nl.multiply),
            "op must be one of nl.add, nl.min.*, got nl.multiply",
        ),
        (lambda x, o: ncc.all_reduce([x], [o[0:2]], group((0, 1)), nl.add), "has the wrong shape: dst must be"),
        (lambda x, o: ncc.all_reduce(x, o, group((0, 1)), nl.add), "must be lists with the same number of tensors"),
        (
            lambda x, o: ncc.all_reduce([x, x], [o], group((0, 1)), nl.add),
            "must be lists with the same number of tensors",
        ),
        (lambda x, o: ncc.all_reduce([x], [nl.load(x)], group((0, 1)), nl.add), "all be in HBM, or all in SBUF"),
        (
            lambda x, o: ncc.all_reduce([x], [o], group((0, 2)), nl.add),
            "rank 1 is in no group|contains rank 2, but the",
        ),
        (lambda x, o: ncc.all_reduce([x], [o], group((0, 1), (1, 2)), nl.add), "contains a duplicate or negative rank"),
        (lambda x, o: ncc.all_reduce([x], [o], [[0, 1]], nl.add), "must be a ReplicaGroup, got list"),
        (lambda x, o: ncc.all_reduce([x], [o], ncc.ReplicaGroup(3), nl.add), "must be lists of ranks"),
        (lambda x, o: ncc.all_gather([x], [o], group((0, 1)), 1), "collective_dim must be 0, got 1"),
        (lambda x, o: ncc.reduce_scatter([x], [o], group((0, 1)), 0, nl.add), "has the wrong shape"),
        (lambda x, o: ncc.all_to_all([x[0:3]], [o[0:3]], group((0, 1)), 0), "must be divisible into 2 parts"),
        (lambda x, o: ncc.all_to_all([nl.load(x)], [nl.load(x)], group((0, 1)), 0), "the tensors must be in HBM"),
        (lambda x, o: ncc.collective_permute([x], [o], [(0, 1), (1, 1)]), "a duplicate source or target"),
        (lambda x, o: ncc.collective_permute([x, x], [o, o], [(0, 1)]), "one tensor each, got 2 and 2"),
        (lambda x, o: ncc.collective_permute_implicit([[x]], [[o]], group((0, 1)), [1]), "must be 0, 1, ..."),
        (lambda x, o: ncc.collective_permute_implicit([[x, x]], [[o]], group((0, 1))), "a list with one tensor"),
        (lambda x, o: ncc.all_gather_v([x], [o], group((0, 1)), x), "not simulated"),
    ],
)
def test_invalid_collective_operands_are_reported(call, message):
    @nki.jit
    def kernel(x):
        out = empty(x.shape, x)
        call(x, out)
        return out

    with pytest.raises(NkiValidationError, match=message):
        simulator.run_ranks(kernel, [(A,), (A,)])


def test_operands_of_all_reduce_are_in_private_hbm_on_one_core(monkeypatch):
    """The documentation of 2.33: sources always, destinations unless the environment specifies otherwise; memories
    cannot be mixed."""

    def call(sources, targets):
        @nki.jit
        def kernel(x):
            srcs = [own(x, buffer) for buffer in sources]
            dsts = [nl.ndarray(x.shape, x.dtype, buffer=buffer) for buffer in targets]
            ncc.all_reduce(srcs, dsts, group((0,)), nl.add)
            return own(dsts[0], nl.shared_hbm)

        return simulator.run(kernel, A).outputs[0]

    private, shared = nl.private_hbm, nl.shared_hbm
    for sources, targets, message in (
        ([private, shared], [private, private], "srcs must all be in nl.private_hbm, or all in nl.shared_hbm"),
        ([private, private], [private, shared], "dsts must all be in nl.private_hbm, or all in nl.shared_hbm"),
        ([shared], [private], "src .* must be in nl.private_hbm on a logical core of one core"),
        ([private], [shared], "dst .* unless the environment has NKI_LNC1_SHARED_HBM=1"),
    ):
        with pytest.raises(NkiValidationError, match=message):
            call(sources, targets)
    np.testing.assert_array_equal(call([private], [private]), A)
    monkeypatch.setenv("NKI_LNC1_SHARED_HBM", "1")
    np.testing.assert_array_equal(call([private], [shared]), A)


def test_a_collective_that_reads_an_input_is_warned_of():
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        ncc.all_reduce([x], [out], group((0,)), nl.add)
        return own(out, nl.shared_hbm)

    with pytest.warns(ReportedOnChipWarning, match="is an input of the kernel, which collectives are reported"):
        simulator.run(kernel, A)


def test_a_collective_returns_an_instruction_for_others_to_wait_for():
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        first = ncc.all_reduce([own(x)], [out], group((0,)), nl.add)
        second = ncc.collective_permute([out], [own(x)], [(1, 2)])  # does not involve this rank
        nisa.dma_copy(dst=own(x), src=x).depends_on(first, second)
        return own(out, nl.shared_hbm)

    np.testing.assert_array_equal(simulator.run(kernel, A).outputs[0], A)


def test_ranks_that_mismatch_or_wait_forever_are_named():
    @nki.jit
    def kernel(x, rank, what):
        out, x = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm), own(x)
        if what == "other op":
            ncc.all_reduce([x], [out], group((0, 1, 2)), nl.add if rank else nl.maximum)
        elif what == "ended" and rank:
            ncc.all_reduce([x], [out], group((0, 1, 2)), nl.add)
        elif what == "circle":
            pairs = (((0, 1),), ((1, 2),), ((0, 2),))
            for turn in range(3):
                ncc.collective_permute([x], [out], pairs[(turn + rank) % 3])
        elif what == "raises" and rank == 2:
            raise ValueError("no luck")
        elif what == "raises":
            ncc.all_reduce([x], [out], group((0, 1, 2)), nl.add)
        return own(out, nl.shared_hbm)

    for what, kind, message in (
        ("other op", NkiValidationError, r"rank \d calls all_reduce of .*:\d+, but rank \d calls all_reduce"),
        ("ended", NkiValidationError, "for rank 0, which has ended"),
        ("circle", NkiValidationError, "deadlock: ranks wait for each other: rank 0 in collective_permute of"),
        ("raises", ValueError, "no luck"),
    ):
        with pytest.raises(kind, match=message):
            simulator.run_ranks(kernel, [(A, rank, what) for rank in range(3)])
