"""Index expressions of the first NKI, which are affine in the positions of `nl.arange` and `nl.mgrid`, and masks.

Axes are counted from the right, as in NumPy broadcasting: `nl.arange(128)[:, None]` varies along axis -2 of two axes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .notes import CannotError
from .sums import Sum


@dataclass(frozen=True)
class Axis:
    """The stride of an index along one axis: the index grows by `factor` at each of `count` positions."""

    factor: Sum
    count: Sum


@dataclass(frozen=True)
class Index:
    """The sum base + factor * position + ... over all axes. `rank` is the rank of the corresponding NumPy array."""

    base: Sum = field(default_factory=Sum)
    axes: dict[int, Axis] = field(default_factory=dict)
    rank: int = 0

    @property
    def shape_text(self) -> str:
        """The shape of the corresponding NumPy array, as the source text of a tuple."""
        extents = [self.axes[at].count.text if at in self.axes else "1" for at in range(-self.rank, 0)]
        return f"({', '.join(extents)}{',' * (len(extents) == 1)})"

    def __add__(self, other: Index) -> Index | None:
        axes = dict(self.axes)
        for at, axis in other.axes.items():
            known = axes.get(at)
            if known is not None and known.count != axis.count:
                return None
            axes[at] = Axis(axis.factor + known.factor, axis.count) if known else axis
        return Index(self.base + other.base, axes, max(self.rank, other.rank))

    def __sub__(self, other: Index) -> Index | None:
        return self + other.scaled(Sum(-1))

    def __mul__(self, other: Index) -> Index | None:
        if self.axes and other.axes:
            return None
        return self.scaled(other.base) if self.axes else other.scaled(self.base)

    def scaled(self, factor: Sum) -> Index:
        axes = {at: Axis(axis.factor * factor, axis.count) for at, axis in self.axes.items()}
        return Index(self.base * factor, axes, self.rank)

    def placed(self, kept: tuple[bool, ...]) -> Index | None:
        """Apply a subscript such as `index[:, None]`.

        `kept` states for each new dimension whether it is an existing one.
        """
        if sum(kept) != self.rank:
            return None
        places = [position - len(kept) for position, old in enumerate(kept) if old]
        axes = {places[at + self.rank]: axis for at, axis in self.axes.items()}
        return Index(self.base, axes, len(kept))

    def clipped(self, clips: Clips) -> Index:
        """Return the index restricted to `clips`, the part of each axis that a mask keeps."""
        base, axes = self.base, dict(self.axes)
        for at, axis in self.axes.items():
            clip = clips.get(at)
            if clip is not None:
                if clip.of is not None and (clip.of - axis.count).is_number and clip.of != axis.count:
                    raise CannotError("the index arrays of a mask must have the sizes of the operand")
                base = base + axis.factor * clip.start
                axes[at] = replace(axis, count=clip.count)
        return Index(base, axes, self.rank)


def without_unit_axes(grid: tuple[Index, ...]) -> tuple[Index, ...]:
    """Return a grid without its axes of size 1, which the first compilers omitted from tiles."""
    unit = {at for index in grid for at, axis in index.axes.items() if axis.count == Sum(1)}
    rank = len(grid)
    kept = [at for at in range(-rank, 0) if at not in unit]
    if not unit or len(kept) < 2:
        return grid
    places = {at: position - len(kept) for position, at in enumerate(kept)}
    return tuple(
        Index(index.base, {places[at]: axis for at, axis in index.axes.items() if at in places}, len(kept))
        for index in grid
    )


def arange(start: Sum, stop: Sum) -> Index:
    return Index(start, {-1: Axis(Sum(1), stop - start)}, 1)


@dataclass(frozen=True)
class Clip:
    """The range of an axis that a mask keeps, out of the `of` positions of its index array.

    `rank` is the number of axes of the mask, or 0 if unknown.
    """

    start: Sum
    count: Sum
    of: Sum | None = None
    rank: int = field(default=0, compare=False)


Clips = dict[int, Clip]


@dataclass(frozen=True)
class Mask:
    """The conjunction of conditions of the form `index <= 0`."""

    below: tuple[Index, ...]

    @property
    def assumed_positive(self) -> list[Sum]:
        """The factors that `clips` assumes to be positive, because their signs are unknown."""
        factors = [axis.factor for index in self.below for axis in index.axes.values() if not axis.factor.is_number]
        return [-factor if _is_negative(factor) else factor for factor in factors]

    def __and__(self, other: Mask) -> Mask:
        return Mask((*self.below, *other.below))

    def clips(self) -> tuple[Clips, list[Sum]] | None:
        """Return the range of each axis that the mask keeps, and the sums that must not be positive for the ranges to
        be non-empty. Return None if the mask is not rectangular."""
        starts: dict[int, list[Sum]] = {}
        ends: dict[int, list[Sum]] = {}
        counts: dict[int, Sum] = {}
        conditions = []
        for index in self.below:
            moving = {at: axis for at, axis in index.axes.items() if axis.factor != Sum()}
            if not moving:
                conditions.append(index.base)
                continue
            if len(moving) > 1:
                return None
            ((at, axis),) = moving.items()
            counts[at] = axis.count
            if not _is_negative(axis.factor):  # factor * x + base <= 0
                ends.setdefault(at, []).append(_divided(-index.base, axis.factor) + 1)
            else:
                starts.setdefault(at, []).append(_divided(index.base - axis.factor - 1, -axis.factor))
        clips = {}
        rank = max((index.rank for index in self.below), default=0)
        for at, count in counts.items():
            first = [Sum(0), *starts.get(at, [])]
            start = _joined("max", first)
            end = _joined("min", [count, *ends.get(at, [])])
            clips[at] = Clip(start, end - start, count, rank)
        return clips, conditions


def _is_negative(factor: Sum) -> bool:
    """Return True for a negative number, and for a sum whose terms are all subtracted."""
    return factor.number <= 0 and all(count < 0 for count in factor.terms.values()) and factor != Sum()


def _divided(value: Sum, factor: Sum) -> Sum:
    if factor == Sum(1):
        return value
    if value.is_number and factor.is_number:
        return Sum(value.number // factor.number)
    return Sum(0, {f"{value.atom} // {factor.atom}": 1})


def _joined(function: str, values: list[Sum]) -> Sum:
    """Return the minimum or maximum of several sums."""
    unique = list({value.text: value for value in values}.values())
    numbers = [value.number for value in unique if value.is_number]
    others = [value for value in unique if not value.is_number]
    if not others:
        return Sum(min(numbers) if function == "min" else max(numbers))
    known = [Sum(min(numbers) if function == "min" else max(numbers))] if numbers else []
    if len(others) + len(known) == 1:
        return others[0]
    return Sum(0, {f"{function}({', '.join(value.text for value in (*known, *others))})": 1})


GRID_AXES = {"x": -1, "y": -2, "z": -3}


def grid_axis(indices: tuple[Index, ...], name: str) -> Index | None:
    """Return the index array of a grid with a given name: p is the first, and x, y and z count from the last."""
    at = 0 if name == "p" else len(indices) + GRID_AXES.get(name, -len(indices) - 1)
    return indices[at] if 0 <= at < len(indices) else None
