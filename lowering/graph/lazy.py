"""Arrays that are created on demand: planning a launch requires only their shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...models.checks import Shape


@dataclass(frozen=True, eq=False)
class LazyArray:
    """The shape of an array, and a function that creates it."""

    shape: Shape
    make: Callable[[], np.ndarray]

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

    def __len__(self) -> int:
        return self.shape[0]
