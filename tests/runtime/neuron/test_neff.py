"""Compiling a NEFF in a separate process: its files, its errors, and the NEFF's metadata."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from trninfer import kernels
from trninfer.runtime.backend import ArraySpec
from trninfer.runtime.neuron import neff
from trninfer.runtime.neuron.errors import CompilerFailed
from trninfer.runtime.neuron.jobs import Job
from trninfer.runtime.neuron.kernel_source import find_source
from trninfer.runtime.neuron.neff import CompiledNeff, compile_neff, describe_neff

OPERANDS = {"a": ArraySpec((2, 3), np.float32)}
JOB = Job(kernels.transpose, find_source(kernels.transpose), OPERANDS, {}, "trn2")
BEGIN = (
    "import os, sys; from pathlib import Path; out = Path(os.environ['NKI_ARTIFACTS_DIR']); given = sys.stdin.read();"
)


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Compile with a stand-in for the compiler's process."""

    def compile_by(program: str, limit: float = 60.0, **variables: str) -> CompiledNeff:
        command = [sys.executable, "-S", "-E", "-c", BEGIN + program]
        monkeypatch.setattr(neff, "python_command", lambda module, function: command)
        return compile_neff(JOB, tmp_path / "log", limit, lambda seconds: None, variables)

    return compile_by


def test_what_the_process_is_given_and_what_it_leaves(compiled, tmp_path: Path) -> None:
    made = compiled(
        "(out / 'kernel.neff').write_text(given + os.environ['EXTRA']); print('Compiler status PASS')", EXTRA="!"
    )
    assert made.path.name == "kernel.neff" and made.path.read_text() == json.dumps(JOB.message()) + "!"
    assert made.seconds > 0 and made.peak_bytes > 1 << 20
    assert (tmp_path / "log").read_text() == "Compiler status PASS\n"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ("['a/kernel.neff']", "kernel.neff"),
        ("['a/other.neff']", "other.neff"),
        ("['a.neff', 'kernel.neff']", "kernel.neff"),
    ],
)
def test_the_neff_of_the_kernel_is_selected(compiled, files: str, found: str) -> None:
    program = f"[((out / f).parent.mkdir(exist_ok=True), (out / f).write_text(f)) for f in {files}]"
    assert compiled(program).path.name == found


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("pass", "it wrote 0 NEFFs; expected one"),
        ("[(out / f).write_text('') for f in ('a.neff', 'b.neff')]", "it wrote 2 NEFFs; expected one"),
        ("print('error: too large'); sys.exit(1)", "error: too large\n"),
        ("(out / 'kernel.neff').write_text(''); print('crashed later'); sys.exit(2)", "crashed later\n"),
        ("os._exit(3)", "it ended with status 3 without a message"),
        ("os.kill(os.getpid(), 9)", "it ended with status -9 without a message"),
    ],
)
def test_a_compiler_that_fails(compiled, program: str, says: str) -> None:
    with pytest.raises(CompilerFailed) as caught:
        compiled(program)
    assert str(caught.value) == says


def test_a_compiler_that_takes_too_long(compiled) -> None:
    with pytest.raises(CompilerFailed, match=r"^no NEFF within 0 s \(--compile-timeout\)$"):
        compiled("import time; time.sleep(60)", limit=0.1)


@pytest.mark.parametrize(
    ("script", "told"), [("echo about $2 of $1", "about FILE of info\n"), ("echo no; exit 1", ""), (None, "")]
)
def test_report_of_a_neff(script: str | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "neuron-packager"
    if script is not None:
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
    monkeypatch.setattr(neff, "find_tool", lambda name: str(tool) if script and name == tool.name else None)
    assert describe_neff(tmp_path / "x.neff") == told.replace("FILE", str(tmp_path / "x.neff"))


def test_a_tool_that_cannot_be_run_or_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neff, "find_tool", lambda name: str(tmp_path / "none"))
    assert describe_neff(tmp_path / "x.neff") == ""
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(neff, "find_tool", lambda name: str(slow))
    monkeypatch.setattr(neff, "_PACKAGER_SECONDS", 0.1)
    assert describe_neff(tmp_path / "x.neff") == ""
