"""Data moved by DMAs: bytes and descriptors, determined by contiguity on both sides, and the source of descriptors."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki_tensors import hbm, new, on
from trninfer import simulator
from trninfer.simulator.machine.chip import TARGETS
from trninfer.simulator.machine.instruction import Transfer
from trninfer.simulator.timing.transfers import Generation, adding, constant_load, copying, left_to_compiler

TRN1, TRN2, TRN3 = TARGETS.values()


@pytest.fixture(autouse=True)
def chip() -> Any:
    with on("trn2") as core:
        yield core


def moved(dst: Any, src: Any, target: Any = TRN2, **more: Any) -> Transfer:
    transpose = more.pop("transpose", False)
    return copying(target, dst, src, Generation(**{"dge": False, **more}), transpose)


def test_a_descriptor_is_a_run_that_is_contiguous_on_both_sides() -> None:
    """Rows of 16 float32 numbers: of a whole tensor, of a part of its columns, of every other column."""
    whole = moved(new((8, 16)), hbm((8, 16)))
    assert (whole.bytes, whole.descriptors, whole.partitions, whole.row, whole.load) == (512, 8, 8, 0, True)
    part = moved(new((8, 4)), hbm((8, 16))[:, 3:7])
    assert (part.bytes, part.descriptors) == (128, 8)
    apart = moved(new((8, 8)), hbm((8, 16))[:, ::2])
    assert (apart.bytes, apart.descriptors) == (256, 64)
    blocks = moved(new((8, 4, 6)), hbm((8, 4, 16))[:, :, 0:6])
    assert (blocks.bytes, blocks.descriptors) == (768, 32)
    assert moved(new((1, 16)), hbm((1, 16))).descriptors == 1


def test_rows_on_chip_are_apart_and_rows_in_hbm_are_not() -> None:
    assert moved(hbm((8, 16)), hbm((8, 16))).descriptors == 1
    assert moved(new((8, 16)), new((8, 16))).descriptors == 8
    assert moved(hbm((4, 2, 16)), hbm((4, 4, 16))[:, 0:2]).descriptors == 4
    assert moved(new((1, 8, 16)), hbm((1, 8, 16))).descriptors == 1  # all in one partition


def test_a_store_begins_at_the_partition_of_its_tile() -> None:
    store = moved(hbm((32, 8)), new((96, 8))[64:96])
    assert (store.load, store.partitions, store.row, store.hbm) == (False, 32, 64, True)
    load = moved(new((96, 8))[32:34], hbm((2, 8)))
    assert (load.load, load.partitions, load.row) == (True, 2, 32)
    between = moved(hbm((2, 8)), hbm((2, 8)))
    assert (between.load, between.partitions, between.row, between.hbm) == (False, 0, 0, True)
    assert moved(new((4, 8)), new((64, 8))[32:36]).hbm is False


@pytest.mark.parametrize(
    ("into", "of", "size"), [("bfloat16", "float32", 4), ("float32", "bfloat16", 4), ("int8", "int8", 1)]
)
def test_a_cast_moves_the_bytes_of_the_wider_type(into: str, of: str, size: int) -> None:
    cast = moved(new((4, 10), getattr(nl, into)), hbm((4, 10), getattr(nl, of)))
    assert cast.bytes == 40 * size and cast.casts is (into != of)


def test_the_engines_of_trn1_move_every_element_of_a_transpose() -> None:
    source, turned = hbm((8, 16), nl.bfloat16), new((8, 16), nl.bfloat16)
    assert moved(turned, source, TRN1, transpose=True).descriptors == 128
    assert moved(turned, source, TRN2, transpose=True).descriptors == 8


@pytest.mark.parametrize(("target", "pitched"), [(TRN1, True), (TRN2, False)])
def test_rows_a_multiple_of_4_kib_apart_meet_in_few_channels_of_trn1(target: Any, pitched: bool) -> None:
    assert moved(new((8, 16)), hbm((8, 1024))[:, 0:16], target).pitched is pitched
    assert moved(new((8, 16)), hbm((8, 2048))[:, 0:16], target).pitched is pitched
    assert moved(hbm((8, 1024))[:, 0:16], new((8, 16)), target).pitched is pitched
    assert not moved(new((8, 1024)), hbm((8, 1024)), target).pitched  # nothing is skipped between them
    assert not moved(new((8, 16)), hbm((8, 1025))[:, 0:16], target).pitched
    assert not moved(new((1, 16)), hbm((1, 1024))[:, 0:16], target).pitched
    assert not moved(new((8, 8)), hbm((8, 1024))[:, 0:16:2], target).pitched


def test_narrow_pieces_that_are_neighbours_in_hbm_are_marked() -> None:
    """A column of a tile stored to consecutive floats of HBM; 64 B are not narrow, and loads are not marked."""
    assert moved(hbm((128, 1)), new((128, 1))).narrow
    assert moved(hbm((128, 15)), new((128, 15))).narrow
    assert not moved(hbm((128, 16)), new((128, 16))).narrow
    assert not moved(hbm((128, 4))[:, 0:1], new((128, 1))).narrow  # also separate in HBM
    assert not moved(new((128, 1)), hbm((128, 1))).narrow


def test_a_load_of_short_elements_knows_how_far_apart_they_lie() -> None:
    """From the first byte to the last: 127 rows of 40 bytes and 4 more."""
    assert moved(new((128, 1)), hbm((128, 10))[:, 3:4]).span == 127 * 40 + 4
    assert moved(new((128, 1), nl.bfloat16), hbm((128, 10), nl.bfloat16)[:, 3:4]).span == 127 * 20 + 2
    assert moved(new((128, 15)), hbm((128, 15))).span == 128 * 60
    assert moved(new((128, 64)), hbm((128, 64))).span == 0  # 256 B take longer than the minimum for an element
    assert moved(hbm((128, 1)), new((128, 1))).span == 0
    assert moved(new((128, 1)), new((128, 1))).span == 0


def test_method_of_descriptor_generation_is_kept() -> None:
    made = moved(new((4, 4)), hbm((4, 4)), dge=True, software=True, dynamic=True)
    assert (made.dge, made.software, made.dynamic, made.transpose) == (True, True, True, False)


def left(dst: Any, src: Any, target: Any = TRN2) -> str:
    """Return the source of the descriptors of a copy, if the kernel does not specify it."""
    transfer = left_to_compiler(target, copying(target, dst, src, Generation(dge=True)), dst, src)
    return "software" if transfer.software else "hardware" if transfer.dge else "prepared"


def test_a_compiler_prepares_descriptors_of_one_partition_and_of_little_that_is_saved() -> None:
    """Small stores use at most one engine, which has eight partitions."""
    private = nl.ndarray((64, 8), nl.float32, nl.private_hbm)
    assert left(new((1, 64)), hbm((1, 64))) == left(hbm((1, 64)), new((1, 64))) == "prepared"
    assert left(private[0:8], new((8, 8))) == "prepared"
    assert left(private[0:9], new((9, 8))) == left(new((8, 8)), private[0:8]) == "hardware"
    assert left(hbm((1, 64)), hbm((1, 64))) == "hardware"  # not on the chip
    assert left(new((1, 64)), new((2, 64))[1:2]) == "hardware"  # not in HBM


@pytest.mark.parametrize("dtype", [nl.bfloat16, nl.float32, nl.int8])
@pytest.mark.parametrize("columns", [1, 128, 255, 256, 257, 4096])
def test_gpsimd_makes_those_of_arguments_and_outputs(columns: int, dtype: Any) -> None:
    """Regardless of dtype and size; the hardware generates those of values kept in HBM for a later phase."""
    tile, outside = new((128, columns), dtype), hbm((128, columns), dtype)
    assert left(tile, outside) == left(outside, tile) == "software"
    private = nl.ndarray((128, columns), dtype, nl.private_hbm)
    assert left(tile, private) == left(private, tile) == "hardware"


@nki.jit
def in_phases(a: Any, returns: bool) -> Any:
    """Compute 2 * a through a tensor in shared HBM, which is also returned, or not."""
    kept, out = (nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm) for _ in range(2))
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=kept, src=tile)
    again = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=again, src=kept)
    nisa.tensor_tensor(dst=tile, data1=again, data2=again, op=nl.add)
    nisa.dma_copy(dst=out, src=tile)
    return (out, kept) if returns else out


@pytest.mark.parametrize(
    ("returns", "made"),
    [(True, [True] * 4), (False, [True, False, False, True])],
)
def test_tensor_that_is_not_returned_is_scratch(returns: bool, made: list[bool]) -> None:
    run = simulator.run(in_phases, np.ones((128, 64), np.float32), returns=returns)
    moved = [instruction.dma for instruction in run.program if instruction.dma is not None]
    assert [transfer.software for transfer in moved] == made and all(transfer.dge for transfer in moved)


def test_where_the_choice_is_not_known_columns_alone_are_gpsimds() -> None:
    for columns, maker in ((1, "software"), (2, "hardware")):
        tile, outside = new((128, columns), nl.bfloat16), hbm((128, columns), nl.bfloat16)
        assert left(tile, outside, TRN1) == maker
    assert left(new((128, 1)), hbm((128, 1)), TRN1) == "hardware"


@pytest.mark.parametrize(("target", "passes"), [(TRN1, 2), (TRN2, 2), (TRN3, 1)])
def test_a_dma_that_adds_moves_all_its_sources(target: Any, passes: int) -> None:
    """Before NeuronCore-v4 it takes two passes; otherwise it is like the copy with the most descriptors."""
    whole, apart = hbm((8, 16)), hbm((8, 64))[:, ::4]
    added = adding(target, new((8, 16)), [whole, apart], dge=True)
    assert (added.bytes, added.descriptors) == (passes * 2 * 512, passes * (8 + 128))
    assert added.dge and not added.software and added.span == moved(new((8, 16)), apart).span > 0


def test_a_constant_is_loaded_row_by_row() -> None:
    load = constant_load(new((32, 10), nl.bfloat16), dge=True)
    assert (load.bytes, load.descriptors, load.partitions, load.load, load.dge) == (640, 32, 32, True, True)
