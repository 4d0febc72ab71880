"""The command line on a chip, by stand-ins for AWS's packages and tools (tests/runtime/neuron/stand_ins)."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from neuron_stand_ins import stand_in_chip
from trninfer.runtime.measure.compare import MEASUREMENT_COLUMNS
from trninfer.runtime.neuron import environment
from trninfer.runtime.neuron.compile_cache import CompileCache
from trninfer.runtime.neuron.device import Device, DeviceArray

ROWS = ["hidden.transpose", "hidden.matmul", "hidden.bias_activation"]
ROWS += ["output.transpose", "output.matmul", "output.bias_activation", "argmax"]


@pytest.fixture
def chip(monkeypatch, tmp_path) -> pytest.MonkeyPatch:
    """A machine with everything the chip needs, so it seems, by way of TorchNeuron."""
    return stand_in_chip(monkeypatch, tmp_path / "cache", environment.TORCHNEURON)


@pytest.fixture
def calls(chip) -> list[str]:
    """What the process on the NeuronCore is asked."""
    asked: list[str] = []
    ask = Device.ask
    chip.setattr(
        Device, "ask", lambda self, operation, *a, **k: asked.append(operation) or ask(self, operation, *a, **k)
    )
    return asked


def spoil(monkeypatch, change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Change what comes back from the device."""
    read = DeviceArray.__array__
    monkeypatch.setattr(DeviceArray, "__array__", lambda self, dtype=None, copy=None: change(read(self, dtype, copy)))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "X.npy"
    np.save(path, np.random.default_rng(3).standard_normal((20, 6)).astype(np.float32))
    return path


# ---- one core ----


def by_layer(model) -> tuple[object, ...]:
    """The options for a launch a layer."""
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
    for text in ("measured, host", "round trip us", "p99 us", "share", "HBM bytes", "(host round trip) on trn2"):
        assert text in outcome.out
    for text in ("bandwidth", "bound by", "MFU", "predicted", "device us", "auto took"):
        assert text not in outcome.out


def test_compilations_are_told_unless_quiet(cli, chip, feature_model, monkeypatch) -> None:
    err = cli("bench", "--model", feature_model, "--format", "json").err
    assert "compiling run_network [1, 6, 1, 1] [72] [128, 4] float32 for trn2\n" in err
    monkeypatch.setenv("TRNINFER_CACHE", str(Path(os.environ["TRNINFER_CACHE"]) / "another"))
    assert cli("bench", "--model", feature_model, "--quiet", "--format", "json").err == ""
    err = cli("bench", "--model", feature_model, "--format", "json").err
    assert "has been compiled before; TorchNeuron may take it from its cache" in err


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


def test_nrtpy_by_name(cli, chip, feature_model, tmp_path) -> None:
    arguments = ("bench", "--model", feature_model)
    outcome = cli(*arguments, "--nrtpy", tmp_path)
    assert outcome.status == 3 and f"no environment with nrtpy at {tmp_path}" in outcome.err


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


def test_a_suite_is_predicted_also_where_there_is_a_chip(cli, chip, calls) -> None:
    wrong = cli("bench", "--suite", "cs149-part1", "--backend", "neuron")
    assert wrong.status == 2 and "a suite is predicted" in wrong.err
    report = cli("bench", "--suite", "cs149-part1", "--format", "json", "--quiet").json()
    assert (report["backend"], report["latency_kind"]) == ("sim", "predicted") and not calls


def test_what_the_compiler_refuses_is_one_line(cli, chip, feature_model) -> None:
    chip.setenv("STAND_IN_NKI", "compile")
    outcome = cli("bench", *by_layer(feature_model), "--format", "json", "--quiet")
    assert outcome.status == 2 and "[NCC_EBVF030] The number of instructions" in outcome.err
    assert outcome.messages == 1


def test_what_the_compiler_refuses_runs_in_smaller_launches(cli, chip, pictures, picture_model) -> None:
    arguments = ("classify", pictures, "--model", picture_model, "--format", "json", "--verify")
    chip.setenv("STAND_IN_NKI", "large:60")
    outcome = cli(*arguments)
    report = outcome.json()
    assert outcome.status == 0 and report["verify"]["passed"] and report["backend"] == "neuron"
    assert "[NCC_EBVF030]" in outcome.err and "too many instructions" in outcome.err and "; going on " in outcome.err
    assert [layer["name"] for layer in report["layers"]] == ["network"]


