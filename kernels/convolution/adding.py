"""Assignment of residual additions in a convolution to engines, alternating between PSUM banks.

The Vector Engine adds the residual value while it evicts sums from PSUM; the Tensor Engine waits for this eviction if
each bank receives only one matmul. The Tensor Engine adds it by an additional matmul with the identity, which is exact
because PSUM accumulates the products in float32. This takes as long as one step of a filter in 16 bits, and four times
as long in float32. If each bank receives many matmuls, the Tensor Engine may add to the last bank only, because the
next operation waits for that bank.

This module contains plain data and does not import `nki`: the host chooses by the predicted time (`lowering/`).
"""

from __future__ import annotations

from enum import Enum


class Way(Enum):
    """The engines that process one bank of sums: one adds, and one applies the activation."""

    VECTOR = "vector, then scalar"
    VECTOR_ALONE = "vector"
    TENSOR = "tensor, then scalar"


class Adding(str, Enum):
    """The choice of engines that add a residual value to the sums of an operation."""

    VECTOR = "vector"
    SHARED = "shared"
    LAST = "last by tensor"

    def __str__(self) -> str:
        return self.value

    def way(self, turn: int, has_activation: bool, is_last: bool = False) -> Way:
        """Return the engines that add to bank number `turn`. Without an activation, the Vector Engine writes the result
        directly. With an activation it needs two instructions and therefore processes only two banks of five.
        `is_last` is true for the operation's last bank, for which the next operation waits."""
        if self is Adding.LAST and is_last:
            return Way.TENSOR
        if self is not Adding.SHARED:
            return Way.VECTOR if has_activation else Way.VECTOR_ALONE
        is_tensor = turn % 5 % 2 == 0 if has_activation else turn % 2 == 0
        return Way.TENSOR if is_tensor else Way.VECTOR_ALONE


ALONE = ("identity", "relu")  # activations that the Vector Engine can apply after adding
