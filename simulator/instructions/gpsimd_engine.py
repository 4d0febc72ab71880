"""GpSimd Engine: eight general-purpose cores, here for the patterns they generate."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import in_sbuf, shaped
from ..core import active
from ..errors import NkiValidationError
from ..instruction import Instruction, engine
from ..tensor import NkiTensor


def iota(
    dst: NkiTensor, pattern: Any, offset: int = 0, channel_multiplier: int = 0, name: str | None = None
) -> Instruction:
    """dst[p, ...] = offset + p * channel_multiplier + the affine pattern [[step, count], ...] of up to 4 dimensions."""
    core = active("iota")
    in_sbuf("iota", "dst", dst)
    if not 1 <= len(pattern) <= 4 or any(len(pair) != 2 or pair[1] < 1 for pair in pattern):
        raise NkiValidationError(f"iota: pattern {pattern} must be 1 to 4 pairs [step, count] with count >= 1")
    count = 1
    for _, extent in pattern:
        count *= extent
    if count != dst.free_size:
        raise NkiValidationError(
            f"iota: pattern {pattern} makes {count} elements, dst {dst.label} has {dst.free_size} in a partition"
        )
    instruction = core.issue("iota", engine.gpsimd, (dst,), (), core.costs.gpsimd(count), name)

    if core.functional:
        values = np.asarray(offset, np.int64)
        for step, extent in pattern:
            values = values[..., None] + np.arange(extent, dtype=np.int64) * step
        lanes = np.arange(dst.shape[0], dtype=np.int64) * channel_multiplier
        total = lanes[:, None] + values.reshape(1, -1)
        dst.write(shaped((total & 0xFFFFFFFF).astype(np.uint32).view(np.int32), dst.shape))
    return instruction
