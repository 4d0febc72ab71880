"""Time on the device alone, from a kernel's NEFF, by AWS's tools: nrtpy where an environment with it is named, else
neuron-explorer, else neuron-profile.

The tools run as processes of their own on a free NeuronCore. The core of this process is reserved until it ends
(aws-neuron-sdk, neuron-runtime/guides/configuration-guide.rst), so where no other is free there is no device time.
Inputs are zeros: the time of these kernels does not depend on values.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..backend import BackendUnavailable
from .errors import first_useful_line
from .system import LIBRARY_FOLDER, NUMBER_OF_CORES, VISIBLE_CORES, find_tool

NRTPY_VARIABLE = "TRNINFER_NRTPY"  # the Python, or the folder, of an environment with nrtpy
DEVICE_LABEL = "measured, device"
_TOOL_SECONDS = 600


class DeviceTimingError(RuntimeError):
    """A kernel's time on the device could not be had; the message is one line for the user."""


@dataclass(frozen=True)
class DeviceTime:
    """Microseconds on the device, median and 99th percentile (None from a single profiled execution), and the tool."""

    p50_us: float
    p99_us: float | None
    tool: str


class DeviceTimer(Protocol):
    """Times a NEFF on the device."""

    tool: str

    def measure(self, neff: Path, warmup: int, iterations: int) -> DeviceTime:
        """Run the NEFF and time it; DeviceTimingError where that fails."""


class NrtpyTimer:
    """nrtpy's device benchmark: every iteration timed by tracing on the device (neuron-runtime/nrtpy/model.rst)."""

    tool = "nrtpy"

    def __init__(self, python: Path) -> None:
        self._python = python

    def measure(self, neff: Path, warmup: int, iterations: int) -> DeviceTime:
        """One sample an iteration; a NEFF of several subgraphs, which gives several, is refused."""
        script = Path(__file__).with_name("nrtpy_benchmark.py")
        # -I: neither the script's folder, whose modules have common names, nor this process's paths are searched
        text = _run(self.tool, [str(self._python), "-I", str(script), str(neff), str(warmup), str(iterations)])
        try:
            result = json.loads(text.strip().splitlines()[-1])
            durations = np.asarray(result["durations_ms"], np.float64) * 1e3
        except (ValueError, KeyError, TypeError, IndexError):
            raise DeviceTimingError(f"nrtpy: no durations in its answer: {first_useful_line(text)}") from None
        if durations.shape != (iterations,):
            raise DeviceTimingError(f"nrtpy: {durations.size} device events for {iterations} iterations")
        return DeviceTime(float(np.percentile(durations, 50)), float(np.percentile(durations, 99)), self.tool)


class ProfilerTimer:
    """One profiled execution, the second, by neuron-explorer or its predecessor neuron-profile.

    `capture` as nki/guides/use-neuron-profile.rst has it; `view` with `summary-json` by
    tools/neuron-explorer/troubleshooting.rst and migration-faq.rst; `total_time`, in seconds on the device, by
    tools/neuron-explorer/profile-schema-reference.rst. AWS keeps the summary's layout open, so `total_time` is looked
    for wherever it stands in it.
    """

    def __init__(self, tool: str, path: str) -> None:
        self.tool = tool
        self._path = path

    def measure(self, neff: Path, warmup: int, iterations: int) -> DeviceTime:
        """The profile's total time. The tool profiles one execution after one warm-up, whatever is asked for."""
        with tempfile.TemporaryDirectory(prefix="trninfer-profile-") as folder:
            session = Path(folder) / "profile.ntff"
            _run(self.tool, [self._path, "capture", "-n", str(neff), "-s", str(session), "--profile-nth-exec=2"])
            profiles = sorted(Path(folder).glob("profile*.ntff"))
            if len(profiles) != 1:
                raise DeviceTimingError(f"{self.tool}: {len(profiles)} profiles of one execution")
            view = [self._path, "view", "-n", str(neff), "-s", str(profiles[0]), "--output-format", "summary-json"]
            seconds = _total_times(_run(self.tool, view))
        if len(seconds) != 1:
            raise DeviceTimingError(f"{self.tool}: {len(seconds)} entries total_time in the summary of one execution")
        return DeviceTime(seconds[0] * 1e6, None, self.tool)


def find_device_timer(nrtpy: str | None = None) -> DeviceTimer | None:
    """What can time on the device here: nrtpy in the environment that `nrtpy` or TRNINFER_NRTPY names, else a profiler.

    None where there is none. BackendUnavailable where an environment is named that is none.
    """
    named = nrtpy or os.environ.get(NRTPY_VARIABLE)
    if named:
        return NrtpyTimer(_python_of(Path(named).expanduser()))
    for tool in ("neuron-explorer", "neuron-profile"):
        path = find_tool(tool)
        if path is not None:
            return ProfilerTimer(tool, path)
    return None


def _python_of(place: Path) -> Path:
    python = place / "bin" / "python" if place.is_dir() else place
    if not (python.is_file() and os.access(python, os.X_OK)):
        raise BackendUnavailable(f"no environment with nrtpy at {place}: {python} is not a Python to be run")
    return python


def _run(tool: str, command: list[str]) -> str:
    """What a command prints on standard output."""
    variables = {name: value for name, value in os.environ.items() if name != VISIBLE_CORES}
    variables[NUMBER_OF_CORES] = "1"  # any free one: the runtime chooses
    libraries = [str(LIBRARY_FOLDER), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    variables["LD_LIBRARY_PATH"] = os.pathsep.join(libraries)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TOOL_SECONDS, env=variables
        )
    except OSError as error:
        raise DeviceTimingError(f"{tool}: {command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise DeviceTimingError(f"{tool}: no answer within {_TOOL_SECONDS} s") from None
    if done.returncode != 0:
        raise DeviceTimingError(
            f"{tool}: exit status {done.returncode}: {first_useful_line(done.stderr or done.stdout)}"
        )
    return done.stdout


def _total_times(text: str) -> list[float]:
    """All numbers named total_time in a JSON text, before which log lines may stand."""
    for start in [0, *(i + 1 for i, char in enumerate(text) if char == "\n")]:
        if text[start : start + 1] in ("{", "["):
            try:
                return list(_values(json.loads(text[start:]), "total_time"))
            except ValueError:
                continue
    return []


def _values(node: Any, name: str) -> list[float]:
    if isinstance(node, dict):
        own = [float(node[name])] if isinstance(node.get(name), (int, float)) else []
        return own + [value for child in node.values() for value in _values(child, name)]
    if isinstance(node, list):
        return [value for child in node for value in _values(child, name)]
    return []
