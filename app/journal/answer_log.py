"""Log predictions to a file as they arrive, so that they do not have to fit in memory and are not lost if the run is
interrupted.

While a run writes to `FILE`, its predictions are in `FILE.partial`: a line with the run's `Identity`, then one line
of JSON per prediction. At the end, FILE is written from it in the requested format, and the log is removed. After an
interruption the log is kept, and `--resume` continues from it. A run locks its log, so that two runs cannot write to
the same FILE.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from ...inference.class_maps import read_map_record
from ...inference.detections import answer_record, read_picture_record
from ...inference.predictions import InputNames, LabelProbability, OutputAnswer, Prediction
from ...models.regular_files import flags
from ..errors import UsageError, reason
from ..output import PARTIAL
from .identity import Identity, check_identity
from .states import States

_KIND = "trninfer answers"
_LOCKED_BYTE = (1 << 31) - 2  # the last byte that Windows can lock; a locked byte cannot be read by others
_CHUNK = 1 << 20  # number of bytes per read
_MAX_LINE = 1 << 28  # bytes per prediction; a thousand labels need about 100 kB, a large image 80 MB


class AnswerLog:
    """Predictions in a named log (`open_log`) or in an unnamed temporary file.

    `count` is the number of predictions, and `earlier` is how many of them are from an earlier run. `answered` contains
    the inputs of the earlier predictions; `reported` contains the subset that was read from a report, whose names have
    the spelling of reports. `changed` is the number of earlier predictions that are ignored because the state of their
    input has changed.
    """

    def __init__(self, file: BinaryIO, path: Path | None, states: States | None = None) -> None:
        self._file = file
        self.path = path
        self._states = states
        self._left_out: set[int] = set()  # end offsets of ignored predictions
        self.changed = 0
        self._end = 0  # offset of the end of the last complete line
        self._first = 0  # offset of the first prediction
        self.count = 0
        self.earlier = 0
        self.answered: set[str | int] = set()
        self.reported: set[str | int] = set()
        self.copied = 0  # number of predictions copied from a report

    @classmethod
    def temporary(cls) -> AnswerLog:
        """Return a log that is deleted at the end of the run."""
        return cls(tempfile.TemporaryFile(buffering=0), None)

    def append(self, predictions: Iterable[Prediction], marks: dict[str, Any] | None = None) -> None:
        """Add predictions, each with its `marks` or, by default, with the state of its input. Raises OSError if the
        disk is full; earlier predictions are kept."""
        lines = [
            json.dumps({**_record(prediction), **(self._marks(prediction.input) if marks is None else marks)}) + "\n"
            for prediction in predictions
        ]
        self._write("".join(lines).encode())
        self.count += len(lines)

    def _marks(self, name: str | int) -> dict[str, Any]:
        state = self._states.take(name) if self._states is not None else None
        return {} if state is None else {"state": state}

    def __iter__(self) -> Iterator[Prediction]:
        for record, end in self._records(self._first):
            if end not in self._left_out:
                yield _prediction(record)

    def close(self, keep: bool = False) -> None:
        """Close the log and, unless `keep` is True, remove its file."""
        if sys.platform == "win32":  # Windows cannot remove an open file
            self._file.close()
        if self.path is not None and not keep:
            self.path.unlink(missing_ok=True)  # removed under the lock, so that no other run can open it
        self._file.close()

    def begin(self, identity: Identity) -> None:
        """Write the first line of an empty file."""
        os.ftruncate(self._file.fileno(), 0)
        self._end = 0
        self._write((json.dumps({"type": _KIND, **identity}) + "\n").encode())
        self._first = self._end

    def holds_answers(self) -> bool:
        """Return True if an interrupted run left predictions in the log."""
        self._end = os.fstat(self._file.fileno()).st_size
        return len(list(islice(self._records(0), 2))) > 1  # the first line is the identity

    def go_on(self, identity: Identity, labels: tuple[str, ...]) -> None:
        """Continue from the predictions of an earlier run. A truncated last line is ignored.

        Raises UsageError if that run had a different identity, or if a line is not a prediction of a network with these
        labels.
        """
        self._end = os.fstat(self._file.fileno()).st_size
        header, end = next(self._records(0), (None, 0))
        if header is None:  # interrupted before the first prediction
            self.begin(identity)
            return
        check_identity(str(self.path), header, identity)
        self._first = end
        for number, (record, position) in enumerate(self._records(self._first), 2):
            answer = check_prediction(record, labels)
            if answer is None:
                raise UsageError(
                    f"--resume: {self.path}: line {number} is not an answer of this model; remove the file"
                )
            if self._counts(answer, record):
                self.answered.add(answer.input)
                if record.get("reported"):
                    self.reported.add(answer.input)
            else:
                self._left_out.add(position)
            end = position
        os.ftruncate(self._file.fileno(), end)
        self._end = end
        self.count = self.earlier = len(self.answered)

    def _counts(self, answer: Prediction, marks: dict[str, Any]) -> bool:
        """Return True if this is the first prediction for the input and the input has not changed since."""
        if answer.input in self.answered:
            return False
        if self._states is None or self._states.is_current(answer.input, marks.get("state"), "reported" in marks):
            return True
        self.changed += 1
        return False

    def take_over(self, predictions: Iterable[Prediction], written_ns: int) -> None:
        """Add the predictions of an earlier run from its report, which was written at `written_ns`."""
        marks = {"reported": True, "state": {"before": written_ns}}
        for prediction in predictions:
            if self._counts(prediction, marks):
                self.answered.add(prediction.input)
                self.reported.add(prediction.input)
                self.append([prediction], marks)
        self.earlier = self.copied = self.count

    def _write(self, content: bytes) -> None:
        rest = memoryview(content)
        try:
            self._file.seek(self._end)
            while rest:
                rest = rest[self._file.write(rest) or 0 :]
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.fileno(), self._end)
            raise
        self._end += len(content)

    def _records(self, position: int) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield the complete lines starting at `position`, with their end offsets."""
        rest = b""
        while position + len(rest) < self._end and len(rest) < _MAX_LINE:
            self._file.seek(position + len(rest))
            rest += self._file.read(min(_CHUNK, self._end - position - len(rest)))
            *lines, rest = rest.split(b"\n")
            for line in lines:
                position += len(line) + 1
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError):
                    return
                if not isinstance(record, dict):
                    return
                yield record, position


