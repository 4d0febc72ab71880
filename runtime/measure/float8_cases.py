"""Single kernels in float8_e4m3 at a given shape: a convolution whose operands and result are scaled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernels.tiling.packing import output_blocks, packed_layout
from ...lowering.eight_bits import FP8, HEADROOM, LARGEST, SCALABLE, scales_of_weights
from ...models import golden
from ...models.layout import pack_conv2d
from ...simulator.machine.chip import PARTITIONS
from .kernel_cases import KernelCase, ShapeError, kernel_case, kernel_names

_LARGEST_SEEN = 8.0  # largest magnitude assumed for standard normal data, which determines the scale


@dataclass(frozen=True)
class Float8Convolution(KernelCase):
    """A convolution of float8_e4m3 bytes with filters in SBUF layout, and with columns of biases and scales."""

    filters: tuple[int, int, int, int] = (1, 1, 1, 1)  # [Cout, Cin, k, k]

    @property
    def _scale(self) -> np.float32:
        return np.float32(HEADROOM * _LARGEST_SEEN / LARGEST)

    @property
    def _result_scale(self) -> np.float32:
        """The scale of the result, which is 1 after an activation that does not commute with scaling."""
        return self._scale if self.parameters["activation"] in SCALABLE else np.float32(1)

    def arrays(self, dtype: np.dtype[Any], seed: int = 0) -> tuple[np.ndarray, ...]:
        """Return random operands: standard normal data, and filters scaled so that the results have the same magnitude;
        see `KernelCase`."""
        x = np.random.default_rng(seed + 1).standard_normal(self.shapes[0], np.float32) / self._scale
        filters, scales, bias = self._weights(seed)
        result_scale = self._result_scale
        packed_filters, biases = pack_conv2d(filters.view(np.uint8), bias / result_scale)
        _, columns = pack_conv2d(filters.view(np.uint8), scales * self._scale / result_scale)
        return x.astype(FP8).view(np.uint8), packed_filters, biases, columns

    def dtype_of(self, position: int, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of an operand."""
        return np.dtype(np.float32) if position in self.float32_operands else np.dtype(np.uint8)

    def expected(self, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return NumPy's result in float32 for the operands of `arrays`."""
        filters, scales, bias = self._weights(0)
        x = arrays[0].view(FP8).astype(np.float32) * self._scale
        w = filters.astype(np.float32) * scales[:, None, None, None]
        parameters = self.parameters
        return golden.conv2d(x, w, bias, parameters["padding"], parameters["pool_size"], parameters["activation"])

    def found(self, output: Any) -> np.ndarray:
        """Return the kernel's result as numbers."""
        return np.asarray(output).view(FP8).astype(np.float32) * self._result_scale

    def _weights(self, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return filters divided by their channels' scales, these scales, and biases."""
        random = np.random.default_rng(seed)
        filters = random.standard_normal(self.filters, np.float32) / np.float32(math.sqrt(math.prod(self.filters[1:])))
        scales = scales_of_weights(filters)
        bias = random.standard_normal(len(filters), np.float32)
        return (filters / scales[:, None, None, None]).astype(FP8), scales, bias


def float8_case(name: str, shape: Mapping[str, str]) -> KernelCase:
    """Return the float8_e4m3 case of a family, as `kernel_case` does.

    Also raises ShapeError if the family has no such case.
    """
    if name != "conv2d" and name in kernel_names():
        raise ShapeError(f"{name} supports only 32-bit and 16-bit dtypes; use conv2d for float8_e4m3")
    case = kernel_case(name, shape)
    if case.parameters["form"] not in ("quickest", "direct"):
        raise ShapeError(f"{name}: form is {case.parameters['form']!r}; float8_e4m3 supports only the direct form")
    x, filters, _ = case.shapes
    cout, cin, size, _ = filters
    layout = packed_layout(cin, cout, (size, size), 1, PARTITIONS)
    blocks = output_blocks(layout.sections, PARTITIONS)
    columns = (blocks[0][1], len(blocks))
    keys = ("pool_size", "padding", "activation")
    return Float8Convolution(
        kernel="fused_conv2d_float8",
        shapes=(x, (layout.rows, cout * layout.steps), columns, columns),
        output_shape=case.output_shape,
        parameters={"in_channels": cin, "kernel_size": size, **{key: case.parameters[key] for key in keys}},
        reference=case.reference,
        float32_operands=frozenset({2, 3}),
        instructions=case.instructions,
        filters=(cout, cin, size, size),
    )
