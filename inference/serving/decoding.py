"""Tasks that convert the body of a request to inputs of the network, and the processes that run them.

The server continues to respond while a task runs, and a body that requires too much time or memory affects only one
decoder.
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
    """A picklable task for a decoder. `size` is the number of bytes received from the client."""

    @property
    def size(self) -> int: ...

    def run(self, signature: Signature) -> Any:
        """Return the result. Raises InputError or ProtocolError if the client is at fault."""


@dataclass(frozen=True)
class PictureTask:
    """Decodes the content of a picture file to the network's input, float32 [C, H, W]."""

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
    """Reads the width and height of a picture from its header; the result is None if the file is not a picture."""

    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    def run(self, signature: Signature) -> tuple[int, int] | None:
        return picture_size(self.content)


@dataclass(frozen=True)
class FormTask:
    """Extracts the files of a body, at most `most`, as (name, content) pairs."""

    body: bytes
    content_type: str
    most: int

    @property
    def size(self) -> int:
        # the body is not a form
        return len(self.body) if self.content_type.lower().startswith("multipart/") else 0

    def run(self, signature: Signature) -> list[tuple[str, bytes]]:
        from .forms import files_of

        return files_of(self.body, self.content_type, self.most)


@dataclass(frozen=True)
class TensorTask:
    """Parses a request of tensors into the request and its examples."""

    body: bytes
    json_length: int | None
    most: int  # maximum number of examples

    @property
    def size(self) -> int:
        return len(self.body)

    def run(self, signature: Signature) -> tuple[InferRequest, Sequence[np.ndarray | PictureTask]]:
        request = parse_request(self.body, self.json_length, signature.inputs, signature.outputs, self.most)
        first = next(iter(request.inputs.values()))
        if first.dtype == object:  # contents of picture files, which are decoded individually
            return request, [PictureTask(content) for content in first]
        sources = signature.sources(request.inputs)
        request.inputs.clear()  # the inputs are replaced by the sources
        return request, sources


class DecodingWorker(ProcessWorker):
    """Runs tasks in a decoder process: sources are tasks, and results are their return values or errors caused by the
    client."""

    def __init__(self, signature: Signature) -> None:
        super().__init__(WorkerProcess(Decoder))
        self._signature = signature

    def begin(self) -> str:
        """Wait until the process is ready; return a line for the log."""
        return str(self._process.ask(self._signature))

    def answer(self, sources: list[Task]) -> list[Any]:
        """Return the result of each task."""
        results: list[Any] = self._process.ask(sources)
        return results


class Decoder:
    """The worker that runs in the process of a `DecodingWorker`."""

    def __init__(self) -> None:
        self._signature: Signature | None = None

    def begin(self, setup: Signature) -> Reply:
        """Store the inputs and outputs of the network."""
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
    """Return the result of a task, or an error caused by the client."""
    try:
        return task.run(signature)
    except (InputError, ProtocolError) as error:
        return error
    except MemoryError:
        return InputError(f"{task.size} bytes, which require more memory than is available")
