"""Load-test an Open Inference Protocol server: send requests from several threads and time each request.

Works with any server that implements version 2 of the protocol (KServe, Triton, `trninfer serve`). Uses the standard
library only: each thread holds one connection and sends its requests sequentially.

A latency is measured from before a request is sent until its response has been read. If a rate is given, the latency is
measured from the time at which the request was due, so that delays caused by a slow server are included (this avoids
coordinated omission).
"""

from __future__ import annotations

import http.client
import json
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np

from .server_address import Address, LoadError, describe_failure, read_answer, shut_down

MOST_ANSWER_BYTES = 64 << 20  # maximum size in bytes of a response
MOST_TENSOR_BYTES = 256 << 20  # maximum size in bytes of a request with random tensors
MOST_NAME = 200  # maximum number of characters in a model name
BUSY_CLIENT = 0.9  # utilization of a core above which the client may be the bottleneck
PERCENTILES = (50, 90, 95, 99)
_NUMPY = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1", "INT16": "<i2",
    "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
_WIDEST = 8  # bytes of the widest datatype
_MOST_AXES = 32


@dataclass(frozen=True)
class Message:
    """A request to send repeatedly: its path, its body, and the number of inputs in the body."""

    path: str
    body: bytes
    inputs: int
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadPlan:
    """A schedule of requests, which are sent from `concurrency` threads without pauses, or at `rate` requests per
    second.

    The load ends after `seconds`, or after `requests` if given. Requests in the first `warmup` seconds are not counted.
    """

    concurrency: int
    seconds: float
    rate: float | None = None
    requests: int | None = None
    warmup: float = 0.0
    timeout: float = 30.0


@dataclass(frozen=True)
class LoadResult:
    """The results of a load. Latencies are in milliseconds and cover the successful requests; they are None if no
    request succeeded."""

    concurrency: int
    rate: float | None
    seconds: float
    requests: int
    answered: int
    inputs_per_second: float
    requests_per_second: float
    mean_ms: float | None
    p50_ms: float | None
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    errors: dict[str, int]
    client_share: float

    @property
    def is_client_busy(self) -> bool:
        """Return True if this process was busy nearly all the time and may have limited the throughput."""
        return self.client_share >= BUSY_CLIENT


def wait_until_ready(address: Address, seconds: float, timeout: float) -> None:
    """Wait until a server is ready. Raises LoadError if that takes longer than `seconds`."""
    end = time.monotonic() + seconds
    while seconds:
        try:
            address.get("/v2/health/ready", timeout)
            return
        except LoadError as error:
            if time.monotonic() >= end:
                raise LoadError(f"{error}; waited {seconds:g} seconds for it") from None
        time.sleep(0.2)


