"""Assign the residual additions of a convolution to engines, which may alternate between PSUM banks.

The Vector Engine can add the residual value while it evicts sums from PSUM. If each bank receives only one matmul, the
Tensor Engine waits for this eviction. The Tensor Engine can instead add the residual value with an additional matmul by
the identity, which is exact because PSUM accumulates the products in float32. In 16 bits, this takes as long as one
step of a filter; in float32, four times as long. If each bank receives many matmuls, the Tensor Engine may add to the
last bank only, because the next operation waits for that bank.

This module contains plain data and does not import `nki`: the host chooses the engines according to predicted times
(`lowering/`).
"""

from __future__ import annotations

from enum import Enum


class Way(Enum):
    """The engines that process one bank of sums: the one that adds, and the one that applies the activation."""

    VECTOR = "vector, then scalar"
    VECTOR_ALONE = "vector"
    TENSOR = "tensor, then scalar"


class Adding(str, Enum):
    """The division of work between the engines when they add a residual value to the sums of an operation."""

    VECTOR = "vector"
    SHARED = "shared"
    LAST = "last by tensor"

    def __str__(self) -> str:
        return self.value

    def way(self, turn: int, has_activation: bool, is_last: bool = False) -> Way:
        """Return the engines that process bank number `turn`.

        Without an activation, the Vector Engine writes the result directly. With an activation, it needs two
        instructions, so it processes only two banks of five. `is_last`: whether the bank is the operation's last, for
        which the next operation waits.
        """
        if self is Adding.LAST and is_last:
            return Way.TENSOR
        if self is not Adding.SHARED:
            return Way.VECTOR if has_activation else Way.VECTOR_ALONE
        is_tensor = turn % 5 % 2 == 0 if has_activation else turn % 2 == 0
        return Way.TENSOR if is_tensor else Way.VECTOR_ALONE


ALONE = ("identity", "relu")  # activations that the Vector Engine can apply after adding
