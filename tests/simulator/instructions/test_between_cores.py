"""Barriers and exchanges of tiles between two cores: results, invalid calls, and times."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nki_tensors import uniform
from trninfer import simulator
from trninfer.simulator import NkiValidationError
from trninfer.simulator.timing.constants import machine


@nki.jit
def swapped(a, pipe=0, dma=nisa.dma_engine.dma):
    """Each core sends its tile to the other in both ways; out = mine + sent + read."""
    rank = nl.program_id(0)
    out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
    shared = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
    mine = nl.load(a[rank])
    nisa.dma_copy(shared[rank], mine)
    nisa.core_barrier(data=shared, cores=(0, 1))
    read = nl.load(shared[1 - rank])
    sent = nl.ndarray(mine.shape, mine.dtype)
    nisa.sendrecv(mine, sent, send_to_rank=1 - rank, recv_from_rank=1 - rank, pipe_id=pipe, dma_engine=dma)
    nisa.tensor_tensor(mine, mine, sent, nl.add)
    nisa.tensor_tensor(mine, mine, read, nl.add)
    nisa.dma_copy(out[rank], mine)
    return out


@settings(max_examples=20)
@given(partitions=st.sampled_from([1, 3, 127, 128]), free=st.integers(1, 129), functional=st.booleans())
def test_cores_exchange_tiles_and_read_what_the_other_wrote(partitions, free, functional):
    a = uniform(2, partitions, free)
    run = simulator.run(swapped[2], a, functional=functional)
    if functional:
        np.testing.assert_allclose(run.outputs[0], [a[0] + 2 * a[1], a[1] + 2 * a[0]], rtol=1e-5, atol=1e-6)
    else:
        assert run.latency_us == simulator.run(swapped[2], a).latency_us


@nki.jit
def combined(a, op, region):
    """Each core combines its tile with the other's, in SBUF or in private HBM."""
    rank = nl.program_id(0)
    out, tile = nl.ndarray(a.shape, a.dtype, nl.shared_hbm), nl.load(a[rank])
    mine, both = nl.ndarray(tile.shape, a.dtype, region), nl.ndarray(tile.shape, a.dtype, region)
    nisa.dma_copy(mine, tile)
    nisa.sendrecv_compute(src=mine, dst=both, send_to_rank=1 - rank, recv_from_rank=1 - rank, reduce_op=op)
    nisa.dma_copy(out[rank], both)
    return out


@pytest.mark.parametrize("region", [nl.sbuf, nl.private_hbm])
@pytest.mark.parametrize(("op", "golden"), [(nl.add, np.add), (nl.maximum, np.maximum), (nl.minimum, np.minimum)])
def test_cores_combine_tiles(op, golden, region):
    a = uniform(2, 127, 33)
    run = simulator.run(combined[2], a, op=op, region=region)
    assert np.array_equal(run.outputs[0], np.broadcast_to(golden(a[0], a[1]), a.shape))
    assert run.latency_us == simulator.run(combined[2], a, op=op, region=region, functional=False).latency_us


@nki.jit
def wrong(a, call):
    shared, private = nl.ndarray((4, 4), a.dtype, nl.shared_hbm), nl.ndarray((4, 4), a.dtype, nl.private_hbm)
    tile, other = nl.zeros((4, 4), a.dtype), nl.ndarray((4, 4), a.dtype)
    call(shared, private, tile, other, 1 - nl.program_id(0))
    return shared


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda s, p, t, o, to: nisa.core_barrier(s, (0,)), r"core_barrier: cores must be \(0, 1\), got \(0,\)"),
        (
            lambda s, p, t, o, to: nisa.core_barrier(p, (0, 1)),
            "data .* must be a tensor in nl.shared_hbm",
        ),
        (lambda s, p, t, o, to: nisa.sendrecv(t, o, 1 - to, to, 0), r"sendrecv on core \d: sends to (\d) and receives"),
        (lambda s, p, t, o, to: nisa.sendrecv_compute(t, p, to, to, nl.add), "both be in SBUF or both in nl.private"),
        (lambda s, p, t, o, to: nisa.sendrecv_compute(s, p, to, to, nl.add), "sendrecv_compute: src .* must be in"),
        (
            lambda s, p, t, o, to: nisa.sendrecv_compute(t, o, to, to, nl.multiply),
            "nl.multiply is not allowed",
        ),
        (lambda s, p, t, o, to: nisa.sendrecv_compute(t, o, 1 - to, to, nl.add), "sendrecv_compute on core"),
        (
            lambda s, p, t, o, to: nisa.sendrecv(t, o, to, 1 - to, 0),
            "receives from .* must send to and receive from each other",
        ),
        (lambda s, p, t, o, to: nisa.sendrecv(t, o[:, 0:2], to, to, 0), "must have the same dtype, partitions and"),
        (lambda s, p, t, o, to: nisa.sendrecv(t, o[0:2], to, to, 0), "must have the same dtype, partitions and"),
    ],
)
def test_exchanges_that_cores_do_not_support(call, text):
    with pytest.raises(NkiValidationError, match=text):
        simulator.run(wrong[2], np.zeros((1, 1), np.float32), call=call)


