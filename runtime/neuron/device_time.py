"""Read the time that a kernel takes on the NeuronCore alone from a profile of the device: an NTFF file and its NEFF.

Profiles are written by torch.profiler (TorchNeuron), or by `neuron-explorer capture`, which executes a NEFF on a free
NeuronCore, with zeros for missing inputs. `neuron-explorer view` reads a profile. Its summary, or the Summary table of
the Parquet files, contains `total_time`, the seconds between the start and the end of the execution on the device.

Sources (aws-neuron-sdk): tools/neuron-explorer/how-to-profile-workload (capture and its options),
profile-schema-reference ("Summary"), how-to-analyze-profile-output (where Parquet files are written),
troubleshooting ("Is summary-json still supported?"), about-neuron/announcements/neuron2.x/announce-intent-eos-explorer-
json (the JSON of whole profiles ends with SDK 2.33). According to public code, the summary is an object with one object
for each profile.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import first_useful_line
from .system import find_tool

TOOL = "neuron-explorer"
_SECONDS = 600
_TOTAL = "total_time"


@dataclass(frozen=True)
class DeviceTime:
    """Microseconds on the NeuronCore alone: the median, the 99th percentile of several executions, and the tool that
    measured them."""

    p50_us: float
    p99_us: float | None
    by: str


class DeviceTimingError(RuntimeError):
    """Raised if a kernel's time on the device is not available. The message is one line for the user."""


def view_profile(neff: Path, ntff: Path, by: str) -> DeviceTime:
    """Return the time in a profile that the tool `by` measured.

    Raise DeviceTimingError if the profile cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="trninfer-profile-") as folder:
        profile = ["view", "-n", str(neff), "-s", str(ntff)]
        try:
            seconds = _of_summary(_run([*profile, "--output-format", "summary-json"], Path(folder)))
        except DeviceTimingError as error:
            tables = Path(folder) / "parquet"
            try:
                _run(
                    [*profile, "--output-format", "parquet", "--output-file", str(tables), "--ingest-only"],
                    Path(folder),
                )
                seconds = _of_parquet(tables)
            except DeviceTimingError as other:
                raise DeviceTimingError(f"{error}; {other}") from None
    if not (math.isfinite(seconds) and seconds > 0):
        raise DeviceTimingError(f"{TOOL} reports a {_TOTAL} of {seconds} s, which is impossible")
    return DeviceTime(seconds * 1e6, None, by)


def capture_profile(neff: Path, inputs: Mapping[str, np.ndarray]) -> DeviceTime:
    """Execute a NEFF three times on a free NeuronCore and return the last time.

    `inputs`, keyed by their names in the NEFF, are used if NumPy supports all their dtypes; otherwise, zeros are used.
    Raises DeviceTimingError if the tool fails.
    """
    with tempfile.TemporaryDirectory(prefix="trninfer-capture-") as name:
        folder = Path(name)
        input_options: list[str] = []
        if all(array.dtype.isbuiltin == 1 for array in inputs.values()):
            for position, (label, array) in enumerate(inputs.items()):
                np.save(folder / f"{position}.npy", array)
                input_options += [label, str(folder / f"{position}.npy")]
        by = f"{TOOL} capture" + ("" if input_options or not inputs else ", inputs of zeros")
        runs = ["--num-exec", "3", "--profile-nth-exec", "3"]
        _run(["capture", "-n", str(neff), "-s", str(folder / "profile.ntff"), *runs, *input_options], folder)
        profiles = sorted(folder.glob("*.ntff"))
        if not profiles:
            raise DeviceTimingError(f"{TOOL} capture wrote no NTFF")
        return view_profile(neff, profiles[-1], by)


def find_profile(folder: Path) -> tuple[Path, Path]:
    """Return the NEFF and the NTFF that torch.profiler wrote below a folder.

    The files are paired by the number in their names (neff_3.neff and 3_instid_0_vnc_0.ntff, as in public code), since
    cached NEFFs of other kernels are in the same folder. Raises DeviceTimingError unless there is exactly one NTFF with
    its NEFF.
    """
    traces, programs = sorted(folder.rglob("*.ntff")), sorted(folder.rglob("*.neff"))
    if len(traces) != 1:
        raise DeviceTimingError(f"torch.profiler wrote {len(traces)} NTFFs; expected one")
    number = re.match(r"\d+", traces[0].name)
    matching = [path for path in programs if number and re.fullmatch(rf"(neff_)?{number.group()}", path.stem)]
    if not matching and len(programs) == 1:
        matching = programs
    if len(matching) != 1:
        raise DeviceTimingError(
            f"{len(matching)} of the {len(programs)} NEFFs written by torch.profiler belong to {traces[0].name}; "
            "expected one"
        )
    return matching[0], traces[0]


def _run(arguments: list[str], folder: Path) -> str:
    tool = find_tool(TOOL)
    if tool is None:
        raise DeviceTimingError(f"{TOOL} is not installed (aws-neuronx-tools)")
    label = f"{TOOL} {arguments[0]}"
    try:
        completed = subprocess.run(
            [tool, *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            cwd=folder,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = f"no answer within {_SECONDS} s" if isinstance(error, subprocess.TimeoutExpired) else str(error)
        raise DeviceTimingError(f"{label}: {reason}") from error
    if completed.returncode:
        reason = first_useful_line(completed.stderr, completed.stdout)
        raise DeviceTimingError(f"{label} ended with status {completed.returncode}: {reason}")
    return completed.stdout


def _of_summary(text: str) -> float:
    """Return the seconds in a summary, which is an object or contains one object for each profile."""
    try:
        document = json.loads(text)
        profiles = [document] if _TOTAL in document else list(document.values())
        (seconds,) = {float(profile[_TOTAL]) for profile in profiles}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DeviceTimingError(f"{TOOL} view: the summary must contain exactly one {_TOTAL}") from None
    return seconds


def _of_parquet(folder: Path) -> float:
    """Return the seconds in the Summary table, which stores them as a column or as a row."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise DeviceTimingError("reading Parquet requires pyarrow: pip install pyarrow") from None
    files = sorted(folder.rglob("Summary*.parquet"))
    if not files:
        raise DeviceTimingError(f"{TOOL} view wrote no Summary.parquet")
    try:
        return float(_totals([row for file in files for row in parquet.read_table(file).to_pylist()])[0])
    except (OSError, ValueError, IndexError, TypeError) as error:
        raise DeviceTimingError(f"{TOOL} view: Summary.parquet has no {_TOTAL} ({type(error).__name__})") from None


def _totals(rows: list[dict[str, Any]]) -> list[Any]:
    totals = [row[_TOTAL] for row in rows if row.get(_TOTAL) is not None]
    if totals:
        return totals
    metrics = [row for row in rows if _TOTAL in row.values()]  # each has its name as a string and its value as a number
    return [value for row in metrics for value in row.values() if isinstance(value, (int, float))]
