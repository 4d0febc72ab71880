"""The backend on the simulator."""

import sys
from types import ModuleType

import numpy as np
import pytest
from trninfer import kernels
from trninfer.runtime.backend import ArraySpec, BackendInfo, BackendUnavailable, KernelError
from trninfer.runtime.choose import choose_backend
from trninfer.runtime.simulated import SimulatedBackend, open_for_worker


def test_the_simulator_is_refused_beside_the_loaded_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nki", ModuleType("nki"))
    sys.modules["nki"].__file__ = "/somewhere/nki/__init__.py"
    with pytest.raises(
        BackendUnavailable, match=r"'sim' is not available: too late .*AWS's package nki is already loaded"
    ):
        choose_backend("sim")


def test_backend_info_of_the_simulator() -> None:
    expected = BackendInfo("sim", "trn1", "predicted", "predicted", has_layer_times=True)
    assert choose_backend("sim", "trn1").info == expected
    assert open_for_worker("trn1", progress=print, warn=print).info == expected


def test_timing_needs_no_values_and_is_the_same() -> None:
    backend = SimulatedBackend("trn2")
    a = np.arange(15, dtype=np.float32).reshape(5, 3)
    timed = SimulatedBackend("trn2").time(kernels.transpose, ArraySpec(a.shape, a.dtype))
    launch = backend.launch(kernels.transpose, a)
    np.testing.assert_array_equal(launch.outputs[0], a.T)
    assert timed.time == launch.time and timed.outputs == () and launch.timeline is None


def test_timelines_are_kept_on_request_without_outputs() -> None:
    a = np.zeros((4, 4), np.float32)
    timeline = SimulatedBackend("trn2", keep_timelines=True).launch(kernels.transpose, a).timeline
    assert timeline.outputs == () and timeline.timeline  # type: ignore[attr-defined]


def test_a_kernels_refusal_is_one_line() -> None:
    backend = SimulatedBackend("trn2")
    a, b = np.zeros((4, 8), np.float32), np.zeros((5, 8), np.float32)
    with pytest.raises(KernelError, match=r"^matmul_tiled on trn2: .+$"):
        backend.launch(kernels.matmul_tiled, a, b)
