"""Gathers of elements by index within SBUF (GpSimd Engine), and shuffles of partitions within a quadrant (Vector
Engine)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from ..machine.dtypes import Array
from ..machine.errors import NkiValidationError, OutOfBoundsError
from ..machine.instruction import Instruction, engine
from ..machine.memory import SBUF
from ..tensors.tensor import NkiTensor
from .checks import shaped
from .core import active
from .declaration import declared, instruction
from .operands import Call
from .tensor_operands import Tile

CORE_PARTITIONS = 16  # number of partitions connected to each of the eight GpSimd cores
QUADRANT = 32  # number of partitions among which the Vector Engine can move data
UNCHANGED = 255  # value in a shuffle mask for partitions that are not written
_ELEMENTS = (1, 2, 4, 8, 16, 32)
_MOST_INDICES = 4096  # maximum number of indices per GpSimd core in local_gather


@instruction(engine.gpsimd, cost=("one_pass", "unit", "indices"))
def nc_n_gather(
    dst: Annotated[NkiTensor, Tile(written=True, buffers=(SBUF,), size_of="indices", dtype_of="data")],
    data: Annotated[NkiTensor, Tile(buffers=(SBUF,), partitions_of="dst")],
    indices: Annotated[NkiTensor, Tile(buffers=(SBUF,), dtypes=("uint32",))],
    name: str | None = None,
) -> None:
    """Compute dst[p, i] = data[p, indices[p, i]], with the free axes of data flattened.

    The time of this instruction is not published; it is modelled as one pass over the indices.
    """
    values = data.values.reshape(data.shape[0], -1)
    positions = indices.values.reshape(indices.shape[0], -1).astype(np.int64)
    _within("nc_n_gather", positions, values.shape[1], data)
    dst.write(shaped(np.take_along_axis(values, positions, axis=1), dst.shape))


def _indices_fill(call: Call) -> None:
    """A group of 16 partitions must have 1 to 4096 indices, and dst must have the same size as the gathered
    elements."""
    elements, most = call.num_elem_per_idx, CORE_PARTITIONS * call.index.free_size
    if elements not in _ELEMENTS:
        raise NkiValidationError(f"local_gather: num_elem_per_idx {elements} must be one of {_ELEMENTS}")
    count = most if call.num_valid_indices is None else call.num_valid_indices
    if not 1 <= count <= min(most, _MOST_INDICES):
        raise NkiValidationError(
            f"local_gather: a group of 16 partitions must have 1 to {min(most, _MOST_INDICES)} indices, got {count}"
        )
    if call.dst.free_size != count * elements:
        raise call.refuse("dst", call.dst, f"must have {count * elements} elements in a partition")


@instruction(engine.gpsimd, cost=("one_pass", "unit", "dst"), rules=(_indices_fill,))
def local_gather(
    dst: Annotated[NkiTensor, Tile(written=True, buffers=(SBUF,), dtype_of="src_buffer", partitions_of="src_buffer")],
    src_buffer: Annotated[NkiTensor, Tile(buffers=(SBUF,), partitions=CORE_PARTITIONS)],
    index: Annotated[NkiTensor, Tile(buffers=(SBUF,), dtypes=("uint16",), partitions_of="src_buffer")],
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    name: str | None = None,
) -> None:
    """Gather dst[p, i] = src_buffer[p, k : k + num_elem_per_idx] for the i-th index k, per group of 16 partitions.

    The indices of a group are read column by column, in units of elements. The size of dst equals the number of
    elements that the valid indices gather. The time of this instruction is not published; it is modelled as one pass
    over the gathered elements.
    """
    partitions, count = src_buffer.shape[0], dst.free_size // num_elem_per_idx
    values = src_buffer.values.reshape(partitions, -1)
    groups = index.values.reshape(partitions // CORE_PARTITIONS, CORE_PARTITIONS, -1)
    result = np.empty((partitions, dst.free_size), values.dtype)
    for group, positions in enumerate(groups):
        starts = positions.T.reshape(-1)[:count].astype(np.int64)
        columns = (starts[:, None] + np.arange(num_elem_per_idx)).reshape(-1)
        _within("local_gather", columns, values.shape[1], src_buffer)
        rows = slice(group * CORE_PARTITIONS, (group + 1) * CORE_PARTITIONS)
        result[rows] = values[rows][:, columns]
    dst.write(shaped(result, dst.shape))


def _shuffle(call: Call) -> None:
    """shuffle_mask must have 32 elements, each of which is a partition of src (0 to 31) or 255 (unchanged). dst and src
    must have the same number of elements per partition."""
    dst, src, mask = call.dst, call.src, call.shuffle_mask
    if dst.free_size != src.free_size:
        raise call.refuse("dst", dst, f"must have as many elements as src {src.label}")
    if len(mask) != QUADRANT or any(not 0 <= lane < QUADRANT and lane != UNCHANGED for lane in mask):
        raise NkiValidationError(
            f"nc_stream_shuffle: shuffle_mask {list(mask)} must have 32 elements, each 0 to 31, or 255 to leave the "
            f"partition unchanged"
        )
    sources: dict[int, int] = {}
    for partition in range(dst.shape[0]):
        lane = mask[partition % QUADRANT]
        if lane != UNCHANGED:
            sources[partition] = partition - partition % QUADRANT + lane
    outside = [source for source in sources.values() if source >= src.shape[0]]
    if outside:
        raise NkiValidationError(
            f"nc_stream_shuffle: shuffle_mask reads partition {outside[0]} of src {src.label}, whose last partition is "
            f"{src.shape[0] - 1}"
        )
    call.moved = sources


def _quadrant_starts(call: Call) -> None:
    """dst and src must start at a partition that is valid for the number of quadrants of the larger one."""
    dst, src = call.dst, call.src
    quadrants = -(-max(dst.shape[0], src.shape[0]) // QUADRANT)
    allowed = {1: (0, 32, 64, 96), 2: (0, 64)}.get(quadrants, (0,))
    for operand, tensor in (("dst", dst), ("src", src)):
        if tensor.access.row not in allowed:
            raise NkiValidationError(
                f"nc_stream_shuffle: {operand} {tensor.label} starts at partition {tensor.access.row}; "
                f"{quadrants} quadrant(s) must start at one of {allowed}"
            )


@declared(engine.vector, cost=("one_pass", "unit", "dst"), rules=(_quadrant_starts, _shuffle), finds=("moved",))
def nc_stream_shuffle(
    dst: Annotated[NkiTensor, Tile(written=True, dtype_of="src")],
    src: Annotated[NkiTensor, Tile()],
    shuffle_mask: Sequence[int],
    name: str | None = None,
) -> Instruction:
    """Compute dst[i] = src[shuffle_mask[i]] in each quadrant of 32 partitions; 255 leaves dst[i] unchanged."""
    core = active("nc_stream_shuffle")
    unit, cost, _, (moved,) = core.settle("nc_stream_shuffle", dst, src, tuple([int(lane) for lane in shuffle_mask]))
    reads = (src,) if len(moved) == dst.shape[0] else (src, dst)
    instruction = core.issue("nc_stream_shuffle", unit, (dst,), reads, cost, name)

    if core.functional:
        values = dst.values.reshape(dst.shape[0], -1).copy()
        values[list(moved)] = src.values.reshape(src.shape[0], -1)[list(moved.values())]
        dst.write(shaped(values, dst.shape))
    return instruction


def _within(op: str, columns: Array, limit: int, data: NkiTensor) -> None:
    outside = columns[columns >= limit]
    if outside.size:
        raise OutOfBoundsError(f"{op}: index {outside.flat[0]} is outside {data.label}; allowed: 0 to {limit - 1}")
