"""Times on the device, by stand-ins for AWS's tools that know the documented interfaces only."""

from __future__ import annotations

import os
import shutil
import venv
from pathlib import Path

import numpy as np
import pytest
from trninfer.runtime.backend import BackendUnavailable
from trninfer.runtime.neuron import system as neuron_system
from trninfer.runtime.neuron.device_time import (
    DeviceTimingError,
    NrtpyTimer,
    ProfilerTimer,
    find_device_timer,
)

STAND_INS = Path(__file__).parent / "stand_ins"


@pytest.fixture(autouse=True)
def no_tools(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("TRNINFER_NRTPY", raising=False)
    monkeypatch.setattr(neuron_system, "TOOLS_FOLDER", tmp_path / "none")
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "0")  # of this process, not of the tools


@pytest.fixture
def neff(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.neff"
    path.write_bytes(b"NEFF")
    return path


@pytest.fixture(scope="module")
def nrtpy_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the stand-in for nrtpy and NumPy, and without trninfer."""
    folder = tmp_path_factory.mktemp("nrtpy")
    venv.create(folder, with_pip=False, symlinks=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    shutil.copy(STAND_INS / "nrtpy_site" / "nrtpy.py", site)
    packages = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (packages / name).exists():
            (site / name).symlink_to(packages / name)
    return folder


@pytest.fixture
def explorer(monkeypatch, tmp_path) -> str:
    path = f"{STAND_INS / 'tools'}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    return str(STAND_INS / "tools" / "neuron-explorer")


def test_nrtpy_times_every_iteration(nrtpy_environment, neff, monkeypatch) -> None:
    timer = find_device_timer(str(nrtpy_environment))
    assert isinstance(timer, NrtpyTimer)
    time = timer.measure(neff, warmup=2, iterations=5)
    durations = [10.0, 11.0, 12.0, 13.0, 14.0]
    assert time.p50_us == pytest.approx(12.0) and time.tool == "nrtpy"
    assert time.p99_us == pytest.approx(np.percentile(durations, 99))


def test_nrtpy_by_the_variable_wins_over_profilers(nrtpy_environment, explorer, monkeypatch) -> None:
    monkeypatch.setenv("TRNINFER_NRTPY", str(nrtpy_environment / "bin" / "python"))
    assert isinstance(find_device_timer(), NrtpyTimer)


def test_nrtpy_that_fails_is_one_line(nrtpy_environment, neff, monkeypatch) -> None:
    monkeypatch.setenv("STAND_IN_NRTPY", "load")
    with pytest.raises(DeviceTimingError, match=r"^nrtpy: exit status 1: .*NRT_FAILURE\(1\): Failed to load model$"):
        NrtpyTimer(nrtpy_environment / "bin" / "python").measure(neff, 2, 5)


def test_more_events_than_iterations_are_refused(nrtpy_environment, neff, monkeypatch) -> None:
    monkeypatch.setenv("STAND_IN_NRTPY", "events")
    with pytest.raises(DeviceTimingError, match="10 device events for 5 iterations"):
        NrtpyTimer(nrtpy_environment / "bin" / "python").measure(neff, 2, 5)


def test_an_environment_that_is_none(tmp_path) -> None:
    with pytest.raises(BackendUnavailable, match="no environment with nrtpy at"):
        find_device_timer(str(tmp_path))


def test_a_program_that_is_no_python(neff) -> None:
    with pytest.raises(DeviceTimingError, match="nrtpy: no durations"):
        NrtpyTimer(Path("/bin/echo")).measure(neff, 1, 1)


def test_neuron_explorer_profiles_one_execution(explorer, neff) -> None:
    timer = find_device_timer()
    assert isinstance(timer, ProfilerTimer) and timer.tool == "neuron-explorer"
    time = timer.measure(neff, 5, 20)
    assert (time.p50_us, time.p99_us, time.tool) == (pytest.approx(17.0), None, "neuron-explorer")
    assert sorted(path.name for path in neff.parent.iterdir()) == ["kernel.neff"]


def test_neuron_profile_where_there_is_no_explorer(explorer, neff, monkeypatch, tmp_path) -> None:
    (tmp_path / "bin").mkdir()
    shutil.copy(explorer, tmp_path / "bin" / "neuron-profile")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.pathsep.join(os.environ['PATH'].split(':')[1:])}")
    timer = find_device_timer()
    assert timer is not None and timer.tool == "neuron-profile"
    assert timer.measure(neff, 5, 20).p50_us == pytest.approx(17.0)


def test_no_free_core_is_told_in_the_runtimes_words(explorer, neff, monkeypatch) -> None:
    monkeypatch.setenv("STAND_IN_EXPLORER", "fail")
    with pytest.raises(DeviceTimingError, match=r"^neuron-explorer: exit status 1: ERROR .*not available$"):
        ProfilerTimer("neuron-explorer", explorer).measure(neff, 5, 20)


@pytest.mark.parametrize(
    ("printed", "entries"),
    [("no JSON", 0), ("{}", 0), ('{"total_time": "soon"}', 0), ('[{"total_time": 1.0}, {"total_time": 2.0}]', 2)],
)
def test_a_summary_without_one_total_time(neff, tmp_path, printed, entries) -> None:
    tool = tmp_path / "neuron-explorer"
    tool.write_text(
        f"#!/bin/sh\nif [ $1 = capture ]; then touch $(dirname $5)/profile_exec_2.ntff; else echo '{printed}'; fi\n"
    )
    tool.chmod(0o755)
    with pytest.raises(DeviceTimingError, match=f"{entries} entries total_time"):
        ProfilerTimer("neuron-explorer", str(tool)).measure(neff, 5, 20)


def test_a_capture_that_leaves_no_profile(neff) -> None:
    with pytest.raises(DeviceTimingError, match="0 profiles of one execution"):
        ProfilerTimer("neuron-explorer", "/bin/true").measure(neff, 5, 20)


def test_nothing_is_there(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_device_timer() is None
