"""Data types of the NeuronCore: names, sizes, and the simulator's representation of their values.

A dtype in NKI is a string (`nl.float32 == "float32"`). Values of floating-point types narrower than 32 bits are stored
as float32 and rounded on every write, because the engines compute in float32 anyway, and NumPy has no fast path for
narrow types. The simulator switches to true bit patterns (`DType.bits`) only if a kernel reinterprets memory (`view`,
overlapping addresses).

int64 values can only be moved by DMAs and stored in scalars (nki.isa.scalar_load, since NKI 0.7); no engine computes
with them.

Source: "Supported Data Types", nki/api/nki.api.shared.rst of aws-neuron-sdk.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .errors import NkiValidationError

Array = NDArray[Any]


EXACT = 1 << 24  # integers up to this value are exact in float32 (IEEE 754: 24 bits)


@dataclass(frozen=True)
class DType:
    """A data type.

    `held` is the NumPy type in which its values are stored, and `bits` the NumPy type with the true bit pattern.
    """

    name: str
    itemsize: int
    held: np.dtype[Any]
    bits: np.dtype[Any]
    kind: str  # "float", "int" or "packed" (four narrow floats per element, which can only be moved)
    bfloat16_like: bool = False  # True for 2-byte floats, for which the engines have fast modes

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind == "int"

    @property
    def fill(self) -> float | int:
        """Return the value of uninitialised memory: NaN for floats, 4 for integers (nki/guides/nki_simulator.rst)."""
        return float("nan") if self.is_float else 4

    @cached_property
    def exact(self) -> bool:
        """Return True if values are stored without rounding, as for float32 and integers."""
        return self.held == self.bits and self.name != "tfloat32"


def _float(name: str, bits: Any, itemsize: int) -> DType:
    return DType(name, itemsize, np.dtype(np.float32), np.dtype(bits), "float", itemsize == 2)


def _integer(name: str, numpy_type: Any) -> DType:
    dtype = np.dtype(numpy_type)
    return DType(name, dtype.itemsize, dtype, dtype, "int")


def _packed(name: str, numpy_type: Any) -> DType:
    dtype = np.dtype(numpy_type)
    return DType(name, dtype.itemsize, dtype, dtype, "packed")


DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        _integer("bool_", np.uint8),
        _integer("int8", np.int8),
        _integer("int16", np.int16),
        _integer("int32", np.int32),
        _integer("int64", np.int64),
        _integer("uint8", np.uint8),
        _integer("uint16", np.uint16),
        _integer("uint32", np.uint32),
        _float("float16", np.float16, 2),
        _float("bfloat16", ml_dtypes.bfloat16, 2),
        _float("tfloat32", np.float32, 4),
        _float("float32", np.float32, 4),
        _float("float8_e4m3", ml_dtypes.float8_e4m3, 1),
        _float("float8_e4m3fn", ml_dtypes.float8_e4m3fn, 1),
        _float("float8_e5m2", ml_dtypes.float8_e5m2, 1),
        _float("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, 1),
        _packed("float8_e5m2_x4", np.uint32),
        _packed("float8_e4m3fn_x4", np.uint32),
        _packed("float4_e2m1fn_x4", np.uint16),
    )
}

_BY_NUMPY = {
    dtype.bits: name for name, dtype in DTYPES.items() if name not in ("bool_", "tfloat32") and dtype.kind != "packed"
}
_BY_NUMPY[np.dtype(np.bool_)] = "bool_"


def lookup(dtype: object) -> DType:
    """Return the DType for a dtype argument, which is an NKI name or an equivalent NumPy or ml_dtypes type."""
    if isinstance(dtype, DType):
        return dtype
    known = DTYPES.get(dtype) if isinstance(dtype, str) else None
    if known is None:
        known = DTYPES.get(_BY_NUMPY.get(_numpy_dtype(dtype), ""))
    if known is None:
        raise NkiValidationError(f"dtype {dtype!r} is not an NKI data type; allowed: {', '.join(DTYPES)}")
    return known


def _numpy_dtype(dtype: object) -> Any:
    try:
        return np.dtype(dtype)  # type: ignore[call-overload]
    except TypeError:
        return None


def name_of_array(array: Array) -> str:
    """Return the NKI dtype of a NumPy array that is passed to a kernel. Raise NkiValidationError if there is none."""
    name = _BY_NUMPY.get(array.dtype)
    if name is None:
        allowed = ", ".join(sorted(set(_BY_NUMPY.values())))
        raise NkiValidationError(f"an array of {array.dtype} cannot be passed to a kernel; allowed: {allowed}")
    return name


def hold(array: Array, dtype: DType) -> Array:
    """Convert an array from its true type to the simulator's representation."""
    return array.astype(dtype.held) if array.dtype != dtype.held else array


