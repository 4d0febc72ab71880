"""Detect numerical faults while a kernel runs. Each fault is reported at its first occurrence.

    nan           an instruction computes a NaN although its operands contain none
    infinity      an instruction computes an infinity from finite operands
    saturation    a value exceeds the range of the dtype to which it is written
    inexact       an integer beyond 2^24 is converted to float32, in an engine or on a write; float32 has 24 bits
    duplicate     a scatter contains an index twice, so the second write wins, or a sum loses the first value
    base offset   .ap(offset=) is called on a view with a non-zero offset, on which AWS's pages disagree

Values are examined when they are stored, before rounding; operands are only checked for NaN and infinities if a result
contains them. Instructions that select or fill may write NaN and infinities, since kernels use them for masking.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import ml_dtypes
import numpy as np

from ..instructions.core import active
from ..machine.dtypes import EXACT, Array, DType, convert
from ..machine.instruction import Instruction
from ..tensors.tensor import IndirectTensor, NkiTensor
from .sanitizer import SanitizerFinding

KINDS = ("nan", "infinity", "saturation", "inexact", "duplicate", "base offset")
_CHOOSING = frozenset(  # instructions that write given values or copy bits
    {"memset", "iota", "affine_select", "range_select", "select_reduce", "tensor_copy_predicated", "nc_match_replace8"}
)
_SUMMING = frozenset({"dma_compute"})


class NumericSanitizer:
    """An observer of the instructions of a launch on one or two cores, and of the values that these instructions
    store."""

    def __init__(self) -> None:
        self.findings: list[SanitizerFinding] = []
        self._known: set[tuple[str, str]] = set()
        self._now = threading.local()  # the current instruction in the thread of this core, and its operands

    def see(self, instruction: Instruction, writes: tuple[NkiTensor, ...], reads: tuple[NkiTensor, ...]) -> None:
        """Record an instruction. Called when it is issued, before its values are computed."""
        self._now.instruction, self._now.reads = instruction, reads
        for tensor in writes:
            if isinstance(tensor, IndirectTensor) and tensor.gathers:
                self._scattered(instruction, tensor)

    def based(self, tensor: NkiTensor, offset: int | None) -> None:
        """Report a call of `tensor.ap(offset=)` on a view that itself has an offset."""
        core, begin = active(), tensor.offset
        if offset is None or core.numeric is not self:
            return
        why = (
            f"ap(offset={offset}) of {tensor.label}, which begins at element {begin} of its memory: the offset is "
            f"counted from the start of the memory ({offset}); according to other documents, it is added to that of "
            f"the view ({begin + offset})"
        )
        self._find("base offset", core.line_of_kernel(), 0, why)

    # Values

    def written(self, tensor: NkiTensor, values: Array) -> None:
        """Check values. Called immediately before they are stored."""
        instruction = self._instruction()
        if instruction is None or values.dtype.kind not in "fiu":
            return
        dtype = tensor._dtype
        if values.dtype.kind == "f" and instruction.op not in _CHOOSING:
            self._not_finite(instruction, tensor, values)
        if dtype.is_integer and values.dtype != dtype.held:
            self._into_integers(instruction, tensor, values)
        elif dtype.is_float and values.dtype.kind in "iu":
            self._from_integers(instruction, tensor, values)
        elif dtype.is_float and not dtype.exact and values.dtype.kind == "f":
            with np.errstate(all="ignore"):
                lost = np.isfinite(values) & ~np.isfinite(convert(values, dtype))
            self._saturates(instruction, tensor, values, lost)

    def read_as_float(self, tensor: NkiTensor, values: Array) -> None:
        """Check integers. Called when they are read as float32."""
        instruction = self._instruction()
        if instruction is None or values.dtype.itemsize < 4:
            return
        integers = values.astype(np.int64)
        lost = values.astype(np.float32).astype(np.int64) != integers
        if lost.any():
            at, number = _first(lost, integers)
            why = (
                f"{instruction.op} reads {number} of {tensor.label} at {at} as float32 {int(np.float32(number))}: "
                f"float32 cannot represent every integer beyond 2^24{_of(lost)}"
            )
            self._find("inexact", instruction.line, int(lost.sum()) * tensor._dtype.itemsize, why)

    def _not_finite(self, instruction: Instruction, tensor: NkiTensor, values: Array) -> None:
        if np.isfinite(values).all():
            return
        reads = [read for read in self._now.reads if read._dtype.is_float]
        nan = np.isnan(values)
        for kind, wrong, has in (("nan", nan, np.isnan), ("infinity", np.isinf(values), np.isinf)):
            if not wrong.any() or any(has(_values(read)).any() for read in reads):
                continue
            if kind == "infinity" and nan.any() and any(np.isnan(_values(read)).any() for read in reads):
                continue
            at, number = _first(wrong, values)
            operands = _operands(at, tensor, reads)
            why = f"{instruction.op} computes {number} for {tensor.label} at {at}{operands}{_of(wrong)}"
            self._find(kind, instruction.line, int(wrong.sum()) * tensor._dtype.itemsize, why)

    def _from_integers(self, instruction: Instruction, tensor: NkiTensor, values: Array) -> None:
        """Check integers that are stored as floats, such as the results of iota."""
        integers = values.astype(np.int64)
        lost = (np.abs(integers) > EXACT) & (convert(values, tensor._dtype).astype(np.float64) != integers)
        if lost.any():
            at, number = _first(lost, integers)
            why = (
                f"{instruction.op} stores {number} in {tensor.label} at {at}: {tensor.dtype} cannot represent every "
                f"integer beyond 2^24{_of(lost)}"
            )
            self._find("inexact", instruction.line, int(lost.sum()) * tensor._dtype.itemsize, why)

    def _into_integers(self, instruction: Instruction, tensor: NkiTensor, values: Array) -> None:
        info = np.iinfo(tensor._dtype.held)
        rounded = np.rint(values.astype(np.float64))
        lost = ~((rounded >= info.min) & (rounded <= info.max))  # includes NaN
        self._saturates(instruction, tensor, values, lost)
        if tensor._dtype.itemsize < 4 or values.dtype.kind != "f":
            return
        if not any(read._dtype.is_integer for read in self._now.reads):
            return
        beyond = ~lost & (np.abs(rounded) > EXACT)
        if beyond.any():
            at, number = _first(beyond, values)
            why = (
                f"{instruction.op} computes {int(number)} for {tensor.label} at {at} in float32, which has no odd "
                f"integers beyond 2^24, so it may be inexact{_of(beyond)}"
            )
            self._find("inexact", instruction.line, int(beyond.sum()) * tensor._dtype.itemsize, why)

    def _saturates(self, instruction: Instruction, tensor: NkiTensor, values: Array, lost: Array) -> None:
        if not lost.any():
            return
        at, number = _first(lost, values)
        with np.errstate(all="ignore"):
            converted = convert(np.asarray([number], values.dtype), tensor._dtype)[0]
        why = (
            f"{instruction.op} writes {number} to {tensor.label} at {at}, which holds {_range(tensor._dtype)}: it "
            f"becomes {converted}{_of(lost)}"
        )
        self._find("saturation", instruction.line, int(lost.sum()) * tensor._dtype.itemsize, why)

    def _scattered(self, instruction: Instruction, tensor: IndirectTensor) -> None:
        indices, counts = np.unique(tensor.indices, return_counts=True)
        twice = indices[counts > 1]
        if twice.size:
            result = "both are added to the old value, and one sum is lost" if instruction.op in _SUMMING else ""
            why = (
                f"{instruction.op} scatters into {tensor.label} with the index {int(twice[0])} "
                f"{int(counts[counts > 1][0])} times: "
                f"{result or 'it is not documented which write wins; the simulator keeps the last'}"
            )
            self._find("duplicate", instruction.line, 0, why)

    def _instruction(self) -> Instruction | None:
        instruction: Instruction | None = getattr(self._now, "instruction", None)
        return instruction

    def _find(self, kind: str, line: tuple[str, int], size: int, why: str) -> None:
        location = f"{line[0]}:{line[1]}"
        if (kind, location) not in self._known:
            self._known.add((kind, location))
            self.findings.append(SanitizerFinding(kind, location, "", size, why))


def _values(tensor: NkiTensor) -> Array:
    """Return the values of an operand. For an indexed operand, return all values that its index could select."""
    return tensor._table().values if isinstance(tensor, IndirectTensor) else tensor.values


def _first(wrong: Array, values: Array) -> tuple[list[int], Any]:
    """Return the index and the value of the first wrong element."""
    at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    return [int(i) for i in at], values[at].item()


def _of(wrong: Array) -> str:
    count = int(wrong.sum())
    return f"; {count} of {wrong.size} elements" if count > 1 else ""


def _operands(at: list[int], tensor: NkiTensor, reads: list[NkiTensor]) -> str:
    """Describe the numbers at the same position in operands of the same shape."""
    operands = [read for read in reads if read.shape == tensor.shape and not isinstance(read, IndirectTensor)]
    texts = [f"{read.values[tuple(at)].item():g}" for read in operands if len(at) == len(read.shape)]
    return f" from {' and '.join(texts)}" if texts else ""


@functools.cache
def _range(dtype: DType) -> str:
    if dtype.is_integer:
        info = np.iinfo(dtype.held)
        return f"{info.min} to {info.max}"
    limits: Any = ml_dtypes.finfo(dtype.bits)  # type: ignore[no-untyped-call]
    return f"at most {float(limits.max):g}"
