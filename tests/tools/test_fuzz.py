"""The fuzzer of the command line: a few seconds of it, and that it finds injected bugs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from trninfer.tools import fuzz as module
from trninfer.tools.fuzz import KINDS, examine, fuzz, main

RUNS = int(os.environ.get("TRNINFER_FUZZ_RUNS", "12"))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_damaged_files_and_odd_options_break_nothing(kind: str) -> None:
    counts, faults = fuzz(0, RUNS, 0, (kind,))
    assert faults == [] and counts == {f"{kind}: sound": RUNS}


def test_weights_that_overflow_are_no_warning() -> None:
    assert fuzz(275, 1, 0, ("onnx",))[1] == []


def test_a_run_is_repeated_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    lines = []
    for _ in range(2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "examine", lambda arguments, folder: " ".join(arguments).replace(str(folder), ""))
            lines.append([fault.what for fault in fuzz(3, 5, 0)[1]])
    assert lines[0] == lines[1] and len(set(lines[0])) == 5
    assert main(["--seed", "3", "--runs", "1"]) == 0 and "sound 1" in capsys.readouterr().out


def planted(fault: object) -> object:
    def read(*arguments: object, **options: object) -> object:
        if isinstance(fault, Exception):
            raise fault
        return fault

    return read


def test_a_traceback_is_a_fault_that_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("trninfer.inference.features.csv_rows", planted(KeyError("planted")))
    assert main(["--kind", "features", "--runs", "12"]) == 1
    out = capsys.readouterr().out
    assert "--runs 1: ['ffnn', '--data', " in out and "KeyError: 'planted'" in out and "features: fault" in out


@pytest.mark.parametrize(
    ("status", "out", "err", "what"),
    [
        (0, "{}", "", None),
        (4, "", "trninfer: a\n", "exit status 4"),
        (2, "", "", "status 2 without a message"),
        (2, "", "trninfer: \x1b[31m\n", "not printable"),
        (2, "", f"trninfer: {'a' * 300}\n", "a line of 310 characters"),
        (0, "{", "", "not json"),
        (0, "{}", "x.py:3: RuntimeWarning: overflow\n", "a warning of Python's"),
    ],
)
def test_violations_of_the_contract(monkeypatch, tmp_path: Path, status, out, err, what) -> None:
    def run(arguments: list[str]) -> int:
        import sys

        sys.stdout.write(out)
        sys.stderr.write(err)
        return int(status)

    monkeypatch.setattr(module, "run", run)
    found = examine(["ffnn", "--format", "json"], tmp_path)
    assert found is None if what is None else found is not None and found.startswith(what)
    (tmp_path / "out.partial").write_text("left")
    monkeypatch.setattr(module, "run", lambda arguments: 0)
    assert examine(["ffnn"], tmp_path) == "left over: ['out.partial']"
