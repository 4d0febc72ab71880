"""The process that compiles one kernel, on a stand-in for AWS's nki."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from neuron_stand_ins import forget_variables, use_packages
from trninfer import kernels
from trninfer.child_python import python_command
from trninfer.runtime.backend import ArraySpec
from trninfer.runtime.neuron import compile_worker, environment
from trninfer.runtime.neuron.compile_worker import make_operand
from trninfer.runtime.neuron.jobs import Job
from trninfer.runtime.neuron.kernel_source import find_source
from trninfer.runtime.neuron.system import prepare_environment


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("float32", np.float32), ("bfloat16", ml_dtypes.bfloat16), ("int32", np.int32), ("uint8", np.uint8)],
)
def test_operands_are_zeros_of_any_dtype(name: str, dtype: type) -> None:
    operand = make_operand((2, 3), name)
    assert operand.shape == (2, 3) and operand.dtype == dtype and not operand.any()


@pytest.mark.parametrize(
    ("fault", "status", "says"),
    [("execute", 0, "compiled, but not run: NRT Error NRT_LOAD_NOT_ENOUGH_NC(9)"), ("compile", 1, "[NCC_EBVF030]")],
)
def test_compilation_succeeds_if_the_neff_exists(
    fault: str, status: int, says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its execution may fail, for example because the only core is in use."""
    forget_variables(monkeypatch)
    use_packages(monkeypatch, environment.NRT)
    prepare_environment("trn2", True, os.environ)
    monkeypatch.setenv("NKI_ARTIFACTS_DIR", str(tmp_path / "artifacts"))
    monkeypatch.setenv("STAND_IN_NKI", fault)
    operands = {"a": ArraySpec((2, 3), np.dtype(ml_dtypes.bfloat16)), "bias": ArraySpec((1, 3), np.float32)}
    job = Job(kernels.bias_activation, find_source(kernels.bias_activation), operands, {"activation": "relu"}, "trn2")
    done = subprocess.run(
        python_command(compile_worker.__name__, "main"), input=json.dumps(job.message()), capture_output=True, text=True
    )
    assert (done.returncode, says in done.stderr) == (status, True), done.stderr
    neff = tmp_path / "artifacts" / "kernel.neff"
    assert neff.exists() == (status == 0)
    if status == 0:
        forms = [form for _, *form in json.loads(neff.read_text())["inputs"]]
        assert forms == [[[2, 3], "bfloat16"], [[1, 3], "float32"]]
