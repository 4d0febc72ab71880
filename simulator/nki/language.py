"""`nki.language`: data types, memories, tensors, loops, and the operators that are passed to instructions as `op`.

The math functions operate on whole tiles. Each issues one or a few instructions and returns a new tile in SBUF.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..instructions.core import active, is_active
from ..instructions.dma import dma_copy
from ..instructions.operators import ACTIVATIONS, ALU
from ..instructions.scalar_engine import activation
from ..instructions.tensor_engine import nc_matmul
from ..instructions.tensor_scalar import tensor_scalar
from ..instructions.transpose import nc_transpose
from ..instructions.vector_engine import memset, tensor_copy, tensor_reduce, tensor_tensor, trailing_axes
from ..machine.chip import (
    BN_STATS_COLUMNS,
    PARTITIONS,
    PSUM_BANK_BYTES,
    PSUM_BANKS,
    STATIONARY_COLUMNS,
    Target,
    default_target,
)
from ..machine.dtypes import DTYPES, hold, lookup, name_of_array
from ..machine.errors import NkiValidationError
from ..machine.instruction import engine
from ..machine.memory import PSUM_ALIGNMENT, MemoryRegion
from ..machine.objects import DynamicSlice, NKIObject
from ..tensors.tensor import NkiTensor
from ..timing.transfers import constant_load
from . import grids, tile_functions
from .api import missing
from .grids import NkiBlockGrid as NkiBlockGrid
from .grids import NkiGrid as NkiGrid
from .grids import NkiTileGrid as NkiTileGrid
from .grids import alloc_blocks as alloc_blocks
from .grids import alloc_tiles as alloc_tiles
from .grids import blocks as blocks
from .grids import tiles as tiles
from .loops import affine_range as affine_range
from .loops import dynamic_range as dynamic_range
from .loops import fori_loop as fori_loop
from .loops import no_reorder as no_reorder
from .loops import sequential_range as sequential_range
from .loops import static_range as static_range
from .loops import while_loop as while_loop
from .programs import num_programs as num_programs
from .programs import program_id as program_id
from .programs import program_ndim as program_ndim

DType = str

bool_ = "bool_"
int8, int16, int32, int64 = "int8", "int16", "int32", "int64"
uint8, uint16, uint32 = "uint8", "uint16", "uint32"
float16, float32, bfloat16, tfloat32 = "float16", "float32", "bfloat16", "tfloat32"
float8_e4m3, float8_e4m3fn, float8_e5m2, float8_e8m0fnu = (
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e8m0fnu",
)
float8_e5m2_x4, float8_e4m3fn_x4, float4_e2m1fn_x4 = "float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4"

sbuf, psum = MemoryRegion.sbuf, MemoryRegion.psum
private_hbm, shared_hbm = MemoryRegion.private_hbm, MemoryRegion.shared_hbm
hbm = private_hbm


class _TileSize(NKIObject):
    """The maximum tile sizes of the hardware, for the target of the running kernel."""

    pmax = PARTITIONS
    psum_bank_fmax_bytes = PSUM_BANK_BYTES
    psum_bank_fmax = PSUM_BANK_BYTES // 4
    psum_fmax = psum_bank_fmax
    gemm_stationary_fmax = STATIONARY_COLUMNS
    gemm_moving_fmax = psum_bank_fmax
    bn_stats_fmax = BN_STATS_COLUMNS
    psum_min_align = PSUM_ALIGNMENT
    sbuf_min_align = 1

    @property
    def psum_num_banks(self) -> int:
        return PSUM_BANKS

    @property
    def sbuf_fmax_bytes(self) -> int:
        return self._target().usable_sbuf_bytes

    @property
    def sbuf_fmax(self) -> int:
        return self._target().usable_sbuf_bytes // 4

    @property
    def sbuf_size_bytes(self) -> int:
        return self._target().sbuf_bytes * PARTITIONS

    @property
    def total_available_sbuf_size(self) -> int:
        return self._target().usable_sbuf_bytes

    def _target(self) -> Target:
        return active().target if is_active() else default_target()


tile_size = _TileSize()


def is_hbm(buffer: object) -> bool:
    return buffer in (private_hbm, shared_hbm)


def is_on_chip(buffer: object) -> bool:
    return buffer in (sbuf, psum)


def is_psum(buffer: object) -> bool:
    return buffer is psum


def is_sbuf(buffer: object) -> bool:
    return buffer is sbuf


# Tensors


def ndarray(shape: Any, dtype: Any, buffer: Any = sbuf, name: str = "", address: Any = None) -> NkiTensor:
    """Allocate an uninitialised tensor.

    `address` is (partition, byte within the partition), for on-chip memories only.
    """
    if not isinstance(buffer, MemoryRegion):
        raise NkiValidationError(
            f"ndarray {name or 'tensor'}: buffer {buffer!r} must be one of nl.sbuf, nl.psum, nl.hbm, nl.private_hbm, "
            "nl.shared_hbm"
        )
    if not isinstance(shape, (tuple, list)):
        raise NkiValidationError(f"ndarray {name or 'tensor'}: shape {shape!r} must be a tuple of integers")
    return active("ndarray").ndarray(tuple(shape), dtype, buffer, name, address)


def full(shape: Any, fill_value: float, dtype: Any, buffer: Any = sbuf, name: str = "") -> NkiTensor:
    """Return a tensor filled with a number."""
    tensor = ndarray(shape, dtype, buffer, name)
    if is_on_chip(buffer):
        memset(tensor, fill_value)
        return tensor
    if not isinstance(fill_value, (int, float, np.integer, np.floating)):
        raise NkiValidationError(f"full: fill_value must be a number, got {fill_value!r}")
    _constant_dma("full", tensor)
    if active().functional:
        tensor.write(np.full(tensor.shape, fill_value, np.float32 if tensor._dtype.is_float else np.int64))
    return tensor


def zeros(shape: Any, dtype: Any, buffer: Any = sbuf, name: str = "") -> NkiTensor:
    return full(shape, 0, dtype, buffer, name)


def ones(shape: Any, dtype: Any, buffer: Any = sbuf, name: str = "") -> NkiTensor:
    return full(shape, 1, dtype, buffer, name)


def zeros_like(x: NkiTensor, dtype: Any = None, buffer: Any = None, name: str = "") -> NkiTensor:
    return zeros(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def empty_like(x: Any, dtype: Any = None, buffer: Any = None, name: str = "") -> Any:
    """Allocate uninitialised memory with the same shape as a tensor or a grid."""
    if isinstance(x, grids.NkiGrid):
        return grids.like(x, dtype, buffer, name)
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def load(src: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Load a tensor from HBM into a tile in SBUF. The first dimension becomes the partition dimension."""
    if src.shape[0] > PARTITIONS:
        raise NkiValidationError(
            f"nl.load: src {src.label} has more than {PARTITIONS} rows, one per partition; load it in slices"
        )
    tile = ndarray(src.shape, dtype or src.dtype, sbuf)
    dma_copy(tile, src)
    return tile


