"""The time of a kernel on the NeuronCore alone, and neuron-bench, which tells it where nrtpy or PyTorch does not.

neuron-bench is in aws-neuronx-tools. AWS says that it launches a NEFF in a loop and tells latencies of device and host
(nki.benchmark, a page of earlier SDKs), but no page documents its options or files. Those used here are seen in public
code and reports of NKI 0.6 on trn1: `exec --warmup --work --enable-only-latency --fixed-nc-count=1 --output-directory`,
and in the folder an info.json whose `nc_latency` has percentiles in whole microseconds. It takes a NeuronCore that is
free, beside the one this process holds, and fills the inputs itself.
"""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .errors import first_useful_line
from .system import find_tool

_SECONDS = 120


@dataclass(frozen=True)
class DeviceTime:
    """Microseconds on the NeuronCore alone, median and 99th percentile."""

    p50_us: float
    p99_us: float


class DeviceTimingError(RuntimeError):
    """A kernel's time on the device could not be had; the message is one line for the user."""


def by_neuron_bench(neff: Path, warmup: int, iterations: int) -> DeviceTime:
    """The time of a NEFF by neuron-bench; DeviceTimingError with what is in the way."""
    tool = find_tool("neuron-bench")
    if tool is None:
        raise DeviceTimingError("neuron-bench is not installed (aws-neuronx-tools)")
    with tempfile.TemporaryDirectory(prefix="trninfer-bench-") as folder:
        command = [tool, "exec", f"--warmup={max(1, warmup)}", f"--work={iterations}", "--enable-only-latency"]
        command += ["--fixed-nc-count=1", f"--output-directory={folder}", str(neff)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = f"no answer within {_SECONDS} s" if isinstance(error, subprocess.TimeoutExpired) else str(error)
            raise DeviceTimingError(f"neuron-bench: {reason}") from error
        if done.returncode:
            said = first_useful_line(done.stderr, done.stdout)
            raise DeviceTimingError(f"neuron-bench ended with status {done.returncode}: {said}")
        return _read(Path(folder))


def _read(folder: Path) -> DeviceTime:
    found = sorted(folder.rglob("info.json"))
    if len(found) != 1:
        raise DeviceTimingError(f"neuron-bench left {len(found)} files info.json where one is expected")
    try:
        latency = json.loads(found[0].read_text(encoding="utf-8"))["nc_latency"]
        time = DeviceTime(float(latency["50"]), float(latency["99"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise DeviceTimingError("neuron-bench: its info.json has no nc_latency with 50 and 99") from None
    if not (math.isfinite(time.p99_us) and 0 < time.p50_us <= time.p99_us):
        raise DeviceTimingError(f"neuron-bench told {time.p50_us} and {time.p99_us} us, which cannot be")
    return time
