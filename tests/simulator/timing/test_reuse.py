"""Advice on tiles that are reused: the gain is that of a kernel rewritten with a new tile for each use."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer import simulator

STEPS = 8
WIDE = np.zeros((128, 512 * STEPS), np.float32)


def made(shape, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype=nl.float32, buffer=buffer)


def run(kernel, *arguments, target="trn2", **options):
    return simulator.run(nki.jit(kernel), *arguments, target=target, functional=False, **options)


def advised(kernel, rewritten, *arguments, **options):
    """Return the advice for a kernel, checking that its gain is that of the rewritten kernel, which gets no advice."""
    now, then = run(kernel, *arguments, **options), run(rewritten, *arguments, **options)
    assert now.reuse is not None and then.reuse is None
    assert now.latency_us - now.reuse.gain_us == pytest.approx(then.latency_us, abs=1e-5)
    return now


def add_one(is_reused):
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        for i in range(0, a.shape[1], 512):
            tile = tile if is_reused else made((128, 512))
            nisa.dma_copy(dst=tile, src=a[:, i : i + 512])
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
            nisa.dma_copy(dst=out[:, i : i + 512], src=tile)
        return out

    return kernel


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_a_tile_outside_of_the_loop(target):
    now = advised(add_one(True), add_one(False), WIDE, target=target)
    (tile,) = now.reuse.tiles
    assert (tile.name, tile.memory, tile.waits, tile.are_loads) == ("tile", "sbuf", STEPS - 1, True)
    (line,) = now.advice
    assert line.startswith("tile tile (test_reuse.py:") and f"is reused: {STEPS - 1} loads wait for its last" in line
    assert line.endswith(f"save {now.reuse.gain_us:.1f} of {now.latency_us:.1f} us")


def copied(is_reused):
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        first, second = made((128, 512)), made((128, 512))
        for i in range(0, a.shape[1], 512):
            if not is_reused:
                first, second = made((128, 512)), made((128, 512))
            nisa.dma_copy(dst=first, src=a[:, i : i + 512])
            nisa.activation(dst=second, data=first, op=nl.exp)
            nisa.dma_copy(dst=out[:, i : i + 512], src=second)
        return out

    return kernel


def test_two_tiles_of_which_one_alone_gains_less():
    now = advised(copied(True), copied(False), WIDE)
    assert len(now.reuse.tiles) == 2 and now.advice[0].startswith("tiles 128x512 float32 (")
    assert f"{2 * (STEPS - 1)} writes wait for their last readers" in now.advice[0]


def product(is_reused):
    def kernel(a, b):
        out = nl.ndarray((128, b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
        x = made((128, 128))
        nisa.dma_copy(dst=x, src=a)
        y = made((128, b.shape[1]))
        nisa.dma_copy(dst=y, src=b)
        z = made((128, b.shape[1]))
        sums = made((128, 512), nl.psum)
        for i in range(0, b.shape[1], 512):
            sums = sums if is_reused else made((128, 512), nl.psum)
            for k in range(2):
                nisa.nc_matmul(dst=sums, stationary=x, moving=y[:, i : i + 512], accumulate=k > 0)
            nisa.tensor_copy(dst=z[:, i : i + 512], src=sums)
        nisa.dma_copy(dst=out, src=z)
        return out

    return kernel


def test_a_tile_in_psum():
    now = advised(product(True), product(False), np.zeros((128, 128), np.float32), WIDE)
    assert [(tile.memory, tile.are_loads) for tile in now.reuse.tiles] == [("psum", False)]


def in_pieces(is_reused):
    """Fill a tile by two loads, neither of which covers it."""

    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = made((128, 512))
        for i in range(0, a.shape[1], 512):
            tile = tile if is_reused else made((128, 512))
            for half in (0, 256):
                nisa.dma_copy(dst=tile[:, half : half + 256], src=a[:, i + half : i + half + 256])
            nisa.dma_copy(dst=out[:, i : i + 512], src=tile)
        return out

    return kernel


def test_a_tile_filled_in_pieces():
    assert advised(in_pieces(True), in_pieces(False), WIDE).reuse.tiles[0].waits == STEPS - 1


def running_sum(a):
    """Carry a value from step to step in one tile, and write the border of another once."""
    out = nl.ndarray((128, 514), dtype=a.dtype, buffer=nl.shared_hbm)
    total, padded = made((128, 514)), made((128, 514))
    nisa.memset(dst=total, value=0.0)
    nisa.memset(dst=padded, value=0.0)
    for i in range(0, a.shape[1], 512):
        nisa.dma_copy(dst=padded[:, 1:513], src=a[:, i : i + 512])
        nisa.tensor_tensor(dst=total, data1=total, data2=padded, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out


def selected(a):
    """Keep a part of a tile by a predicated copy."""
    out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    kept = made((128, 512))
    nisa.memset(dst=kept, value=0.0)
    for i in range(0, a.shape[1], 512):
        tile = made((128, 512))
        mask = nl.ndarray((128, 512), dtype=nl.uint8, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[:, i : i + 512])
        nisa.tensor_scalar(dst=mask, data=tile, op0=nl.greater, operand0=0.0)
        nisa.tensor_copy_predicated(dst=kept, src=tile, predicate=mask)
    nisa.dma_copy(dst=out, src=kept)
    return out


@pytest.mark.parametrize("kernel", [running_sum, selected])
def test_no_advice_if_values_are_still_needed(kernel):
    assert run(kernel, WIDE).reuse is None


def test_no_advice_for_a_tile_that_has_no_room_twice():
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        held, tile = made((128, 24000)), made((128, 16384))
        nisa.memset(dst=held, value=1.0)
        for i in range(2):
            nisa.dma_copy(dst=tile, src=a[i])
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=held[:, 0:1])
            nisa.dma_copy(dst=out[i], src=tile)
        return out

    images = np.zeros((2, 128, 16384), np.float32)
    assert run(kernel, images).reuse is None


def test_no_advice_for_a_program_that_is_too_long(monkeypatch):
    monkeypatch.setattr("trninfer.simulator.timing.reuse._MOST_SCHEDULED", 10)
    assert run(add_one(True), WIDE).reuse is None


def test_two_cores(monkeypatch):
    def kernel(is_reused):
        def on_both(a):
            out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
            tile = made((128, 512))
            first = nl.program_id(0) * a.shape[1] // 2
            for i in range(0, a.shape[1] // 2, 512):
                tile = tile if is_reused else made((128, 512))
                nisa.dma_copy(dst=tile, src=a[:, first + i : first + i + 512])
                nisa.dma_copy(dst=out[:, first + i : first + i + 512], src=tile)
            return out

        return on_both

    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    now = advised(kernel(True), kernel(False), WIDE)
    assert sum(tile.waits for tile in now.reuse.tiles) == STEPS - 2
