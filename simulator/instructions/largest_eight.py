"""Searches for eight values per instruction on the Vector Engine: the largest, their positions, and replacements."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ..machine.instruction import engine
from ..tensors.tensor import NkiTensor
from .checks import float_values, shaped
from .declaration import instruction
from .tensor_operands import Tile

_VECTOR = engine.vector
_INDICES = ("uint32", "uint16")
_SEARCHED = (8, 16384)  # minimum and maximum number of elements per partition


@instruction(_VECTOR, cost=("reduce", "src"), repeatable=True)
def max8(
    dst: Annotated[NkiTensor, Tile(written=True, partitions_of="src", elements=(8, 8), dimensions=3)],
    src: Annotated[NkiTensor, Tile(elements=_SEARCHED, dimensions=3)],
    name: str | None = None,
) -> None:
    """Write the 8 largest values of each partition to dst[:, 0:8], in descending order."""
    values = float_values(src).reshape(src.shape[0], -1)
    dst.write(shaped(-np.sort(-np.partition(values, -8, axis=1)[:, -8:], axis=1), dst.shape))


@instruction(_VECTOR, cost=("reduce", "data"), repeatable=True)
def nc_find_index8(
    dst: Annotated[NkiTensor, Tile(written=True, dtypes=_INDICES, partitions_of="data", elements=(8, 8), dimensions=3)],
    data: Annotated[NkiTensor, Tile(elements=_SEARCHED, dimensions=3)],
    vals: Annotated[NkiTensor, Tile(partitions_of="data", elements=(8, 8), dimensions=3)],
    name: str | None = None,
) -> None:
    """Write the first position of vals[:, i] in each partition of data to dst[:, i], or all ones if there is none.

    Equal vals are matched with separate occurrences, in order (release notes of NKI 0.6).
    """
    values = float_values(data).reshape(data.shape[0], -1)
    targets = float_values(vals).reshape(vals.shape[0], 8)
    missing = np.iinfo(dst._dtype.held).max
    result = np.empty(targets.shape, np.int64)
    free = np.ones(values.shape, bool)  # positions that are not yet matched with a value
    for column in range(8):
        hit = (values == targets[:, column : column + 1]) & free
        first, exists = hit.argmax(axis=1), hit.any(axis=1)
        result[:, column] = np.where(exists, first, missing)
        free[np.flatnonzero(exists), first[exists]] = False
    dst.write(shaped(result, dst.shape))


@instruction(_VECTOR, cost=("reduce", "data"))
def nc_match_replace8(
    dst: Annotated[NkiTensor, Tile(written=True, size_of="data")],
    data: Annotated[NkiTensor, Tile(elements=_SEARCHED, dimensions=3)],
    vals: Annotated[NkiTensor, Tile(partitions_of="data", elements=(8, 8), dimensions=3)],
    imm: float,
    dst_idx: Annotated[
        NkiTensor | None,
        Tile(written=True, dtypes=_INDICES, partitions_of="data", elements=(8, 8), dimensions=3, optional=True),
    ] = None,
    name: str | None = None,
) -> None:
    """Copy data to dst, replacing the first occurrence of each of the 8 vals with imm. Write the positions to dst_idx.

    Equal vals are matched with separate occurrences, in reverse order: the last val is matched with the first
    occurrence. The position is all ones if there is no occurrence.
    """
    partitions = data.shape[0]
    values = float_values(data).reshape(partitions, -1).copy()
    targets = float_values(vals).reshape(partitions, 8)
    free = np.ones(values.shape, bool)  # positions that have not been matched with a value
    positions = np.full((partitions, 8), -1, np.int64)
    for column in range(7, -1, -1):
        hit = (values == targets[:, column : column + 1]) & free
        rows = np.flatnonzero(hit.any(axis=1))
        positions[rows, column] = hit[rows].argmax(axis=1)
        free[rows, positions[rows, column]] = False
    values[~free] = imm
    dst.write(shaped(values, dst.shape))
    if dst_idx is not None:
        missing = np.iinfo(dst_idx._dtype.held).max
        dst_idx.write(shaped(np.where(positions < 0, missing, positions), dst_idx.shape))
