"""Compile one kernel to a NEFF, in a process of its own, which reads its job from standard input.

The job: {"module", "file", "kernel", "operands": [[shape, dtype], ...], "parameters"}, the last as Python literals.
NKI compiles a kernel that is called with NumPy arrays, "without a framework" (aws-neuron-sdk, nki/api/nki/__init__.py),
and leaves its NEFF in NKI_ARTIFACTS_DIR, which must be set before nki is imported (neuron-runtime/nrtpy/
nrtpy-troubleshooting.rst): the process that starts this one has set it. The call also executes the kernel; where that
fails and the NEFF is there, the kernel is compiled all the same (tutorial-debug-neff-nrtpy.rst), for instance because
no NeuronCore is free beside the one that is in use.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ...kernels import kernel as kernel_named
from ...kernels import use_nki

ARTIFACTS = "NKI_ARTIFACTS_DIR"


def operand(shape: list[int], dtype: str) -> np.ndarray:
    """Zeros: any values do, and these overflow nowhere."""
    if dtype == "bfloat16":
        import ml_dtypes

        return np.zeros(shape, ml_dtypes.bfloat16)
    return np.zeros(shape, dtype)


def find_kernel(module: str, file: str | None, name: str) -> Any:
    """The kernel: of trninfer.kernels, else of a module by its name, else of a file."""
    if module.startswith(f"{__package__.split('.')[0]}.kernels."):
        return kernel_named(name)
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError:
        if file is None:
            raise
    spec = importlib.util.spec_from_file_location(module, file)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    return getattr(loaded, name)


def main() -> None:
    """Compile what standard input asks for; a traceback and exit status 1 where there is no NEFF afterwards."""
    job = json.load(sys.stdin)
    use_nki("neuron")
    called = find_kernel(job["module"], job["file"], job["kernel"])
    try:
        called(*(operand(*form) for form in job["operands"]), **ast.literal_eval(job["parameters"]))
    except Exception as error:
        if not any(Path(os.environ[ARTIFACTS]).rglob("*.neff")):
            raise
        print(f"compiled, but not run: {error}", file=sys.stderr)
