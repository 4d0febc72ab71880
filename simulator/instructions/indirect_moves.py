"""Copies between two tensors, at least one of which has a run-time address."""

from __future__ import annotations

import numpy as np

from ..machine.errors import NkiValidationError
from ..tensors.tensor import IndirectTensor, NkiTensor
from .checks import cast_values, shaped


def move(dst: NkiTensor, src: NkiTensor, skip: bool) -> None:
    """Copy src to dst, of which at least one is indirect.

    If `skip`, rows with an out-of-bounds index are skipped; otherwise, they raise an error.
    """
    masks = [t.inside() for t in (dst, src) if isinstance(t, IndirectTensor)]
    if not skip or all(mask.all() for mask in masks):
        dst.write(shaped(cast_values(src, dst), dst.shape))
        return
    rows = max(mask.size for mask in masks)
    in_bounds = np.logical_and.reduce([np.broadcast_to(mask, rows) for mask in masks])
    if not any(isinstance(t, IndirectTensor) and t.gathers for t in (dst, src)):
        return  # the only index is out of bounds
    if dst.shape[0] != rows or src.shape[0] != rows:
        raise NkiValidationError(
            f"dma_copy: with oob_mode skip, dst {dst.label} and src {src.label} must have {rows} rows, one per index"
        )
    for row in np.flatnonzero(in_bounds):
        target, source = _row(dst, int(row)), _row(src, int(row))
        target.write(shaped(cast_values(source, target), target.shape))


def _row(tensor: NkiTensor, row: int) -> NkiTensor:
    if isinstance(tensor, IndirectTensor) and tensor.gathers:
        return tensor.at(tensor.indices[row])
    return tensor[row : row + 1]
