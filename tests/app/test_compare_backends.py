"""`--compare-backends`: stand-ins for the chip are compared with the simulator."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from neuron_stand_ins import ROWS, spoil, stand_in_chip
from trninfer.app import compare_backends
from trninfer.app.options import AnswerOptions
from trninfer.models import load_model, run_network
from trninfer.runtime.measure.compare import MEASUREMENT_COLUMNS
from trninfer.runtime.neuron import environment
from trninfer.runtime.session import Result


@pytest.fixture
def chip(monkeypatch, tmp_path) -> pytest.MonkeyPatch:
    """Simulate a machine that has everything the chip needs, with TorchNeuron."""
    return stand_in_chip(monkeypatch, tmp_path / "cache", environment.TORCHNEURON)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "X.npy"
    np.save(path, np.random.default_rng(3).standard_normal((20, 6)).astype(np.float32))
    return path


@pytest.mark.slow
def test_compare_backends(cli, chip, feature_model, data) -> None:
    arguments = ("ffnn", "--data", data, "--model", feature_model, "--compare-backends", "--device-times", "--verify")
    outcome = cli(*arguments, "--format", "json", "--quiet")
    report = outcome.json()
    compared = report["compare_backends"]
    assert outcome.status == 0 and compared["passed"] and report["verify"]["passed"]
    assert (report["backend"], report["latency_kind"], len(report["predictions"])) == ("neuron", "measured", 20)
    assert compared["measured_label"] == "measured, host round trip"
    assert (compared["device_label"], compared["predicted_label"]) == ("measured, device", "predicted")
    assert [row["name"] for row in compared["rows"]] == ROWS
    for row in compared["rows"]:
        assert row["device_us"] == pytest.approx(17.0) and row["device_by"] == "torch.profiler"
        assert row["measured_us"] > 0 and row["predicted_us"] > 0
        assert row["ratio"] == pytest.approx(row["predicted_us"] / 17.0)
    outcome = cli(*arguments)
    assert outcome.status == 0 and max(map(len, outcome.out.splitlines())) <= 80
    for text in ("measured, host", "device us", "predicted us", "/ device", "compare-backends passed"):
        assert text in outcome.out


def test_compared_times_as_csv(cli, chip, pictures, picture_model, tmp_path) -> None:
    (pictures / "text.png").write_text("no picture", encoding="utf-8")
    target = tmp_path / "trn2.csv"
    arguments = ("--model", picture_model, "--compare-backends", "--format", "csv", "--output", target)
    outcome = cli("classify", pictures, *arguments)
    assert outcome.status == 2 and outcome.out == "" and "text.png: " in outcome.err  # the other pictures are compared
    with target.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == MEASUREMENT_COLUMNS and len(rows) == 5
    assert {row["metric"] for row in rows} == {"p50 (measured, host round trip)"}  # without predictions
    assert rows[0]["kernel"] == "fused_conv2d_maxpool_packed" and rows[0]["device"] == "trn2"


@pytest.mark.slow
def test_outputs_that_differ_are_status_1(cli, chip, feature_model, data) -> None:
    spoil(chip, lambda array: array if array.dtype.kind == "i" else array * 2)
    arguments = ("ffnn", "--data", data, "--model", feature_model, "--compare-backends")
    outcome = cli(*arguments)
    assert outcome.status == 1 and "DIFFERS" in outcome.out
    assert "compare-backends FAILED: outputs differ in hidden.transpose," in outcome.out
    lines = [json.loads(line) for line in cli(*arguments, "--format", "ndjson", "--quiet").out.splitlines()]
    assert lines[-1]["type"] == "summary" and lines[-1]["compare_backends"]["passed"] is False


def test_a_comparison_scores_the_answers(cli, chip, feature_model, data, tmp_path) -> None:
    arguments = ("ffnn", "--data", data, "--model", feature_model, "--format", "json", "--quiet")
    classes = [answer["class_index"] for answer in cli(*arguments).json()["predictions"]]
    classes[0] = (classes[0] + 1) % 3
    np.array(classes, "<i4").tofile(tmp_path / "Y.bin")
    compared = (*arguments, "--labels", tmp_path / "Y.bin", "--compare-backends", "--batch-size", 10)
    report = cli(*compared).json()
    score = report["score"]
    assert (score["correct"], score["total"], score["accuracy"]) == (19, 20, 0.95)


def test_options_incompatible_with_a_comparison(cli, chip, feature_model, data, tmp_path) -> None:
    wrong = {
        "omit --backend sim": ("--backend", "sim"),
        "runs on one core": ("--cores", 2),
        "--compare-backends and --resume cannot be used together": ("--resume", "--output", tmp_path / "x.csv"),
    }
    for message, arguments in wrong.items():
        outcome = cli("ffnn", "--data", data, "--model", feature_model, "--compare-backends", *arguments)
        assert outcome.status == 2 and message in outcome.err and outcome.messages == 1


def test_a_comparison_without_a_chip_is_status_3(cli, feature_model, data, monkeypatch) -> None:
    monkeypatch.setattr(environment, "neuron_devices", lambda: ())
    outcome = cli("ffnn", "--data", data, "--model", feature_model, "--compare-backends")
    assert outcome.status == 3 and "no Neuron device" in outcome.err and outcome.messages == 1


def test_an_output_that_is_not_finite_is_one_line(cli, chip, feature_model, data) -> None:
    spoil(chip, lambda array: array if array.dtype.kind == "i" else np.full_like(array, np.nan))
    outcome = cli("ffnn", "--data", data, "--model", feature_model, "--compare-backends", "--quiet")
    assert outcome.status == 2 and "not finite" in outcome.err and outcome.messages == 1


@pytest.mark.parametrize("wrong", [None, *range(5)])
def test_every_input_is_verified_in_its_place(feature_model: Path, wrong: int | None) -> None:
    model = load_model(feature_model)
    inputs = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
    probabilities = run_network(model.network, model.tensors, inputs).probabilities.astype(np.float32)
    if wrong is not None:
        probabilities[wrong] = np.roll(probabilities[wrong], 1)
    result = Result(probabilities.argmax(axis=1).astype(np.int32), probabilities, (), 0.0)
    verdict = compare_backends._verify(model, inputs, AnswerOptions(batch_size=2), result)
    assert verdict.passed == (wrong is None)
