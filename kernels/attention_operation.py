"""Operations on tokens, beside those of program.py: attention, and pixels as other rows. Plain data without `nki`."""

from __future__ import annotations

from dataclasses import dataclass

from .program import Operation


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


@dataclass(frozen=True, kw_only=True)
class ReshapePixels(Operation):
    """The pixels of each channel, in their order, as other rows and columns."""
