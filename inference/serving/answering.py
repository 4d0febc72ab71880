"""Handle requests within their time limit: convert the body of a request to inputs, and predictions to the response."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import HTTPException
from starlette.requests import Request

from ...models.errors import InputError
from ...models.files import Model
from ...runtime.backend import BackendInfo, KernelError
from ...runtime.session import OverflowedError
from ...runtime.workers.pool import PoolStopped, WorkerPool
from ...runtime.workers.process import WorkerEnded
from ...runtime.workers.worker import Hello
from ..class_maps import encode_png, palette_picture
from ..detections import answer_record
from ..predictions import MakePredictions, make_predictions
from .bodies import CLIENT_GONE, BodyReader
from .decoding import PictureTask, SizeTask, Task, run_task
from .metrics import Metrics
from .settings import ServingSettings
from .signature import Signature
from .statistics import Statistics
from .tensors import ProtocolError, TooLargeError
from .workers import InputAnswer

LARGE_BODY = 1 << 16  # larger bodies are parsed in a decoder process so that this process can serve other requests
Answer = InputAnswer | Exception  # the prediction for one input, or an error


class Server:
    """The state needed to handle requests: the model, its workers, and the limits.

    `decoders` convert the data sent by clients to inputs of the network, and `workers` run the network. `hello` is the
    backend that a worker reported when it became ready.
    """

    def __init__(self, settings: ServingSettings, model: Model, metrics: Metrics) -> None:
        self.settings = settings
        self.name = settings.model_name(model)
        self.network = model.network
        self.signature = Signature.of(model)
        self.statistics = Statistics()
        self.metrics = metrics
        self.bodies = BodyReader(settings.max_bytes)
        self.hello: Hello | None = None
        self.decoders: WorkerPool
        self.workers: WorkerPool
        self.is_loaded = True
        self._accepted = 0

    @property
    def pools(self) -> list[WorkerPool]:
        """Return the process pools, in the order in which an input passes through them."""
        return [self.decoders, self.workers]

    @property
    def is_ready(self) -> bool:
        """Return True while inputs are accepted."""
        return all(pool.is_ready for pool in self.pools)

    @property
    def info(self) -> BackendInfo:
        """Return the backend; valid once a worker has become ready."""
        assert self.hello is not None
        return self.hello.info

    async def read(self, task: Task, deadline: float) -> Any:
        """Run a task that parses a body and return its result. Raises HTTPException if the body is malformed or the
        deadline has passed.

        `deadline` is a time of `time.monotonic`.
        """
        self._check_ready()
        if task.size <= LARGE_BODY:
            result = run_task(task, self.signature)
        else:
            result = await self._read_by_decoder(task, deadline)
        if isinstance(result, Exception):
            raise HTTPException(getattr(result, "status", 400), str(result))
        return result

    async def _read_by_decoder(self, task: Task, deadline: float) -> Any:
        # The result is inspected rather than awaited. An exception raised here would reference this frame and thereby
        # the body, which would then stay in memory until the next garbage collection.
        reading = self.decoders.submit(task)
        await asyncio.wait({reading}, timeout=max(0.0, deadline - time.monotonic()))
        if not reading.done():
            reading.cancel()
            raise HTTPException(504, f"not answered within {self.settings.timeout:g} seconds")
        error = reading.exception()
        if isinstance(error, (InputError, ProtocolError)):
            return error
        if isinstance(error, WorkerEnded) and not isinstance(error, PoolStopped):
            return TooLargeError(f"the body of {task.size} bytes crashed the process that reads it: {error}")
        if isinstance(error, Exception):
            raise as_status(error)
        return reading.result()

    async def answer(self, request: Request, sources: Sequence[Any], deadline: float) -> list[Answer]:
        """Return the prediction or the error of each input. Raises HTTPException if some are missing at the deadline.

        Sources are inputs of the network, or pictures to decode. `deadline` is a time of `time.monotonic`. If the
        client disconnects, its inputs are removed from the queue.
        """
        self._admit(len(sources))
        began = time.monotonic()
        fields = request.scope["state"]["log"]
        fields["inputs"] = len(sources)
        disconnected = asyncio.ensure_future(_until_gone(request))
        answers = asyncio.ensure_future(self._answer_all(sources))
        # avoids a warning about a cancelled future
        answers.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            left = max(0.0, deadline - time.monotonic())
            both: set[asyncio.Future[Any]] = {answers, disconnected}
            await asyncio.wait(both, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not answers.done():
                if disconnected.done():
                    raise HTTPException(CLIENT_GONE, "the client disconnected")
                raise HTTPException(504, f"not answered within {self.settings.timeout:g} seconds")
        finally:
            self._accepted -= len(sources)
            disconnected.cancel()
            answers.cancel()
        results = answers.result()
        self.statistics.request(results, time.monotonic() - began)
        fields["batch"] = max((answer.batch_size for answer in results if isinstance(answer, InputAnswer)), default=0)
        for failure in (answer for answer in results if isinstance(answer, Exception)):
            self.metrics.failure("input" if as_status(failure).status_code == 422 else "worker")
        return results

    async def _answer_all(self, sources: Sequence[Any]) -> list[Answer]:
        """Return the predictions for the inputs of a request, which are queued for the workers together once all are
        decoded."""
        inputs = await asyncio.gather(*map(self._decode, sources), return_exceptions=True)
        usable = [self.workers.submit(example) for example in inputs if not isinstance(example, BaseException)]
        results = iter(await asyncio.gather(*usable, return_exceptions=True))
        return [example if isinstance(example, BaseException) else next(results) for example in inputs]  # type: ignore[misc]

    async def _decode(self, source: Any) -> Any:
        if not isinstance(source, PictureTask):
            return source
        try:
            return await self.decoders.submit(source)
        except PoolStopped:
            raise
        except WorkerEnded as error:
            raise InputError(f"decoding the picture crashed a process: {error}") from None

    def _admit(self, count: int) -> None:
        """Count inputs as accepted. Raises HTTPException if there are too many, or if no worker is available."""
        most = self.settings.max_queue
        if count > most:
            raise HTTPException(413, f"{count} inputs; a request may contain at most {most}")
        self._check_ready()
        if self._accepted + count > most:
            slowest = min((pool.rate * pool.workers_ready for pool in self.pools), default=0.0)
            seconds = math.ceil(self._accepted / slowest) if slowest else 1
            headers = {"Retry-After": str(max(1, min(60, seconds)))}
            raise HTTPException(429, f"{self._accepted} inputs are pending; at most {most} are allowed", headers)
        self._accepted += count

    def _check_ready(self) -> None:
        if not self.is_ready:
            raise HTTPException(503, "the model is not ready", {"Retry-After": "1"})

    async def sizes(
        self, pictures: Sequence[bytes], answers: Sequence[Answer], deadline: float
    ) -> dict[str | int, tuple[int, int]]:
        """Return the width and height of each picture that has a prediction, keyed by its position. Raises
        HTTPException if some are missing at the deadline, or if the model was unloaded."""
        answered = [number for number, answer in enumerate(answers) if not isinstance(answer, Exception)]
        finding = asyncio.gather(*(self.decoders.submit(SizeTask(pictures[number])) for number in answered))
        try:
            replies = await asyncio.wait_for(finding, max(0.0, deadline - time.monotonic()))
        except asyncio.TimeoutError:
            raise HTTPException(504, f"not answered within {self.settings.timeout:g} seconds") from None
        except PoolStopped as error:
            raise as_status(error) from None
        except WorkerEnded as error:
            raise HTTPException(422, f"reading the size of the picture crashed a process: {error}") from None
        return {number: size for number, size in zip(answered, replies, strict=True) if size is not None}

    @property
    def picture_path(self) -> str:
        """Return the path of the endpoint that accepts pictures for this network."""
        output = self.network.output
        if output.boxes is not None:
            return "/detect"
        return "/segment" if output.kind == "map" else "/classify"

    def labels(self, top_k: int | None) -> MakePredictions:
        """Return a function that converts the network's outputs to predictions with `top_k` labels."""
        labels = max(len(output.answer_labels) for output in self.network.named_outputs)
        return functools.partial(make_predictions, top_k=min(top_k or self.settings.top_k, labels))

    def report(self, names: Sequence[str], answers: Sequence[Answer], make: MakePredictions) -> dict[str, Any]:
        """Return predictions as in the JSON output of the command line, each with the size of its batch."""
        predictions, errors = [], []
        for number, (name, answer) in enumerate(zip(names, answers, strict=True)):
            if isinstance(answer, Exception):
                errors.append({"input": name, "message": str(as_status(answer).detail)})
                continue
            classes = np.array([answer.class_index], np.int32)
            (prediction,) = make([number], self.network, classes, answer.scores[None])
            record = answer_record(dataclasses.replace(prediction, input=name))
            if prediction.map is not None and prediction.map.pixels is not None:
                record["map_png"] = encode_png(palette_picture(prediction.map.pixels, self.network.labels))
            predictions.append({**record, "batch_size": answer.batch_size, "batch_us": answer.batch_us})
        head = {"schema_version": 1, "command": "serve", **self.where()}
        return {**head, "predictions": predictions, "errors": errors}

    def where(self) -> dict[str, Any]:
        """Return the model and its backend, as in reports."""
        return {
            "model": self.name,
            "backend": self.info.name,
            "target": self.info.target,
            "lnc": self.info.lnc,
            "dtype": self.settings.dtype,
            "latency_kind": self.info.latency_kind,
        }

    def batch_parameters(self, answers: Sequence[InputAnswer]) -> dict[str, Any]:
        """Return the response parameters that describe the batch that took longest."""
        longest = max(answers, key=lambda answer: answer.batch_us)
        return {
            "latency_kind": self.info.latency_kind,
            "batch_us": longest.batch_us,
            "batch_size": longest.batch_size,
        }


def as_status(error: Exception) -> HTTPException:
    """Return the HTTP status for an input without a prediction: 422 if the input itself is at fault."""
    if isinstance(error, (InputError, KernelError, OverflowedError)):
        return HTTPException(422, str(error))
    if isinstance(error, PoolStopped):
        return HTTPException(503, str(error), {"Retry-After": "1"})
    return HTTPException(500, "a worker failed on this input; see the server's log")


async def _until_gone(request: Request) -> None:
    """Wait until the client disconnects. Must be called after the body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
