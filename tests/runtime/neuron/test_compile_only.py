"""Kernels compiled without a chip: a stand-in for AWS's nki compiles NEFFs, and the simulator computes answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from neuron_stand_ins import compile_only
from trninfer import kernels
from trninfer.runtime.backend import ArraySpec, BackendUnavailable, KernelError
from trninfer.runtime.neuron import environment
from trninfer.runtime.neuron.compile_only import LABEL, CompileOnlyBackend, open_compile_only
from trninfer.runtime.neuron.compiled import RunOptions
from trninfer.runtime.simulated import SimulatedBackend

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[CompileOnlyBackend]:
    with compile_only(monkeypatch, "trn3", 2) as backend:
        yield backend


def test_launched_kernel_is_compiled_once_and_simulated(backend: CompileOnlyBackend) -> None:
    assert (backend.info.name, backend.info.target, backend.info.latency_kind, backend.info.latency_label) == (
        "compile-only", "trn3", "predicted", LABEL,
    )  # fmt: skip
    assert os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] == "trn3"
    for _ in range(2):
        backend.prepare(kernels.transpose, X)  # begins early, and only once
    with pytest.raises(KernelError):
        backend.launch(kernels.transpose, X[:, :, None])
    backend.prepare(kernels.bias_activation, X, X[:1], activation="clip", parameters=[1.0])  # rejected by `launch`
    launch = backend.launch(kernels.transpose, X)
    np.testing.assert_array_equal(launch.outputs[0], X.T)
    simulated = SimulatedBackend("trn3")
    assert launch.time == simulated.launch(kernels.transpose, X).time
    spec = ArraySpec(X.shape, X.dtype)
    assert backend.time(kernels.transpose, spec).time == simulated.time(kernels.transpose, spec).time
    (compilation,) = backend.compilations
    assert compilation.seconds > 0 and compilation.peak_bytes > 0 and not compilation.is_cached
    assert compilation.tensors["neff_bytes"] > 0 and compilation.tensors["neff"] == ""
    folder = Path(backend._folder)
    assert len(list(folder.iterdir())) == len(list(folder.rglob("kernel.neff"))) == 1
    backend.close()
    assert not folder.exists()


def test_a_compiler_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "missing_packages", lambda: {environment.NRT: ["nki: not installed"]})
    with pytest.raises(BackendUnavailable, match=r"^--compile-only requires AWS's compiler: nki: not installed \("):
        open_compile_only("trn2", RunOptions())
