"""Examples for a network with several inputs: fixed inputs and one streamed input, packed into rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..models.errors import InputError
from ..models.inputs import ImageInput, NamedInput, SeveralInputs
from .features import SUFFIXES, read_features
from .pictures import PICTURE_SECONDS, read_picture_within
from .predictions import InputNames

MAX_GIVEN_BYTES = 1 << 30  # maximum size in bytes of the file for one input, which is read completely


@dataclass(frozen=True)
class FixedInputs:
    """The fixed inputs, keyed by name: their sources, and arrays [1, *shape] or [N, *shape]."""

    sources: dict[str, str]
    arrays: dict[str, np.ndarray]

    @property
    def count(self) -> int:
        """Return the number of examples; an input with a single example is used for all of them."""
        return max((len(array) for array in self.arrays.values()), default=1)

    def rows(self, first: int, last: int) -> dict[str, np.ndarray]:
        """Return the inputs of a range of examples, keyed by name."""
        return {
            name: np.broadcast_to(array, (last - first, *array.shape[1:])) if len(array) == 1 else array[first:last]
            for name, array in self.arrays.items()
        }


def read_given(spec: SeveralInputs, sources: Mapping[str, str], seconds: float | None = PICTURE_SECONDS) -> FixedInputs:
    """Read inputs, keyed by name: pictures, arrays (.npy, .npz), rows of features, or comma-separated numbers.

    Raises InputError if the network has no input of a name, if an input is unusable (for example, because decoding
    takes longer than `seconds`), or if the inputs have different numbers of examples.
    """
    parts = {part.name: part for part in spec.parts}
    arrays = {}
    for name, source in sources.items():
        if name not in parts:
            raise InputError(f"the network has no input {name!r}; its inputs are {', '.join(map(repr, parts))}")
        try:
            arrays[name] = _read(parts[name], source, seconds)
        except InputError as error:
            raise InputError(f"input {name!r}: {error}") from None
    counts = {len(array) for array in arrays.values()} - {1}
    if len(counts) > 1:
        lengths = ", ".join(f"{name} has {len(array)}" for name, array in arrays.items())
        raise InputError(f"the inputs do not have the same number of examples: {lengths}")
    return FixedInputs(dict(sources), arrays)


def find_streamed(spec: SeveralInputs, given: FixedInputs) -> NamedInput | None:
    """Return the only input that is not fixed, for which pictures are read, or None if all inputs
    are fixed.

    Raises InputError if several inputs are missing, or if the missing input is not an image.
    """
    left = [part for part in spec.parts if part.name not in given.arrays]
    if len(left) > 1 or (left and not isinstance(left[0].input, ImageInput)):
        names = ", ".join(repr(part.name) for part in left)
        raise InputError(f"the network has {len(spec.parts)} inputs; missing: {names}")
    if left and given.count > 1:
        raise InputError(f"{given.count} examples are given, but {left[0].name!r} is missing")
    return left[0] if left else None


class PackedBatches:
    """Iterates over (names, rows [B, F]) of examples with several inputs, from `given` and, if there are any, from
    `pictures`.

    `pictures` yields (names, batches) for the input `streamed`.
    """

    def __init__(
        self,
        spec: SeveralInputs,
        given: FixedInputs,
        streamed: str,
        pictures: Iterable[tuple[Sequence[str], np.ndarray]],
    ) -> None:
        self._spec = spec
        self._given = given
        self._streamed = streamed
        self._pictures = pictures

    def __iter__(self) -> Iterator[tuple[list[InputNames], np.ndarray]]:
        for names, batch in self._pictures:
            arrays = {**self._given.rows(0, len(batch)), self._streamed: batch}
            examples = [name_example(self._spec, self._given, self._streamed, name) for name in names]
            yield examples, self._spec.pack(arrays)


def given_batches(
    spec: SeveralInputs, given: FixedInputs, batch_size: int, answered: Set[str | int] = frozenset()
) -> Iterator[tuple[list[InputNames], np.ndarray]]:
    """Yield (names, rows [B, F]) of examples for which all inputs are fixed, except the examples in `answered`."""
    left = [number for number, name in enumerate(given_names(spec, given)) if name not in answered]
    names = given_names(spec, given)
    for first in range(0, len(left), batch_size):
        numbers = left[first : first + batch_size]
        rows = [spec.pack(given.rows(number, number + 1)) for number in numbers]
        yield [names[number] for number in numbers], np.concatenate(rows)


def given_names(spec: SeveralInputs, given: FixedInputs) -> list[InputNames]:
    """Return the names of examples for which all inputs are fixed."""
    names = []
    for number in range(given.count):
        sources = {}
        for part in spec.parts:
            is_one = len(given.arrays[part.name]) == 1
            sources[part.name] = given.sources[part.name] + ("" if is_one else f"[{number}]")
        names.append(InputNames(sources))
    return names


def name_example(spec: SeveralInputs, given: FixedInputs, streamed: str, name: str) -> InputNames:
    """Return the name of an example for which the input `streamed` was read from `name`."""
    return InputNames({part.name: name if part.name == streamed else given.sources[part.name] for part in spec.parts})


def _read(part: NamedInput, source: str, seconds: float | None) -> np.ndarray:
    """Read one or several examples of one input, float32 [N, *shape]."""
    if isinstance(part.input, ImageInput):
        values = read_picture_within(source, part.input, seconds)
        return values if values.ndim == 4 else values[None]
    features = part.input.features
    if Path(source).suffix.lower() not in SUFFIXES:
        return _numbers(source, features)
    with read_features(Path(source), features) as rows:
        if 4 * len(rows) * features > MAX_GIVEN_BYTES:
            raise InputError(f"{len(rows)} rows; the limit is {MAX_GIVEN_BYTES // (4 * features)}")
        return next(rows.batches(len(rows))).astype(np.float32)


def _numbers(text: str, count: int) -> np.ndarray:
    """Parse numbers that are given instead of a file name."""
    try:
        values = [float(word) for word in text.split(",")] if "_" not in text else []
    except ValueError:
        values = []
    if not values or not all(map(math.isfinite, values)):
        raise InputError(
            f"{text!r} is neither a file of features ({', '.join(SUFFIXES)}) nor a list of numbers such as 0.5,2"
        )
    if len(values) != count:
        raise InputError(f"{len(values)} numbers; expected {count}")
    return np.array([values], np.float32)
