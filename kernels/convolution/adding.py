"""The engines that add another value to the sums of a convolution, in PSUM banks that take turns.

The Vector Engine adds it to sums on their way out of PSUM, for which the Tensor Engine waits where a bank takes it one
matmul. The Tensor Engine adds it by one matmul more, of the identity: its products are exact, and PSUM adds them in
float32. In 16 bits that takes as long as one step of a filter, in float32 four times as long. Where banks take many
matmuls, it may add to the last one alone, which the next operation waits for.

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
        """Return how bank number `turn` is added to. Without an activation the Vector Engine writes the result itself;
        three banks of five leave it the time for one that it applies, two instructions. `is_last`: it is the last of
        the operation, for which the next operation waits."""
        if self is Adding.LAST and is_last:
            return Way.TENSOR
        if self is not Adding.SHARED:
            return Way.VECTOR if has_activation else Way.VECTOR_ALONE
        is_tensor = turn % 5 % 2 == 0 if has_activation else turn % 2 == 0
        return Way.TENSOR if is_tensor else Way.VECTOR_ALONE


ALONE = ("identity", "relu")  # activations that the Vector Engine can apply after adding
