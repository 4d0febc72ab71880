"""Values of a graph as views of a layer's output: reshapes and transposes that do not move data.

A layer's output is stored in row-major order. A logical axis is a product of factors, outermost first, each with an
extent and a stride in this output. Reshaping splits and joins factors, and transposing permutes axes; neither computes
anything. Elements are moved only if a layer needs its input in a different order; see `arrangement`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..checks import Shape
from ..errors import ModelError


@dataclass(frozen=True)
class Factor:
    """`extent` elements with a stride of `stride`."""

    extent: int
    stride: int


Axis = tuple[Factor, ...]  # an axis of size 1 has no factors


@dataclass(frozen=True)
class View:
    """A value as a view of the output of `layer` for one example; `batched` is True if it has a leading batch axis.

    `place` and `outside` matter only for views without a batch axis in a file with a fixed batch. `place` is the axis
    along which the file stacks the examples. This axis has `outside` parts, each of which contains all examples (a
    single part if each example is contiguous).
    """

    layer: str
    axes: tuple[Axis, ...]
    batched: bool = True
    place: int = 0
    outside: int = 1

    @staticmethod
    def of(layer: str, shape: Shape, batched: bool = True) -> View:
        """Return a view of the whole output of a layer, in the shape of the layer."""
        strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        axes = tuple((Factor(extent, stride),) if extent > 1 else () for extent, stride in zip(shape, strides))
        return View(layer, axes, batched)

    @property
    def shape(self) -> Shape:
        """The extents of the axes, excluding the batch axis."""
        return tuple(math.prod(factor.extent for factor in axis) for axis in self.axes)

    @property
    def rank(self) -> int:
        """The number of axes as counted by ONNX, including the batch axis."""
        return len(self.axes) + self.batched

    def with_batch(self) -> View:
        """Return the view with its first axis as the batch axis, if that axis has size 1."""
        if self.batched or not self.axes or self.axes[0] or self.place or self.outside > 1:
            return self
        return View(self.layer, self.axes[1:], True)

    def permuted(self, order: tuple[int, ...]) -> View:
        """Permute the axes (excluding the batch axis)."""
        return replace(self, axes=tuple(self.axes[axis] for axis in order))

    def reshaped(self, shape: Shape, batched: bool) -> View:
        """Reshape the view in logical order; raise ModelError if the factors cannot be split."""
        left = list(_joined([factor for axis in self.axes for factor in axis]))
        axes = []
        for extent in shape:
            axis: list[Factor] = []
            while extent > 1:
                factor = left.pop(0) if left else Factor(1, 1)
                common = math.gcd(extent, factor.extent)
                if common != min(extent, factor.extent):
                    raise ModelError(f"{list(self.shape)} cannot be reshaped to {list(shape)} after it was transposed")
                if common < factor.extent:
                    inner = factor.extent // common
                    left.insert(0, Factor(inner, factor.stride))
                    factor = Factor(common, factor.stride * inner)
                axis.append(factor)
                extent //= common
            axes.append(_joined(axis))
        return View(self.layer, tuple(axes), batched)

    def strided(self, axis: int, entries: list[int]) -> View | None:
        """Return a view that takes the entries of an axis with a constant stride, as in unfolding into adjacent blocks.

        The axis is split into two axes, which are swapped. Return None if `entries` has a different order.
        """
        extent, distance = self.shape[axis], entries[min(1, len(entries) - 1)]
        if not 1 < distance < extent or extent % distance:
            return None
        if entries != [first + step for first in range(distance) for step in range(0, extent, distance)]:
            return None
        before, after = self.shape[:axis], self.shape[axis + 1 :]
        try:
            split = self.reshaped((*before, extent // distance, distance, *after), self.batched)
        except ModelError:
            return None
        turned = split.permuted((*range(axis), axis + 1, axis, *range(axis + 2, len(split.axes))))
        return turned.reshaped(self.shape, self.batched)

    def order(self) -> tuple[int, ...]:
        """Return the axes from the outermost in memory to the innermost; axes of size 1 keep their positions."""
        strides = [max((factor.stride for factor in axis), default=0) for axis in self.axes]
        known = sorted((axis for axis, stride in enumerate(strides) if stride), key=lambda axis: -strides[axis])
        result = list(known)
        for axis, stride in enumerate(strides):
            if not stride:  # place the axis before the next axis with a known stride
                position = next((i for i, other in enumerate(result) if other > axis and strides[other]), len(result))
                result.insert(position, axis)
        return tuple(result)

    def around(self, axis: int) -> tuple[int, ...]:
        """Return the other axes. They are in memory order if `axis` is the outermost in memory, so that no data is
        moved. Otherwise, they are in logical order, which later operations such as windows of tokens usually need."""
        others = tuple(other for other in self.order() if other != axis)
        if self.permuted((axis, *others)).arrangement() is None:
            return others
        return tuple(other for other in range(len(self.axes)) if other != axis)

    def arrangement(self) -> tuple[Shape, tuple[int, ...]] | None:
        """Return (split, order) of the transpose that makes the view contiguous, or None if it is contiguous."""
        factors = _joined([factor for axis in self.axes for factor in axis])
        if len(factors) <= 1:
            return None
        inner_first = sorted(range(len(factors)), key=lambda position: -factors[position].stride)
        split = tuple(factors[position].extent for position in inner_first)
        return split, tuple(inner_first.index(position) for position in range(len(factors)))


def _joined(factors: list[Factor]) -> Axis:
    """Merge adjacent factors."""
    result: list[Factor] = []
    for factor in factors:
        if result and result[-1].stride == factor.extent * factor.stride:
            result[-1] = Factor(result[-1].extent * factor.extent, factor.stride)
        else:
            result.append(factor)
    return tuple(result)
