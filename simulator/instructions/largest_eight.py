"""Finding values eight at a time on the Vector Engine: the largest, where they are, and replacing them."""

from __future__ import annotations

import numpy as np

from ..checks import destination, float_values, same_partitions, same_size, shaped, tile
from ..core import active
from ..errors import NkiValidationError
from ..instruction import Instruction, engine
from ..tensor import NkiTensor

_VECTOR = engine.vector


def max8(dst: NkiTensor, src: NkiTensor, name: str | None = None) -> Instruction:
    """dst[:, 0:8] = the 8 largest values of each partition, in descending order."""
    core = active("max8")
    destination("max8", dst)
    tile("max8", "src", src)
    same_partitions("max8", dst, "src", src)
    _eight("max8", "dst", dst)
    _searchable("max8", "src", src)
    instruction = core.issue("max8", _VECTOR, (dst,), (src,), core.costs.reduce(src), name)

    core.perform(_largest, dst, src)
    return instruction


def _largest(dst: NkiTensor, src: NkiTensor) -> None:
    values = float_values(src).reshape(src.shape[0], -1)
    dst.write(shaped(-np.sort(-np.partition(values, -8, axis=1)[:, -8:], axis=1), dst.shape))


def nc_find_index8(dst: NkiTensor, data: NkiTensor, vals: NkiTensor, name: str | None = None) -> Instruction:
    """dst[:, i] = where vals[:, i] stands first in each partition of data; all ones where it does not.

    Equal vals take one occurrence each, in order (release notes of NKI 0.6).
    """
    core = active("nc_find_index8")
    destination("nc_find_index8", dst)
    tile("nc_find_index8", "data", data)
    tile("nc_find_index8", "vals", vals)
    for operand, tensor in (("dst", dst), ("vals", vals)):
        same_partitions("nc_find_index8", tensor, "data", data)
        _eight("nc_find_index8", operand, tensor)
    _searchable("nc_find_index8", "data", data)
    if dst.dtype not in ("uint32", "uint16"):
        raise NkiValidationError(f"nc_find_index8: dst {dst.label} must be uint32 or uint16")
    instruction = core.issue("nc_find_index8", _VECTOR, (dst,), (data, vals), core.costs.reduce(data), name)

    core.perform(_find, dst, data, vals)
    return instruction


def _find(dst: NkiTensor, data: NkiTensor, vals: NkiTensor) -> None:
    values = float_values(data).reshape(data.shape[0], -1)
    wanted = float_values(vals).reshape(vals.shape[0], 8)
    missing = np.iinfo(dst._dtype.held).max
    result = np.empty(wanted.shape, np.int64)
    free = np.ones(values.shape, bool)  # positions that no value was paired with yet
    for column in range(8):
        hit = (values == wanted[:, column : column + 1]) & free
        first, found = hit.argmax(axis=1), hit.any(axis=1)
        result[:, column] = np.where(found, first, missing)
        free[np.flatnonzero(found), first[found]] = False
    dst.write(shaped(result, dst.shape))


def nc_match_replace8(
    dst: NkiTensor,
    data: NkiTensor,
    vals: NkiTensor,
    imm: float,
    dst_idx: NkiTensor | None = None,
    name: str | None = None,
) -> Instruction:
    """dst = data with the first occurrence of each of the 8 vals replaced by imm; where they were goes to dst_idx.

    Equal vals take one occurrence each, the last of them the first (all ones where there is none).
    """
    core = active("nc_match_replace8")
    for operand, tensor in (("dst", dst), ("data", data), ("vals", vals)):
        tile("nc_match_replace8", operand, tensor)
        same_partitions("nc_match_replace8", dst, operand, tensor)
    same_size("nc_match_replace8", dst, "data", data)
    _eight("nc_match_replace8", "vals", vals)
    _searchable("nc_match_replace8", "data", data)
    if dst_idx is not None:
        tile("nc_match_replace8", "dst_idx", dst_idx)
        same_partitions("nc_match_replace8", dst, "dst_idx", dst_idx)
        _eight("nc_match_replace8", "dst_idx", dst_idx)
        if dst_idx.dtype not in ("uint32", "uint16"):
            raise NkiValidationError(f"nc_match_replace8: dst_idx {dst_idx.label} must be uint32 or uint16")
    writes = (dst,) if dst_idx is None else (dst, dst_idx)
    cost = core.costs.reduce(data)
    instruction = core.issue("nc_match_replace8", _VECTOR, writes, (data, vals), cost, name)

    if core.functional:
        partitions = data.shape[0]
        values = float_values(data).reshape(partitions, -1).copy()
        wanted = float_values(vals).reshape(partitions, 8)
        free = np.ones(values.shape, bool)  # positions that no value was matched with yet
        found = np.full((partitions, 8), -1, np.int64)
        for column in range(7, -1, -1):
            hit = (values == wanted[:, column : column + 1]) & free
            rows = np.flatnonzero(hit.any(axis=1))
            found[rows, column] = hit[rows].argmax(axis=1)
            free[rows, found[rows, column]] = False
        values[~free] = imm
        dst.write(shaped(values, dst.shape))
        if dst_idx is not None:
            missing = np.iinfo(dst_idx._dtype.held).max
            dst_idx.write(shaped(np.where(found < 0, missing, found), dst_idx.shape))
    return instruction


def _eight(op: str, operand: str, tensor: NkiTensor) -> None:
    _up_to_three(op, operand, tensor)
    if tensor.free_size != 8:
        raise NkiValidationError(
            f"{op}: {operand} {tensor.label} must have 8 elements in a partition, has {tensor.free_size}"
        )


def _searchable(op: str, operand: str, tensor: NkiTensor) -> None:
    _up_to_three(op, operand, tensor)
    if not 8 <= tensor.free_size <= 16384:
        raise NkiValidationError(
            f"{op}: {operand} {tensor.label} must have 8 to 16384 elements in a partition, has {tensor.free_size}"
        )


def _up_to_three(op: str, operand: str, tensor: NkiTensor) -> None:
    if len(tensor.shape) > 3:
        raise NkiValidationError(f"{op}: {operand} {tensor.label} has {len(tensor.shape)} dimensions, at most 3")
