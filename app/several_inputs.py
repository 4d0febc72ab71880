"""Several inputs of `classify`: `--input NAME=FILE`, with pictures for the remaining input."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import Any

from ..inference.pictures import PictureBatches
from ..inference.predictions import InputNames
from ..inference.search import InputProblem
from ..inference.several import FixedInputs, PackedBatches, find_streamed, given_batches, given_names, name_example
from ..inference.stream import Batch, SourceBatch
from ..models.inputs import ImageInput, SeveralInputs
from .answering import Inputs
from .errors import UsageError
from .journal.identity import Identity
from .journal.states import FileStates
from .options import PictureOptions, ResumeCheck
from .picture_inputs import PictureInputs
from .text import count


def parse_inputs(words: Sequence[str]) -> dict[str, str]:
    """Parse `NAME=FILE` words into files, keyed by name. Raises UsageError if a word is malformed or a name is
    repeated."""
    sources: dict[str, str] = {}
    for word in words:
        name, equals, source = word.partition("=")
        if not (name and equals and source):
            raise UsageError(f"--input {word}: expected the name of an input and its file, such as left=a.png")
        if name in sources:
            raise UsageError(f"--input {name}: this input is specified more than once")
        sources[name] = source
    return sources


def open_several(
    spec: SeveralInputs,
    given: FixedInputs,
    names: Sequence[str],
    problems: list[InputProblem],
    options: PictureOptions,
) -> Inputs:
    """Open the examples of a network with several inputs. Raises UsageError if pictures are missing or not needed."""
    streamed = find_streamed(spec, given)
    if streamed is None:
        if names or problems:
            raise UsageError("all inputs of the network are specified by --input; omit the pictures")
        return _FixedExamples(spec, given)
    if not names and not problems:
        raise UsageError(
            f"no pictures specified for the input {streamed.name!r}; pass files, or --input {streamed.name}=FILE"
        )
    assert isinstance(streamed.input, ImageInput)
    return _StreamedPictures(names, problems, spec, given, (streamed.name, streamed.input), options)


class _StreamedStates(FileStates):
    """The states of the files that provide one of several inputs."""

    def __init__(self, paths: Sequence[str], check: ResumeCheck, streamed: str) -> None:
        super().__init__(paths, check)
        self._streamed = streamed

    def take(self, name: str | int) -> dict[str, Any] | None:
        """Return the state of the file of this input when it was yielded."""
        return super().take(self._file(name))

    def is_current(self, name: str | int, state: dict[str, Any] | None, reported: bool) -> bool:
        """Return True unless the file of this input has changed."""
        return super().is_current(self._file(name), state, reported)

    def _file(self, name: str | int) -> str | int:
        return name.sources.get(self._streamed, name) if isinstance(name, InputNames) else name


class _StreamedPictures(PictureInputs):
    """Pictures for one input, combined with fixed values for the other inputs."""

    def __init__(
        self,
        names: Sequence[str],
        problems: list[InputProblem],
        spec: SeveralInputs,
        given: FixedInputs,
        streamed: tuple[str, ImageInput],
        options: PictureOptions,
    ) -> None:
        super().__init__(names, problems, streamed[1], options)
        self.prepare = None  # rows are packed in this process
        self._several, self._given, self._streamed = spec, given, streamed[0]
        if self.states is not None:
            self.states = _StreamedStates(names, options.resume_check, streamed[0])

    def identity(self) -> Identity:
        """Return the identity of the fixed inputs."""
        return _identity(self._given)

    def leave_out(self, answered: set[str | int], reported: set[str | int]) -> int:
        """Skip the examples that already have a prediction; they are identified by the names of all inputs."""
        left = [name for name in self._names if self._name(name) not in answered]
        self._names = left
        return len(left)

    def batches(self, size: int) -> Iterable[Batch] | Iterable[SourceBatch]:
        """Yield batches with all inputs."""
        self._batches = PictureBatches(self._watched(), self._spec, size, seconds=self._seconds)
        return PackedBatches(self._several, self._given, self._streamed, self._batches)

    def _name(self, name: str) -> InputNames:
        return name_example(self._several, self._given, self._streamed, name)


class _FixedExamples:
    """Examples for which all inputs are given with --input."""

    command = "classify"
    progress_title = "classifying"
    count = None
    prepare = None
    states = None

    def __init__(self, spec: SeveralInputs, given: FixedInputs) -> None:
        self._spec, self._given = spec, given
        self._answered: Set[str | int] = frozenset()
        self.problems: list[InputProblem] = []

    def describe(self, answered: int) -> str:
        """Return the number of inputs as text, such as `3 inputs`."""
        return count(answered, "input")

    def identity(self) -> Identity:
        """Return the identity of the given inputs."""
        return _identity(self._given)

    def leave_out(self, answered: set[str | int], reported: set[str | int]) -> int:
        """Skip the examples that already have a prediction."""
        self._answered = answered
        return sum(name not in answered for name in given_names(self._spec, self._given))

    def batches(self, size: int) -> Iterable[Batch]:
        """Yield rows that contain all inputs."""
        return given_batches(self._spec, self._given, size, self._answered)

    def refuse(self, name: str | int, reason: str) -> None:
        """Record an example for which a worker could make no prediction."""
        self.problems.append(InputProblem(name, reason))


def _identity(given: FixedInputs) -> Identity:
    """Return the identity of the inputs: a hash of their arrays, since a file may have changed since the
    interruption."""
    sums = {name: f"{zlib.crc32(array.tobytes()):08x}" for name, array in given.arrays.items()}
    return {"inputs": {name: f"{Path(given.sources[name]).name} {sums[name]}" for name in sorted(sums)}}
