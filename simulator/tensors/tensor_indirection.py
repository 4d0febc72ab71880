"""Instructions that accept columns of a tile at offsets stored in SBUF (`NkiTensor.indirect`), and their limits.

Source: nki/api/nki/isa/__init__.py of aws-neuron-sdk, "Tensor indirection" of each instruction. According to the
formula there, the offsets are read from the first group of partitions; the effect of different offsets in other groups
is not documented.
"""

from __future__ import annotations

from typing import Any

from ..machine.errors import NkiValidationError
from ..machine.instruction import Instruction, engine
from ..machine.memory import PSUM
from .tensor import ColumnsTensor, IndirectTensor, NkiTensor

# Number of leading source operands that may be gathered. The destination may be scattered.
SOURCES = {
    "nc_matmul": 2,
    "tensor_tensor": 1,
    "tensor_scalar": 1,
    "tensor_reduce": 1,
    "tensor_copy": 1,
    "tensor_copy_predicated": 1,
    "tensor_scalar_reduce": 1,
    "tensor_scalar_cumulative": 1,
    "activation": 1,
    "activate2": 1,
    "exponential": 1,
}
_GROUP, _TENSOR_GROUP = 16, 32  # number of partitions that contain offsets, depending on the engine
_QUADRANT = 32
_INT32 = ("int32", "uint32")


def check(core: Any, op: str, unit: engine, writes: tuple[NkiTensor, ...], reads: tuple[NkiTensor, ...]) -> None:
    """Reject indirect columns as operands of instructions that do not accept them, and set the number of partitions
    that contain their offsets."""
    views = [tensor for tensor in (*writes, *reads) if isinstance(tensor, ColumnsTensor)]
    if not views:
        return
    if core.target.generation < 4:
        raise NkiValidationError(f"{op}: indirect() requires NeuronCore-v4 (trn3), got {core.target.name}")
    sources = reads[: SOURCES.get(op, 0)]
    sources_seen = set(map(id, (*writes[:1], *sources))) if op in SOURCES else set()
    for view in views:
        if id(view) not in sources_seen:
            raise NkiValidationError(
                f"{op}: {view.label} is a view of indirect() columns, which this operand does not support"
            )
        view.group = _TENSOR_GROUP if unit is engine.tensor else _GROUP
        view.check_offsets(op)
        if core.functional:
            _groups_agree(core, op, view)
    dst = writes[0]
    _check_engine(op, unit, dst)
    if op == "tensor_scalar" and dst.dtype in _INT32 and sources[0].dtype in _INT32:
        core.warn("tensor_scalar: indirect() does not support address arithmetic, such as int32 to int32")
    _partitions(op, dst, sources)


def _groups_agree(core: Any, op: str, view: ColumnsTensor) -> None:
    """Warn if groups of partitions contain different offsets."""
    first = view.offsets()
    for start in range(view.group, view.index.shape[0] - view.group + 1, view.group):
        if (view.offsets(start) != first).any():
            core.warn(
                f"{op}: {view.label}: the partitions of index {view.index.label} from {start} contain different "
                f"offsets than the first {view.group} partitions; the simulator uses the first ones for all "
                "partitions, and AWS does not document what the chip does"
            )
            return


def _check_engine(op: str, unit: engine, dst: NkiTensor) -> None:
    """Reject indirect columns on an engine that cannot access them."""
    if op == "tensor_copy" and unit is engine.gpsimd:
        raise NkiValidationError(
            "tensor_copy: the gpsimd engine does not support columns of indirect(); use vector or scalar"
        )
    if isinstance(dst, ColumnsTensor) and unit is engine.scalar and dst.storage.region is PSUM:
        raise NkiValidationError(f"{op}: dst {dst.label}: the Scalar Engine can only scatter into SBUF")


def _at_quadrant(op: str, index: NkiTensor) -> None:
    """Reject an index that does not start at a quadrant."""
    first = _start(index)
    if first is not None and first % _QUADRANT:
        raise NkiValidationError(
            f"{op}: index {index.label} of indirect() starts at partition {first}; it must start at a multiple of "
            f"{_QUADRANT}"
        )


def _partitions(op: str, dst: NkiTensor, sources: tuple[NkiTensor, ...]) -> None:
    """Reject an index of indirect() that does not start at a quadrant, or that starts at a different partition than
    its operand."""
    for view in (view for view in (dst, *sources) if isinstance(view, ColumnsTensor)):
        _at_quadrant(op, view.index)
    for source in (source for source in sources if isinstance(source, ColumnsTensor)):
        _same_start(op, source, source.index)
    if isinstance(dst, ColumnsTensor):
        other: Any = sources[0]
        if op != "nc_matmul" and other.storage.region is PSUM:
            other = other.index if isinstance(other, ColumnsTensor) else None
        if other is not None:
            _same_start(op, other, dst.index)


def _same_start(op: str, tensor: NkiTensor, index: NkiTensor) -> None:
    starts = _start(tensor), _start(index)
    if None not in starts and starts[0] != starts[1]:
        raise NkiValidationError(
            f"{op}: {tensor.label} starts at partition {starts[0]}, but index {index.label} of indirect() at "
            f"{starts[1]}; they must start at the same partition"
        )


def _start(tensor: NkiTensor) -> int | None:
    """Return the first partition of a tensor if the kernel chose it, otherwise None."""
    return tensor.access.row if tensor.storage.arena is not None else None


def with_indices(writes: tuple[NkiTensor, ...], reads: tuple[NkiTensor, ...]) -> tuple[NkiTensor, ...]:
    """Return the tensors that an instruction reads: its operands, the indices of indirect views, and indirect outputs,
    whose other elements are preserved."""
    indirect = [tensor for tensor in (*writes, *reads) if isinstance(tensor, IndirectTensor)]
    indices = [view.index for view in indirect if isinstance(view.index, NkiTensor)]
    return (*reads, *indices, *[tensor for tensor in writes if tensor.is_indirect()])


def after_registers(instruction: Instruction, indirect: list[NkiTensor]) -> None:
    """Make an instruction depend on the instructions that loaded the registers used to address its operands."""
    for tensor in indirect:
        loaded = getattr(getattr(tensor, "index", None), "loaded", None)
        if loaded is not None and loaded not in instruction.after:
            instruction.depends_on(loaded)