def test_a_compilation_that_takes_too_long_is_no_dead_end(cli, chip, feature_model) -> None:
    chip.setenv("STAND_IN_NKI", "slow")
    outcome = cli("bench", "--model", feature_model, "--compile-timeout", 1, "--format", "json")
    assert outcome.status == 2 and "not compiled within 1 s (--compile-timeout)" in outcome.err
    assert "going on layer by layer" in outcome.err  # which is as slow here


def test_a_core_that_is_lost_is_status_3(cli, chip, feature_model) -> None:
    chip.setenv("STAND_IN_NKI", "lost")
    outcome = cli("bench", "--model", feature_model, "--format", "json", "--quiet")
    assert outcome.status == 3 and "NRT_EXEC_HW_ERR_NC_UE" in outcome.err


# ---- the chip beside the simulator ----


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
    assert outcome.status == 2 and outcome.out == "" and "text.png: " in outcome.err  # the others are compared
    with target.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == MEASUREMENT_COLUMNS and len(rows) == 5
    assert {row["metric"] for row in rows} == {"p50 (measured, host round trip)"}  # and no prediction among them
    assert rows[0]["kernel"] == "fused_conv2d_maxpool_packed" and rows[0]["device"] == "trn2"


def test_outputs_that_differ_are_status_1(cli, chip, feature_model, data) -> None:
    spoil(chip, lambda array: array if array.dtype.kind == "i" else array * 2)
    arguments = ("ffnn", "--data", data, "--model", feature_model, "--compare-backends")
    outcome = cli(*arguments)
    assert outcome.status == 1 and "DIFFERS" in outcome.out
    assert "compare-backends FAILED: outputs differ in hidden.transpose," in outcome.out
    lines = [json.loads(line) for line in cli(*arguments, "--format", "ndjson", "--quiet").out.splitlines()]
    assert lines[-1]["type"] == "summary" and lines[-1]["compare_backends"]["passed"] is False


def test_an_output_that_is_not_finite_is_one_line(cli, chip, feature_model, data) -> None:
    spoil(chip, lambda array: array if array.dtype.kind == "i" else np.full_like(array, np.nan))
    outcome = cli("ffnn", "--data", data, "--model", feature_model, "--compare-backends", "--quiet")
    assert outcome.status == 2 and "not finite" in outcome.err and outcome.messages == 1


def test_a_class_that_does_not_exist_is_one_line(cli, chip, feature_model, data) -> None:
    spoil(chip, lambda array: array + 3)
    outcome = cli("ffnn", "--data", data, "--model", feature_model, "--quiet")
    assert outcome.status == 2 and outcome.err == "trninfer: argmax on trn2: gave classes outside 0 to 2\n"


def test_a_comparison_scores_the_answers(cli, chip, feature_model, data, tmp_path) -> None:
    arguments = ("ffnn", "--data", data, "--model", feature_model, "--format", "json", "--quiet")
    classes = [answer["class_index"] for answer in cli(*arguments).json()["predictions"]]
    classes[0] = (classes[0] + 1) % 3
    np.array(classes, "<i4").tofile(tmp_path / "Y.bin")
    report = cli(*arguments, "--labels", tmp_path / "Y.bin", "--compare-backends").json()
    assert report["score"] == {"correct": 19, "total": 20, "accuracy": 0.95}


def test_what_does_not_go_with_a_comparison(cli, chip, feature_model, data, tmp_path) -> None:
    wrong = {
        "leave out --backend sim": ("--backend", "sim"),
        "runs on one core": ("--cores", 2),
        "--compare-backends and --resume exclude each other": ("--resume", "--output", tmp_path / "x.csv"),
    }
    for message, arguments in wrong.items():
        outcome = cli("ffnn", "--data", data, "--model", feature_model, "--compare-backends", *arguments)
        assert outcome.status == 2 and message in outcome.err and outcome.messages == 1