def open_log(
    target: Path, identity: Identity, labels: tuple[str, ...], resume: bool, states: States | None = None
) -> AnswerLog:
    """Open and lock the log of a run that writes to `target`.

    With `resume`, the log contains the predictions of an interrupted run whose inputs are unchanged according to
    `states`. Raises UsageError if another run holds the lock, if the predictions belong to a different kind of run, if
    there are predictions but `resume` is False, or if the file is not a log.
    """
    path = Path(f"{target}{PARTIAL}")
    try:
        file = _open_locked(path, target)
        empty = os.fstat(file.fileno()).st_size == 0
        try:
            log = AnswerLog(file, path, states)
            if empty:
                log.begin(identity)
                return log
            if not file.read(len(_KIND) + 20).startswith(f'{{"type": "{_KIND}"'.encode()):
                raise UsageError(f"{path}: this file exists but is not from an interrupted run; remove or rename it")
            if resume:
                log.go_on(identity, labels)
            elif log.holds_answers():
                raise UsageError(
                    f"{path}: contains the answers of an interrupted run; add --resume to continue from them, or "
                    f"remove "
                    "the file to start again"
                )
            else:
                log.begin(identity)
            return log
        except BaseException:
            if empty:
                path.unlink(missing_ok=True)
            file.close()
            raise
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {reason(error)}") from None


