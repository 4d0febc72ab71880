"""Compile a kernel to a NEFF without a framework, in a separate process (`compile_worker`)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...child_python import python_command
from .compile_alone import CompileReport
from .compile_worker import ARTIFACTS
from .errors import CompilerFailed
from .jobs import Job
from .processes import Waiting, run_limited
from .system import find_tool

NEFF = "kernel.neff"  # the compiler's output, in a cache folder
_PACKAGER_SECONDS = 60


@dataclass(frozen=True)
class CompiledNeff:
    """A NEFF, the duration (in seconds) and the peak memory of its compilation, and the report on how it was
    compiled."""

    path: Path
    seconds: float
    peak_bytes: int
    report: CompileReport | None = None


@dataclass(frozen=True)
class CompileOnlyRequest:
    """A request to compile without executing.

    `values` contains the operands for BIRSim; if it is None, BIRSim is skipped.
    """

    values: Mapping[str, np.ndarray] | None = None


def compile_neff(
    job: Job,
    log: Path,
    limit: float,
    note: Waiting,
    variables: Mapping[str, str] | None = None,
    alone: CompileOnlyRequest | None = None,
) -> CompiledNeff:
    """Compile a kernel to a NEFF in the folder of `log`.

    Raise CompilerFailed if none is generated within `limit` seconds.

    `variables` are added to the environment of the process. Its output is written to `log`.
    """
    workdir = log.parent
    artifacts = workdir / "artifacts"
    artifacts.mkdir()
    job_file = workdir / "job.json"
    message = job.message()
    if alone is not None:
        operands = workdir / "operands"
        operands.mkdir()
        for name, array in (alone.values or {}).items():
            (operands / f"{name}.bin").write_bytes(np.ascontiguousarray(array).tobytes())
        message["alone"] = str(operands)
    job_file.write_text(json.dumps(message), encoding="utf-8")
    completed = run_limited(
        python_command(f"{__package__}.compile_worker", "main"),
        given=job_file,
        log=log,
        variables={**os.environ, **(variables or {}), ARTIFACTS: str(artifacts)},
        limit=limit,
        note=note,
    )
    if completed.status is None:
        raise CompilerFailed(f"no NEFF within {limit:.0f} s (--compile-timeout)")
    neffs = sorted(artifacts.rglob("*.neff"))
    candidates = [neff for neff in neffs if neff.name == NEFF] or neffs
    if completed.status != 0 or len(candidates) != 1:
        output = log.read_text(encoding="utf-8", errors="replace")
        left = "" if completed.status else f"it wrote {len(candidates)} NEFFs; expected one"
        raise CompilerFailed(left or output or f"it ended with status {completed.status} without a message")
    return CompiledNeff(candidates[0], completed.seconds, completed.peak_bytes, CompileReport.read(artifacts))


def describe_neff(neff: Path) -> str:
    """Return the output of `neuron-packager info` for a NEFF (tools/neuron-sys-tools/neuron-packager-user-guide).

    If it is not installed or fails, return an empty string.
    """
    tool = find_tool("neuron-packager")
    if tool is None:
        return ""
    try:
        completed = subprocess.run(
            [tool, "info", str(neff)], capture_output=True, text=True, errors="replace", timeout=_PACKAGER_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return completed.stdout if completed.returncode == 0 else ""
