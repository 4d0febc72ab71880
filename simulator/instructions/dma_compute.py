"""DMAs that add several sources, or that accumulate into rows selected by indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from ..machine.errors import NkiValidationError
from ..machine.instruction import Instruction, engine
from ..tensors.tensor import IndirectTensor, NkiTensor
from ..timing.transfers import adding
from .checks import float_values, shaped
from .core import active
from .declaration import declared
from .dma import dge_mode, gathers_rows, hbm_bytes, oob_mode
from .operands import Call, Member, Operator
from .tensor_operands import DmaTensor

_MOST_SOURCES = 16
_UNKNOWN, _SKIP = dge_mode.unknown, oob_mode.skip


@dataclass(frozen=True, eq=False)
class Sources(DmaTensor):
    """A sequence of 1 to 16 tensors with the same number of elements as dst."""

    def check(self, call: Call, name: str, value: Any) -> Any:
        if not 1 <= len(value) <= _MOST_SOURCES:
            raise NkiValidationError(
                f"{call.instruction}: srcs must contain 1 to {_MOST_SOURCES} tensors, got {len(value)}"
            )
        for src in value:
            super().check(call, "src", src)
            if src.size != call.dst.size:
                raise call.refuse("src", src, f"must have the {call.dst.size} elements of dst {call.dst.label}")
        return value

    @property
    def limits(self) -> str:
        return f"1 to {_MOST_SOURCES} in {super().limits}, with as many elements as dst"


def _added(call: Call) -> None:
    """scales must be 1.0. A vector of indices requires two srcs, of which one is indirect, and unique_indices=True."""
    dst, srcs, scales = call.dst, call.srcs, call.scales
    if scales is not None and (len(scales) != len(srcs) or any(scale != 1.0 for scale in scales)):
        raise NkiValidationError(f"dma_compute: scales must be 1.0 for each of the {len(srcs)} srcs, got {scales}")
    for tensor in (dst, *srcs):
        gathers_rows(call.core, "dma_compute", _UNKNOWN, tensor)
    if any(tensor.gathers for tensor in (dst, *srcs)):
        if len(srcs) != 2 or sum(src.gathers for src in srcs) != 1:
            raise NkiValidationError(
                "dma_compute: with a vector of indices, there must be 2 srcs, one of them indirect"
            )
        if not call.unique_indices:
            raise NkiValidationError("dma_compute: unique_indices must be True with a vector of indices")
    call.transfer = adding(call.core.target, dst, srcs, call.core.dge)


@declared(engine.dma, rules=(_added,), finds=("transfer",), source="nki/deep-dives/nki-dge.rst")
def dma_compute(
    dst: Annotated[NkiTensor, DmaTensor(written=True)],
    srcs: Annotated[Sequence[NkiTensor], Sources()],
    reduce_op: Annotated[Any, Operator(("add",))],
    scales: Sequence[float] | None = None,
    unique_indices: bool = True,
    oob_mode: Annotated[oob_mode, Member(oob_mode)] = oob_mode.error,
    name: str | None = None,
) -> Instruction:
    """Write the sum of srcs, computed in float32, to dst.

    With an indirect source, compute dst[indices] += src (the rows of dst are then also one of the sources) or
    dst += src[indices].
    """
    core = active("dma_compute")
    settled = core.settle("dma_compute", dst, list(srcs), reduce_op, scales, unique_indices, oob_mode)
    _, outside, transfer = settled[-1]
    moved_bytes = hbm_bytes(dst, srcs[0]) + sum(hbm_bytes(src, src) // 2 for src in srcs[1:])
    instruction = core.issue(
        "dma_compute", engine.dma, (dst,), tuple(srcs), name=name, flops=dst.size, hbm_bytes=moved_bytes, dma=transfer
    )

    if core.functional:
        if any(tensor.gathers for tensor in (dst, *srcs)):
            _add_rows(dst, srcs, outside is _SKIP)
        else:
            total_values = shaped(float_values(srcs[0]), dst.shape)
            for src in srcs[1:]:
                total_values = total_values + shaped(float_values(src), dst.shape)
            dst.write(total_values)
    return instruction


def _add_rows(dst: NkiTensor, srcs: Sequence[NkiTensor], skip: bool) -> None:
    """Add the source that is not in the memory of dst to dst, row by row if out-of-bounds indices are skipped."""
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
