"""The pictures of `classify` and `detect`: arguments and lines of `--from-list`, except those that already have a
prediction."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, MutableMapping, Sequence, Set
from typing import TYPE_CHECKING

from ..inference.arrays import is_array_file
from ..inference.pictures import PictureBatches
from ..inference.search import STANDARD_INPUT, InputProblem, find_pictures
from ..inference.shipping import PictureSources, decoder
from ..inference.stream import Batch, SourceBatch
from ..models.inputs import ImageInput
from ..models.regular_files import describe, open_regular
from .errors import UsageError
from .journal.identity import Identity
from .journal.states import FileStates
from .options import PictureOptions
from .output import is_special
from .text import count, spell

if TYPE_CHECKING:
    from ..runtime.workers.worker import Prepare

# titles of the progress bar, by command
_TITLES = {"classify": "classifying", "detect": "detecting", "segment": "segmenting"}
MAX_LIST_BYTES = 256 << 20  # limit for a list of files; enough for several million names


class PictureInputs:
    """Pictures, keyed by name, and names that match no picture. `sizes`, if given, is filled with their sizes."""

    def __init__(
        self,
        names: Sequence[str],
        problems: list[InputProblem],
        spec: ImageInput,
        options: PictureOptions,
        command: str = "classify",
        sizes: MutableMapping[str | int, tuple[int, int]] | None = None,
    ) -> None:
        self.command = command
        self.progress_title = _TITLES[command]
        self._sizes = sizes
        self._names = names
        self._named_wrongly = problems
        self._spec = spec
        self._as_bytes = options.ship
        self._seconds = options.picture_timeout
        self._batches: PictureBatches | PictureSources | None = None
        self._refused: list[InputProblem] = []
        # With --verify, the golden model runs in this process, which therefore has to read the pictures. An array file
        # may hold many inputs, which are distributed one by one.
        has_arrays = any(is_array_file(name) for name in names)
        self.count = None if has_arrays else len(names)
        reads_locally = options.verify or has_arrays
        self.prepare: Prepare | None = (
            decoder(spec, options.picture_timeout) if options.is_shared and not reads_locally else None
        )
        self._answered: Set[str | int] = frozenset()
        is_resumable = options.output is not None and not is_special(options.output)
        self.states = FileStates(names, options.resume_check) if is_resumable else None

    @property
    def problems(self) -> list[InputProblem]:
        """Return names that match no picture, pictures that were unreadable so far, and pictures that workers
        rejected."""
        unread = self._batches.problems if self._batches is not None else []
        return self._named_wrongly + unread + self._refused

    def describe(self, answered: int) -> str:
        """Return the number of pictures as text, such as `3 pictures`."""
        return count(answered, "picture")

    def identity(self) -> Identity:
        """Return an empty identity, since pictures are identified by name."""
        return {}

    def leave_out(self, answered: set[str | int], reported: set[str | int]) -> int:
        """Skip the pictures that already have a prediction.

        Reports escape bytes that are not UTF-8, so two names may have the same spelling in a report. Raises UsageError
        if a prediction could belong to either of them.
        """
        alike = Counter(map(spell, self._names))
        left = []
        for name in self._names:
            if spell(name) not in reported:
                if name not in answered:
                    left.append(name)
            elif alike[spell(name)] > 1:
                raise UsageError(
                    f"--resume: {alike[spell(name)]} pictures have the same spelling {spell(name)} in a report, so "
                    f"--resume cannot distinguish them; specify only one of them, or omit --resume"
                )
        self._names, self._answered = left, answered | reported
        return len(left)

    def batches(self, size: int) -> Iterable[Batch] | Iterable[SourceBatch]:
        """Yield batches of readable pictures, or of the sources that workers read."""
        if self.prepare is None:
            self._batches = PictureBatches(
                self._watched(), self._spec, size, self._answered, self._seconds, self._sizes
            )
        else:
            self._batches = PictureSources(
                self._watched(), self._spec, size, self._as_bytes, self._answered, self._sizes
            )
        return self._batches

    def _watched(self) -> Iterable[str]:
        return self._names if self.states is None else self.states.watch(self._names)

    def refuse(self, name: str | int, reason: str) -> None:
        """Record a picture for which a worker could make no prediction."""
        self._refused.append(InputProblem(name, reason))


def find_named_pictures(
    arguments: Sequence[str], recursive: bool, from_list: str | None
) -> tuple[list[str], list[InputProblem]]:
    """Return the pictures of the arguments, followed by those in the list, without duplicates, and the names that match
    no picture.

    Raises UsageError if the list is unreadable, or if both the list and a picture are read from standard input.
    """
    listed = read_list(from_list) if from_list is not None else []
    if not arguments and not listed:
        raise UsageError(f"--from-list {from_list}: the list contains no names of pictures")
    if from_list != STANDARD_INPUT:
        return find_pictures(arguments, recursive, listed)
    if STANDARD_INPUT in arguments:
        raise UsageError("- and --from-list - both read standard input; use only one of them")
    names, problems = find_pictures(arguments, recursive, [name for name in listed if name != STANDARD_INPUT])
    itself = InputProblem(STANDARD_INPUT, "standard input contains the list, so it cannot contain a picture as well")
    return names, problems + [itself] * listed.count(STANDARD_INPUT)


def read_list(path: str) -> list[str]:
    """Read the names in a list of files ("-" for standard input), one per line; empty lines are skipped.

    Names are bytes, as in the file system, and are decoded as Python decodes file names. Raises
    UsageError if the list cannot be read, is larger than MAX_LIST_BYTES, or is not text (a picture, UTF-16, `find
    -print0`).
    """
    try:
        if path == STANDARD_INPUT:
            if sys.stdin is None or sys.stdin.isatty():
                raise UsageError("--from-list -: standard input is not a pipe")
            content = sys.stdin.buffer.read(MAX_LIST_BYTES + 1)
        else:
            with open_regular(path) as file:
                content = file.read(MAX_LIST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"--from-list {path}: {describe(error)}") from None
    if len(content) > MAX_LIST_BYTES:
        raise UsageError(
            f"--from-list {path}: the list is larger than {MAX_LIST_BYTES >> 20} MiB, the limit for lists of pictures"
        )
    if b"\0" in content:  # a name cannot contain a null byte
        raise UsageError(f"--from-list {path}: contains NUL bytes; expected a text file with one name per line")
    lines = (line.removesuffix(b"\r") for line in content.split(b"\n"))
    return [os.fsdecode(line) for line in lines if line]
