"""neuron-bench, by a stand-in."""

from __future__ import annotations

from pathlib import Path

import pytest
from trninfer.runtime.neuron import device_time
from trninfer.runtime.neuron.device_time import DeviceTime, DeviceTimingError, by_neuron_bench

TOOLS = Path(__file__).parent / "stand_ins" / "tools"


@pytest.fixture
def neff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(device_time, "find_tool", lambda name: str(TOOLS / name))
    path = tmp_path / "kernel.neff"
    path.write_bytes(b"NEFF")
    return path


@pytest.mark.parametrize("warmup", [0, 20])
def test_its_median_and_99th_percentile_are_those_of_the_core(neff: Path, warmup: int) -> None:
    assert by_neuron_bench(neff, warmup, 200) == DeviceTime(16.0, 17.0)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("busy", r"ended with status 1: .*NeuronCore\(s\) not available"),
        ("nothing", "left 0 files info.json"),
        ("words", "has no nc_latency"),
        ("negative", "told -3.0 and 17.0 us"),
    ],
)
def test_what_it_does_not_tell_is_one_line(neff: Path, monkeypatch, fault: str, told: str) -> None:
    monkeypatch.setenv("STAND_IN_BENCH", fault)
    with pytest.raises(DeviceTimingError, match=told) as caught:
        by_neuron_bench(neff, 1, 1)
    assert "\n" not in str(caught.value)


def test_it_hangs(neff: Path, tmp_path: Path, monkeypatch) -> None:
    tool = tmp_path / "slow"
    tool.write_text("#!/bin/sh\nexec sleep 5\n")
    tool.chmod(0o755)
    monkeypatch.setattr(device_time, "find_tool", lambda name: str(tool))
    monkeypatch.setattr(device_time, "_SECONDS", 0.2)
    with pytest.raises(DeviceTimingError, match=r"no answer within 0\.2 s"):
        by_neuron_bench(neff, 1, 1)
