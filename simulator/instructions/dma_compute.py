"""DMA that adds: the engines that move data sum several sources, or sum into rows that indices name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..checks import float_values, member, shaped
from ..core import active
from ..errors import NkiValidationError
from ..instruction import Instruction, engine
from ..operators import alu_operator
from ..tensor import IndirectTensor, NkiTensor
from ..timing.transfers import adding
from .dma import _OOB_MODE, _gathers, _hbm_bytes, _operands, dge_mode, oob_mode

_MOST_SOURCES = 16
_UNKNOWN, _SKIP = dge_mode.unknown, oob_mode.skip


def dma_compute(
    dst: NkiTensor,
    srcs: Sequence[NkiTensor],
    reduce_op: Any,
    scales: Sequence[float] | None = None,
    unique_indices: bool = True,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> Instruction:
    """dst = the sum of srcs, in float32. With an indirect source: dst[indices] += src (the indirect source is dst's
    rows, as dst is) or dst += src[indices]."""
    core = active("dma_compute")
    if not 1 <= len(srcs) <= _MOST_SOURCES:
        raise NkiValidationError(f"dma_compute: 1 to {_MOST_SOURCES} srcs, came {len(srcs)}")
    for src in srcs:
        _operands("dma_compute", dst, src)
        if src.size != dst.size:
            raise NkiValidationError(
                f"dma_compute: src {src.label} must have the {dst.size} elements of dst {dst.label}"
            )
    if alu_operator(reduce_op, "dma_compute", "reduce_op").name != "add":
        raise NkiValidationError("dma_compute: reduce_op must be nl.add")
    if scales is not None and (len(scales) != len(srcs) or any(scale != 1.0 for scale in scales)):
        raise NkiValidationError(f"dma_compute: scales must be 1.0 for each of the {len(srcs)} srcs, came {scales}")
    gathering = [tensor for tensor in (dst, *srcs) if tensor.gathers]
    _gathers("dma_compute", core.target.generation, _UNKNOWN, *gathering)
    if gathering and (len(srcs) != 2 or sum(src.gathers for src in srcs) != 1):
        raise NkiValidationError("dma_compute: with a vector of indices, 2 srcs of which one is indirect")
    if gathering and not unique_indices:
        raise NkiValidationError("dma_compute: unique_indices must be True with a vector of indices")
    transfer = adding(core.target, dst, srcs, core.dge)
    hbm_bytes = _hbm_bytes(dst, srcs[0]) + sum(_hbm_bytes(src, src) // 2 for src in srcs[1:])
    instruction = core.issue(
        "dma_compute", engine.dma, (dst,), tuple(srcs), name=name, flops=dst.size, hbm_bytes=hbm_bytes, dma=transfer
    )

    if core.functional:
        if gathering:
            _add_rows(dst, srcs, member("dma_compute", "oob_mode", _OOB_MODE, oob_mode) is _SKIP)
        else:
            total_values = shaped(float_values(srcs[0]), dst.shape)
            for src in srcs[1:]:
                total_values = total_values + shaped(float_values(src), dst.shape)
            dst.write(total_values)
    return instruction


def _add_rows(dst: NkiTensor, srcs: Sequence[NkiTensor], skip: bool) -> None:
    """dst += the source that is not dst's own memory, row by row where an index is out of bounds."""
    (source,) = [src for src in srcs if src.storage is not dst.storage] or [srcs[1]]
    indirect = dst if isinstance(dst, IndirectTensor) else source
    assert isinstance(indirect, IndirectTensor)
    inside = indirect.inside()
    if not skip or inside.all():
        dst.write(shaped(float_values(dst), dst.shape) + shaped(float_values(source), dst.shape))
        return
    for row in np.flatnonzero(inside):
        index = indirect.indices[row]
        target = indirect.at(index) if dst is indirect else dst[row : row + 1]
        value = indirect.at(index) if source is indirect else source[row : row + 1]
        target.write(float_values(target) + shaped(float_values(value), target.shape))
