"""Moving elements by index within SBUF (GpSimd Engine), and partitions within a quadrant (Vector Engine)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..checks import destination, in_sbuf, same_partitions, shaped, tile
from ..core import active
from ..dtypes import Array
from ..errors import NkiValidationError, OutOfBoundsError
from ..instruction import Instruction, engine
from ..tensor import NkiTensor

CORE_PARTITIONS = 16  # that each of the eight GpSimd cores is connected to
QUADRANT = 32  # partitions that the Vector Engine can move data within
UNCHANGED = 255  # in a shuffle mask
_ELEMENTS = (1, 2, 4, 8, 16, 32)
_MOST_INDICES = 4096  # of one GpSimd core in local_gather


def nc_n_gather(dst: NkiTensor, data: NkiTensor, indices: NkiTensor, name: str | None = None) -> Instruction:
    """dst[p, i] = data[p, indices[p, i]], the free axes of data taken as one.

    Its time is not published; it is counted as one pass over the indices.
    """
    core = active("nc_n_gather")
    for operand, tensor in (("dst", dst), ("data", data), ("indices", indices)):
        in_sbuf("nc_n_gather", operand, tensor)
        same_partitions("nc_n_gather", dst, operand, tensor)
    if indices.dtype != "uint32":
        raise NkiValidationError(f"nc_n_gather: indices {indices.label} must be uint32")
    if dst.dtype != data.dtype:
        raise NkiValidationError(f"nc_n_gather: dst {dst.label} must have the dtype of data, {data.dtype}")
    if dst.free_size != indices.free_size:
        raise NkiValidationError(
            f"nc_n_gather: dst {dst.label} must have the {indices.free_size} elements a partition of indices"
        )
    cost = core.costs.one_pass(engine.gpsimd, indices)
    instruction = core.issue("nc_n_gather", engine.gpsimd, (dst,), (data, indices), cost, name)

    if core.functional:
        values = data.values.reshape(data.shape[0], -1)
        chosen = indices.values.reshape(indices.shape[0], -1).astype(np.int64)
        _within("nc_n_gather", chosen, values.shape[1], data)
        dst.write(shaped(np.take_along_axis(values, chosen, axis=1), dst.shape))
    return instruction


def local_gather(
    dst: NkiTensor,
    src_buffer: NkiTensor,
    index: NkiTensor,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    name: str | None = None,
) -> Instruction:
    """In each group of 16 partitions: dst[p, i] = src_buffer[p, k : k + num_elem_per_idx] of the i-th index k.

    The indices of a group are read column by column; k counts elements. dst has room for
    as many elements as the valid indices gather. Its time is not published; counted as a pass over what it gathers.
    """
    core = active("local_gather")
    for operand, tensor in (("dst", dst), ("src_buffer", src_buffer), ("index", index)):
        in_sbuf("local_gather", operand, tensor)
        same_partitions("local_gather", src_buffer, operand, tensor)
    partitions = src_buffer.shape[0]
    if partitions % CORE_PARTITIONS:
        raise NkiValidationError(f"local_gather: src_buffer {src_buffer.label} must have a multiple of 16 partitions")
    if index.dtype != "uint16":
        raise NkiValidationError(f"local_gather: index {index.label} must be uint16")
    if dst.dtype != src_buffer.dtype:
        raise NkiValidationError(f"local_gather: dst {dst.label} must have the dtype of src_buffer, {src_buffer.dtype}")
    if num_elem_per_idx not in _ELEMENTS:
        raise NkiValidationError(f"local_gather: num_elem_per_idx {num_elem_per_idx} must be one of {_ELEMENTS}")
    most = CORE_PARTITIONS * index.free_size
    count = most if num_valid_indices is None else num_valid_indices
    if not 1 <= count <= min(most, _MOST_INDICES):
        raise NkiValidationError(
            f"local_gather: {count} indices for a group of 16 partitions; allowed 1 to {min(most, _MOST_INDICES)}"
        )
    if dst.free_size != count * num_elem_per_idx:
        raise NkiValidationError(
            f"local_gather: dst {dst.label} must have {count * num_elem_per_idx} elements in a partition"
        )
    cost = core.costs.one_pass(engine.gpsimd, dst)
    instruction = core.issue("local_gather", engine.gpsimd, (dst,), (src_buffer, index), cost, name)

    if core.functional:
        values = src_buffer.values.reshape(partitions, -1)
        groups = index.values.reshape(partitions // CORE_PARTITIONS, CORE_PARTITIONS, -1)
        result = np.empty((partitions, dst.free_size), values.dtype)
        for group, chosen in enumerate(groups):
            starts = chosen.T.reshape(-1)[:count].astype(np.int64)
            columns = (starts[:, None] + np.arange(num_elem_per_idx)).reshape(-1)
            _within("local_gather", columns, values.shape[1], src_buffer)
            rows = slice(group * CORE_PARTITIONS, (group + 1) * CORE_PARTITIONS)
            result[rows] = values[rows][:, columns]
        dst.write(shaped(result, dst.shape))
    return instruction


def nc_stream_shuffle(
    dst: NkiTensor, src: NkiTensor, shuffle_mask: Sequence[int], name: str | None = None
) -> Instruction:
    """In each quadrant of 32 partitions: dst[i] = src[shuffle_mask[i]]; dst[i] stays where the mask is 255."""
    core = active("nc_stream_shuffle")
    destination("nc_stream_shuffle", dst)
    tile("nc_stream_shuffle", "src", src)
    if dst.dtype != src.dtype:
        raise NkiValidationError(f"nc_stream_shuffle: dst {dst.label} must have the dtype of src, {src.dtype}")
    if dst.free_size != src.free_size:
        raise NkiValidationError(f"nc_stream_shuffle: dst {dst.label} must have as many elements as src {src.label}")
    mask = [int(lane) for lane in shuffle_mask]
    if len(mask) != QUADRANT or any(not 0 <= lane < QUADRANT and lane != UNCHANGED for lane in mask):
        raise NkiValidationError(
            f"nc_stream_shuffle: shuffle_mask {mask} must have 32 elements, each 0 to 31 or 255 (leave it)"
        )
    _quadrant_starts(dst, src)
    moved: dict[int, int] = {}
    for partition in range(dst.shape[0]):
        lane = mask[partition % QUADRANT]
        if lane != UNCHANGED:
            moved[partition] = partition - partition % QUADRANT + lane
    outside = [source for source in moved.values() if source >= src.shape[0]]
    if outside:
        raise NkiValidationError(
            f"nc_stream_shuffle: shuffle_mask reads partition {outside[0]} of src {src.label}; allowed up to "
            f"{src.shape[0] - 1}"
        )
    reads = (src,) if len(moved) == dst.shape[0] else (src, dst)
    cost = core.costs.one_pass(engine.vector, dst)
    instruction = core.issue("nc_stream_shuffle", engine.vector, (dst,), reads, cost, name)

    if core.functional:
        values = dst.values.reshape(dst.shape[0], -1).copy()
        values[list(moved)] = src.values.reshape(src.shape[0], -1)[list(moved.values())]
        dst.write(shaped(values, dst.shape))
    return instruction


def _quadrant_starts(dst: NkiTensor, src: NkiTensor) -> None:
    """Both start where as many quadrants as the larger one fills may start."""
    quadrants = -(-max(dst.shape[0], src.shape[0]) // QUADRANT)
    allowed = {1: (0, 32, 64, 96), 2: (0, 64)}.get(quadrants, (0,))
    for operand, tensor in (("dst", dst), ("src", src)):
        if tensor.access.row not in allowed:
            raise NkiValidationError(
                f"nc_stream_shuffle: {operand} {tensor.label} starts at partition {tensor.access.row}; allowed for "
                f"{quadrants} quadrant(s): {allowed}"
            )


def _within(op: str, columns: Array, limit: int, data: NkiTensor) -> None:
    outside = columns[columns >= limit]
    if outside.size:
        raise OutOfBoundsError(f"{op}: index {outside.flat[0]} is outside {data.label}, allowed 0 to {limit - 1}")