def tensor_message(address: Address, model: str | None, batch: int, timeout: float) -> tuple[str, Message]:
    """Return the name of a model on the server, and a request with random tensors for its inputs.

    Without `model`, the only model of the server is used, according to its repository index or `/about`. Raises
    LoadError if there is no such model, or if its inputs are not numeric.
    """
    name = model or _only_model(address, timeout)
    document = address.get(f"/v2/models/{quote(name, safe='')}", timeout)
    inputs = document.get("inputs") if isinstance(document, dict) else None
    if not isinstance(inputs, list) or not inputs:
        raise LoadError(f"{address}: the metadata of model {name!r} has no inputs")
    generator, tensors, parts = np.random.default_rng(0), [], []
    for spec in inputs:
        tensor, shape = _described(spec, batch, address)
        datatype = tensor["datatype"]
        values = generator.random(shape, np.float32) * np.float32(1 if datatype.startswith(("FP", "BOOL")) else 100)
        part = np.ascontiguousarray(values, np.dtype(_NUMPY[datatype])).tobytes()
        tensors.append({**tensor, "parameters": {"binary_data_size": len(part)}})
        parts.append(part)
        if sum(map(len, parts)) > MOST_TENSOR_BYTES:
            raise LoadError(f"{address}: the inputs of model {name!r} take more than {MOST_TENSOR_BYTES} bytes")
    head = json.dumps({"inputs": tensors, "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
    return name, Message(f"/v2/models/{quote(name, safe='')}/infer", b"".join((head, *parts)), batch, headers)


def _described(spec: Any, batch: int, address: Address) -> tuple[dict[str, Any], list[int]]:
    """Return the header fields of a tensor according to the server's description, and its shape. Raises LoadError if
    the description is malformed."""
    name, datatype, shape = (spec.get(key) if isinstance(spec, dict) else None for key in ("name", "datatype", "shape"))
    if not isinstance(datatype, str) or datatype not in _NUMPY:
        description = f"{str(name)[:MOST_NAME]} is of {str(datatype)[:MOST_NAME]}"
        raise LoadError(f"{address}: input {description}; specify pictures to send instead")
    if not isinstance(name, str) or not isinstance(shape, list) or any(type(size) is not int for size in shape):
        raise LoadError(f"{address}: the metadata contains an invalid tensor: {str(spec)[:MOST_NAME]!r}")
    shape = [batch if position == 0 else 1 if size == -1 else size for position, size in enumerate(shape)]
    size = math.prod(shape)
    if len(shape) > _MOST_AXES or min(shape, default=1) < 1 or size * _WIDEST > MOST_TENSOR_BYTES:
        raise LoadError(
            f"{address}: input {name[:MOST_NAME]!r} has the shape {str(shape)[:MOST_NAME]}, which is not supported"
        )
    return {"name": name, "shape": shape, "datatype": datatype}, shape


def _only_model(address: Address, timeout: float) -> str:
    document = address.get("/about", timeout)
    name = document.get("model") if isinstance(document, dict) else None
    if not isinstance(name, str) or not name.isprintable() or len(name) > MOST_NAME:
        raise LoadError(f"{address}: the server does not report its model; specify one with --model")
    return name


def run_load(
    address: Address,
    messages: Sequence[Message],
    plan: LoadPlan,
    progress: Callable[[int], None] = lambda done: None,
    clock: Callable[[], float] = time.perf_counter,
) -> LoadResult:
    """Send requests as planned, cycling through the messages, and return the results.

    Ctrl-C ends the load after the in-flight requests.
    """
    schedule = _Schedule(plan, clock)
    workers = [_Worker(address, messages, schedule, plan.timeout) for _ in range(plan.concurrency)]
    before = os.times()
    for worker in workers:
        worker.start()
    try:
        while any(worker.is_alive() for worker in workers):
            workers[0].join(0.1)
            if not workers[0].is_alive():
                for worker in workers:
                    worker.join(0.1)
            for worker in workers:
                worker.check_time(time.monotonic())
            progress(sum(len(worker.times) for worker in workers))
    finally:
        schedule.stop()
        end = time.monotonic() + plan.timeout + 1
        for worker in workers:
            worker.join(max(0.0, end - time.monotonic()))
    after = os.times()
    spent = after.user + after.system - before.user - before.system
    duration = max(clock() - schedule.began, 1e-9)
    return _summary(plan, workers, max(schedule.ended - schedule.counted_from, 1e-9), spent / duration)


def _summary(plan: LoadPlan, workers: Sequence[_Worker], seconds: float, client_share: float) -> LoadResult:
    times = np.sort(np.concatenate([np.array(worker.times, np.float64) for worker in workers])) * 1e3
    errors: dict[str, int] = {}
    for worker in workers:
        for kind, count in worker.errors.items():
            errors[kind] = errors.get(kind, 0) + count
    inputs = sum(worker.inputs for worker in workers)

    def percentile(share: float) -> float | None:
        return float(np.percentile(times, share, method="inverted_cdf")) if len(times) else None

    p50, p90, p95, p99 = (percentile(share) for share in PERCENTILES)
    return LoadResult(
        concurrency=plan.concurrency,
        rate=plan.rate,
        seconds=seconds,
        requests=len(times) + sum(errors.values()),
        answered=len(times),
        inputs_per_second=inputs / seconds,
        requests_per_second=len(times) / seconds,
        mean_ms=float(times.mean()) if len(times) else None,
        p50_ms=p50,
        p90_ms=p90,
        p95_ms=p95,
        p99_ms=p99,
        max_ms=float(times[-1]) if len(times) else None,
        errors=dict(sorted(errors.items(), key=lambda pair: -pair[1])),
        client_share=client_share,
    )


class _Schedule:
    """The times at which requests are due, shared by the threads."""

    def __init__(self, plan: LoadPlan, clock: Callable[[], float]) -> None:
        self._plan, self.clock = plan, clock
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._sent = 0
        self.began = clock()
        self.counted_from = self.began + plan.warmup
        self.ended = self.counted_from

    def next(self) -> tuple[int, float] | None:
        """Wait until the next request is due; return its number and due time, or None at the end of the load."""
        plan = self._plan
        with self._lock:
            now = self.clock()
            number, due = self._sent, now
            if plan.rate is not None:
                due = self.began + number / plan.rate
            over = due >= self.counted_from + plan.seconds or self._stopped.is_set()
            if over or (plan.requests is not None and number >= plan.requests):
                return None
            self._sent += 1
        if due > now and self._stopped.wait(due - now):
            return None
        return number, due

    def finish(self) -> float:
        """Return the current time as the time at which a request ended."""
        now = self.clock()
        with self._lock:
            self.ended = max(self.ended, now)
        return now

    def stop(self) -> None:
        """End the load."""
        self._stopped.set()


class _Worker(threading.Thread):
    """A thread with a separate connection; it reconnects after a failed request."""

    def __init__(self, address: Address, messages: Sequence[Message], schedule: _Schedule, timeout: float) -> None:
        super().__init__(name="load", daemon=True)
        self._address, self._messages, self._schedule, self._timeout = address, messages, schedule, timeout
        self.times: list[float] = []  # latency in seconds of each counted request
        self.errors: dict[str, int] = {}
        self.inputs = 0
        self._sent: float | None = None  # time at which the in-flight request was sent
        self._connection = address.connect(timeout)

    def check_time(self, now: float) -> None:
        """Close the connection if the response is late, because a server that keeps sending single bytes never triggers
        the socket timeout."""
        if self._sent is not None and now - self._sent > self._timeout:
            shut_down(self._connection)

    def run(self) -> None:
        while (turn := self._schedule.next()) is not None:
            number, due = turn
            message = self._messages[number % len(self._messages)]
            failure = self._send(self._connection, message)
            ended = self._schedule.finish()
            if due < self._schedule.counted_from:
                continue
            if failure is None:
                self.times.append(ended - due)
                self.inputs += message.inputs
            else:
                self.errors[failure] = self.errors.get(failure, 0) + 1
        self._connection.close()

    def _send(self, connection: http.client.HTTPConnection, message: Message) -> str | None:
        """Send a message; return None for a response with status 200, otherwise the kind of failure."""
        headers = {**self._address.headers, **message.headers}
        self._sent = start = time.monotonic()
        try:
            connection.request("POST", self._address.prefix + message.path, message.body, headers)
            if connection.sock is not None and connection.sock.family in (socket.AF_INET, socket.AF_INET6):
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            answer = connection.getresponse()
            body = read_answer(answer, MOST_ANSWER_BYTES, start + self._timeout)
        except (OSError, ValueError, http.client.HTTPException) as error:
            connection.close()
            return describe_failure(TimeoutError() if time.monotonic() >= start + self._timeout else error)
        finally:
            self._sent = None
        if len(body) > MOST_ANSWER_BYTES:
            connection.close()
            return "answer too large"
        return None if answer.status == 200 else f"status {answer.status}"
