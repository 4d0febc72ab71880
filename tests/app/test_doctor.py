"""`trninfer doctor`: its report on this machine, and its options."""

import csv
import io
import json
import os

import pytest
from neuron_stand_ins import ROWS, stand_in_chip
from trninfer.app import doctor
from trninfer.runtime.neuron import environment
from trninfer.runtime.neuron.compile_cache import CompileCache


@pytest.fixture
def chip(monkeypatch, tmp_path) -> pytest.MonkeyPatch:
    """Simulate a machine that has everything the chip needs, with TorchNeuron."""
    return stand_in_chip(monkeypatch, tmp_path / "cache", environment.TORCHNEURON)


def test_doctor(cli, monkeypatch) -> None:
    placeholder = environment.Package("nki", "0.0.1", "placeholder", "0.7")
    others = tuple(package for package in environment.neuron_packages() if package.name != "nki")
    monkeypatch.setattr(environment, "neuron_packages", lambda: (placeholder, *others))
    monkeypatch.setattr(environment, "neuron_devices", lambda: ())
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    rows = {row["check"]: row for row in json.loads(cli("doctor", "--format", "json").out)["doctor"]}
    assert rows["nki"]["status"] == "wrong" and "WRONG PACKAGE" in rows["nki"]["detail"]
    assert rows["neuron device"]["status"] == "missing"
    assert rows["backend auto"]["detail"].startswith("sim: no Neuron device")
    assert "pip install" in rows["to install on the Deep Learning AMI Neuron torch-neuronx 2.14.0"]["detail"]
    outcome = cli("doctor")
    commands = {f"  {command}" for _, command in environment.INSTALL_COMMANDS}
    lines = outcome.out.splitlines()
    assert outcome.status == 0 and max(len(line) for line in lines if line not in commands) <= 80
    assert commands <= set(lines)  # each on a single line, so that it can be copied


def test_doctor_reports_a_target_that_is_none(cli, monkeypatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")
    outcome = cli("doctor", "--format", "csv")
    row = next(row for row in csv.DictReader(io.StringIO(outcome.out)) if row["check"] == "target")
    assert outcome.status == 0 and row["status"] == "wrong" and "trn9" in row["detail"]
    wrong = cli("bench", "--kernel", "argmax", "--shape", "n=1,c=8")
    assert wrong.status == 2 and "NEURON_PLATFORM_TARGET_OVERRIDE" in wrong.err


def rows_of_doctor(cli) -> dict[str, dict[str, str]]:
    return {row["check"]: row for row in json.loads(cli("doctor", "--format", "json").out)["doctor"]}


def test_doctor_on_a_chip(cli, chip, feature_model) -> None:
    cli("bench", "--model", feature_model, "--launches", "layer", "--format", "json", "--quiet")
    rows = rows_of_doctor(cli)
    assert rows["instance"] == {"check": "instance", "status": "ok", "detail": "trn2n.48xlarge"}
    assert rows["neuroncores"]["detail"] == "16: 0 to 15"
    assert rows["target"]["detail"] == "trn2 (NEURON_PLATFORM_TARGET_OVERRIDE)"  # set by the previous run
    assert rows["backend auto"]["detail"].startswith("neuron: ")
    assert not any(check.startswith("to install") for check in rows)
    assert rows["first run"]["detail"].startswith("trninfer doctor --selftest")
    held = rows["compiled kernels"]["detail"]
    assert held.startswith(f"{len(ROWS)} kernels, ") and os.environ["TRNINFER_CACHE"] in held


def test_doctor_reports_the_target_of_the_instance(cli, chip, monkeypatch) -> None:
    assert rows_of_doctor(cli)["target"]["detail"] == "trn2 (this instance)"
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "gen4")
    assert rows_of_doctor(cli)["target"]["detail"] == "trn3 (NEURON_PLATFORM_TARGET_OVERRIDE)"


def test_doctor_reports_variables_that_are_wrong(cli, chip, monkeypatch) -> None:
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "none")
    rows = rows_of_doctor(cli)
    assert rows["neuroncores"]["status"] == "wrong"
    assert "NEURON_RT_VISIBLE_CORES is 'none'" in rows["neuroncores"]["detail"]


def test_doctor_without_any_of_it(cli, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TRNINFER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("trninfer.runtime.neuron.system.TOOLS_FOLDER", tmp_path)
    monkeypatch.setattr("trninfer.runtime.neuron.system.LIBRARY_FOLDER", tmp_path)
    monkeypatch.setattr("trninfer.runtime.neuron.environment.neuron_devices", lambda: ())
    rows = rows_of_doctor(cli)
    for check in ("neuron device", "neuron driver", "neuron runtime", "instance", "neuroncores"):
        assert rows[check]["status"] == "missing", check
    assert "pip install ." in rows["to install on the Deep Learning AMI Neuron torch-neuronx 2.14.0"]["detail"]
    assert "first run" not in rows
    assert rows["compiled kernels"]["detail"].startswith("0 kernels, 0 bytes in ")
    assert rows["target"]["detail"] == "trn2 (the default)"
    assert "modprobe" in rows["to install driver, runtime and tools"]["detail"]
    assert not CompileCache(tmp_path / "cache").folder.exists()  # doctor does not create the folder


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--archive", "a.zip"), "--archive requires --selftest"),
        (("--target", "trn2"), "--target requires --selftest"),
        (("--compile-timeout", "9"), "--compile-timeout requires --selftest"),
        (("--compile-only",), "--compile-only requires --selftest"),
        (
            ("--selftest", "--dtype", "float8_e4m3"),
            "--selftest supports only 32-bit and 16-bit dtypes; use another --dtype",
        ),
        (("--selftest", "--compile-only", "--backend", "sim"), "it cannot be combined with --backend sim"),
        (("--output", "/"), "--output /: this is a folder"),
    ],
)
def test_options_that_do_not_go_together(cli, words, message) -> None:
    outcome = cli("doctor", *words)
    assert (outcome.status, outcome.out) == (2, "") and message in outcome.err and len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("cores", "text"),
    [((0, 1, 2, 3), "0 to 3"), ((3, 4, 6), "3, 4, 6"), ((5,), "5"), ((0, 1), "0, 1"), ((2, 3, 4), "2 to 4")],
)
def test_cores_in_short(cores: tuple[int, ...], text: str) -> None:
    assert doctor._list(cores) == text


def test_what_the_compiler_alone_is_good_for(cli, monkeypatch) -> None:
    monkeypatch.setattr(environment, "neuron_devices", lambda: ())
    monkeypatch.setattr(
        environment, "missing_packages", lambda: {environment.TORCHNEURON: ["torch"], environment.NRT: []}
    )
    assert rows_of_doctor(cli)["without a chip"]["detail"].startswith("trninfer doctor --selftest --compile-only")
    monkeypatch.setattr(
        environment, "missing_packages", lambda: {environment.TORCHNEURON: ["torch"], environment.NRT: ["nki"]}
    )
    assert "without a chip" not in rows_of_doctor(cli)


def test_a_user_without_a_home_keeps_no_kernels(cli, monkeypatch) -> None:
    monkeypatch.setattr("trninfer.runtime.neuron.compile_cache.cache_folder", lambda: None)
    row = rows_of_doctor(cli)["compiled kernels"]
    assert row["status"] == "missing" and "set TRNINFER_CACHE" in row["detail"]
