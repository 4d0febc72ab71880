"""Transposes of a tile, on the Tensor Engine or the Vector Engine."""

from __future__ import annotations

import numpy as np

from ..checks import destination, engine_of, in_sbuf, shaped, tile
from ..chip import PARTITIONS
from ..core import NeuronCore, active
from ..errors import NkiValidationError
from ..instruction import Cost, Instruction, engine
from ..memory import PSUM
from ..tensor import NkiTensor
from .tensor_engine import psum_destination, within_a_bank

_TENSOR, _VECTOR = engine.tensor, engine.vector


def nc_transpose(
    dst: NkiTensor, data: NkiTensor, engine: engine = engine.unknown, name: str | None = None
) -> Instruction:
    """dst[F, P] = data[P, F].T, all free axes as one; Tensor Engine up to 128 x 128, Vector Engine up to 32 x 32."""
    core = active("nc_transpose")
    unit, cost = core.settle(_transpose_rules, dst, data, engine)
    if unit is _TENSOR and core.target.generation < 4:
        within_a_bank("nc_transpose", dst)
    instruction = core.issue("nc_transpose", unit, (dst,), (data,), cost, name)

    # NeuronCore-v2 transposes by a matmul with the identity, which spreads a NaN or Inf over its row.
    spreads = unit is _TENSOR and core.target.generation == 2 and data._dtype.is_float
    core.perform(_turn, dst, data, spreads)
    return instruction


def _transpose_rules(core: NeuronCore, dst: NkiTensor, data: NkiTensor, chosen: engine) -> tuple[engine, Cost]:
    tile("nc_transpose", "data", data)
    destination("nc_transpose", dst)
    partitions, free = data.shape[0], data.free_size
    small = partitions <= 32 and free <= 32
    unit = engine_of("nc_transpose", chosen, _transpose_engine(dst, data, small), (_TENSOR, _VECTOR))
    limit = PARTITIONS if unit is _TENSOR else 32
    if partitions > limit or free > limit:
        raise NkiValidationError(
            f"nc_transpose: data {data.label} is {partitions} x {free}, at most {limit} x {limit} on the "
            f"{unit.name} engine"
        )
    if (dst.shape[0], dst.free_size) != (free, partitions):
        raise NkiValidationError(
            f"nc_transpose: dst {dst.label} must be {free} x {partitions}, the transpose of {data.label}"
        )
    # NeuronCore-v2's Tensor Engine writes float32 alone (trainium_inferentia2_arch): a narrower one is a gain of v3.
    widened = unit is _TENSOR and core.target.generation == 2 and dst.dtype == "float32"
    if dst.dtype != data.dtype and not widened:
        raise NkiValidationError(f"nc_transpose: dst {dst.label} must have the dtype of data, {data.dtype}")
    if unit is _TENSOR:
        in_sbuf("nc_transpose", "data", data)
        psum_destination("nc_transpose", dst)
        if core.target.generation == 2 and dst._dtype.bfloat16_like:
            core.warn(
                f"nc_transpose: dst {dst.label} on {core.target.name}, whose Tensor Engine writes float32 alone: "
                "16-bit transposes came with NeuronCore-v3; take a float32 tile"
            )
        elif core.target.generation >= 3 and data._dtype.is_float and data._dtype.itemsize == 1:
            core.warn(
                f"nc_transpose: data {data.label}: on {core.target.name} transposes of 8-bit floats come as 16-bit "
                "elements in PSUM (trainium2_arch.rst); the simulator has them side by side, as the API does"
            )
        stride = data.strides[-1] * data._dtype.itemsize
        return unit, core.costs.transpose(partitions, free, data._dtype, stride)
    return unit, core.costs.vector_transpose()


def _turn(dst: NkiTensor, data: NkiTensor, spreads: bool) -> None:
    values = data.values.reshape(data.shape[0], -1).T
    if spreads and not np.isfinite(values).all():
        values = np.where(np.isfinite(values).all(axis=1, keepdims=True), values, np.float32(np.nan))
    dst.write(shaped(values, dst.shape))


def _transpose_engine(dst: NkiTensor, data: NkiTensor, small: bool) -> engine:
    fits_tensor_engine = dst.storage.region is PSUM and data.storage.region is not PSUM
    return _VECTOR if small and not fits_tensor_engine else _TENSOR
