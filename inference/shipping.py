"""Send pictures to workers as paths or bytes, and decode them in the workers."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence, Set

import numpy as np

from ..models.errors import InputError
from ..models.inputs import ImageInput
from ..models.preprocess import picture_size
from ..models.regular_files import describe, open_regular
from .arrays import is_array_file, read_arrays
from .pictures import (
    MAX_BYTES,
    PICTURE_SECONDS,
    check_size,
    decode_ahead,
    decode_picture,
    examples,
    read_picture,
    read_standard_input,
)
from .search import STANDARD_INPUT, InputProblem

Source = str | bytes | np.ndarray  # path of a picture, content of its file, or network input [C, H, W]


class PictureSources:
    """Iterates over (names, sources) of pictures, `batch_size` at a time, ordered by name.

    Sources are absolute paths, or file contents with `as_bytes` and for standard input. Array files are read in this
    process, since one file may contain several inputs. `problems` lists the files found to be unreadable so far;
    names in `answered` are skipped. `sizes`, if given, is filled with the width and height of each picture, keyed by
    name, as read from its header.
    """

    def __init__(
        self,
        paths: Iterable[str],
        spec: ImageInput,
        batch_size: int,
        as_bytes: bool,
        answered: Set[str | int] = frozenset(),
        sizes: MutableMapping[str | int, tuple[int, int]] | None = None,
    ) -> None:
        self._sizes = sizes
        self._paths = paths
        self._spec = spec
        self._batch_size = batch_size
        self._as_bytes = as_bytes
        self._answered = answered
        self.problems: list[InputProblem] = []

    def __iter__(self) -> Iterator[tuple[list[str], list[Source]]]:
        names: list[str] = []
        batch: list[Source] = []
        for path in self._paths:
            try:
                sources = self._sources(path)
            except InputError as error:
                self.problems.append(InputProblem(path, str(error)))
                continue
            for name, source in sources:
                if name in self._answered:
                    continue
                names.append(name)
                batch.append(source)
                if len(batch) == self._batch_size:
                    yield names, batch
                    names, batch = [], []
        if batch:
            yield names, batch

    def _sources(self, path: str) -> Iterator[tuple[str, Source]]:
        """Return the inputs in a file, keyed by name."""
        if is_array_file(path):
            return examples(path, read_arrays(path, self._spec))
        source = self._source(path)
        size = None if self._sizes is None or isinstance(source, np.ndarray) else picture_size(source)
        if self._sizes is not None and size is not None:
            self._sizes[path] = size
        return iter([(path, source)])

    def _source(self, path: str) -> Source:
        if path != STANDARD_INPUT and not self._as_bytes:
            return os.path.abspath(path)
        if path == STANDARD_INPUT:
            return read_standard_input()
        try:
            with open_regular(path) as file:
                return check_size(file.read(MAX_BYTES + 1))
        except InputError:
            raise
        except (OSError, ValueError) as error:
            raise InputError(describe(error)) from None


def decoder(
    spec: ImageInput, seconds: float | None = PICTURE_SECONDS
) -> Callable[[Sequence[Source]], tuple[np.ndarray, Mapping[int, str]]]:
    """Return a picklable function that decodes sources to inputs of a network; see `decode_sources`."""
    return functools.partial(decode_sources, spec, seconds=seconds)


def decode_sources(
    spec: ImageInput, sources: Sequence[Source], seconds: float | None = PICTURE_SECONDS
) -> tuple[np.ndarray, Mapping[int, str]]:
    """Return the usable pictures, float32 [N, C, H, W], and the reasons why others are unusable, keyed by position.

    A picture that takes longer than `seconds` to decode is unusable.
    """
    decode = functools.partial(_decode, spec)
    pictures, failures = [], {}
    for position, (_, result) in enumerate(decode_ahead(sources, decode, 0, 1, seconds)):
        if isinstance(result, InputError):
            failures[position] = str(result)
        else:
            pictures.append(result)
    return np.stack(pictures) if pictures else np.empty((0, *spec.shape), np.float32), failures


def _decode(spec: ImageInput, source: Source) -> np.ndarray:
    if isinstance(source, np.ndarray):
        return source
    if isinstance(source, bytes):
        return decode_picture(source, spec)
    return _one(read_picture(source, spec))


def _one(values: np.ndarray) -> np.ndarray:
    """Return the only input [C, H, W] of a file."""
    if values.ndim != 3:
        raise InputError(f"contains {len(values)} arrays; expected one")
    return values