def store(dst: NkiTensor, value: NkiTensor) -> None:
    """Store a tile into a tensor in HBM."""
    dma_copy(dst, value)


def shared_constant(constant: Any) -> NkiTensor:
    """Return a tensor in HBM that contains an array (or the contents of a .npy file) when the kernel starts."""
    array = np.load(constant, allow_pickle=False) if isinstance(constant, str) else np.asarray(constant)
    core = active("shared_constant")
    tensor = core.ndarray(array.shape, name_of_array(array), shared_hbm, "constant", argument=True)
    if core.functional:
        tensor.write(hold(array, tensor._dtype))
    return tensor


def shared_identity_matrix(n: int, dtype: Any = uint8, dst: NkiTensor | None = None) -> NkiTensor:
    """Return the n x n identity matrix in SBUF, loaded from a constant in HBM."""
    tile = ndarray((n, n), dtype, sbuf) if dst is None else dst
    _constant_dma("shared_identity_matrix", tile)
    if active().functional:
        tile.write(np.eye(n, dtype=np.float32 if tile._dtype.is_float else np.int64))
    return tile


def _constant_dma(op: str, tensor: NkiTensor) -> None:
    core = active(op)
    transfer = constant_load(tensor, core.dge)
    core.issue(op, engine.dma, (tensor,), (), hbm_bytes=transfer.bytes, dma=transfer)


def ds(start: int, size: int) -> DynamicSlice:
    """Return an index of `size` elements starting at `start`."""
    return DynamicSlice(start, size)


def expand_dims(x: NkiTensor, axis: int) -> NkiTensor:
    return x.expand_dim(axis + x.ndim + 1 if axis < 0 else axis)


def device_print(print_prefix: str, tensor: NkiTensor) -> None:
    """Print a tensor's values immediately."""
    core = active("device_print")
    if core.recording is not None:
        core.recording.spoil()
    print(print_prefix, tensor.values if core.functional else tensor)


# Operators, which are both values for `op` and functions of tiles


def _tile_like(x: NkiTensor, dtype: Any, shape: tuple[int, ...] | None = None) -> NkiTensor:
    if not isinstance(x, NkiTensor):
        raise NkiValidationError(f"functions of nki.language accept tiles, got {type(x).__name__}")
    return ndarray(x.shape if shape is None else shape, dtype or x.dtype, sbuf)


def _as_float32(column: NkiTensor) -> NkiTensor:
    """Return a column converted to float32, as required by tensor_scalar."""
    if column.dtype == float32:
        return column
    cast = _tile_like(column, float32)
    tensor_copy(cast, column)
    return cast


_COMPARISONS = frozenset({"equal", "not_equal", "greater", "greater_equal", "less", "less_equal"})


def _tiles_of(name: str, x: Any, y: Any) -> list[NkiTensor]:
    """Return the tiles among two operands.

    Raise NkiValidationError if there is none, or if their sizes do not match.
    """
    tensors = [operand for operand in (x, y) if isinstance(operand, NkiTensor)]
    if not tensors:
        raise NkiValidationError(f"nl.{name}: x or y must be a tile")
    sizes = {operand.free_size for operand in tensors}
    if tensors[0].shape[0] != tensors[-1].shape[0] or len(sizes - {1}) > 1:
        raise NkiValidationError(
            f"nl.{name}: x {x.label} and y {y.label} must have the same number of partitions and the same number of "
            f"elements per partition (or one of them a single element); use nl.broadcast_to"
        )
    return tensors


