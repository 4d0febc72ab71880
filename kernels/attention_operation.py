"""Operations on tokens, in addition to those in program.py: attention, and reshapes and transposes of pixels.

The module contains plain data and does not import `nki`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from .operation import Operation, Packing, Surroundings
from .tiling.packing import ceil_div

ATTENTION_BYTES = 32 * 1024  # separate limit for the transposed weights, the transposed values and the bias


@dataclass(frozen=True, kw_only=True)
class Attention(Operation):
    """softmax(scale * queries^T keys + bias) for each head, multiplied by the values.

    The operands are queries, keys and values.

    Each pixel is a token; with `by_rows`, each row is a separate sequence. The channels are divided evenly among the
    heads: the first channels belong to the first head, and so on. The bias [heads, rows, queries, keys] has the shape
    `bias_shape` (empty if there is no bias) and starts at element `bias_at` of the weights. If `is_linear`, the softmax
    is omitted.
    """

    heads: int
    scale: float = 1.0
    by_rows: bool = False
    bias_shape: tuple[int, ...] = ()
    is_linear: bool = False
    bias_at: int = 0

    cuts_channels: ClassVar[bool] = True
    packing: ClassVar[Packing] = Packing.NONE
    cuts_rows: ClassVar[bool] = False

    @property
    def attended(self) -> Attention:
        """See `Operation`."""
        return self

    def fields_unplaced(self) -> dict[str, Any]:
        """See `Operation`."""
        return {"bias_at": 0}

    def scratch_bytes(self, around: Surroundings) -> int:
        """See `Operation`. Counts scores, weights, transposed weights and values, zero-padded queries, and the bias."""
        _, rows, columns = around.operands[1]
        tokens = columns if self.by_rows else rows * columns
        tiles, itemsize, bank = ceil_div(tokens, around.partitions), around.itemsize, around.bank_bytes // 4
        turned = min(max(bank * tiles * itemsize, around.bank_bytes), ATTENTION_BYTES)
        values = min(tiles * around.partitions * self.heads * itemsize, ATTENTION_BYTES)
        bias = min(ATTENTION_BYTES, itemsize * math.prod(self.bias_shape or (0,)) // around.partitions)
        return 2 * turned + values + bias + 2 * max(bank, tokens) * (itemsize + 4)


@dataclass(frozen=True, kw_only=True)
class ReshapePixels(Operation):
    """An operation that reshapes the pixels of each channel to other rows and columns: in order, or reshaped to `split`
    and transposed to `order`."""

    split: tuple[int, ...] = ()
    order: tuple[int, ...] = ()

    cuts_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = False

    def keeps_numbers(self, count: int) -> bool:
        """See `Operation`."""
        return not self.split


@dataclass(frozen=True, kw_only=True)
class PixelTranspose(Operation):
    """An operation that exchanges channels and pixels: the pixels of the operand become channels and its channels
    become pixels, in order.

    With several `heads`, which are equal parts of the operand's channels, it exchanges the channels and pixels of each
    head. The pixels of the first head become the first channels.
    """

    heads: int = 1

    cuts_channels: ClassVar[bool] = True
    packing: ClassVar[Packing] = Packing.NONE
    cuts_rows: ClassVar[bool] = False

    def scratch_bytes(self, around: Surroundings) -> int:
        """See `Operation`. Counts the double-buffered copies of an image: without its margin, in float32, and with its
        channels along the free axis."""
        pixels = self.channels // self.heads
        return 8 * around.tiles * (pixels + (around.partitions * ceil_div(pixels, around.partitions)))
