"""Find the Neuron-related properties of this machine: instance, NeuronCores, driver, runtime library, tools and
environment variables.

Sources (aws-neuron-sdk): neuron-runtime/guides/configuration-guide.rst for the NEURON_RT_ variables,
about-neuron/arch/neuron-features/logical-neuroncore-config.rst, nki/get-started/about/lnc and
compiler/error-codes/EVRF066 for NEURON_LOGICAL_NC_CONFIG, tools/neuron-sys-tools/neuron-ls.rst,
setup/pytorch/update-dlc.rst for `modinfo neuron`, neuron-runtime/nrtpy/nrtpy-troubleshooting.rst for the location of
libnrt, nki/get-started/setup-env.rst for the folder of the tools.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from ..backend import TARGET_VARIABLE, BackendUnavailable

TOOLS_FOLDER = Path("/opt/aws/neuron/bin")
LIBRARY_FOLDER = Path("/opt/aws/neuron/lib")

VISIBLE_CORES = "NEURON_RT_VISIBLE_CORES"  # one NeuronCore or an inclusive range; takes precedence over NUMBER_OF_CORES
STOCHASTIC_ROUNDING = "NEURON_RT_STOCHASTIC_ROUNDING_EN"  # 1: rounds up or down at random
NUMBER_OF_CORES = "NEURON_RT_NUM_CORES"  # reserves this number of free cores; by default a process reserves all
# If set, a call returns before its execution has finished (neuron-runtime/explore/runtime-performance-tips.rst).
ASYNCHRONOUS = "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS"
LOGICAL_CORES = "NEURON_LOGICAL_NC_CONFIG"  # physical NeuronCores per logical one; default: neuronx-cc 2, kernels 1
COMPILER_FLAGS = "NEURON_CC_FLAGS"
SIMULATES = "NKI_SIMULATOR"  # if set, a jitted kernel runs on nki.simulate (nki/framework/kernel.py)

_INSTANCE_TARGETS = (("trn1", "trn1"), ("inf2", "trn1"), ("trn2", "trn2"), ("trn3", "trn3"))
_TOOL_SECONDS = 30


def find_tool(name: str) -> str | None:
    """Return the path of a tool.

    It is searched for in PATH, then in the folder of aws-neuronx-tools, then in the folders of the system.
    """
    return shutil.which(name) or shutil.which(name, path=f"{TOOLS_FOLDER}{os.pathsep}/usr/sbin{os.pathsep}/sbin")


def instance_type() -> str | None:
    """Return the instance type reported by neuron-ls, such as "trn2.48xlarge", or None if it reports none."""
    match = re.search(r"^instance-type:\s*(\S+)", _output("neuron-ls") or "", re.MULTILINE)
    return match.group(1) if match else None


def instance_target() -> str | None:
    """Return the target of this instance ("trn1", "trn2" or "trn3"), or None if neuron-ls does not report a known
    type."""
    instance = instance_type() or ""
    return next((target for prefix, target in _INSTANCE_TARGETS if instance.startswith(prefix)), None)


def driver_version() -> str | None:
    """Return the version of the installed Neuron driver, from `modinfo neuron`, or None if it is not installed."""
    match = re.search(r"^version:\s*(\S+)", _output("modinfo", "neuron") or "", re.MULTILINE)
    return match.group(1) if match else None


def system_packages() -> tuple[str, ...]:
    """Return the installed system packages of AWS with their versions ("aws-neuronx-tools 2.33.38.0"), as dpkg or rpm
    reports them. If neither is available, return an empty tuple."""
    pattern = "aws-neuronx-*"
    listing = _output("dpkg-query", "-W", "-f", "${Package} ${Version}\\n", pattern)
    listing = listing or _output("rpm", "-qa", "--qf", "%{NAME} %{VERSION}\\n", pattern) or ""
    return tuple(sorted(line.strip() for line in listing.splitlines() if len(line.split()) == 2))


def runtime_library() -> str | None:
    """Return the file of the Neuron runtime library, whose name contains the version, or None if it is not
    installed."""
    library = LIBRARY_FOLDER / "libnrt.so.1"
    return str(library.resolve()) if library.exists() else None


def visible_cores(lnc: int = 1) -> tuple[int, ...] | None:
    """Return the numbers of the logical cores (of `lnc` physical cores each) that processes may use, or None if
    unknown.

    NEURON_RT_VISIBLE_CORES specifies these cores. If it is not set, they are all the cores that neuron-ls counts.
    neuron-ls counts according to its own `logical_neuroncore_config`, while core ids depend on the setting of the
    process (a trn2.3xlarge has 8 physical cores: ids 0 to 7 for a setting of 1, and 0 to 3 for a setting of 2). Raises
    BackendUnavailable if the variable cannot be parsed.
    """
    setting = os.environ.get(VISIBLE_CORES)
    if setting:
        return parse_cores(setting)
    try:
        count = sum(int(device["nc_count"]) * int(device.get("logical_neuroncore_config", 1)) for device in _devices())
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return tuple(range(count // lnc))


def core_holders(core: int | None = None) -> list[str]:
    """Return the processes that use NeuronCores according to neuron-ls, such as "4711 (python3 serve.py)".

    If neuron-ls reports cores, only the processes that use `core` are returned.
    """
    try:
        processes = [holder for device in _devices() for holder in device.get("neuron_processes") or ()]
        holders = [holder for holder in processes if core is not None and core in (holder.get("neuroncore_ids") or ())]
        matches = [
            f"{int(holder['pid'])} ({' '.join(str(holder.get('command', '')).split())[:60]})"
            for holder in holders or processes
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    return list(dict.fromkeys(matches))


def _devices() -> list[dict[str, Any]]:
    """Return the devices that neuron-ls lists. Raise ValueError if it lists none."""
    devices: list[dict[str, Any]] = json.loads(_output("neuron-ls", "-j") or "")
    return devices


def pick_cores(count: int, lnc: int = 1) -> tuple[int, ...]:
    """Return the first `count` logical cores (of `lnc` physical cores each) that may be used.

    If the number of cores is unknown, the cores starting at 0 are returned; the runtime rejects cores that do not
    exist. Raises BackendUnavailable if there are too few cores.
    """
    cores = visible_cores(lnc)
    if cores is None:
        return tuple(range(count))
    if count > len(cores):
        raise BackendUnavailable(
            f"{count} NeuronCores were requested, but only {len(cores)} are visible ({_ranges(cores)})"
        )
    return cores[:count]


def _ranges(cores: tuple[int, ...]) -> str:
    if len(cores) > 1 and list(cores) == list(range(cores[0], cores[-1] + 1)):
        return f"{cores[0]}-{cores[-1]}"
    return ",".join(map(str, cores)) or "none"


def parse_cores(text: str) -> tuple[int, ...]:
    """Return the cores in a value of NEURON_RT_VISIBLE_CORES: "3", "0-3", or a comma-separated list of these."""
    cores: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,5})(?:-(\d{1,5}))?\s*", part)
        first, last = (int(match.group(1)), int(match.group(2) or match.group(1))) if match else (1, 0)
        if last < first:
            raise BackendUnavailable(f"{VISIBLE_CORES} is {text!r}; expected a core (0), a range (0-3) or a list (0,2)")
        cores += range(first, last + 1)
    return tuple(dict.fromkeys(cores))


_CORES = {1: "kernels run on one NeuronCore each", 2: "--lnc 2 runs kernels on two NeuronCores each"}


def _other(lnc: int) -> str:
    return ", or use --lnc 2" if lnc == 1 else ", or omit --lnc 2"


def prepare_environment(target: str, known: bool, variables: MutableMapping[str, str], lnc: int = 1) -> None:
    """Set the environment variables of the Neuron packages before any of them is imported. The user's settings are
    preserved, except NKI_SIMULATOR, which would prevent compilation.

    Numbers are rounded to nearest, as in the golden model (neuron-features/rounding-modes.rst). Only one logical core
    is reserved, so that other processes can use the remaining cores. Kernels are compiled for, and run on, logical
    cores of `lnc` physical cores: kernels, compiler and runtime must agree on this number (EVRF066). The compiler's
    target is set if it is `known` (requested, or determined by the instance); otherwise, NKI detects it. Raises
    BackendUnavailable if the user's variables request a different number of physical cores, and for trn1, which NKI 0.7
    does not support.
    """
    if target == "trn1":
        raise BackendUnavailable("NKI 0.7 compiles only for trn2 and trn3; to simulate trn1, use --backend sim")
    flags = re.search(r"--(?:lnc|logical-nc-config)[= ]\s*(\d+)", variables.get(COMPILER_FLAGS, ""))
    if flags is not None and flags.group(1) != str(lnc):
        raise BackendUnavailable(f"{COMPILER_FLAGS} has {flags.group()}; {_CORES[lnc]}: remove it{_other(lnc)}")
    variables.pop(SIMULATES, None)
    variables.setdefault(STOCHASTIC_ROUNDING, "0")
    if not variables.get(VISIBLE_CORES) and not variables.get(NUMBER_OF_CORES):
        variables[NUMBER_OF_CORES] = "1"
    logical = variables.setdefault(LOGICAL_CORES, str(lnc))
    if logical != str(lnc):
        raise BackendUnavailable(f"{LOGICAL_CORES} is {logical}; {_CORES[lnc]}: set it to {lnc}{_other(lnc)}")
    if known:
        variables[TARGET_VARIABLE] = target


def _output(tool: str, *arguments: str) -> str | None:
    """Return the output of a tool, or None if it is missing, fails or hangs."""
    path = find_tool(tool)
    if path is None:
        return None
    try:
        completed = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=_TOOL_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return completed.stdout
