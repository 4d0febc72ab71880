"""Arrays that are made when somebody asks for them: planning a launch needs their shapes alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..models.checks import Shape


@dataclass(frozen=True, eq=False)
class LazyArray:
    """An array of a shape, and the function that makes it."""

    shape: Shape
    make: Callable[[], np.ndarray]

    @staticmethod
    def of(array: np.ndarray) -> LazyArray:
        """Return an array that is there already."""
        return LazyArray(array.shape, lambda: array)

    @property
    def size(self) -> int:
        """Numbers of the array."""
        return math.prod(self.shape)

    def changed(self, shape: Shape, function: Callable[[np.ndarray], np.ndarray]) -> LazyArray:
        """Return what a function makes of the array, of another shape."""
        return LazyArray(shape, lambda: function(self.make()))

    def __len__(self) -> int:
        return self.shape[0]
