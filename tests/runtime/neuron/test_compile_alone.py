"""Compiling without executing, with stand-ins for the internal modules of AWS's nki, with AWS's estimate and BIRSim."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from neuron_stand_ins import compile_only
from trninfer import kernels
from trninfer.runtime.neuron.compile_alone import CompileReport, Estimate
from trninfer.runtime.neuron.compile_only import CompileOnlyBackend
from trninfer.runtime.neuron.errors import CompileError

X = np.arange(6, dtype=np.float32).reshape(2, 3)
EXECUTOR, NIR = "executor that does nothing", "compile_kernel_to_nir and compile_bir_to_neff"


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[CompileOnlyBackend]:
    with compile_only(monkeypatch, "trn2", 1) as backend:
        yield backend


def report_of(backend: CompileOnlyBackend) -> CompileReport:
    backend.prepare(kernels.transpose, X)
    launch = backend.launch(kernels.transpose, X)
    (compilation,) = backend.compilations
    assert compilation.report is not None
    if compilation.report.estimate is not None:
        assert compilation.report.estimate.total_us == pytest.approx(1.5 * launch.time.latency_us, rel=1e-3)
        assert compilation.report.estimate.utilization == {"PE": 0.25, "Pool": 0.5}
        assert compilation.report.estimate.hbm_bytes == launch.time.hbm_bytes
    return compilation.report


@pytest.mark.parametrize(
    ("fault", "way", "tried", "has_estimate", "has_birsim"),
    [
        ("", f"{EXECUTOR}, BIRSim", [], True, True),
        ("birsim", EXECUTOR, [f"{EXECUTOR}, BIRSim"], True, False),
        ("nir", f"{NIR}, BIRSim", [f"{EXECUTOR}, BIRSim", EXECUTOR], True, True),
        ("silent", f"{EXECUTOR}, BIRSim", [], False, True),
        ("optimized", f"{EXECUTOR}, BIRSim", [], True, True),
        ("none", "call with arrays", [], False, False),
    ],
)
def test_available_modules_of_the_wheel_are_used(
    backend, monkeypatch, fault, way, tried, has_estimate, has_birsim
) -> None:
    monkeypatch.setenv("STAND_IN_NKI_INTERNALS", fault)
    report = report_of(backend)
    assert report.way == way and [each for each, _ in report.tried] == tried
    assert (report.estimate is not None, report.birsim is not None) == (has_estimate, has_birsim)
    if report.birsim is not None:
        np.testing.assert_array_equal(report.birsim[0], X.T)


def test_rejected_kernel_is_not_compiled_by_other_methods(backend, monkeypatch) -> None:
    monkeypatch.setenv("STAND_IN_NKI", "compile")
    with pytest.raises(CompileError, match="NCC_EBVF030"):
        backend.launch(kernels.transpose, X)


def test_a_report_is_read_as_it_was_written(tmp_path) -> None:
    assert CompileReport.read(tmp_path) is None
    estimate = Estimate(1.5, {"PE": 0.5}, 3, None)
    CompileReport("way", (("another", "no"),), estimate, (X, X.astype(np.int32))).write(tmp_path)
    found = CompileReport.read(tmp_path)
    assert found is not None and (found.way, found.tried, found.estimate) == ("way", (("another", "no"),), estimate)
    assert found.birsim is not None and [each.dtype.name for each in found.birsim] == ["float32", "int32"]
    np.testing.assert_array_equal(found.birsim[0], X)
