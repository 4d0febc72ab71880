"""`trninfer doctor --selftest`, on the simulator and on a chip by stand-ins."""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from neuron_stand_ins import STAND_INS
from trninfer import simulator
from trninfer.runtime.neuron import environment
from trninfer.runtime.neuron.compile_cache import FAILURE_LOG
from trninfer.runtime.selftest import run
from trninfer.runtime.selftest.checks import checks


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Four kernels alone, in a folder of its own."""
    monkeypatch.setattr(run, "checks", lambda dtype: islice(checks(dtype), 4))
    monkeypatch.setenv("TRNINFER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def chip(few: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with nki and nrtpy, by stand-ins in the processes that are started."""
    monkeypatch.setenv("PYTHONPATH", f"{STAND_INS / 'nki_site'}:{STAND_INS / 'nrtpy_site'}")
    monkeypatch.setenv("PATH", f"{STAND_INS / 'tools'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(environment, "neuron_devices", lambda: ("/dev/neuron0",))
    monkeypatch.setattr(environment, "find_way", lambda nrtpy_named=False: environment.Way("nrtpy", ()))
    for name in ("NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES", "NEURON_LOGICAL_NC_CONFIG"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return monkeypatch


def unpacked(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_on_the_simulator_it_says_so_and_measures_nothing(cli, few) -> None:
    outcome = cli("doctor", "--selftest", "--target", "trn1")
    assert outcome.status == 0 and "6 checks: all as they should be" in outcome.out
    assert "SIMULATOR: nothing ran on a chip; times are predicted, none is measured" in outcome.out
    assert "predicted us" in outcome.out and "measured, " not in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80
    (archive,) = few.iterdir()
    assert archive.name == "trninfer-selftest-trn1-simulator-float32.zip" and archive.name in outcome.err
    files = unpacked(archive)
    assert set(files) == {"selftest.json", "selftest.txt"}
    document = json.loads(files["selftest.json"])
    assert document["passed"] and document["note"].startswith("SIMULATOR") and len(document["kernels"]) == 4
    assert [network["model"] for network in document["networks"]] == ["digits-cnn", "digits-ffnn"]
    assert [answer["label"] for answer in document["networks"][0]["predictions"]] == list("23456789")
    assert {row["check"] for row in document["machine"]} >= {"trninfer", "neuron driver", "nki", "target"}


def test_forms_for_programs(cli, few) -> None:
    outcome = cli("doctor", "--selftest", "--format", "json", "--archive", "a.zip", "--quiet")
    told = json.loads(outcome.out)
    assert told == json.loads(unpacked(few / "a.zip")["selftest.json"])
    rows = list(csv.DictReader(io.StringIO(cli("doctor", "--selftest", "--format", "csv", "--dtype", "bfloat16").out)))
    assert [row["kernel"] for row in rows] == [row["kernel"] for row in told["kernels"]]
    assert all(float(row["predicted_us"]) > 0 and row["measured_host_us"] == "" for row in rows)
    lines = [json.loads(line) for line in cli("doctor", "--selftest", "--format", "ndjson").out.splitlines()]
    assert [line["type"] for line in lines if line["type"] != "machine"] == ["selftest"] + ["kernel"] * 4 + [
        "network"
    ] * 2


def test_on_a_chip_measured_and_predicted_stand_apart(cli, chip, few) -> None:
    outcome = cli("doctor", "--selftest", "--target", "trn2", "--format", "json", "--quiet")
    told = json.loads(outcome.out)
    assert outcome.status == 0 and told["backend"] == "neuron" and told["note"] is None
    assert told["labels"]["measured_host_us"] == "measured, host round trip"
    for row in told["kernels"]:
        assert row["predicted_us"] > 0 and row["measured_device_us"] == pytest.approx(19.5)  # as the stand-in says
        assert row["measured_host_us_p99"] >= row["measured_host_us"] > 0
    assert all(len(network["compared"]) > 3 for network in told["networks"])
    files = unpacked(few / "trninfer-selftest-trn2-chip-float32.zip")
    assert set(files) == {"selftest.json", "selftest.txt", "measured-digits-cnn.csv", "measured-digits-ffnn.csv"}
    table = files["selftest.txt"].splitlines()
    assert table[1].split() == ["measured,", "measured,"]  # above the next
    assert table[2].split() == ["kernel", "size", "result", "error", "predicted", "us", "host", "us", "device", "us"]
    assert "please attach this to an issue" in outcome.err
    for text in files.values():
        assert str(few.parent) not in text and str(Path.home()) not in text.replace("/root", str(Path.home()))


@pytest.mark.parametrize(
    ("fault", "status", "told"),
    [("run", 3, "NRT_EXEC_HW_ERR_NC_UE"), ("oob", 1, "NRT_EXEC_OOB"), ("die", 3, "ended during run")],
)
def test_a_chip_that_fails_leaves_an_archive_that_says_how(cli, chip, few, fault, status, told) -> None:
    chip.setenv("STAND_IN_NRTPY", fault)
    outcome = cli("doctor", "--selftest", "--target", "trn2", "--archive", "a.zip")
    document = json.loads(unpacked(few / "a.zip")["selftest.json"])
    assert outcome.status == status and not document["passed"]
    said = document["stopped"] or document["kernels"][0]["message"]
    assert told in said and told in outcome.out + outcome.err
    assert len(document["kernels"]) == (0 if status == 3 else 4)


def test_what_the_compiler_said_is_in_the_archive_without_folders(cli, chip, few) -> None:
    chip.setenv("STAND_IN_NKI", "compile")
    outcome = cli("doctor", "--selftest", "--target", "trn2", "--archive", "a.zip")
    files = unpacked(few / "a.zip")
    assert outcome.status == 1 and "NCC_EBVF030" in files["compiler.log"] and "Traceback" in files["compiler.log"]
    assert str(STAND_INS) not in files["compiler.log"] and FAILURE_LOG not in files["compiler.log"]
    document = json.loads(files["selftest.json"])
    assert [row["status"] for row in document["kernels"]] == ["failed"] * 4 and document["stopped"] is None


def test_a_wrong_result_is_status_1(cli, few, monkeypatch) -> None:
    right = simulator.run
    monkeypatch.setattr(simulator, "run", lambda kernel, *arrays, **given: _spoiled(right(kernel, *arrays, **given)))
    outcome = cli("doctor", "--selftest")
    assert outcome.status == 1 and "wrong" in outcome.out and "failures" in outcome.out


def _spoiled(result):
    if result.name == "psum_within" and result.outputs[0] is not None:
        result.outputs[0][...] = np.nan
    return result


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--archive", "a.zip"), "--archive is for --selftest"),
        (("--target", "trn2"), "--target is for --selftest"),
        (("--selftest", "--archive", "no/a.zip"), "--archive no/a.zip: the folder"),
        (("--selftest", "--archive", "."), "--archive .: is a folder"),
    ],
)
def test_wrong_uses_are_one_line(cli, few, options, told) -> None:
    outcome = cli("doctor", *options)
    assert outcome.status == 2 and told in outcome.err and outcome.out == "" and list(few.iterdir()) == []


def test_without_a_chip_there_is_no_selftest_of_one(cli, few) -> None:
    outcome = cli("doctor", "--selftest", "--backend", "neuron")
    assert outcome.status == 3 and "backend 'neuron' is not available" in outcome.err and list(few.iterdir()) == []