def release(held: Array, dtype: DType) -> Array:
    """Convert an array from the simulator's representation to a new array of its true type, for the kernel's caller.

    If rounding is turned off, the array is float32.
    """
    if dtype.name == "bool_":
        return held.astype(np.bool_)
    if dtype.is_float and not rounds():
        return held.astype(np.float32)
    return held.astype(dtype.bits)


def convert(values: Array, dtype: DType) -> Array:
    """Return `values` (float32 or integers) as they would be read back after a write to `dtype`.

    Conversions to floats round to nearest even; conversions to integers round to nearest even and saturate.
    """
    if dtype.is_float:
        if values.dtype != np.float32:
            values = values.astype(np.float32)
        return values if dtype.exact else _round(values, dtype)
    if values.dtype == dtype.held:
        return values
    info = np.iinfo(dtype.held)
    if values.dtype.kind == "f":
        # Convert via float64, which represents all 32-bit bounds exactly. The hardware converts NaN to 0.
        values = np.nan_to_num(np.rint(values.astype(np.float64)), nan=0.0, posinf=info.max, neginf=info.min)
    else:
        values = values.astype(np.int64)
    return np.clip(values, info.min, info.max).astype(dtype.held)


def rounds() -> bool:
    """Return True if narrow floats are rounded. NKI_PRECISE_FP=0 disables rounding, which shows its effect on the
    accuracy (nki/guides/nki_simulator.rst, "Precise Floating-Point Mode")."""
    return os.environ.get("NKI_PRECISE_FP", "1") != "0"


def _round(values: Array, dtype: DType) -> Array:
    if not rounds():
        return values
    if dtype.name == "bfloat16":
        return _keep_mantissa(values, dropped_bits=16)
    if dtype.name == "tfloat32":
        return _keep_mantissa(values, dropped_bits=13)
    if dtype.name == "float16":
        return _to_float16(values)
    with np.errstate(over="ignore"):
        return values.astype(dtype.bits).astype(np.float32)


def _to_float16(values: Array) -> Array:
    """Round float32 to float16 using _keep_mantissa, or NumPy's float16 for subnormal numbers and infinities."""
    rounded = _keep_mantissa(values, dropped_bits=13)
    magnitude = np.abs(rounded)
    other = magnitude < np.float32(2**-14)  # subnormal numbers have fewer mantissa bits
    other &= magnitude != 0
    other |= magnitude > np.float32(65504)  # these values become infinity
    if other.any():
        with np.errstate(over="ignore"):
            rounded[other] = values[other].astype(np.float16)
    return rounded


def _keep_mantissa(values: Array, dropped_bits: int) -> Array:
    """Drop the last mantissa bits of float32, rounding to nearest even (several times faster than two astypes)."""
    word = np.ascontiguousarray(values).view(np.uint32)
    rounded = (word >> np.uint32(dropped_bits)) & np.uint32(1)
    rounded += np.uint32((1 << (dropped_bits - 1)) - 1)
    rounded += word
    rounded &= np.uint32(0xFFFFFFFF ^ ((1 << dropped_bits) - 1))
    result = rounded.view(np.float32)
    nan = np.isnan(values)
    if nan.any():  # a carry could turn a NaN with a full mantissa into infinity
        result[nan] = np.nan
    return result
