"""The command line on a chip, with stand-ins for AWS's packages and tools (tests/runtime/neuron/stand_ins)."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import numpy as np
import pytest
from neuron_stand_ins import ROWS, spoil, stand_in_chip
from trninfer.runtime.measure import suites
from trninfer.runtime.neuron import environment
from trninfer.runtime.neuron.device import Device


@pytest.fixture
def chip(monkeypatch, tmp_path) -> pytest.MonkeyPatch:
    """Simulate a machine that has everything the chip needs, with TorchNeuron."""
    return stand_in_chip(monkeypatch, tmp_path / "cache", environment.TORCHNEURON)


@pytest.fixture
def calls(chip) -> list[str]:
    """Return the requests to the process that uses the NeuronCore."""
    asked: list[str] = []
    ask = Device.ask
    chip.setattr(
        Device, "ask", lambda self, operation, *a, **k: asked.append(operation) or ask(self, operation, *a, **k)
    )
    return asked


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "X.npy"
    np.save(path, np.random.default_rng(3).standard_normal((20, 6)).astype(np.float32))
    return path


def by_layer(model) -> tuple[object, ...]:
    """Return the options for one launch per layer."""
    return ("--model", model, "--launches", "layer")


def test_one_launch_is_measured_as_a_whole(cli, chip, feature_model) -> None:
    outcome = cli("bench", "--model", feature_model, "--verify", "--format", "json", "--quiet")
    report = outcome.json()
    assert outcome.status == 0 and report["verify"]["passed"]
    (row,) = report["layers"]
    assert (row["name"], row["kernel"], row["output_shape"]) == ("network", "run_network", [1, 3])


def test_auto_takes_the_chip_and_measures(cli, chip, calls, feature_model) -> None:
    outcome = cli("bench", *by_layer(feature_model), "--warmup", 2, "--iters", 3, "--format", "json", "--quiet")
    report = outcome.json()
    assert outcome.status == 0 and outcome.err == ""
    assert (report["backend"], report["target"], report["latency_kind"]) == ("neuron", "trn2", "measured")
    assert report["latency_label"] == "measured, host round trip"
    assert [layer["name"] for layer in report["layers"]] == ROWS
    for layer in report["layers"]:
        assert layer["latency_us_p99"] >= layer["latency_us"] > 0 and layer["device_us"] is None
        assert layer["flops"] > 0 or layer["kernel"] in ("transpose", "argmax", "bias_activation")
        assert layer["hbm_bytes"] > 0 and layer["bound_by"] is None and layer["mfu"] is None
    assert calls.count("run") == len(ROWS) * (2 + 3) and calls.count("load") == len(ROWS)


def test_the_table_of_host_round_trips(cli, chip, feature_model) -> None:
    out = cli("bench", "--model", feature_model, "--verify", "--quiet").out
    assert "measured" not in out
    outcome = cli("bench", "--model", feature_model)
    assert outcome.status == 0 and max(map(len, outcome.out.splitlines())) <= 80
    for text in ("measured, host", "round trip us", "p99 us", "share", "HBM traffic", "(host round trip) on trn2"):
        assert text in outcome.out
    for text in ("bandwidth", "bound by", "MFU", "predicted", "device us", "auto chose"):
        assert text not in outcome.out


@pytest.mark.slow
def test_compilations_are_reported_unless_quiet(cli, chip, feature_model, monkeypatch) -> None:
    err = cli("bench", "--model", feature_model, "--format", "json").err
    assert "compiling run_network [1, 6, 1, 1] [72] [128, 4] float32 for trn2\n" in err
    monkeypatch.setenv("TRNINFER_CACHE", str(Path(os.environ["TRNINFER_CACHE"]) / "another"))
    assert cli("bench", "--model", feature_model, "--quiet", "--format", "json").err == ""
    err = cli("bench", "--model", feature_model, "--format", "json").err
    assert "has been compiled before; TorchNeuron may take it from its cache" in err


@pytest.mark.slow
def test_times_on_the_device(cli, chip, feature_model) -> None:
    report = cli("bench", *by_layer(feature_model), "--device-times", "--format", "json", "--quiet").json()
    assert [layer["device_us"] for layer in report["layers"]] == [pytest.approx(17.0)] * len(ROWS)
    assert {layer["device_by"] for layer in report["layers"]} == {"torch.profiler"}
    outcome = cli("bench", *by_layer(feature_model), "--device-times")
    assert max(map(len, outcome.out.splitlines())) <= 80
    for text in ("device us", "bandwidth", f"{17.0 * len(ROWS):.1f} us (device, by torch.profiler)"):
        assert text in outcome.out
    text = cli("bench", *by_layer(feature_model), "--device-times", "--format", "csv", "--quiet").out
    assert [float(row["device_us"]) for row in csv.DictReader(io.StringIO(text))] == [pytest.approx(17.0)] * len(ROWS)


def test_times_on_the_device_add_up_over_batches(cli, chip, feature_model, data) -> None:
    arguments = ("--batch-size", 5, "--device-times", "--format", "json", "--quiet")
    report = cli("ffnn", "--data", data, *by_layer(feature_model), *arguments).json()
    assert [layer["device_us"] for layer in report["layers"]] == [pytest.approx(4 * 17.0)] * len(ROWS)


def test_a_core_in_use_is_reported_in_one_line(cli, chip, feature_model, monkeypatch) -> None:
    """Exit status 3 at once: the message names the process that holds the core, as reported by neuron-ls, and suggests
    another core."""
    monkeypatch.setenv("STAND_IN_NKI", "taken")
    outcome = cli("bench", "--model", feature_model, "--format", "json", "--quiet")
    assert (outcome.status, outcome.out) == (3, "")
    assert outcome.err == (
        "trninfer: NeuronCore 0 is in use by process 4711 (python3 serve.py --model large); "
        "to use another core, set NEURON_RT_VISIBLE_CORES=N, one of 0 to 15,\n"
    )


def test_an_assertion_of_the_front_end_has_its_place(cli, chip, feature_model, monkeypatch) -> None:
    monkeypatch.setenv("STAND_IN_NKI", "assert")
    outcome = cli("bench", "--model", feature_model, "--launches", "layer", "--format", "json", "--quiet")
    assert outcome.status == 2
    assert "the compiler failed: AssertionError (__init__.py:" in outcome.err and "assert not forms" in outcome.err


@pytest.mark.slow
def test_pictures_on_the_chip(cli, chip, pictures, picture_model) -> None:
    outcome = cli("classify", pictures, "--model", picture_model, "--format", "json", "--verify", "--quiet")
    report = outcome.json()
    assert outcome.status == 0 and report["verify"]["passed"] and report["backend"] == "neuron"
    assert [Path(answer["input"]).name for answer in report["predictions"]] == ["0.png", "1.png", "2.png"]


def test_no_timeline_from_the_chip(cli, chip, calls, feature_model, data, tmp_path) -> None:
    for arguments in (("bench",), ("ffnn", "--data", data)):
        outcome = cli(*arguments, "--model", feature_model, "--trace", tmp_path / "trace.json")
        assert outcome.status == 2 and "--backend sim" in outcome.err and outcome.messages == 1
    assert not calls


def test_a_suite_is_predicted_even_with_a_chip(cli, chip, calls) -> None:
    case = suites.SuiteCase("s", "c", "transpose", {"m": 3, "n": 5}, "float32", "trn2", "benchmark", None, "none", "")
    chip.setattr(suites, "_cases", lambda: (case,))
    wrong = cli("bench", "--suite", "s", "--backend", "neuron")
    assert wrong.status == 2 and "the times of suites are always predicted" in wrong.err
    report = cli("bench", "--suite", "s", "--format", "json", "--quiet").json()
    assert (report["backend"], report["latency_kind"]) == ("sim", "predicted") and not calls


def test_rejected_kernel_is_reported_in_one_line(cli, chip, feature_model) -> None:
    chip.setenv("STAND_IN_NKI", "compile")
    outcome = cli("bench", *by_layer(feature_model), "--format", "json", "--quiet")
    assert outcome.status == 2 and "[NCC_EBVF030] The number of instructions" in outcome.err
    assert outcome.messages == 1


@pytest.mark.slow
def test_rejected_network_runs_in_smaller_launches(cli, chip, pictures, picture_model) -> None:
    arguments = ("classify", pictures, "--model", picture_model, "--format", "json", "--verify")
    chip.setenv("STAND_IN_NKI", "large:60")
    outcome = cli(*arguments)
    report = outcome.json()
    assert outcome.status == 0 and report["verify"]["passed"] and report["backend"] == "neuron"
    assert "[NCC_EBVF030]" in outcome.err and "too many instructions" in outcome.err and "; continuing " in outcome.err
    assert [layer["name"] for layer in report["layers"]] == ["network"]


@pytest.mark.slow
def test_a_compilation_that_takes_too_long_is_no_dead_end(cli, chip, feature_model) -> None:
    chip.setenv("STAND_IN_NKI", "slow")
    outcome = cli("bench", "--model", feature_model, "--compile-timeout", 1, "--format", "json")
    assert outcome.status == 2 and "not compiled within 1 s (--compile-timeout)" in outcome.err
    assert "continuing layer by layer" in outcome.err  # no faster here


def test_a_core_that_is_lost_is_status_3(cli, chip, feature_model) -> None:
    chip.setenv("STAND_IN_NKI", "lost")
    outcome = cli("bench", "--model", feature_model, "--format", "json", "--quiet")
    assert outcome.status == 3 and "NRT_EXEC_HW_ERR_NC_UE" in outcome.err


def test_a_class_that_does_not_exist_is_one_line(cli, chip, feature_model, data) -> None:
    spoil(chip, lambda array: array + 3)
    outcome = cli("ffnn", "--data", data, "--model", feature_model, "--quiet")
    assert outcome.status == 2 and outcome.err == "trninfer: argmax on trn2: returned classes outside 0 to 2\n"


def test_missing_requirement_is_reported_with_a_remedy(cli, feature_model, data, monkeypatch) -> None:
    monkeypatch.setattr(environment, "neuron_devices", lambda: ())
    outcome = cli("ffnn", "--data", data, "--model", feature_model, "--backend", "neuron")
    assert outcome.status == 3
    for text in ("aws-neuronx-dkms", "sudo modprobe neuron", "trninfer[neuron]", "pip.repos.neuron.amazonaws.com"):
        assert text in outcome.err
