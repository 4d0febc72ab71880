"""The engines that add a residual value to the sums of a convolution, alternating between PSUM banks.

The Vector Engine adds it while it evicts sums from PSUM; the Tensor Engine waits for that if a bank takes only one
matmul. The Tensor Engine adds it by an additional matmul with the identity, which is exact: PSUM adds the products in
float32. In 16 bits that takes as long as one step of a filter, in float32 four times as long. If banks take many
matmuls, it may add to the last bank only, since the next operation waits for that one.

Plain data without `nki`: the host chooses by the predicted time (`lowering/`).
"""

from __future__ import annotations

from enum import Enum


class Way(Enum):
    """The engines for one bank of sums: the one that adds, and the one that applies the activation."""

    VECTOR = "vector, then scalar"
    VECTOR_ALONE = "vector"
    TENSOR = "tensor, then scalar"


class Adding(str, Enum):
    """The engines that add an addend to the sums of an operation."""

    VECTOR = "vector"
    SHARED = "shared"
    LAST = "last by tensor"

    def __str__(self) -> str:
        return self.value

    def way(self, turn: int, has_activation: bool, is_last: bool = False) -> Way:
        """Return the engines that add to bank number `turn`. Without an activation the Vector Engine writes the result
        directly. An activation takes it two instructions, so it then gets three banks of five. `is_last`: the
        operation's last bank, for which the next operation waits."""
        if self is Adding.LAST and is_last:
            return Way.TENSOR
        if self is not Adding.SHARED:
            return Way.VECTOR if has_activation else Way.VECTOR_ALONE
        is_tensor = turn % 5 % 2 == 0 if has_activation else turn % 2 == 0
        return Way.TENSOR if is_tensor else Way.VECTOR_ALONE


ALONE = ("identity", "relu")  # activations that the Vector Engine can apply after adding
