"""Comparing the chip with the simulator, with stand-ins for both."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from trninfer.models import Dense, FeatureInput, Model, Network, Softmax
from trninfer.runtime.backend import BackendInfo, LaunchResult, LaunchTime
from trninfer.runtime.measure.compare import MEASUREMENT_COLUMNS, compare_backends, relative_error

DATA = Path(__file__).parents[3] / "benchmarks" / "data" / "latency-kernels.csv"


class Chip:
    """Computes on the simulator; `disturb` modifies the outputs of kernels."""

    info = BackendInfo("neuron", "trn2", "measured", "measured, host round trip")

    def __init__(self, disturb=lambda kernel, output: output, device_us: float | None = 20.0) -> None:
        self.disturb = disturb
        self.device_us = device_us

    def launch(self, kernel, *arrays, **parameters) -> LaunchResult:
        output = self.disturb(kernel.__name__, kernel(*arrays, **parameters))
        tail = None if self.device_us is None else 25.0
        return LaunchResult((output,), LaunchTime(150.0, 180.0, self.device_us, tail, 1, 1))

    def time(self, kernel, *specs, **parameters) -> LaunchResult:
        raise AssertionError("nothing is timed alone here")


class Simulator:
    info = BackendInfo("sim", "trn2", "predicted", "predicted")

    def launch(self, kernel, *arrays, **parameters) -> LaunchResult:
        return LaunchResult((kernel(*arrays, **parameters),), LaunchTime(10.0, None, None, None, 1, 1, "dma", 0.5))

    def time(self, kernel, *specs, **parameters) -> LaunchResult:
        raise AssertionError("nothing is timed alone here")


@pytest.fixture(scope="module")
def model() -> Model:
    random = np.random.default_rng(0)
    network = Network("small", FeatureInput(6), (Dense("dense", 6, 4), Softmax("softmax")), tuple("abcd"))
    tensors = {n: random.standard_normal(s).astype(np.float32) for n, s in network.tensor_shapes().items()}
    return Model(network, tensors, {})


X = np.random.default_rng(1).standard_normal((20, 6)).astype(np.float32)


def test_equal_backends_agree_and_both_times_are_listed(model) -> None:
    comparison = compare_backends(model, X, Chip(), Simulator(), batch_size=8)
    assert comparison.passed
    # batches of 8, 8 and 4: the two of 8 share one row per step
    assert [(row.name, row.kernel, row.shapes[0]) for row in comparison.rows] == [
        ("dense.transpose", "transpose", (8, 6)),
        ("dense.matmul", "matmul_fully_optimized", (6, 8)),
        ("dense.bias_activation", "bias_activation", (8, 4)),
        ("argmax", "argmax", (8, 4)),
        ("dense.transpose", "transpose", (4, 6)),
        ("dense.matmul", "matmul_fully_optimized", (6, 4)),
        ("dense.bias_activation", "bias_activation", (4, 4)),
        ("argmax", "argmax", (4, 4)),
    ]
    row = comparison.rows[0]
    assert (row.measured_us, row.device_us, row.predicted_us, row.ratio) == (150.0, 20.0, 10.0, 0.5)
    assert (comparison.measured_label, comparison.device_label, comparison.predicted_label) == (
        "measured, host round trip",
        "measured, device",
        "predicted",
    )
    assert comparison.result.classes.shape == (20,)


@pytest.mark.parametrize(("dtype", "small", "large"), [("float32", 2e-4, 4e-4), ("float16", 5e-3, 2e-2)])
def test_differences_are_judged_by_the_dtype(model, dtype, small, large) -> None:
    def by(amount):
        def disturb(kernel, output):
            return (output + np.float32(amount)).astype(output.dtype) if kernel == "bias_activation" else output

        return disturb

    assert compare_backends(model, X, Chip(by(small)), Simulator(), dtype).passed
    comparison = compare_backends(model, X, Chip(by(large)), Simulator(), dtype)
    assert not comparison.passed
    assert [row.name for row in comparison.rows if not row.passed] == ["dense.bias_activation"]


def test_integers_must_be_equal(model) -> None:
    def disturb(kernel, output):
        return output + np.int32(1) if kernel == "argmax" else output

    comparison = compare_backends(model, X, Chip(disturb), Simulator())
    assert [(row.name, row.tolerance) for row in comparison.rows if not row.passed] == [("argmax", 0.0)]


def test_the_largest_error_of_equal_launches_counts(model) -> None:
    calls = []

    def disturb(kernel, output):
        calls.append(kernel)
        return output + np.float32(1) if kernel == "transpose" and calls.count(kernel) == 2 else output

    comparison = compare_backends(model, X, Chip(disturb), Simulator(), batch_size=10)
    assert [row.name for row in comparison.rows if not row.passed] == ["dense.transpose"]


@pytest.mark.parametrize(
    ("actual", "expected", "error"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.5 / 2.5),
        ([0.0], [0.25], 0.25),  # small outputs are compared as if their magnitude were 1
        ([np.inf, 1.0], [np.inf, 1.0], 0.0),
        ([np.nan, 1.0], [np.nan, 1.0], 0.0),
        ([np.nan], [1.0], np.inf),
        ([np.inf], [-np.inf], np.inf),
        ([1.0, 2.0], [1.0], np.inf),
    ],
)
def test_relative_error(actual, expected, error) -> None:
    assert relative_error(np.float32(actual), np.float32(expected)) == pytest.approx(error)


def test_the_csv_has_the_form_of_the_files_of_measurements(model) -> None:
    text = compare_backends(model, X, Chip(), Simulator(), batch_size=20).to_csv()
    with DATA.open(newline="", encoding="utf-8") as file:
        assert next(csv.reader(file)) == list(MEASUREMENT_COLUMNS)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 2 * 4 and [row["id"] for row in rows] == [f"c{n:02d}" for n in range(1, 9)]
    device, host = rows[4], rows[5]
    assert device["kernel"] == host["kernel"] == "bias_activation"
    assert (device["metric"], device["latency_us"]) == ("p50 (measured, device)", "20")
    assert (host["metric"], host["latency_us"]) == ("p50 (measured, host round trip)", "150")
    assert device["shapes"] == "[20,4] [1,4]" and device["variant"] == "activation=softmax"
    assert device["dtype"] == "fp32" and device["device"] == "trn2"
    assert "predicted 10 us" in device["notes"] and "p99 25 us" in device["notes"]


def test_no_device_times(model) -> None:
    comparison = compare_backends(model, X, Chip(device_us=None), Simulator())
    assert all(row.ratio is None for row in comparison.rows)
    metrics = {row["metric"] for row in csv.DictReader(io.StringIO(comparison.to_csv()))}
    assert metrics == {"p50 (measured, host round trip)"}
    assert replace(comparison.rows[0], device_us=5.0).ratio == 2.0
