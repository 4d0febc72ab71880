"""The type of a timing constant, and constructors for the rows of the tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Constant:
    """A timing constant of one target.

    `rows` contains the ids of the kernel rows on which it depends, regardless of how it is marked.
    """

    value: float
    unit: str
    mark: str
    source: str
    rows: tuple[str, ...] = ()


Row = tuple[Constant, Constant, Constant]  # values for trn1, trn2 and trn3

MARKS = ("documented", "measured", "third-party", "fitted", "scaled")
CYCLES_OF_TRN2 = "trn2's cycles at this target's clock"
_FROM_TRN2 = "trn2's value in ns: nothing is published for trn3"


def documented(value: float, unit: str, source: str) -> Constant:
    return Constant(value, unit, "documented", source)


def measured(value: float, unit: str, source: str, *rows: str) -> Constant:
    return Constant(value, unit, "measured", source, rows)


def third_party(value: float, unit: str, source: str = "V") -> Constant:
    return Constant(value, unit, "third-party", source)


def fitted(value: float, unit: str, source: str, *rows: str) -> Constant:
    return Constant(value, unit, "fitted", source, rows)


def scaled(value: float, unit: str, source: str) -> Constant:
    return Constant(value, unit, "scaled", source)


def same_on_trn3(trn1: Constant, trn2: Constant) -> Row:
    return trn1, trn2, scaled(trn2.value, trn2.unit, _FROM_TRN2)


def as_on_trn2(trn2: Constant, source: str = "trn2's") -> Row:
    """Return the row of a constant that is known for trn2 and assumed to be the same on the other targets."""
    return same_on_trn3(scaled(trn2.value, trn2.unit, source), trn2)


def cycles(trn2: Constant) -> Row:
    """Return the row of a cycle count that is known for trn2 and assumed to be the same on the other targets."""
    return scaled(trn2.value, trn2.unit, CYCLES_OF_TRN2), trn2, scaled(trn2.value, trn2.unit, CYCLES_OF_TRN2)


def everywhere(constant: Constant) -> Row:
    return constant, constant, constant


def only_trn1(trn1: Constant) -> Row:
    """Return the row of a constant that is modelled only for trn1."""
    unused = scaled(trn1.value, trn1.unit, "trn1's; not used")
    return trn1, unused, unused


def only_trn3(trn3: Constant) -> Row:
    """Return the row of a constant that exists only on NeuronCore-v4."""
    unused = scaled(trn3.value, trn3.unit, "trn3's; not used")
    return unused, unused, trn3
