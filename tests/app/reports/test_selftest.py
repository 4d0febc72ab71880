"""Reports of the self-test: what ran and on which backend, what failed, and separate columns for predicted and measured
times."""

import csv
import io
import json

import numpy as np
import pytest
from trninfer.app.reports import selftest as reports
from trninfer.app.reports.selftest import SelfTest, document_of, join_documents, render, render_machine
from trninfer.models import Dense, FeatureInput, Model, Network
from trninfer.runtime.backend import BackendInfo
from trninfer.runtime.neuron.compiled import Attempt
from trninfer.runtime.selftest.run import FAILED, OK, WRONG, KernelOutcome, NetworkOutcome
from trninfer.runtime.session import Result
from trninfer.runtime.verify import Verification

SIM = BackendInfo("sim", "trn2", "predicted", "predicted")
CHIP = BackendInfo("neuron", "trn2", "measured", "measured, host round trip")
COMPILER = BackendInfo("compile-only", "trn3", "predicted", "predicted")
MODEL = Model(Network("net", FeatureInput(1), (Dense("d", 1, 2),), ("a", "b")), {}, {})


def kernel(status: str = OK, **more) -> KernelOutcome:
    return KernelOutcome("transpose", "3x5", "", ((3, 5),), status, 1e-7, 1e-5, predicted_us=12.34, **more)


def network(status: str = OK, message: str = "") -> tuple[Model, NetworkOutcome]:
    result = Result(np.array([1], np.int32), np.array([[0.25, 0.75]], np.float32), (), 0.0)
    verdict = Verification(status == OK, 1e-6, 0, 0, 1e-4)
    outcome = NetworkOutcome("net", ("x.png",), "one launch", None, status, result, verdict, message=message)
    return MODEL, outcome


@pytest.mark.parametrize(
    ("info", "place", "note"),
    [(SIM, "simulator", reports.SIMULATOR_NOTE), (CHIP, "chip", None), (COMPILER, "compiler", reports.COMPILER_NOTE)],
)
def test_where_it_ran(info, place, note) -> None:
    test = SelfTest(info, "float32")
    assert (test.place, test.note, test.on_chip) == (place, note, info is CHIP)
    assert ("attach it to an issue" in test.what_to_do) == (info is not SIM)
    document = document_of(test, [])
    assert (document["note"], document["labels"]["measured_host_us"]) == (
        note,
        CHIP.latency_label if note is None else None,
    )
    assert (document["settings"] is None) == (info is SIM) and document["target"] == info.target


def test_failures_and_the_exit_status() -> None:
    test = SelfTest(SIM, "float32", [kernel()], [network()])
    assert (test.failures, test.status) == (0, 0)
    test.kernels.append(kernel(WRONG, informational=True))  # known to occur on chips
    assert (test.failures, test.status) == (0, 0)
    test.networks.append(network(WRONG))
    test.kernels.append(kernel(FAILED))
    assert (test.failures, test.status) == (2, 1)
    test.stopped = "the chip was lost"
    assert test.status == 3 and document_of(test, [])["stopped"] == "the chip was lost"


def test_the_document_has_answers_and_what_doctor_found() -> None:
    machine = [{"check": "python", "status": "ok", "detail": "3"}]
    document = json.loads(json.dumps(document_of(SelfTest(SIM, "float32", [kernel()], [network()]), machine)))
    assert document["passed"] and document["stopped"] is None and document["machine"] == machine
    assert document["kernels"][0]["kernel"] == "transpose" and document["kernels"][0]["measured_host_us"] is None
    (row,) = document["networks"]
    assert row["predictions"][0]["input"] == "x.png" and row["predictions"][0]["label"] == "b"
    assert row["verify"]["passed"] and row["compared"] == [] and len(row["predictions"][0]["top"]) == 2


def test_documents_of_several_targets() -> None:
    good, bad = ({"schema_version": 1, "command": "selftest", "date": "d", "passed": p} for p in (True, False))
    assert join_documents([good]) is good
    assert join_documents([good, bad]) == {
        "schema_version": 1, "command": "selftest", "date": "d", "passed": False, "runs": [good, bad],
    }  # fmt: skip
    assert join_documents([good, good])["passed"]


def test_forms_for_programs() -> None:
    machine = [{"check": "python", "status": "ok", "detail": "3"}]
    one = document_of(
        SelfTest(COMPILER, "float32", [kernel(otherwise=(Attempt("as -O1", None),))], [network()]), machine
    )
    both = join_documents([one, one])
    assert json.loads(render_machine(both, "json")) == json.loads(json.dumps(both))
    lines = [json.loads(line) for line in render_machine(both, "ndjson").splitlines()]
    assert [line["type"] for line in lines] == ["selftest", "machine", "kernel", "network"] * 2
    assert "kernels" not in lines[0] and lines[0]["dtype"] == "float32" and lines[2]["size"] == "3x5"
    rows = list(csv.DictReader(io.StringIO(render_machine(both, "csv"))))
    assert [(row["target"], row["kernel"], json.loads(row["shapes"])) for row in rows] == [
        ("trn3", "transpose", [[3, 5]])
    ] * 2
    assert json.loads(rows[0]["otherwise"]) == [{"how": "as -O1", "error": None}]


def lines_of(test: SelfTest) -> list[str]:
    return render(test, None).splitlines()


def test_predicted_and_measured_times_have_columns_of_their_own() -> None:
    outcome = kernel(measured_host_us=50.04, measured_device_us=11.1, compile_seconds=3.0, compile_peak_bytes=3 << 29)
    head = {name: lines_of(SelfTest(info, "float32", [outcome], []))[:4] for name, info in
            (("sim", SIM), ("chip", CHIP), ("compiler", COMPILER))}  # fmt: skip
    assert head["sim"][0] == "self-test of trn2 in float32, on the simulator"
    assert head["sim"][3].split() == ["transpose", "3x5", "ok", "1.0e-07", "12.3"]
    assert head["chip"][3].split()[4:] == ["12.3", "50.0", "11.1"] and "measured, device us" in head["chip"][1]
    # between them are AWS's estimate and BIRSim's error, which this outcome lacks
    assert head["compiler"][3].split()[4:] == ["12.3", "-", "-", "3.0", "1.5"]
    assert "measured" not in head["compiler"][1] and "AWS" in head["compiler"][1]


def test_notes_below_the_tables() -> None:
    attempts = (Attempt("as -O1", None), Attempt("as -O0", "no"))
    kernels = [
        kernel(),
        KernelOutcome("argmax", "", "max", (), FAILED, None, 0.0, message="it ended", otherwise=attempts),
        kernel(WRONG, informational=True),
    ]
    test = SelfTest(SIM, "float32", kernels, [network(WRONG, "too far off")], stopped="lost")
    lines = lines_of(test)
    assert lines[-5:] == [
        "argmax max: it ended; as -O1: compiles; as -O0: no",
        "net, one launch: too far off",
        "stopped: lost",
        "4 checks: 2 failures; 1 difference that are expected on chips",
        reports.SIMULATOR_NOTE,
    ]
    shown = [line.split() for line in lines]
    assert ["argmax", "max", "failed", "-", "-"] in shown and "wrong (known)" in "".join(lines)
    assert ["net", "one", "launch", "1", "wrong", "1.0e-06", "0"] in shown
    assert lines_of(SelfTest(CHIP, "float32", [kernel()], [network()]))[-1] == "2 checks: all passed"
