"""`trninfer doctor`: what it says of this machine, and what it may be told."""

import csv
import io
import json

from trninfer.runtime.neuron import environment


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
    assert "pip install" in rows["to use it on the Deep Learning AMI Neuron torch-neuronx 2.14.0"]["detail"]
    outcome = cli("doctor")
    assert outcome.status == 0 and max(map(len, outcome.out.splitlines())) <= 80


def test_doctor_tells_of_a_target_that_is_none(cli, monkeypatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")
    outcome = cli("doctor", "--format", "csv")
    row = next(row for row in csv.DictReader(io.StringIO(outcome.out)) if row["check"] == "target")
    assert outcome.status == 0 and row["status"] == "wrong" and "trn9" in row["detail"]
    wrong = cli("bench", "--kernel", "argmax", "--shape", "n=1,c=8")
    assert wrong.status == 2 and "NEURON_PLATFORM_TARGET_OVERRIDE" in wrong.err