def check_prediction(record: Any, labels: tuple[str, ...]) -> Prediction | None:
    """Convert a record from any source to a prediction of a network with these labels, or return None if it is not
    one."""
    try:
        answer = _prediction(record)
    except (KeyError, TypeError, ValueError):
        return None
    if not all(_is_sound(output) for output in answer.outputs):
        return None
    if answer.boxes is not None or answer.map is not None or answer.values is not None:
        sound = (answer.label, answer.class_index, answer.probability, answer.top) == (None, None, None, ())
        numbers = answer.values or ()
        sound = sound and not labels and all(type(value) is float and math.isfinite(value) for value in numbers)
        return answer if sound and type(answer.input) in (str, int, InputNames) else None
    chances = [(chance.label, chance.class_index, chance.probability) for chance in answer.top]
    sound = all(
        type(index) is int
        and 0 <= index < len(labels)
        and labels[index] == label
        and isinstance(probability, float)
        and math.isfinite(probability)
        for label, index, probability in ((answer.label, answer.class_index, answer.probability), *chances)
    )
    return answer if sound and type(answer.input) in (str, int, InputNames) else None


def _is_sound(output: OutputAnswer) -> bool:
    """Return True if the fields of one of several outputs have the types of a prediction."""
    numbers = (output.probability, *(chance.probability for chance in output.top), *(output.values or ()))
    finite = all(number is None or (type(number) is float and math.isfinite(number)) for number in numbers)
    return finite and type(output.name) is str and (output.label is None) == (output.values is not None)


def _record(prediction: Prediction) -> dict[str, Any]:
    """Return a prediction as a line of the log; the inverse of `_prediction`."""
    record = answer_record(prediction)
    if prediction.map is not None:
        record["preview"] = prediction.map.preview
    if isinstance(prediction.input, InputNames):
        record["input"] = prediction.input.sources
    return record


def _prediction(record: dict[str, Any]) -> Prediction:
    name, outputs = record["input"], record.get("outputs", [])
    if isinstance(outputs, dict):  # from a report
        outputs = [{"name": key, **output} for key, output in outputs.items()]
    return Prediction(
        InputNames(name) if isinstance(name, dict) else name,
        **_answer_fields(record),
        **read_picture_record({key: value for key, value in record.items() if value is not None}),
        **read_map_record(record),
        shape=tuple(record["shape"]) if record.get("shape") else None,
        outputs=tuple(
            OutputAnswer(
                name=output["name"], kind=output["kind"], shape=tuple(output["shape"]), **_answer_fields(output)
            )
            for output in outputs
        ),
    )


def _answer_fields(record: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of each output of a prediction."""
    values = record.get("values")
    return {
        "label": record["label"],
        "class_index": record["class_index"],
        "probability": record["probability"],
        "top": tuple(LabelProbability(**chance) for chance in record["top"]),
        "values": None if values is None else tuple(values),
    }


def _open_locked(path: Path, target: Path) -> BinaryIO:
    """Open the file of a log, which is empty or contains the predictions of an earlier run, and lock it."""
    writing = flags("O_RDWR", "O_CREAT", "O_CLOEXEC", "O_NONBLOCK", "O_NOFOLLOW")
    while True:
        file = os.fdopen(os.open(path, writing, 0o666), "r+b", buffering=0)
        try:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path}: not a regular file")
            _lock(file, target)
            # The run that held the lock may have removed the file in the meantime.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(path), os.fstat(file.fileno())):
                    return file
        except BaseException:
            file.close()
            raise
        file.close()


def _lock(file: BinaryIO, target: Path) -> None:
    try:
        _try_lock(file)
    except BlockingIOError:
        raise UsageError(f"{target}: another run is writing to it") from None
    except OSError:
        return  # the file system does not support locks, as on some network mounts


def _try_lock(file: BinaryIO) -> None:
    """Lock a file until it is closed. Raises BlockingIOError if another process holds the lock."""
    try:
        import fcntl
    except ImportError:
        windows: Any = importlib.import_module("msvcrt")
        file.seek(_LOCKED_BYTE)
        try:
            windows.locking(file.fileno(), windows.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError from error
        finally:
            file.seek(0)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
