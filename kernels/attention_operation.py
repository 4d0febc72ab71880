"""Operations on tokens, beside those of program.py: attention, and pixels as other rows. Plain data without `nki`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .operation import Operation, Packing
from .places import Pair


@dataclass(frozen=True, kw_only=True)
class Attention(Operation):
    """softmax(scale * queries^T keys + bias) of each head, times the values; the operands are queries, keys, values.

    Pixels are tokens: of an image, or `by_rows` of each row by itself. Head h has the h-th part of the channels. The
    bias is [heads, rows, queries, keys] of `bias_shape`, empty for none, in the weights from number `bias_at` on. If it
    `is_linear`, there is no softmax: scale * queries^T keys, times the values.
    """

    heads: int
    scale: float = 1.0
    by_rows: bool = False
    bias_shape: tuple[int, ...] = ()
    is_linear: bool = False
    bias_at: int = 0

    cuts_channels: ClassVar[bool] = True
    mixes_channels: ClassVar[bool] = True
    packing: ClassVar[Packing] = Packing.NONE

    def can_cut_rows(self, window: Pair) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True, kw_only=True)
class ReshapePixels(Operation):
    """The pixels of each channel, in their order, as other rows and columns."""

    cuts_channels: ClassVar[bool] = False
    mixes_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY

    def can_cut_rows(self, window: Pair) -> bool:
        """Return False."""
        return False
