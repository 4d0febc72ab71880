"""Profiles of the device, with a stand-in for neuron-explorer."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from trninfer.runtime.neuron import device_time
from trninfer.runtime.neuron.device_time import (
    DeviceTime,
    DeviceTimingError,
    capture_profile,
    find_profile,
    view_profile,
)

TOOLS = Path(__file__).parent / "stand_ins" / "tools"


@pytest.fixture
def neff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(device_time, "find_tool", lambda name: str(TOOLS / name))
    path = tmp_path / "kernel.neff"
    path.write_bytes(b"NEFF")
    return path


@pytest.fixture
def ntff(tmp_path: Path) -> Path:
    path = tmp_path / "profile.ntff"
    path.write_text(json.dumps({"total_time": 12.5e-6}))
    return path


@pytest.mark.parametrize("fault", ["", "json", "rows"])
def test_a_profile_as_summary_or_parquet(neff: Path, ntff: Path, monkeypatch, fault: str) -> None:
    if fault:
        pytest.importorskip("pyarrow.parquet")
    monkeypatch.setenv("STAND_IN_EXPLORER", fault)
    assert view_profile(neff, ntff, "torch.profiler") == DeviceTime(pytest.approx(12.5), None, "torch.profiler")


def test_parquet_without_pyarrow_is_one_line(neff: Path, ntff: Path, monkeypatch) -> None:
    monkeypatch.setenv("STAND_IN_EXPLORER", "json")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(
        DeviceTimingError, match=r"unknown output format summary-json; reading Parquet requires pyarrow"
    ):
        view_profile(neff, ntff, "torch.profiler")


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("words", "must contain exactly one total_time; .*ended with status 3"),
        ("negative", r"total_time of -1\.0 s, which is impossible"),
    ],
)
def test_a_summary_that_is_none_is_one_line(neff: Path, ntff: Path, monkeypatch, fault: str, told: str) -> None:
    monkeypatch.setenv("STAND_IN_EXPLORER", fault)
    with pytest.raises(DeviceTimingError, match=told) as caught:
        view_profile(neff, ntff, "x")
    assert "\n" not in str(caught.value)


def test_a_capture_uses_the_inputs_if_numpy_has_their_dtype(neff: Path) -> None:
    given = {"a": np.ones((2, 3), np.float32), "b": np.ones(4, np.int32)}
    assert capture_profile(neff, given) == DeviceTime(pytest.approx(16.0), None, "neuron-explorer capture")
    given["b"] = np.ones(4, ml_dtypes.bfloat16)
    assert capture_profile(neff, given).by == "neuron-explorer capture, inputs of zeros"


@pytest.mark.parametrize(
    ("fault", "told"),
    [("busy", r"capture ended with status 1: .*NeuronCore\(s\) not available"), ("nothing", "capture wrote no NTFF")],
)
def test_a_capture_that_fails_is_one_line(neff: Path, monkeypatch, fault: str, told: str) -> None:
    monkeypatch.setenv("STAND_IN_EXPLORER", fault)
    with pytest.raises(DeviceTimingError, match=told) as caught:
        capture_profile(neff, {})
    assert "\n" not in str(caught.value)


def test_the_tool_hangs(neff: Path, ntff: Path, tmp_path: Path, monkeypatch) -> None:
    tool = tmp_path / "slow"
    tool.write_text("#!/bin/sh\nexec sleep 5\n")
    tool.chmod(0o755)
    monkeypatch.setattr(device_time, "find_tool", lambda name: str(tool))
    monkeypatch.setattr(device_time, "_SECONDS", 0.2)
    with pytest.raises(DeviceTimingError, match=r"no answer within 0\.2 s"):
        view_profile(neff, ntff, "x")


def test_no_tool(neff: Path, monkeypatch) -> None:
    monkeypatch.setattr(device_time, "find_tool", lambda name: None)
    with pytest.raises(DeviceTimingError, match=r"neuron-explorer is not installed \(aws-neuronx-tools\)"):
        capture_profile(neff, {})


def test_the_neff_of_a_trace_has_its_number(tmp_path: Path) -> None:
    """The same folder contains cached NEFFs of other kernels, some of them larger."""
    with pytest.raises(DeviceTimingError, match="wrote 0 NTFFs"):
        find_profile(tmp_path)
    (tmp_path / "session").mkdir()
    for name, size in (("neff_1.neff", 9), ("neff_12.neff", 9), ("neff_2.neff", 3), ("2_instid_0_vnc_0.ntff", 1)):
        (tmp_path / "session" / name).write_bytes(b"x" * size)
    assert [path.name for path in find_profile(tmp_path)] == ["neff_2.neff", "2_instid_0_vnc_0.ntff"]
    (tmp_path / "session" / "neff_2.neff").unlink()
    with pytest.raises(
        DeviceTimingError, match=r"0 of the 2 NEFFs written by torch.profiler belong to 2_instid_0_vnc_0.ntff"
    ):
        find_profile(tmp_path)
    (tmp_path / "session" / "neff_1.neff").unlink()
    assert find_profile(tmp_path)[0].name == "neff_12.neff"  # the only one
    (tmp_path / "u.ntff").write_bytes(b"x")
    with pytest.raises(DeviceTimingError, match="wrote 2 NTFFs"):
        find_profile(tmp_path)
