"""GpSimd Engine: eight general-purpose cores; here, the patterns they generate."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ..machine.dtypes import Array
from ..machine.errors import NkiValidationError
from ..machine.instruction import Instruction, engine
from ..machine.memory import SBUF
from ..tensors.tensor import NkiTensor
from ..tensors.views import integers
from .checks import shaped
from .core import active
from .declaration import declared
from .operands import Call, Unchecked
from .tensor_operands import Tile


def affine_fills(call: Call) -> None:
    """pattern has 1 to 4 pairs [step, count], and makes as many elements as a partition of dst has."""
    op, dst = call.instruction, call.dst
    pattern = [list(pair) if isinstance(pair, tuple) else pair for pair in call.pattern]
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


@declared(engine.gpsimd, cost=("one_pass", "unit", "dst"), rules=(affine_fills,))
def iota(
    dst: Annotated[NkiTensor, Tile(written=True, buffers=(SBUF,))],
    pattern: Any,
    offset: Annotated[int, Unchecked()] = 0,
    channel_multiplier: Annotated[int, Unchecked()] = 0,
    name: str | None = None,
) -> Instruction:
    """dst[p, ...] = offset + p * channel_multiplier + the affine pattern [[step, count], ...] of up to 4 dimensions."""
    core = active("iota")
    unit, cost, _, _ = core.settle("iota", dst, known(pattern))
    instruction = core.issue("iota", unit, (dst,), (), cost, name)

    core.perform(_count, dst, pattern, offset, channel_multiplier)
    return instruction


def _count(dst: NkiTensor, pattern: Any, offset: int, channel_multiplier: int) -> None:
    dst.write(shaped(affine_pattern(pattern, offset, channel_multiplier, dst.shape[0]), dst.shape))


def known(pattern: Any) -> Any:
    """Return a pattern as tuples, which can be cache keys."""
    try:
        return tuple([tuple(pair) for pair in pattern])
    except TypeError:  # affine_fills refuses it
        return pattern


def affine_pattern(pattern: Any, offset: int, channel_multiplier: int, partitions: int) -> Array:
    """Return the values of a pattern, [partitions, elements] int32."""
    values = np.asarray(offset, np.int64)
    for step, extent in pattern:
        values = values[..., None] + np.arange(extent, dtype=np.int64) * step
    lanes = np.arange(partitions, dtype=np.int64) * channel_multiplier
    total = lanes[:, None] + values.reshape(1, -1)
    return (total & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
