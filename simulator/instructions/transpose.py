"""Transposes of a tile on the Tensor Engine or the Vector Engine."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ..machine.chip import PARTITIONS
from ..machine.errors import NkiValidationError
from ..machine.instruction import Instruction, engine
from ..machine.memory import PSUM, SBUF
from ..tensors.tensor import NkiTensor
from .checks import shaped
from .core import active
from .declaration import Engine, declared
from .operands import Call
from .tensor_engine import within_a_bank
from .tensor_operands import IN_PSUM, Output, Tile

_TENSOR, _VECTOR = engine.tensor, engine.vector
MOST_ON_VECTOR = 32  # maximum number of rows and of columns


def _engine(call: Call) -> engine:
    small = call.data.shape[0] <= MOST_ON_VECTOR and call.data.free_size <= MOST_ON_VECTOR
    fits_tensor_engine = call.dst.storage.region is PSUM and call.data.storage.region is not PSUM
    return _VECTOR if small and not fits_tensor_engine else _TENSOR


def _turned(call: Call) -> None:
    """data can have up to 128 x 128 elements on the Tensor Engine, or 32 x 32 on the Vector Engine. dst must have the
    transposed size and the dtype of data (or float32 on the Tensor Engine of trn1)."""
    dst, data, unit = call.dst, call.data, call.unit
    partitions, free = data.shape[0], data.free_size
    limit = PARTITIONS if unit is _TENSOR else MOST_ON_VECTOR
    if partitions > limit or free > limit:
        raise NkiValidationError(
            f"nc_transpose: data {data.label} is {partitions} x {free}; at most {limit} x {limit} is allowed on the "
            f"{unit.name} engine"
        )
    if (dst.shape[0], dst.free_size) != (free, partitions):
        raise call.refuse("dst", dst, f"must be {free} x {partitions}, the transpose of {data.label}")
    # The Tensor Engine of NeuronCore-v2 can only write float32 (trainium_inferentia2_arch); v3 added narrower results.
    widened = unit is _TENSOR and call.core.target.generation == 2 and dst.dtype == "float32"
    if dst.dtype != data.dtype and not widened:
        raise call.refuse("dst", dst, f"must have the dtype of data, {data.dtype}")
    if unit is _VECTOR:
        call.cost = call.core.costs.vector_transpose()


def _on_tensor_engine(call: Call) -> None:
    """The Tensor Engine reads from SBUF and writes to PSUM."""
    dst, data, target = call.dst, call.data, call.core.target
    if call.unit is not _TENSOR:
        return
    if data.storage.region is not SBUF:
        raise call.refuse("data", data, "must be in SBUF")
    if dst.storage.region is not PSUM:
        raise call.refuse("dst", dst, IN_PSUM)
    if target.generation == 2 and dst._dtype.bfloat16_like:
        call.core.warn(
            f"nc_transpose: dst {dst.label} on {target.name}, whose Tensor Engine writes only float32: "
            "16-bit transposes require NeuronCore-v3; use a float32 tile"
        )
    elif target.generation >= 3 and data._dtype.is_float and data._dtype.itemsize == 1:
        call.core.warn(
            f"nc_transpose: data {data.label}: on {target.name} transposes of 8-bit floats are stored as 16-bit "
            f"elements in PSUM (trainium2_arch.rst); the simulator stores them contiguously, as the API does"
        )
    stride = data.strides[-1] * data._dtype.itemsize
    call.cost = call.core.costs.transpose(data.shape[0], data.free_size, data._dtype, stride)


@declared(
    _TENSOR,
    _VECTOR,
    default=_engine,
    rules=(_turned, _on_tensor_engine),
    source="trainium_inferentia2_arch.rst, trainium2_arch.rst",
)
def nc_transpose(
    dst: Output,
    data: Annotated[NkiTensor, Tile()],
    engine: Annotated[engine, Engine()] = engine.unknown,
    name: str | None = None,
) -> Instruction:
    """Compute dst[F, P] = data[P, F].T, with all free axes flattened.

    The Tensor Engine supports up to 128 x 128 elements, and the Vector Engine up to 32 x 32.
    """
    core = active("nc_transpose")
    unit, cost, _, _ = core.settle("nc_transpose", dst, data, engine)
    if unit is _TENSOR and core.target.generation < 4:
        within_a_bank("nc_transpose", dst)
    instruction = core.issue("nc_transpose", unit, (dst,), (data,), cost, name)

    # NeuronCore-v2 transposes by a matmul with the identity matrix, which propagates NaN and Inf to an entire row.
    spreads = unit is _TENSOR and core.target.generation == 2 and data._dtype.is_float
    core.perform(_turn, dst, data, spreads)
    return instruction


def _turn(dst: NkiTensor, data: NkiTensor, spreads: bool) -> None:
    values = data.values.reshape(data.shape[0], -1).T
    if spreads and not np.isfinite(values).all():
        values = np.where(np.isfinite(values).all(axis=1, keepdims=True), values, np.float32(np.nan))
    dst.write(shaped(values, dst.shape))
