"""Prometheus metrics of a server."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

QUANTILES = (0.5, 0.9, 0.95, 0.99)
RECENT = 10_000  # number of observations per phase used for quantiles
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_DEVICE_SECONDS = tuple(base * 10.0**power for power in range(-6, 1) for base in (1, 2.5, 5))
PARTS = ("request", "decode", "queue", "worker", "device_predicted", "device_measured")


class _Quantiles:
    """A collector for the quantiles of recent times, which the Prometheus client does not compute."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield the metric family of quantiles, once there are any observations."""
        text = f"Quantiles of the last {RECENT} times, by phase."
        family = GaugeMetricFamily("trninfer_recent_seconds", text, labels=("part", "quantile"))
        for part, values in self._metrics.quantiles().items():
            for quantile, seconds in values.items():
                family.add_metric((part, f"{quantile:g}"), seconds)
        if family.samples:
            yield family


class Metrics:
    """Counts requests, inputs and batches. Times on the device are predicted or measured, as stated in the name of the
    metric."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they would add a series of no use to each metric
        self._registry = CollectorRegistry()
        self._device_seconds: Histogram | None = None
        self._requests = self._counter("requests", "Requests answered.", ("endpoint", "status"))
        self._request_seconds = self._histogram("request_seconds", "Time to answer a request.", _SECONDS, ("endpoint",))
        self._inputs = self._counter("inputs", "Inputs processed by a pool of processes.", ("pool",))
        self._failures = self._counter(
            "input_failures", "Inputs that failed, by cause: the input or a worker.", ("fault",)
        )
        text = "Time that inputs wait for a process of the pool."
        self._queue_seconds = self._histogram("queue_seconds", text, _SECONDS, ("pool",))
        self._batch_size = self._histogram("batch_size", "Inputs in a batch.", (1, 2, 4, 8, 16, 32, 64, 128, 256))
        text = "Time that a process of the pool takes for a batch."
        self._batch_seconds = self._histogram("batch_seconds", text, _SECONDS, ("pool",))
        self._ends = self._counter("worker_ends", "Processes of a pool that ended and were replaced.", ("pool",))
        self._recent: dict[str, deque[float]] = {}
        self._registry.register(_Quantiles(self))

    def watch(self, waiting: Callable[[], float], workers: Callable[[], float]) -> None:
        """Also export the numbers of waiting inputs and ready workers."""
        queue = Gauge("trninfer_queue_inputs", "Inputs waiting for a worker.", registry=self._registry)
        queue.set_function(waiting)
        ready = Gauge("trninfer_workers_ready", "Ready workers.", registry=self._registry)
        ready.set_function(workers)

    def request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(endpoint, str(status)).inc()
        self._request_seconds.labels(endpoint).observe(seconds)
        if status == 200 and endpoint.endswith(("/infer", "/classify", "/detect")):
            self._note("request", seconds)

    def batch(self, pool: str, size: int, waited: Sequence[float], seconds: float) -> None:
        """Count a batch processed by a pool ("decoder" or "worker")."""
        self._inputs.labels(pool).inc(size)
        self._batch_seconds.labels(pool).observe(seconds)
        self._note("decode" if pool == "decoder" else "worker", seconds)
        if pool == "worker":
            self._batch_size.observe(size)
        for wait in waited if pool == "worker" else ():
            self._note("queue", wait)
        for wait in waited:
            self._queue_seconds.labels(pool).observe(wait)

    def device_time(self, microseconds: float, kind: str) -> None:
        """Record the time of a batch on the device, which is "predicted" or "measured"."""
        if self._device_seconds is None:
            text = f"Time of a batch on the device, {kind}."
            self._device_seconds = self._histogram(f"{kind}_device_seconds", text, _DEVICE_SECONDS)
        self._device_seconds.observe(microseconds / 1e6)
        self._note(f"device_{kind}", microseconds / 1e6)

    def _note(self, part: str, seconds: float) -> None:
        self._recent.setdefault(part, deque(maxlen=RECENT)).append(seconds)

    def quantiles(self) -> dict[str, dict[float, float]]:
        """Return the quantiles of the last RECENT times, in seconds, by phase.

        A "request" lasts from the arrival of its head to its response. Within it, inputs are decoded ("decode"), wait
        for a worker ("queue"), and are run in a batch ("worker": transfer, launches and device time by the clock of the
        host; with the simulator, the simulation time). "device_predicted" or "device_measured" is the time of the batch
        on the device.
        """
        result = {}
        for part in [part for part in PARTS if part in self._recent]:
            values = np.quantile(np.array(self._recent[part]), QUANTILES, method="inverted_cdf")
            result[part] = dict(zip(QUANTILES, map(float, values)))
        return result

    def failure(self, fault: str) -> None:
        """Count an input without a prediction, caused by the "input" or by a "worker"."""
        self._failures.labels(fault).inc()

    def worker_ended(self, pool: str) -> None:
        """Count a process that ended unexpectedly."""
        self._ends.labels(pool).inc()

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str, labels: Sequence[str]) -> Counter:
        return Counter(f"trninfer_{name}", text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], labels: Sequence[str] = ()) -> Histogram:
        return Histogram(f"trninfer_{name}", text, labels, buckets=buckets, registry=self._registry)
