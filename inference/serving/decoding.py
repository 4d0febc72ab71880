"""Tasks that make inputs of the network of a request's body, and the processes that run them.

The server itself goes on answering meanwhile, and a body that takes long or much memory costs a decoder at most.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...models.errors import InputError
from ...models.inputs import ImageInput
from ...models.preprocess import picture_size
from ...runtime.workers.process import ProcessWorker, WorkerProcess
from ...runtime.workers.worker import Reply, WorkerFault
from ..pictures import ignore_warnings
from ..shipping import decode_sources
from .messages import InferRequest, parse_request
from .signature import Signature
from .tensors import ProtocolError


class Task(Protocol):
    """A task of a decoder; picklable. `size` is that of what the client sent, in bytes."""

    @property
    def size(self) -> int: ...

    def run(self, signature: Signature) -> Any:
        """Return the result; InputError and ProtocolError where the client is at fault."""


@dataclass(frozen=True)
class PictureTask:
    """Decodes what the file of a picture holds to the network's input, float32 [C, H, W]."""

    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    def run(self, signature: Signature) -> np.ndarray:
        spec = signature.network.input
        assert isinstance(spec, ImageInput)
        decoded, failures = decode_sources(spec, [self.content])
        if failures:
            raise InputError(failures[0])
        result: np.ndarray = decoded[0]
        return result


@dataclass(frozen=True)
class SizeTask:
    """Reads the width and height of a picture out of its header; None for what is no picture."""

    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    def run(self, signature: Signature) -> tuple[int, int] | None:
        return picture_size(self.content)


@dataclass(frozen=True)
class FormTask:
    """Finds the files in a body, at most `most`: (name, content) of each."""

    body: bytes
    content_type: str
    most: int

    @property
    def size(self) -> int:
        return len(self.body) if self.content_type.lower().startswith("multipart/") else 0  # else there is no form

    def run(self, signature: Signature) -> list[tuple[str, bytes]]:
        from .forms import files_of

        return files_of(self.body, self.content_type, self.most)


@dataclass(frozen=True)
class TensorTask:
    """Parses a request of tensors: the request, and its examples as the network reads them."""

    body: bytes
    json_length: int | None
    most: int  # examples

    @property
    def size(self) -> int:
        return len(self.body)

    def run(self, signature: Signature) -> tuple[InferRequest, Sequence[np.ndarray | PictureTask]]:
        request = parse_request(self.body, self.json_length, signature.inputs, signature.outputs, self.most)
        first = next(iter(request.inputs.values()))
        if first.dtype == object:  # files of pictures, which are decoded one by one
            return request, [PictureTask(content) for content in first]
        sources = signature.sources(request.inputs)
        request.inputs.clear()  # which the sources are
        return request, sources


class DecodingWorker(ProcessWorker):
    """Runs tasks: a source is a task, a result what it returns, or the error that is the client's fault."""

    def __init__(self, signature: Signature) -> None:
        super().__init__(WorkerProcess(Decoder))
        self._signature = signature

    def begin(self) -> str:
        """Wait until it is ready; a line for the log."""
        return str(self._process.ask(self._signature))

    def answer(self, sources: list[Task]) -> list[Any]:
        """Return the result of each task."""
        results: list[Any] = self._process.ask(sources)
        return results


class Decoder:
    """Worker in the process of a `DecodingWorker`."""

    def __init__(self) -> None:
        self._signature: Signature | None = None

    def begin(self, setup: Signature) -> Reply:
        """Take the network's inputs and outputs."""
        ignore_warnings()
        self._signature = setup
        return Reply(os.getpid(), None, (), ())

    def answer(self, inputs: Sequence[Task]) -> Reply:
        """Return a reply with results and errors, in the order of the tasks."""
        assert self._signature is not None
        try:
            return Reply([run_task(task, self._signature) for task in inputs], None, (), ())
        except Exception:
            return Reply(None, WorkerFault(traceback.format_exc()), (), ())


def run_task(task: Task, signature: Signature) -> Any:
    """Return the result of a task, or the error that is the client's fault."""
    try:
        return task.run(signature)
    except (InputError, ProtocolError) as error:
        return error
    except MemoryError:
        return InputError(f"{task.size} bytes that take more memory than there is")
