"""`trninfer doctor --selftest` on the simulator and on stand-ins for a chip."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from caches import empty_cache
from neuron_stand_ins import STAND_INS, stand_in_chip
from trninfer import simulator
from trninfer.app import selftest
from trninfer.runtime.neuron import environment
from trninfer.runtime.neuron.compile_cache import FAILURE_LOG
from trninfer.runtime.selftest import run
from trninfer.runtime.selftest.checks import checks

pytestmark = pytest.mark.slow
ALL_SAMPLES = selftest._samples


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Restrict the self-test to two kernels and to networks without boxes, in an empty folder."""
    keep_networks(monkeypatch, "digits-cnn", "digits-ffnn")
    monkeypatch.setattr(run, "checks", lambda dtype: islice(checks(dtype), 2))
    monkeypatch.setenv("TRNINFER_CACHE", str(empty_cache(tmp_path / "cache")))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture(params=[pytest.param(environment.TORCHNEURON, marks=pytest.mark.by_hand), environment.NRT])
def chip(request, few: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Simulate a machine with a chip, using either package."""
    return stand_in_chip(monkeypatch, tmp_path / "cache", request.param)


@pytest.fixture
def nrt_chip(few: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Simulate a machine with a chip, using NEFF and nki.runtime."""
    return stand_in_chip(monkeypatch, tmp_path / "cache", environment.NRT)


@pytest.fixture
def torch_chip(few: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Simulate a machine with a chip, using TorchNeuron."""
    return stand_in_chip(monkeypatch, tmp_path / "cache", environment.TORCHNEURON)


@pytest.fixture
def compiler(few: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Simulate a machine with nki and neuronx-cc but without a device."""
    stand_in_chip(monkeypatch, tmp_path / "cache", environment.NRT)
    monkeypatch.setattr(environment, "neuron_devices", lambda: ())
    monkeypatch.setattr(environment, "find_way", lambda: environment.Way(None, ("no device",)))
    monkeypatch.setattr(environment, "missing_packages", lambda: {environment.NRT: []})
    return monkeypatch


@pytest.fixture
def one_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test only the smaller network."""
    keep_networks(monkeypatch, "digits-ffnn")


def keep_networks(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Test only some of the bundled networks."""
    samples = [each for each in selftest._samples() if each[0].network.name in names]
    monkeypatch.setattr(selftest, "_samples", lambda: samples)


def unpacked(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_self_test_on_the_simulator_measures_nothing(cli, few) -> None:
    outcome = cli("doctor", "--selftest", "--target", "trn1")
    assert outcome.status == 0 and "4 checks: all passed" in outcome.out
    assert "SIMULATOR: nothing ran on a chip; all times are predicted" in outcome.out
    assert "predicted us" in outcome.out and "measured, " not in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80
    (archive,) = few.iterdir()
    assert archive.name == "trninfer-selftest-trn1-simulator-float32.zip" and archive.name in outcome.err
    files = unpacked(archive)
    assert set(files) == {"selftest.json", "selftest.txt", "pip.txt"} and "numpy==" in files["pip.txt"]
    document = json.loads(files["selftest.json"])
    assert document["passed"] and document["note"].startswith("SIMULATOR") and len(document["kernels"]) == 2
    assert [network["model"] for network in document["networks"]] == ["digits-cnn", "digits-ffnn"]
    assert [answer["label"] for answer in document["networks"][0]["predictions"]] == list("23456789")
    assert {row["check"] for row in document["machine"]} >= {"trninfer", "neuron driver", "nki", "target"}


def test_all_bundled_networks_are_tested(cli, few, monkeypatch) -> None:
    assert [model.network.name for model, *_ in ALL_SAMPLES()] == ["digits-cnn", "digits-detect", "digits-ffnn"]
    monkeypatch.setattr(selftest, "_samples", ALL_SAMPLES)
    keep_networks(monkeypatch, "digits-detect")
    told = json.loads(cli("doctor", "--selftest", "--format", "json").out)
    (network,) = told["networks"]
    assert told["passed"] and network["model"] == "digits-detect" and network["verify"]["passed"]
    assert [answer["input"] for answer in network["predictions"]] == ["meter.png", "notes.jpg"]
    assert all(len(answer["boxes"]) > 2 for answer in network["predictions"])


def test_forms_for_programs(cli, few, one_network) -> None:
    outcome = cli("doctor", "--selftest", "--format", "json", "--archive", "a.zip", "--quiet")
    told = json.loads(outcome.out)
    assert told == json.loads(unpacked(few / "a.zip")["selftest.json"])
    rows = list(csv.DictReader(io.StringIO(cli("doctor", "--selftest", "--format", "csv", "--dtype", "bfloat16").out)))
    assert [row["kernel"] for row in rows] == [row["kernel"] for row in told["kernels"]]
    assert all(float(row["predicted_us"]) > 0 and row["measured_host_us"] == "" for row in rows)
    lines = [json.loads(line) for line in cli("doctor", "--selftest", "--format", "ndjson").out.splitlines()]
    assert [line["type"] for line in lines if line["type"] != "machine"] == ["selftest"] + ["kernel"] * 2 + ["network"]


def test_measured_and_predicted_times_are_separate(cli, chip, few, request) -> None:
    outcome = cli("doctor", "--selftest", "--target", "trn2", "--format", "json", "--quiet")
    told = json.loads(outcome.out)
    assert outcome.status == 0 and told["backend"] == "neuron" and told["note"] is None
    assert told["labels"]["measured_host_us"] == "measured, host round trip"
    by, device_us = ("torch.profiler", 17.0) if "torchneuron" in request.node.name else ("nki.runtime", 19.5)
    for row in told["kernels"]:
        # as set by the stand-ins
        assert row["predicted_us"] > 0 and row["measured_device_us"] == pytest.approx(device_us)
        assert row["measured_device_by"] == by and row["measured_host_us_p99"] >= row["measured_host_us"] > 0
        assert row["compile_seconds"] > 0 and row["compile_peak_bytes"] > 0
        assert set(row["tensors"]) >= {"inputs", "outputs"} and row["log"] == "" and row["otherwise"] == []
    assert all(len(network["compared"]) > 3 for network in told["networks"])
    assert [network["launches"] for network in told["networks"]] == ["as few launches as possible"] * 2
    assert told["settings"]["compile_config"] == "default"
    assert told["settings"]["variables"]["NEURON_LOGICAL_NC_CONFIG"] == "1"
    files = unpacked(few / "trninfer-selftest-trn2-chip-float32.zip")
    measured = {"measured-digits-cnn.csv", "measured-digits-ffnn.csv"}
    assert set(files) == {"selftest.json", "selftest.txt", "pip.txt", *measured}
    table = files["selftest.txt"].splitlines()
    assert table[1].split() == ["measured,", "measured,"]  # above the next
    assert table[2].split() == ["kernel", "size", "result", "error", "predicted", "us", "host", "us", "device", "us"]
    assert "please review this archive and attach it to an issue" in outcome.err
    for text in files.values():
        assert str(few.parent) not in text and str(Path.home()) not in text.replace("/root", str(Path.home()))


@pytest.mark.parametrize(
    ("fault", "status", "told"),
    [
        pytest.param("run", 3, "NRT_EXEC_HW_ERR_NC_UE", marks=pytest.mark.by_hand),
        ("oob", 1, "NRT_EXEC_OOB"),
        ("die", 3, "ended during run"),
    ],
)
def test_a_failing_chip_leaves_an_archive_with_the_failure(
    cli, nrt_chip, few, one_network, fault, status, told
) -> None:
    nrt_chip.setenv("STAND_IN_NRT", fault)
    outcome = cli("doctor", "--selftest", "--target", "trn2", "--archive", "a.zip")
    document = json.loads(unpacked(few / "a.zip")["selftest.json"])
    assert outcome.status == status and not document["passed"]
    assert [row["status"] for row in document["kernels"]] == ["failed"] * 2
    assert all(told in row["message"] for row in [*document["kernels"], *document["networks"]])
    assert told in outcome.out and told in (document["stopped"] or told)
    assert (status == 3) == (document["stopped"] is not None)  # the third loss, during a network, ends the self-test
    assert len(document["networks"]) == 3


@pytest.mark.parametrize("fault", [pytest.param("die", marks=pytest.mark.by_hand), "stuck"])
def test_a_core_that_a_kernel_loses_is_there_for_the_next(cli, nrt_chip, few, one_network, fault) -> None:
    nrt_chip.setenv("STAND_IN_NRT", f"{fault}:psum_within")
    outcome = cli("doctor", "--selftest", "--target", "trn2", "--archive", "a.zip")
    document = json.loads(unpacked(few / "a.zip")["selftest.json"])
    assert outcome.status == 1 and document["stopped"] is None
    assert {row["kernel"]: row["status"] for row in document["kernels"]} == {
        "psum_side_by_side": "ok",
        "psum_within": "failed",
    }
    assert [row["status"] for row in document["networks"]] == ["ok"]


def test_other_ways_to_compile_are_tried_for_the_first_that_fail(cli, nrt_chip, few, one_network) -> None:
    nrt_chip.setattr(run.Recovery, "MAX_OTHERWISE", 1)
    nrt_chip.setenv("STAND_IN_NKI", "compile")
    outcome = cli("doctor", "--selftest", "--target", "trn2", "--format", "json")
    assert [len(row["otherwise"]) for row in json.loads(outcome.out)["kernels"]] == [1, 0]


def test_archive_has_the_compiler_output_without_folders(cli, chip, few, one_network) -> None:
    chip.setenv("STAND_IN_NKI", "compile")
    outcome = cli("doctor", "--selftest", "--target", "trn2", "--archive", "a.zip")
    files = unpacked(few / "a.zip")
    assert outcome.status == 1 and "NCC_EBVF030" in files["compiler.log"]
    assert str(STAND_INS) not in files["compiler.log"] and FAILURE_LOG not in files["compiler.log"]
    document = json.loads(files["selftest.json"])
    assert [row["status"] for row in document["kernels"]] == ["failed"] * 2 and document["stopped"] is None
    for row in document["kernels"]:
        assert "compiler says why" in row["log"] and str(STAND_INS) not in row["log"]
        assert [each["how"] for each in row["otherwise"]][-1] == "front end of NKI 0.6"
        assert all("NCC_EBVF030" in each["error"] for each in row["otherwise"])
    ways = [row["launches"].partition(" of ")[0] for row in document["networks"]]
    assert ways == ["as few launches as possible", "launches", "layer by layer"]
    assert all("compiler says why" in row["log"] for row in document["networks"])


def test_a_kernel_that_only_the_older_front_end_takes_is_reported(cli, torch_chip, few, one_network) -> None:
    torch_chip.setenv("STAND_IN_NKI", "tracing")
    outcome = cli("doctor", "--selftest", "--target", "trn2", "--archive", "a.zip")
    document = json.loads(unpacked(few / "a.zip")["selftest.json"])
    attempts = {each["how"]: each["error"] for each in document["kernels"][0]["otherwise"]}
    assert outcome.status == 1 and attempts["front end of NKI 0.6"] is None and "NCC_EBVF030" in attempts["alone"]
    assert "front end of NKI 0.6: compiles" in outcome.out


def test_a_network_whose_launch_fails_continues_in_smaller_launches(cli, torch_chip, few) -> None:
    torch_chip.setenv("STAND_IN_NKI", "large:100")
    outcome = cli("doctor", "--selftest", "--target", "trn2", "--format", "json")
    networks = json.loads(outcome.out)["networks"]
    rows = [(row["model"], row["launches"].split()[0], row["status"]) for row in networks]
    assert outcome.status == 1
    assert rows[:2] == [("digits-cnn", "as", "failed"), ("digits-cnn", "launches", "ok")]
    assert rows[2] == ("digits-cnn", "layer", "failed")  # one of its kernels is larger than the limit, too
    assert rows[3] == ("digits-ffnn", "as", "ok")


# ---- without a chip ----


def test_compile_only_makes_neffs_for_both_targets(cli, compiler, few) -> None:
    outcome = cli("doctor", "--selftest", "--compile-only")
    assert outcome.status == 0, outcome.err
    assert "COMPILED ONLY: nothing ran on a chip" in outcome.out
    assert "self-test of trn2 in float32, on the compiler" in outcome.out and "self-test of trn3" in outcome.out
    assert "measured, " not in outcome.out and max(map(len, outcome.out.splitlines())) <= 80
    files = unpacked(few / "trninfer-selftest-trn2-trn3-compiler-float32.zip")
    document = json.loads(files["selftest.json"])
    assert document["passed"] and [run["target"] for run in document["runs"]] == ["trn2", "trn3"]
    for run_of_target in document["runs"]:
        assert run_of_target["backend"] == "compile-only" and len(run_of_target["kernels"]) == 2
        assert [network["status"] for network in run_of_target["networks"]] == ["ok", "ok"]
        for row in run_of_target["kernels"]:
            assert row["compile_seconds"] > 0 and row["tensors"]["neff_bytes"] > 0 and row["predicted_us"] > 0
            assert row["aws_estimate"]["total_us"] == pytest.approx(
                1.5 * row["predicted_us"], rel=1e-3
            )  # the stand-in's
            assert row["aws_estimate"]["utilization"] and row["compiled_by"].endswith("BIRSim")
            assert row["birsim_error"] == row["error"] and row["measured_device_us"] is None
        assert run_of_target["labels"]["aws_estimate"] == "AWS's estimate"
    assert "please review this archive and attach it to an issue" in outcome.err


@pytest.mark.parametrize("more", [(), ("--compile-only",)])
def test_results_before_an_interruption_are_kept(cli, compiler, few, more) -> None:
    again = run._launched

    def interrupted(check, *rest):
        if check.size == "odd":
            raise KeyboardInterrupt
        return again(check, *rest)

    compiler.setattr(run, "checks", lambda dtype: [check for check in checks(dtype) if check.kernel == "transpose"])
    compiler.setattr(run, "_launched", interrupted)
    outcome = cli("doctor", "--selftest", *more, "--archive", "a.zip")
    document = json.loads(unpacked(few / "a.zip")["selftest.json"])  # only for trn2
    assert outcome.status == 130 and document["stopped"] == "interrupted" and not document["passed"]
    assert [(row["kernel"], row["size"], row["status"]) for row in document["kernels"]] == [
        ("transpose", "small", "ok")
    ]


def test_compile_only_reports_what_does_not_compile(cli, compiler, few, one_network) -> None:
    compiler.setenv("STAND_IN_NKI", "compile")
    outcome = cli("doctor", "--selftest", "--compile-only", "--target", "trn3", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    assert outcome.status == 1 and len(rows) == 2 and {row["target"] for row in rows} == {"trn3"}
    assert all("NCC_EBVF030" in row["message"] and "compiler says why" in row["log"] for row in rows)


def test_compile_only_without_a_compiler_is_status_3(cli, few, monkeypatch) -> None:
    outcome = cli("doctor", "--selftest", "--compile-only")
    assert outcome.status == 3 and "--compile-only requires AWS's compiler: nki: not installed" in outcome.err
    assert list(few.iterdir()) == []


def test_doctor_suggests_compile_only_if_only_the_chip_is_missing(cli, compiler) -> None:
    rows = {row["check"]: row["detail"] for row in json.loads(cli("doctor", "--format", "json").out)["doctor"]}
    assert rows["without a chip"].startswith("trninfer doctor --selftest --compile-only")


def test_a_wrong_result_is_status_1(cli, few, one_network, monkeypatch) -> None:
    right = simulator.run
    monkeypatch.setattr(
        simulator, "run", lambda kernel, *arrays, **given: _spoiled(right(kernel, *arrays, **given), "psum_within")
    )
    outcome = cli("doctor", "--selftest")
    assert outcome.status == 1 and "wrong" in outcome.out and "1 failure" in outcome.out


def test_known_chip_behaviour_is_not_a_failure(cli, few, one_network, monkeypatch) -> None:
    right = simulator.run
    monkeypatch.setattr(
        simulator,
        "run",
        lambda kernel, *arrays, **given: _spoiled(right(kernel, *arrays, **given), "psum_side_by_side"),
    )
    outcome = cli("doctor", "--selftest")
    assert outcome.status == 0 and "wrong (known)" in outcome.out
    assert "all passed; 1 difference that are expected on chips" in outcome.out


def _spoiled(result, kernel: str):
    if result.name == kernel and result.outputs[0] is not None:
        result.outputs[0][...] = np.nan
    return result


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--archive", "a.zip"), "--archive requires --selftest"),
        (("--target", "trn2"), "--target requires --selftest"),
        (("--compile-only",), "--compile-only requires --selftest"),
        (("--selftest", "--compile-only", "--backend", "sim"), "--compile-only only compiles kernels"),
        (("--selftest", "--archive", "no/a.zip"), "--archive no/a.zip: the folder"),
        (("--selftest", "--archive", "."), "--archive .: this is a folder"),
    ],
)
def test_wrong_uses_are_one_line(cli, few, options, told) -> None:
    outcome = cli("doctor", *options)
    assert outcome.status == 2 and told in outcome.err and outcome.out == "" and list(few.iterdir()) == []


def test_without_a_chip_there_is_no_selftest_of_one(cli, few) -> None:
    outcome = cli("doctor", "--selftest", "--backend", "neuron")
    assert outcome.status == 3 and "backend 'neuron' is not available" in outcome.err and list(few.iterdir()) == []
