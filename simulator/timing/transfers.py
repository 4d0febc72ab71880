"""Compute the transfers (bytes and descriptors) of DMA instructions from their source and destination views."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..machine.chip import Target
from ..machine.instruction import Instruction, Transfer
from ..machine.memory import MemoryRegion
from .constants import machine
from .dma import LANES


class Generation(NamedTuple):
    """The method by which the descriptors of a DMA are generated.

    If `dge` is True, they are generated while the kernel runs: by GpSimd if `software` is True, and otherwise by
    hardware. `dynamic` is True if an address has to be read from memory first.
    """

    dge: bool
    software: bool = False
    dynamic: bool = False


def copying(target: Target, dst: Any, src: Any, generation: Generation, transpose: bool = False) -> Transfer:
    """Return the transfer of a copy. Each descriptor covers bytes that are contiguous in both views."""
    into = _contiguous_run(dst)
    run = min(into, _contiguous_run(src))
    if transpose and target.generation == 2:
        run = 1  # DMA engines cannot transpose, so every element moves separately (nki_perf_guide.rst, Opt #10)
    itemsize = dst._dtype.itemsize
    moved_bytes = dst.size * max(itemsize, src._dtype.itemsize)
    load = dst.storage.on_chip
    chip = dst if load else src
    row, partitions = (chip.access.row, chip.shape[0]) if chip.storage.on_chip else (0, 0)
    outside = [tensor for tensor in (dst, src) if not tensor.storage.on_chip]
    pitched = target.generation == 2 and any(_pitched(tensor, machine(target.name).pitch) for tensor in outside)
    m = machine(target.name)
    size = run * itemsize
    narrow = not load and size < m.partial_write and into > run
    span = _span(src) if load and size < m.small_element_ns * m.dma_peak and outside else 0
    casts = dst._dtype is not src._dtype
    return Transfer(
        bytes=moved_bytes,
        descriptors=dst.size // run,
        partitions=partitions,
        load=load,
        dge=generation.dge,
        transpose=transpose,
        casts=casts,
        row=row,
        hbm=bool(outside),
        pitched=pitched,
        narrow=narrow,
        software=generation.software,
        dynamic=generation.dynamic,
        span=span,
    )


def left_to_compiler(target: Target, transfer: Transfer, dst: Any, src: Any) -> Transfer:
    """Choose how the descriptors of a copy at a static address are generated if the kernel leaves the choice to the
    compiler.

    The rule is derived from packet counts in profiles of two compilers (rows p01 to p08 for NKI's first beta, o02 to
    o19 for its second). GpSimd generates the descriptors of copies from arguments and to results, for any dtype and
    size. Descriptors are prepared in advance if a single partition is involved, or if up to eight partitions are saved
    to HBM for a later phase. Hardware generates all other descriptors. It is not known until the kernel ends which
    tensors are results (`keep_scratch`).
    """
    chip, other = (dst, src) if dst.storage.on_chip else (src, dst)
    if not machine(target.name).descriptor_choice:  # GpSimd generates descriptors only for columns
        column = chip._dtype.itemsize == 2 and chip.free_size == 1 and transfer.partitions > 1
        return transfer._replace(software=column)
    region = other.storage.region
    saved = region is MemoryRegion.private_hbm and not transfer.load and transfer.partitions <= LANES
    if transfer.hbm and (transfer.partitions == 1 or saved):
        return transfer._replace(dge=False)
    is_shared = region is MemoryRegion.shared_hbm and transfer.partitions > 1
    return transfer._replace(software=is_shared, open=is_shared)


def keep_scratch(program: list[Instruction], returned: Iterable[Any]) -> None:
    """Switch to hardware descriptors for tensors in shared HBM that are not results of the kernel.

    When such a tensor is copied, `left_to_compiler` assumes that it is a result.
    """
    returned_owners = {id(tensor.storage.owner) for tensor in returned}
    replacements: dict[int, Transfer] = {}  # the new transfer for each old transfer, keyed by its id
    for instruction in program:
        transfer = instruction.dma
        if transfer is None or not transfer.open:
            continue
        outside = [access.allocation for access in (*instruction.reads, *instruction.writes)]
        if any(
            a.region is MemoryRegion.shared_hbm and not a.argument and id(a) not in returned_owners for a in outside
        ):
            instruction.dma = replacements.setdefault(id(transfer), transfer._replace(software=False, open=False))


def _span(tensor: Any) -> int:
    """Return the number of bytes from the first to the last element of a view, inclusive."""
    reach = sum([stride * (extent - 1) for stride, extent in zip(tensor.strides, tensor.shape)])
    return int(reach + 1) * int(tensor._dtype.itemsize)


def adding(target: Target, dst: Any, sources: Sequence[Any], dge: bool) -> Transfer:
    """Return the transfer of a DMA that adds its sources. Each source is transferred as if by a separate copy."""
    moved = [
        copying(target, dst, src, Generation(dge or indirect, indirect, indirect))
        for src in sources
        for indirect in [dst.is_indirect() or src.is_indirect()]
    ]
    passes = int(machine(target.name).dma_compute_passes)
    largest = max(moved, key=lambda transfer: transfer.descriptors)
    return largest._replace(
        bytes=passes * sum(transfer.bytes for transfer in moved),
        descriptors=passes * sum(transfer.descriptors for transfer in moved),
    )


def constant_load(tensor: Any, dge: bool) -> Transfer:
    """Return the transfer of a constant that the compiler stores in HBM, with one descriptor per row."""
    size = tensor.size * tensor._dtype.itemsize
    return Transfer(size, tensor.shape[0], tensor.shape[0], tensor.storage.on_chip, dge)


def _contiguous_run(tensor: Any) -> int:
    """Return the number of contiguous elements along the innermost dimensions (on chip, within one partition)."""
    run = 1
    rows_apart = tensor.storage.on_chip or tensor.gathers
    for position in range(len(tensor.shape) - 1, 0 if rows_apart else -1, -1):
        extent, stride = tensor.shape[position], tensor.strides[position]
        if extent == 1:
            continue
        if stride != run:
            break
        run *= extent
    return run


def _pitched(tensor: Any, pitch: float) -> bool:
    """Return True if the row stride of a view in HBM is a multiple of `pitch` bytes and exceeds the row length."""
    rows = [(n, s * tensor._dtype.itemsize) for n, s in zip(tensor.shape, tensor.strides) if n > 1]
    if len(rows) < 2 or tensor.strides[-1] != 1:
        return False
    row_stride = rows[-2][1]
    return bool(row_stride % pitch == 0 and rows[-1][0] * tensor._dtype.itemsize < row_stride)
