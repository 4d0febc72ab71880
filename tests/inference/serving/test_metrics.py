"""The metrics of a server, in Prometheus's format."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi")
from trninfer.inference.serving.metrics import Metrics


def counts(metrics: Metrics) -> dict[str, float]:
    """Return the value of each series."""
    lines = [line for line in metrics.text().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_requests_by_address_and_status() -> None:
    metrics = Metrics()
    for status, seconds in ((200, 0.003), (200, 0.2), (503, 70.0)):
        metrics.request("/classify", status, seconds)
    found = counts(metrics)
    assert found['trninfer_requests_total{endpoint="/classify",status="200"}'] == 2
    assert found['trninfer_requests_total{endpoint="/classify",status="503"}'] == 1
    assert found['trninfer_request_seconds_sum{endpoint="/classify"}'] == pytest.approx(70.203)
    within = {bound: found[f'trninfer_request_seconds_bucket{{endpoint="/classify",le="{bound}"}}'] for bound in
              ("0.0025", "0.005", "0.25", "60.0", "+Inf")}  # fmt: skip
    assert within == {"0.0025": 0, "0.005": 1, "0.25": 2, "60.0": 2, "+Inf": 3}
    assert not any("_created" in name for name in found)


def test_batches_are_of_workers_and_inputs_of_both_pools() -> None:
    metrics = Metrics()
    metrics.batch("decoder", 1, [0.5], 0.25)
    metrics.batch("worker", 3, [0.01, 0.02, 0.03], 1.5)
    metrics.batch("worker", 1, [0.04], 0.5)
    found = counts(metrics)
    assert found['trninfer_inputs_total{pool="decoder"}'] == 1 and found['trninfer_inputs_total{pool="worker"}'] == 4
    assert (found["trninfer_batch_size_count"], found["trninfer_batch_size_sum"]) == (2, 4)
    assert found['trninfer_batch_size_bucket{le="2.0"}'] == 1 and found['trninfer_batch_size_bucket{le="4.0"}'] == 2
    assert found['trninfer_queue_seconds_count{pool="worker"}'] == 4
    assert found['trninfer_batch_seconds_sum{pool="worker"}'] == 2.0


def test_recent_quantiles_of_each_part() -> None:
    metrics = Metrics()
    assert "recent" not in metrics.text().decode() and metrics.quantiles() == {}
    for number in range(1, 101):
        metrics.request("/v2/models/{name}/infer", 200, number / 100)
        metrics.request("/metrics", 200, 50.0)
        metrics.batch("worker", 1, [number / 1000], 0.5)
    metrics.batch("decoder", 1, [9.0], 0.25)
    metrics.device_time(250.0, "predicted")
    found = counts(metrics)
    values = [
        found[f'trninfer_recent_seconds{{part="request",quantile="{q}"}}'] for q in ("0.5", "0.9", "0.95", "0.99")
    ]
    assert values == [0.5, 0.9, 0.95, 0.99]
    assert found['trninfer_recent_seconds{part="queue",quantile="0.99"}'] == 0.099
    assert list(metrics.quantiles()) == ["request", "decode", "queue", "worker", "device_predicted"]


@pytest.mark.parametrize("kind", ["predicted", "measured"])
def test_device_times_are_predicted_or_measured(kind: str) -> None:
    metrics = Metrics()
    assert "device_seconds" not in metrics.text().decode()
    metrics.device_time(250.0, kind)
    metrics.device_time(750.0, kind)
    found = counts(metrics)
    assert found[f"trninfer_{kind}_device_seconds_sum"] == pytest.approx(0.001)
    assert found[f"trninfer_{kind}_device_seconds_count"] == 2
    other = {"predicted": "measured", "measured": "predicted"}[kind]
    assert other not in metrics.text().decode()


def test_failures_ends_and_what_is_watched() -> None:
    metrics, waiting = Metrics(), [3]
    metrics.watch(lambda: waiting[0], lambda: 2)
    metrics.failure("input")
    metrics.worker_ended("decoder")
    waiting[0] = 5
    found = counts(metrics)
    assert (found["trninfer_queue_inputs"], found["trninfer_workers_ready"]) == (5, 2)
    assert found['trninfer_input_failures_total{fault="input"}'] == 1
    assert found['trninfer_worker_ends_total{pool="decoder"}'] == 1
    assert "trninfer_queue_inputs 5" not in Metrics().text().decode()  # each instance has separate counters
