"""Compile one kernel to a NEFF in a separate process, which reads its job from standard input.

NKI compiles a kernel that is called with NumPy arrays "standalone" (aws-neuron-sdk, nki/api/generated/nki.jit), and
saves its NEFF in NKI_ARTIFACTS_DIR, which must be set before nki is imported (neuron-runtime/nrtpy/
nrtpy-troubleshooting.rst); therefore, the parent process sets it. The call also executes the kernel. If that fails but
the NEFF exists, compilation has succeeded (tutorial-debug-neff-nrtpy.rst); execution fails, for instance, if the
machine has no NeuronCore or none is free.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ...kernels import use_nki
from .compile_alone import CompileReport, compile_alone
from .jobs import array_type, read_job

ARTIFACTS = "NKI_ARTIFACTS_DIR"


def make_operand(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return an array of zeros. The values are arbitrary, and zeros never overflow."""
    return np.zeros(shape, array_type(dtype))


def _read(path: Path, like: np.ndarray) -> np.ndarray:
    """Return the numbers in a file as an array with the dtype and shape of `like`."""
    return np.frombuffer(path.read_bytes(), like.dtype).reshape(like.shape)


def main() -> None:
    """Compile the kernel requested on standard input; print a traceback and exit with status 1 if no NEFF is
    generated."""
    message = json.load(sys.stdin)
    use_nki("neuron")
    kernel, operands, parameters = read_job(message)
    artifacts = Path(os.environ[ARTIFACTS])
    inputs = {name: make_operand(*spec) for name, spec in operands.items()}
    report: CompileReport | None = None
    if "alone" in message:
        files = {name: Path(message["alone"]) / f"{name}.bin" for name in inputs}
        simulate = all(path.is_file() for path in files.values())
        if simulate:
            inputs = {name: _read(files[name], array) for name, array in inputs.items()}
        report = compile_alone(kernel, inputs, parameters, artifacts, simulate)
    (report or _compile_by_call(kernel, {**inputs, **parameters}, artifacts)).write(artifacts)


def _compile_by_call(kernel: Any, arguments: dict[str, Any], artifacts: Path) -> CompileReport:
    """Compile a kernel by calling it. The call may fail, provided that there is a NEFF."""
    try:
        kernel(**arguments)
    except Exception as error:
        if not any(artifacts.rglob("*.neff")):
            raise
        print(f"compiled, but not run: {error}", file=sys.stderr)
    return CompileReport("call with arrays")
