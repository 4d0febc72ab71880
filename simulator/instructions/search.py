"""Finding values on the GpSimd Engine: the largest, the nonzero and equal neighbours."""

from __future__ import annotations

import numpy as np

from ..checks import active_since, in_sbuf, same_partitions, same_size, shaped
from ..core import active
from ..dtypes import Array
from ..errors import NkiValidationError
from ..instruction import Instruction, engine
from ..nki_version import is_traced
from ..tensor import NkiTensor
from .gather import CORE_PARTITIONS


def topk(
    val_dst: NkiTensor, idx_dst: NkiTensor, src: NkiTensor, n: int, sorted: bool = False, name: str | None = None
) -> Instruction:
    """The largest of the first n elements of each group of 16 partitions, and where they were.

    A group is one problem in snake layout: element e lies in its partition e % 16, column e // 16, and so do the
    results, as many as val_dst has columns: result j at partition j % 16, column j // 16 (nki.isa.topk of SDK 2.33).
    The columns after the last of these are not written; what is left of that one reads as uninitialised.

    With `sorted`, and in NKI 0.6, results ascend by value. The order of the others is not documented: here it is that
    of the elements, so that a kernel which counts on another shows. Of equal elements the first ones are taken.
    """
    core = active("topk")
    _topk_rules(val_dst, idx_dst, src, n)
    count = val_dst.free_size
    columns = -(-count // CORE_PARTITIONS)
    written = (val_dst, idx_dst)
    if val_dst.ndim == idx_dst.ndim == 2:
        written = (val_dst[:, :columns], idx_dst[:, :columns])
    cost = core.costs.topk(n, count)
    instruction = core.issue("topk", engine.gpsimd, written, (src,), cost, name)

    if core.functional:
        groups = src.values.reshape(src.shape[0] // CORE_PARTITIONS, CORE_PARTITIONS, -1)
        snakes = groups.transpose(0, 2, 1).reshape(len(groups), -1)[:, :n]
        largest = np.argsort(-snakes, axis=1, kind="stable")[:, :count]
        largest = largest[:, ::-1] if sorted or not is_traced() else np.sort(largest, axis=1)
        _write_snake(val_dst, np.take_along_axis(snakes, largest, axis=1), columns)
        _write_snake(idx_dst, largest, columns)
    return instruction


def _topk_rules(val_dst: NkiTensor, idx_dst: NkiTensor, src: NkiTensor, n: int) -> None:
    for operand, tensor, dtype in (
        ("val_dst", val_dst, "bfloat16"),
        ("idx_dst", idx_dst, "uint32"),
        ("src", src, "bfloat16"),
    ):
        in_sbuf("topk", operand, tensor)
        same_partitions("topk", val_dst, operand, tensor)
        if tensor.dtype != dtype:
            raise NkiValidationError(f"topk: {operand} {tensor.label} must be {dtype}")
    same_size("topk", val_dst, "idx_dst", idx_dst)
    if src.shape[0] % CORE_PARTITIONS:
        raise NkiValidationError(f"topk: src {src.label} must have a multiple of 16 partitions")
    if not 8 <= n < 65536 or n > CORE_PARTITIONS * src.free_size:
        raise NkiValidationError(
            f"topk: n must be 8 to 65535 and at most the {CORE_PARTITIONS * src.free_size} elements of 16 partitions "
            f"of src {src.label}, came {n}"
        )
    count = val_dst.free_size
    if not count <= n or count >= 32768:
        raise NkiValidationError(f"topk: val_dst {val_dst.label} has {count} elements; allowed 1 to {min(n, 32767)}")


def _write_snake(dst: NkiTensor, results: Array, columns: int) -> None:
    """Write [groups, results] down the partitions of each group, column by column; the other columns stay."""
    snake = np.full((len(results), columns * CORE_PARTITIONS), dst._dtype.fill, dst._dtype.held)
    snake[:, : results.shape[1]] = results
    values = dst.values.reshape(dst.shape[0], -1).copy()
    values[:, :columns] = snake.reshape(len(results), columns, CORE_PARTITIONS).transpose(0, 2, 1).reshape(-1, columns)
    dst.write(shaped(values, dst.shape))


def nonzero_with_count(
    dst: NkiTensor, src: NkiTensor, index_offset: int = 0, padding_val: int = -1, name: str | None = None
) -> Instruction:
    """In partitions 0, 16, ..., 112: dst = the positions of src's nonzero elements (+ index_offset), then padding_val,
    and last their number. NeuronCore-v3 and newer. Its time is not published; counted as one pass over src."""
    core = active_since("nonzero_with_count", 3)
    in_sbuf("nonzero_with_count", "dst", dst)
    in_sbuf("nonzero_with_count", "src", src)
    same_partitions("nonzero_with_count", dst, "src", src)
    if src.dtype not in ("float32", "int32"):
        raise NkiValidationError(f"nonzero_with_count: src {src.label} must be float32 or int32")
    if dst.dtype != "int32":
        raise NkiValidationError(f"nonzero_with_count: dst {dst.label} must be int32")
    if dst.free_size != src.free_size + 1:
        raise NkiValidationError(
            f"nonzero_with_count: dst {dst.label} must have {src.free_size + 1} elements in a partition, one more "
            f"than src {src.label}"
        )
    for operand, value in (("index_offset", index_offset), ("padding_val", padding_val)):
        if not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
            raise NkiValidationError(f"nonzero_with_count: {operand} must be an int32, came {value!r}")
    cost = core.costs.one_pass(engine.gpsimd, src)
    instruction = core.issue("nonzero_with_count", engine.gpsimd, (dst,), (src, dst), cost, name)

    if core.functional:
        values = src.values.reshape(src.shape[0], -1)
        result = dst.values.reshape(dst.shape[0], -1).copy()
        for partition in range(0, src.shape[0], CORE_PARTITIONS):
            positions = np.flatnonzero(values[partition])
            result[partition] = padding_val
            result[partition, : positions.size] = positions + index_offset
            result[partition, -1] = positions.size
        dst.write(shaped(result, dst.shape))
    return instruction


def sequence_bounds(dst: NkiTensor, segment_ids: NkiTensor, name: str | None = None) -> Instruction:
    """dst[0, 0, i], dst[0, 1, i] = where the run of equal ids around element i starts and ends (one past the last);
    the number of elements and -1 where the id is 0. Its time is not published; counted as one pass."""
    core = active("sequence_bounds")
    in_sbuf("sequence_bounds", "dst", dst)
    in_sbuf("sequence_bounds", "segment_ids", segment_ids)
    count = segment_ids.free_size
    if segment_ids.shape[0] != 1 or dst.shape != (1, 2, count):
        raise NkiValidationError(
            f"sequence_bounds: segment_ids {segment_ids.label} must be in 1 partition and dst {dst.label} of shape "
            f"[1, 2, {count}]"
        )
    for operand, tensor in (("dst", dst), ("segment_ids", segment_ids)):
        if tensor.dtype not in ("float32", "int32"):
            raise NkiValidationError(f"sequence_bounds: {operand} {tensor.label} must be float32 or int32")
    cost = core.costs.one_pass(engine.gpsimd, segment_ids)
    instruction = core.issue("sequence_bounds", engine.gpsimd, (dst,), (segment_ids,), cost, name)

    if core.functional:
        dst.write(_bounds(segment_ids.values.reshape(-1))[None])
    return instruction


def _bounds(ids: Array) -> Array:
    """[2, n]: start and end of each element's run."""
    count = ids.size
    starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
    ends = np.r_[starts[1:], count]
    lengths = ends - starts
    bounds = np.stack([np.repeat(starts, lengths), np.repeat(ends, lengths)])
    return np.where(ids == 0, [[count], [-1]], bounds)
