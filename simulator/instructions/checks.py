"""Rules that many instructions share, and their error messages.

A message is built only if its condition is violated, because the checks are in the simulator's hot path.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

import numpy as np

from ..machine.chip import PARTITIONS
from ..machine.dtypes import Array
from ..machine.errors import AccessPatternError, EarlierNkiWarning, NkiValidationError
from ..machine.memory import PSUM, PSUM_ALIGNMENT, SBUF
from ..machine.watching import watchers
from ..tensors.tensor import MAX_DIMENSIONS, NkiTensor
from ..tensors.views import dimensions
from .core import active
from .reported import HALF_WORD, check_slot, check_words

MAX_COUNT = (1 << 16) - 1
MAX_STRIDE = (1 << 15) - 1


def _check_alignment(op: str, operand: str, tensor: NkiTensor) -> None:
    """Report a tensor that does not begin at a word of PSUM."""
    if tensor._dtype.itemsize == HALF_WORD:
        check_slot(active(op), op, operand, tensor)
        return
    active(op).warn(
        f"{op}: {operand} {tensor.label} starts at byte {tensor.access.byte} of a partition of PSUM; it must be a "
        f"multiple of {PSUM_ALIGNMENT} (nl.tile_size.psum_min_align)"
    )


def tile(op: str, operand: str, tensor: object) -> NkiTensor:
    """Check that an operand of a compute engine is a tensor in SBUF or PSUM that starts at a valid partition, and
    return it.

    An operand may start at partition 0 (up to 128 partitions), 64 (up to 64), 32 or 96 (up to 32)
    (trainium_inferentia2_arch.rst, "start_partition").
    """
    if not isinstance(tensor, NkiTensor):
        raise NkiValidationError(f"{op}: {operand} must be an NkiTensor, got {type(tensor).__name__}")
    region = tensor.storage.region
    if region is not SBUF and region is not PSUM:
        raise NkiValidationError(
            f"{op}: {operand} {tensor.label} must be in SBUF or PSUM; load it with nisa.dma_copy first"
        )
    if tensor.dtype == "int64" and op != "memset":
        raise NkiValidationError(
            f"{op}: {operand} {tensor.label}: engines do not support int64; only DMAs and nisa.scalar_load accept it"
        )
    if len(tensor.shape) > MAX_DIMENSIONS and dimensions(tensor) > MAX_DIMENSIONS:
        raise NkiValidationError(
            f"{op}: {operand} {tensor.label} has strides {tensor.strides}; an access pattern has at most "
            f"{MAX_DIMENSIONS - 1} free dimensions"
        )
    if tensor.row > MAX_STRIDE and not _within_limits(tensor):
        raise AccessPatternError(
            f"{op}: {operand} {tensor.label} has strides {tensor.strides}; an access pattern has up to {MAX_COUNT} "
            f"elements per dimension, at most {MAX_STRIDE} apart"
        )
    access = tensor.access
    if region is PSUM and access.byte % PSUM_ALIGNMENT:
        _check_alignment(op, operand, tensor)
    start, count = access.row, access.row_end - access.row
    if start and (start % 32 or count > (64 if start == 64 else 32)):
        raise NkiValidationError(
            f"{op}: {operand} {tensor.label} covers {count} partition(s) from partition {start}; engines can start at "
            "0 (up to 128 partitions), 64 (up to 64), 32 or 96 (up to 32)"
        )
    return tensor


def _within_limits(tensor: NkiTensor) -> bool:
    """Return True if an instruction can encode the free dimensions of a view.

    Sizes are unsigned, and strides signed, 16-bit numbers of elements (trainium_inferentia2_arch.rst, "Accessing
    SBUF/PSUM tensors"). Contiguous dimensions may be merged.
    """
    axes = [(count, stride) for count, stride in zip(tensor.shape[1:], tensor.strides[1:]) if count > 1]
    merged: list[tuple[int, int]] = []
    for count, stride in axes:
        if merged and merged[-1][1] == count * stride:
            count *= merged.pop()[0]
        merged.append((count, stride))
    return any(all(count <= MAX_COUNT and stride <= MAX_STRIDE for count, stride in pairs) for pairs in (axes, merged))


def destination(op: str, tensor: object) -> NkiTensor:
    """Check and return the operand `dst` of a compute engine, which must be a tile.

    If a stride of 0 causes several writes to an element, the last one determines its value. AWS's qkv kernels use this
    to discard elementwise results.
    """
    dst = tile(op, "dst", tensor)
    if dst.storage.region is PSUM:
        check_words(active(op), op, dst)
    return dst


def read_together(op: str, first: str, a: NkiTensor, second: str, b: NkiTensor) -> None:
    """Check two tensors that an instruction reads simultaneously.

    At most one of them may be in PSUM. If both are in SBUF, they should start at the same partition. This is only a
    warning, because it is documented only by nki-library (core/embeddings/rope.py copies an operand "for tensor_tensor
    base partition alignment"), and because the compiler can place a tile of up to 64 partitions as needed.
    """
    if a.storage.region is PSUM:
        if b.storage.region is PSUM:
            raise NkiValidationError(f"{op}: {first} {a.label} and {second} {b.label} cannot both be in PSUM")
    elif a.access.row != b.access.row and b.storage.region is SBUF and _placed(a) and _placed(b):
        active().warn(
            f"{op}: {first} {a.label} starts at partition {a.access.row}, {second} {b.label} at {b.access.row}; two "
            "tensors in SBUF must start at the same partition; copy one of them first"
        )


def _placed(tensor: NkiTensor) -> bool:
    """Return True if the first partition of a tile is known because the kernel chose its address, or because it spans
    more than half of the partitions."""
    storage = tensor.storage
    return storage.arena is not None or storage.shape[0] > PARTITIONS // 2


_Member = TypeVar("_Member", bound=Enum)


def member(op: str, operand: str, kind: type[_Member], value: Any) -> _Member:
    """Return the member of an `nki.isa` enum that a kernel passed, either as a member or as its number."""
    if type(value) is kind:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        for known in kind:
            if known.value == value:
                active().warn(
                    f"{op}: {operand} {value} is from an earlier version of NKI and is interpreted as "
                    f"nisa.{kind.__name__}."
                    f"{known.name}",
                    EarlierNkiWarning,
                )
                return known
    names = ", ".join(known.name for known in kind)
    raise NkiValidationError(f"{op}: {operand} must be one of nisa.{kind.__name__} {names}, got {value!r}")


def broadcast_value(value: Any, ndim: int) -> Any:
    """Return the value of a scalar operand, reshaped to broadcast against data with `ndim` dimensions."""
    if isinstance(value, NkiTensor):
        values = value.values
        return values.reshape((values.shape[0],) + (1,) * (ndim - 1))
    return np.float32(value)


def cast_values(src: NkiTensor, dst: NkiTensor) -> Array:
    """Return the values of `src` for a copy to `dst`: unchanged if the dtypes are equal, otherwise as float32."""
    return src.values if src._dtype is dst._dtype else float_values(src)


def float_values(tensor: NkiTensor) -> Array:
    """Return the values converted to float32, the type in which the engines compute."""
    values = tensor.values
    if values.dtype == np.float32:
        return values
    for watcher in watchers:
        watcher.read_as_float(tensor, values)
    return values.astype(np.float32)


def copy_values(dst: NkiTensor, src: NkiTensor) -> None:
    """Compute the values of a copy."""
    dst.write(shaped(cast_values(src, dst), dst.shape))


def shaped(values: Array, shape: tuple[int, ...]) -> Array:
    return values if values.shape == shape else values.reshape(shape)
