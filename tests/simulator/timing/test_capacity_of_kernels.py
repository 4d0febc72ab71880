"""Capacity of SBUF and PSUM: live tiles, error messages, and the peaks that a run reports."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer import simulator
from trninfer.simulator import CapacityError, TensorSpec

KIB = 1024


@nki.jit
def hold(a: Any, tiles: Any, columns: Any) -> Any:
    """Fill `tiles` tiles with the given number of float32 columns, then read them all."""
    held = []
    nothing = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(dst=nothing, value=1.0)
    for i in range(tiles):
        held.append(nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf, name=f"held{i}"))
        nisa.tensor_copy(dst=held[i], src=nothing.broadcast(1, columns))
    out = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(tiles):
        nisa.dma_copy(dst=out, src=held[i])
    return out


@nki.jit
def pass_through(a: Any, tiles: Any, columns: Any) -> Any:
    """Fill and read the same tiles one after the other."""
    out = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    for _ in range(tiles):
        tile = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=1.0)
        nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def unread(a: Any, tiles: Any, columns: Any, keep: Any) -> Any:
    """Fill tiles that nothing reads, and keep or release them."""
    kept = []
    for _ in range(tiles):
        tile = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=1.0)
        if keep:
            kept.append(tile)
    out = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def banks(a: Any, tiles: Any, columns: Any) -> Any:
    """Fill PSUM tiles with the given number of float32 columns, then read them all."""
    operand = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=operand, value=1.0)
    held = []
    for i in range(tiles):
        held.append(nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.psum, name=f"sums{i}"))
        for start in range(0, columns, 512):
            end = min(columns, start + 512)
            nisa.nc_matmul(dst=held[i][:, start:end], stationary=operand[:, 0:128], moving=operand[:, 0 : end - start])
    out = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    last = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=last, src=held[-1][:, 0:1])
    for i in range(tiles):  # no sum can be freed before the last one is computed
        result = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=held[i], op0=nl.add, operand0=last)
        nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def placed(a: Any, tiles: Any, free_bytes: Any) -> Any:
    """Place a tile at an address, beside tiles without one."""
    fixed = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf, address=(0, free_bytes))
    nisa.memset(dst=fixed, value=1.0)
    held = []
    for i in range(tiles):
        held.append(nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf))
        nisa.tensor_copy(dst=held[i], src=fixed)
    out = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(tiles):
        nisa.dma_copy(dst=out, src=held[i])
    return out


A = TensorSpec((1, 1), "float32")


def walk(kernel: Any, target: str = "trn2", **parameters: Any) -> simulator.Run:
    return simulator.run(kernel, A, target=target, functional=False, **parameters)


@pytest.mark.parametrize(("target", "kib"), [("trn1", 192), ("trn2", 224), ("trn3", 256)])
def test_sbuf_takes_what_it_has_and_no_more(target: str, kib: int) -> None:
    """The compiler reserves 16 KiB and 8 bytes per partition (nki-library, mlp_cte_constants.py)."""
    columns = 1021  # 4,084 bytes; with a whole number of tiles, at most 4,076 remain
    fitting = (kib * KIB - 16 * KIB - 8) // (4 * columns)
    assert walk(hold, target, tiles=fitting, columns=columns).memory.sbuf_bytes == fitting * 4 * columns
    with pytest.raises(CapacityError, match=f"SBUF of {target} is full: held{fitting} "):
        walk(hold, target, tiles=fitting + 1, columns=columns)


def test_the_error_names_the_line_and_the_biggest_tiles() -> None:
    with pytest.raises(CapacityError) as caught:
        walk(hold, tiles=13, columns=4 * KIB)
    message = str(caught.value)
    assert message.count("test_capacity_of_kernels.py:") == 5  # the tile and the four largest live ones
    assert "held0" in message and "(16384 bytes)" in message and "and 8 more" in message
    assert "; 16376 of 212984 are available" in message


def test_a_tile_dies_with_its_last_access() -> None:
    assert walk(pass_through, tiles=100, columns=4 * KIB).memory.sbuf_bytes == 16 * KIB


def test_a_tile_that_is_never_read_lives_until_it_is_dropped() -> None:
    assert walk(unread, tiles=12, columns=4 * KIB, keep=True).memory.sbuf_bytes == 12 * 16 * KIB
    with pytest.raises(CapacityError):
        walk(unread, tiles=13, columns=4 * KIB, keep=True)
    assert walk(unread, tiles=30, columns=4 * KIB, keep=False).memory.sbuf_bytes <= 2 * 16 * KIB


@pytest.mark.parametrize(("columns", "fitting"), [(512, 8), (300, 8), (256, 16), (1024, 4), (640, 4)])
def test_psum_tiles_are_within_banks(columns: int, fitting: int) -> None:
    """A tile of up to one bank fits within a single bank, a larger one takes whole banks."""
    assert walk(banks, tiles=fitting, columns=columns).memory.psum_banks == 8
    with pytest.raises(CapacityError, match=f"PSUM of trn2 is full: sums{fitting} .* no bank of 2048"):
        walk(banks, tiles=fitting + 1, columns=columns)


def test_placed_tiles_take_their_place_for_good() -> None:
    assert walk(placed, tiles=35, free_bytes=60 * KIB).memory.sbuf_bytes == 64 * KIB + 35 * 4 * KIB
    with pytest.raises(CapacityError):
        walk(placed, tiles=36, free_bytes=60 * KIB)


def test_capacity_is_checked_wherever_a_kernel_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.zeros((1, 1), np.float32)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    with pytest.raises(CapacityError):
        simulator.run(hold, array, tiles=15, columns=4 * KIB)
    with pytest.raises(CapacityError):
        nki.simulate(hold)(array, 15, 4 * KIB)
    with pytest.raises(CapacityError):
        hold(array, 15, 4 * KIB)


def test_loads_run_ahead_as_far_as_sbuf_has_room() -> None:
    """Twelve small tiles fit at the same time and overlap; with one that fills nearly all of SBUF, nothing overlaps."""
    small, large = (
        walk(pass_through, tiles=tiles, columns=columns) for tiles, columns in ((96, 4 * KIB), (8, 48 * KIB))
    )
    assert small.prediction.schedule.sbuf_peak == 12 * 16 * KIB
    assert large.prediction.schedule.sbuf_peak == 192 * KIB
    assert large.latency_us > 1.2 * small.latency_us
