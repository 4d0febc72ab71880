"""Arrays that are created on demand: planning a launch requires only their shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ...models.checks import Shape


@dataclass(frozen=True, eq=False)
class LazyArray:
    """The shape of an array, and a function that creates it.

    `reach`: for filters [Cout, Cin, kh, kw], the largest distance between an output channel and an input channel whose
    filter is not zero; None if it is not known.
    """

    shape: Shape
    make: Callable[[], np.ndarray]
    reach: int | None = None

    @staticmethod
    def of(array: np.ndarray) -> LazyArray:
        """Return a lazy array that wraps an existing array."""
        return LazyArray(array.shape, lambda: array)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def changed(self, shape: Shape, function: Callable[[np.ndarray], np.ndarray]) -> LazyArray:
        """Return a lazy array of the given shape that applies a function to this one."""
        return LazyArray(shape, lambda: function(self.make()))

    def times(self, factor: np.float32) -> LazyArray:
        """Return a lazy array whose elements are multiplied by a number."""
        return replace(self, make=lambda: self.make() * factor)

    def __len__(self) -> int:
        return self.shape[0]