def test_a_comparison_without_a_chip_is_status_3(cli, feature_model, data, monkeypatch) -> None:
    monkeypatch.setattr(environment, "neuron_devices", lambda: ())
    outcome = cli("ffnn", "--data", data, "--model", feature_model, "--compare-backends")
    assert outcome.status == 3 and "no Neuron device" in outcome.err and outcome.messages == 1


# ---- the simulator ----


def test_what_is_missing_is_told_with_how_to_get_it(cli, feature_model, data, monkeypatch) -> None:
    monkeypatch.setattr(environment, "neuron_devices", lambda: ())
    outcome = cli("ffnn", "--data", data, "--model", feature_model, "--backend", "neuron")
    assert outcome.status == 3
    for text in ("aws-neuronx-dkms", "sudo modprobe neuron", "trninfer[neuron]", "pip.repos.neuron.amazonaws.com"):
        assert text in outcome.err


# ---- doctor ----


def rows_of_doctor(cli) -> dict[str, dict[str, str]]:
    return {row["check"]: row for row in json.loads(cli("doctor", "--format", "json").out)["doctor"]}


def test_doctor_on_a_chip(cli, chip, feature_model) -> None:
    cli("bench", *by_layer(feature_model), "--format", "json", "--quiet")
    rows = rows_of_doctor(cli)
    assert rows["instance"] == {"check": "instance", "status": "ok", "detail": "trn2n.48xlarge"}
    assert rows["neuroncores"]["detail"] == "16: 0 to 15" and rows["nrtpy"]["status"] == "missing"
    assert rows["target"]["detail"] == "trn2 (NEURON_PLATFORM_TARGET_OVERRIDE)"  # set by the run before
    assert rows["backend auto"]["detail"].startswith("neuron: ")
    assert not any(check.startswith("to use it") for check in rows)
    assert rows["first run"]["detail"].startswith("trninfer doctor --selftest")
    held = rows["compiled kernels"]["detail"]
    assert held.startswith(f"{len(ROWS)} kernels, ") and os.environ["TRNINFER_CACHE"] in held


def test_doctor_tells_the_target_of_the_instance(cli, chip, monkeypatch) -> None:
    assert rows_of_doctor(cli)["target"]["detail"] == "trn2 (this instance)"
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "gen4")
    assert rows_of_doctor(cli)["target"]["detail"] == "trn3 (NEURON_PLATFORM_TARGET_OVERRIDE)"


def test_doctor_tells_of_variables_that_are_wrong(cli, chip, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "none")
    monkeypatch.setenv("TRNINFER_NRTPY", str(tmp_path / "nowhere"))
    rows = rows_of_doctor(cli)
    assert rows["neuroncores"]["status"] == rows["nrtpy"]["status"] == "wrong"
    assert "NEURON_RT_VISIBLE_CORES is 'none'" in rows["neuroncores"]["detail"]
    assert "nowhere" in rows["nrtpy"]["detail"]


def test_doctor_without_any_of_it(cli, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TRNINFER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TRNINFER_NRTPY", raising=False)
    monkeypatch.setattr("trninfer.runtime.neuron.system.TOOLS_FOLDER", tmp_path)
    monkeypatch.setattr("trninfer.runtime.neuron.system.LIBRARY_FOLDER", tmp_path)
    monkeypatch.setattr("trninfer.runtime.neuron.environment.neuron_devices", lambda: ())
    rows = rows_of_doctor(cli)
    for check in ("neuron device", "neuron driver", "neuron runtime", "instance", "neuroncores", "nrtpy"):
        assert rows[check]["status"] == "missing", check
    assert "pip install ." in rows["to use it on the Deep Learning AMI Neuron torch-neuronx 2.14.0"]["detail"]
    assert "first run" not in rows
    assert rows["compiled kernels"]["detail"].startswith("0 kernels, 0 bytes in ")
    assert rows["target"]["detail"] == "trn2 (the default)"
    assert "modprobe" in rows["to use it driver, runtime and tools"]["detail"]
    assert not CompileCache(tmp_path / "cache").folder.exists()  # asking makes no folder