def _binary(name: str) -> Callable[..., NkiTensor]:
    def function(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        tensors = _tiles_of(name, x, y)
        if len(tensors) == 2 and x.free_size == y.free_size:
            result = _tile_like(x, dtype)
            tensor_tensor(result, x, y, function)
        else:
            reverse = not isinstance(x, NkiTensor) or (isinstance(y, NkiTensor) and y.free_size > x.free_size)
            data, other = (y, x) if reverse else (x, y)
            if isinstance(other, NkiTensor) and not ALU[name].bits:
                other = _as_float32(other)
            result = _tile_like(data, dtype)
            tensor_scalar(result, data, function, other, reverse)
        if name in _COMPARISONS:
            result.answers = True
        return result

    return _named(function, name, f"x {name} y elementwise; y may be a number or one element per partition.")


def _unary(name: str) -> Callable[..., NkiTensor]:
    def function(x: NkiTensor, dtype: Any = None) -> NkiTensor:
        result = _tile_like(x, dtype)
        if name == "copy":
            tensor_copy(result, x)
        elif name in ACTIVATIONS:
            activation(result, function, x)
        else:
            tensor_scalar(result, x, function, 0)
        return result

    return _named(function, name, f"{name} of every element of x.")


def _reduction(name: str, operator: str) -> Callable[..., NkiTensor]:
    def function(x: NkiTensor, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
        axes = trailing_axes(f"nl.{name}", x, axis)
        shape = x.shape[: axes[0]] + ((1,) * len(axes) if keepdims or axes[0] == 1 else ())
        result = _tile_like(x, dtype, shape)
        tensor_reduce(result, globals()[operator], x, axis, keepdims=keepdims)
        return result

    return _named(function, name, f"x reduced over its last axes by {operator}; a tile keeps two dimensions.")


def _named(function: Callable[..., NkiTensor], name: str, doc: str) -> Callable[..., NkiTensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _token(name: str) -> Callable[..., NkiTensor]:
    def function(*operands: Any) -> NkiTensor:
        raise NkiValidationError(f"nl.{name} is only an operator for instructions, not a function of tiles")

    return _named(function, name, f"The operator {name}, which instructions accept as `op`.")


for _name, _operator in ALU.items():
    globals()[_name] = _unary(_name) if _operator.unary else _binary(_name)
for _name in ACTIVATIONS:
    if _name not in globals():
        globals()[_name] = _unary(_name)
for _name in tile_functions.__all__:
    globals()[_name] = getattr(tile_functions, _name)
for _name, _operator_name in (("sum", "add"), ("max", "maximum"), ("min", "minimum"), ("prod", "multiply")):
    globals()[_name] = _reduction(_name, _operator_name)
for _name in ("average", "prelu", "bypass"):
    globals()[_name] = _token(_name)


def transpose(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Return the transpose of a 2-D tile. The result is in PSUM."""
    result = ndarray((x.free_size, x.shape[0]), dtype or x.dtype, psum)
    nc_transpose(result, x)
    return result


def matmul(x: NkiTensor, y: NkiTensor, transpose_x: bool = False) -> NkiTensor:
    """Return x @ y (x.T @ y if transpose_x) for two tiles in SBUF. The result is in PSUM."""
    _matmul_rules(x, y, transpose_x)
    if not transpose_x:
        turned = transpose(x)
        x = _tile_like(turned, None)
        tensor_scalar(x, turned, globals()["add"], 0.0)
    result = ndarray((x.free_size, y.free_size), float32, psum)
    nc_matmul(result, x, y)
    return result


def _matmul_rules(x: NkiTensor, y: NkiTensor, transpose_x: bool) -> None:
    """Check that the operands of nl.matmul are within the limits of the instruction."""
    for name, tile, limit in (("x", x, STATIONARY_COLUMNS), ("y", y, tile_size.gemm_moving_fmax)):
        if not isinstance(tile, NkiTensor) or not is_sbuf(tile.buffer):
            raise NkiValidationError(f"nl.matmul: {name} must be a tile in SBUF, got {getattr(tile, 'label', tile)}")
        if tile.free_size > limit:
            raise NkiValidationError(
                f"nl.matmul: {name} {tile.label} has {tile.free_size} elements in each partition, but at most {limit} "
                "are allowed"
            )
    summed, axis_name = (x.shape[0], "partitions") if transpose_x else (x.free_size, "elements in each partition")
    if summed != y.shape[0]:
        raise NkiValidationError(
            f"nl.matmul: x {x.label} has {summed} {axis_name}, but y {y.label} has {y.shape[0]} partitions; "
            f"{'x.T' if transpose_x else 'x'} @ y sums over both, so they must be equal"
        )


def __getattr__(name: str) -> Any:
    return missing("nki.language", name)


__all__ = [name for name in globals() if not name.startswith("_")]
_ = (DTYPES, lookup)
