"""Read pictures into batches for a network, one batch at a time and one batch ahead."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Set
from functools import partial
from typing import TypeVar

import numpy as np
from PIL import Image

from ..models.errors import InputError
from ..models.inputs import ImageInput
from ..models.preprocess import open_image, preprocess
from ..models.regular_files import describe, open_regular
from .arrays import is_array_file, read_arrays
from .daemon_pool import DaemonPool, PendingResult, TooSlowError, wait_for
from .search import STANDARD_INPUT, InputProblem

MAX_THREADS = 4  # each thread may hold a picture of 64 megapixels in memory
MAX_BYTES = 256 << 20  # maximum size in bytes of a picture file, which must be held in memory
PICTURE_SECONDS = 10.0  # time limit in seconds for decoding a picture

Source = TypeVar("Source")


class PictureBatches:
    """Iterates over (names, batch [B, C, H, W]) of readable pictures, ordered by name.

    While a batch is being processed, threads decode the next one; at most these two batches are in memory. `problems`
    lists the pictures found to be unreadable so far, including those that take longer than `seconds` to decode. A file
    of several arrays yields several inputs, FILE[0], FILE[1] and so on. Names in `answered` are skipped. `sizes`, if
    given, is filled with the width and height of each picture, keyed by name.
    """

    def __init__(
        self,
        paths: Iterable[str],
        spec: ImageInput,
        batch_size: int,
        answered: Set[str | int] = frozenset(),
        seconds: float | None = PICTURE_SECONDS,
        sizes: MutableMapping[str | int, tuple[int, int]] | None = None,
    ) -> None:
        self._sizes = sizes
        self._seconds = seconds
        self._paths = paths
        self._spec = spec
        self._batch_size = batch_size
        self._answered = answered
        self.problems: list[InputProblem] = []

    def __iter__(self) -> Iterator[tuple[list[str], np.ndarray]]:
        names: list[str] = []
        batch: list[np.ndarray] = []
        threads = min(MAX_THREADS, os.cpu_count() or 1)
        decoded = decode_ahead(self._sources(), self._read, self._batch_size, threads, self._seconds)
        for (path, _), values in decoded:
            if isinstance(values, InputError):
                self.problems.append(InputProblem(path, str(values)))
                continue
            for name, example in examples(path, values):
                if name in self._answered:
                    continue
                names.append(name)
                batch.append(example)
                if len(batch) == self._batch_size:
                    yield names, np.stack(batch)
                    names, batch = [], []
        if batch:
            yield names, np.stack(batch)

    def _sources(self) -> Iterator[tuple[str, bytes | InputError | None]]:
        """Yield each path, with the content of standard input, which is read by the calling thread so that Ctrl-C
        works."""
        for path in self._paths:
            try:
                yield path, read_standard_input() if path == STANDARD_INPUT else None
            except InputError as error:
                yield path, error

    def _read(self, source: tuple[str, bytes | InputError | None]) -> np.ndarray:
        path, content = source
        if isinstance(content, InputError):
            raise content
        note = _noting(self._sizes, path)
        return read_picture(path, self._spec, note) if content is None else decode_picture(content, self._spec, note)


def examples(path: str, values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the inputs in a file with their names: the file itself, or the numbered examples of a batch [N, C, H,
    W]."""
    if values.ndim == 3:
        yield path, values
    else:
        yield from ((f"{path}[{number}]", example) for number, example in enumerate(values))


def ignore_warnings() -> None:
    """Suppress Pillow's warnings about odd metadata permanently: temporary suppression is not thread-safe."""
    warnings.simplefilter("ignore")


def decode_ahead(
    sources: Iterable[Source],
    decode: Callable[[Source], np.ndarray],
    ahead: int,
    threads: int,
    seconds: float | None = PICTURE_SECONDS,
) -> Iterator[tuple[Source, np.ndarray | InputError]]:
    """Yield each source with the result of `decode`, in order, decoding up to `ahead` sources in advance.

    An InputError is yielded like a result; other exceptions are raised when their source is reached. Decoding that
    takes longer than `seconds` yields an InputError; its thread continues in the background until it finishes.
    `sources` is iterated over in the calling thread.
    """
    pending: deque[tuple[Source, PendingResult[np.ndarray]]] = deque()
    pool = DaemonPool(threads, "decode")
    try:
        for source in sources:
            pending.append((source, pool.submit(partial(decode, source))))
            if len(pending) > ahead:
                yield _next(pending, pool, seconds)
        while pending:
            yield _next(pending, pool, seconds)
    finally:
        pool.close()


def _next(
    pending: deque[tuple[Source, PendingResult[np.ndarray]]], pool: DaemonPool, seconds: float | None
) -> tuple[Source, np.ndarray | InputError]:
    source, result = pending.popleft()
    try:
        return source, wait_for(result, seconds)
    except InputError as error:
        return source, error
    except TooSlowError:
        pool.replace_thread()
        return source, InputError(f"not decoded within {seconds:g} seconds")


SizeNote = Callable[["tuple[int, int]"], None]


def _noting(sizes: MutableMapping[str | int, tuple[int, int]] | None, name: str) -> SizeNote | None:
    """Return a function that stores the size of a picture, or None if `sizes` is None."""
    return None if sizes is None else partial(sizes.__setitem__, name)


def read_picture(path: str | os.PathLike[str], spec: ImageInput, note_size: SizeNote | None = None) -> np.ndarray:
    """Read a picture (a path, or "-" for standard input) as float32 [C, H, W]. Raises InputError if it is unusable.

    A file of arrays may contain several pictures: [N, C, H, W]. `note_size` is called with the width and height of a
    picture.
    """
    if is_array_file(os.fspath(path)):
        return read_arrays(os.fspath(path), spec)
    if path == STANDARD_INPUT:
        return decode_picture(read_standard_input(), spec, note_size)
    try:
        file = open_regular(path)
    except (OSError, ValueError) as error:
        raise InputError(describe(error)) from None
    with file:
        image = open_image(file)
    return convert_image(image, spec, note_size)


def convert_image(image: Image.Image, spec: ImageInput, note_size: SizeNote | None = None) -> np.ndarray:
    """Convert an opened picture to float32 [C, H, W], and call `note_size` with its size."""
    if note_size is not None:
        note_size(image.size)
    return preprocess(image, spec)


def read_picture_within(path: str, spec: ImageInput, seconds: float | None) -> np.ndarray:
    """Read a picture like `read_picture`. Raises InputError if decoding takes longer than `seconds`."""
    content = read_standard_input() if path == STANDARD_INPUT else None

    def decode(name: str) -> np.ndarray:
        return read_picture(name, spec) if content is None else decode_picture(content, spec)

    ((_, values),) = decode_ahead([path], decode, 0, 1, seconds)
    if isinstance(values, InputError):
        raise values
    return values


def decode_picture(content: bytes, spec: ImageInput, note_size: SizeNote | None = None) -> np.ndarray:
    """Decode the content of a picture file to float32 [C, H, W]. Raises InputError if it is unusable."""
    return convert_image(open_image(io.BytesIO(content)), spec, note_size)


def read_standard_input() -> bytes:
    """Return the content of standard input. Raises InputError if it is empty or exceeds MAX_BYTES."""
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError("standard input is not a pipe")
    try:
        content = sys.stdin.buffer.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InputError(describe(error)) from None
    return check_size(content)


def check_size(content: bytes) -> bytes:
    """Return the content of a picture file. Raises InputError if it exceeds MAX_BYTES."""
    if len(content) > MAX_BYTES:
        raise InputError(f"larger than {MAX_BYTES >> 20} MiB, the limit for a picture file")
    return content
