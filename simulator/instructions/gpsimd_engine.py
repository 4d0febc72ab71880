"""GpSimd Engine: eight general-purpose cores, here for the patterns they generate."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import in_sbuf, shaped
from ..core import active
from ..dtypes import Array
from ..errors import NkiValidationError
from ..instruction import Instruction, engine
from ..tensor import NkiTensor
from ..views import integers


def iota(
    dst: NkiTensor, pattern: Any, offset: int = 0, channel_multiplier: int = 0, name: str | None = None
) -> Instruction:
    """dst[p, ...] = offset + p * channel_multiplier + the affine pattern [[step, count], ...] of up to 4 dimensions."""
    core = active("iota")
    in_sbuf("iota", "dst", dst)
    affine_fills("iota", pattern, dst)
    cost = core.costs.one_pass(engine.gpsimd, dst)
    instruction = core.issue("iota", engine.gpsimd, (dst,), (), cost, name)

    core.perform(_count, dst, pattern, offset, channel_multiplier)
    return instruction


def _count(dst: NkiTensor, pattern: Any, offset: int, channel_multiplier: int) -> None:
    dst.write(shaped(affine_pattern(pattern, offset, channel_multiplier, dst.shape[0]), dst.shape))


def affine_fills(op: str, pattern: Any, dst: NkiTensor) -> None:
    """Refuse a pattern that does not make as many elements as a partition of dst has."""
    pairs = [integers(pair, f"{op}: pattern {pattern}") for pair in pattern]
    if not 1 <= len(pairs) <= 4 or any(len(pair) != 2 or pair[1] < 1 for pair in pairs):
        raise NkiValidationError(f"{op}: pattern {pattern} must be 1 to 4 pairs [step, count] with count >= 1")
    count = 1
    for _, extent in pairs:
        count *= extent
    if count != dst.free_size:
        raise NkiValidationError(
            f"{op}: pattern {pattern} makes {count} elements, dst {dst.label} has {dst.free_size} in a partition"
        )


def affine_pattern(pattern: Any, offset: int, channel_multiplier: int, partitions: int) -> Array:
    """The values of a pattern, [partitions, elements] int32."""
    values = np.asarray(offset, np.int64)
    for step, extent in pattern:
        values = values[..., None] + np.arange(extent, dtype=np.int64) * step
    lanes = np.arange(partitions, dtype=np.int64) * channel_multiplier
    total = lanes[:, None] + values.reshape(1, -1)
    return (total & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