def test_one_core_has_none_to_exchange_with():
    with pytest.raises(NkiValidationError, match="the kernel runs on one core; launch it on two"):
        simulator.run(swapped, np.zeros((2, 4, 4), np.float32))


@pytest.mark.parametrize("columns, is_taken", [(256, True), (257, False)])
def test_gpsimd_moves_256_elements_of_a_partition(columns, is_taken):
    a = uniform(2, 4, columns)
    if is_taken:
        (out,) = simulator.run(swapped[2], a, dma=nisa.dma_engine.gpsimd_dma).outputs
        np.testing.assert_allclose(out[0], a[0] + 2 * a[1], rtol=1e-5, atol=1e-6)
    else:
        with pytest.raises(NkiValidationError, match=r"has 1028 bytes .* gpsimd_dma moves at most 1024"):
            simulator.run(swapped[2], a, dma=nisa.dma_engine.gpsimd_dma)


def test_a_barrier_on_a_tile_of_each_core_is_a_barrier_and_reported():
    """nki-library's bwmm_shard_on_I uses one, although the documentation requires data in shared HBM."""

    @nki.jit
    def kernel(a):
        rank = nl.program_id(0)
        shared = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        tile = nl.load(a[rank : rank + 1])
        nisa.dma_copy(shared[rank : rank + 1], tile)
        nisa.core_barrier(tile, (0, 1))
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        nisa.dma_copy(out[rank : rank + 1], shared[1 - rank : 2 - rank])
        return out

    a = uniform(2, 4)
    with pytest.warns(UserWarning, match="core_barrier: data .* is private to each core"):
        np.testing.assert_array_equal(simulator.run(kernel[2], a).outputs[0], a[::-1])


def test_exchanges_are_sequential():
    @nki.jit
    def kernel(a, count):
        rank = nl.program_id(0)
        tile = nl.load(a[rank])
        for i in range(count):
            received = nl.ndarray((128, 4), nl.float32, nl.sbuf)
            nisa.sendrecv(tile, received, 1 - rank, 1 - rank, i)
        out = nl.ndarray((2, 128, 4), nl.float32, nl.shared_hbm)
        nisa.dma_copy(out[rank], received)
        return out

    few, many = (simulator.run(kernel[2], np.zeros((2, 128, 4), np.float32), count=n).latency_us for n in (2, 15))
    assert 1.5 < (many - few) / 13 < 2.3  # row o41: about 1.9 us each


def test_gpsimds_own_dma_engines_do_not_wait_for_loads_on_their_way():
    """A2: they move data "parallel to data movements done by the main DMA engines"."""

    @nki.jit
    def kernel(a, w, dma, count):
        rank = nl.program_id(0)
        mine = nl.load(a[rank])
        loaded = [nl.ndarray(w.shape[1:], w.dtype) for _ in range(count)]
        for i, tile in enumerate(
            loaded
        ):  # of 4 us each, in flight when `mine` is ready; GpSimd generates no descriptors
            nisa.dma_copy(tile, w[i], dge_mode=nisa.dge_mode.hwdge)
        received = nl.ndarray(mine.shape, mine.dtype)
        nisa.sendrecv(mine, received, 1 - rank, 1 - rank, 0, dma)
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        nisa.tensor_tensor(mine, mine, received, nl.add)
        for tile in loaded:
            nisa.tensor_tensor(mine, mine, tile[:, 0:64], nl.add)
        nisa.dma_copy(out[rank], mine)
        return out

    def received(dma, count, **constants):
        a, w = np.zeros((2, 128, 64), np.float32), np.zeros((8, 128, 2048), np.float32)
        run = simulator.run(kernel[2], a, w, dma=dma, count=count, functional=False, constants=constants)
        return max(event.done_ns for event in run.timeline if event.op == "sendrecv")

    main, own = nisa.dma_engine.dma, nisa.dma_engine.gpsimd_dma
    assert received(main, 8) > received(main, 0) + 5000
    assert received(own, 8) == received(own, 0)
    rate = machine("trn2").gpsimd_dma_rate
    assert received(own, 8, gpsimd_dma_rate=rate / 4) == pytest.approx(received(own, 8) + 3 * 128 * 256 / rate)
    assert received(main, 8, gpsimd_dma_rate=rate / 4) == received(main, 8)
