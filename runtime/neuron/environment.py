"""Find the AWS Neuron devices and packages of this machine, without importing any of these packages.

The expected versions are from Neuron SDK 2.33 (aws-neuron-sdk, release-notes/2.33.0 and
release-notes/components/torchneuron).
"""

from __future__ import annotations

import glob
import re
import sys
from dataclasses import dataclass
from typing import Literal

TORCHNEURON, NRT = "torchneuron", "nki.runtime"  # the two ways to run kernels on the chip
WAY_NAMES = {TORCHNEURON: "TorchNeuron", NRT: "NEFF and nki.runtime"}

NO_DEVICE = "no Neuron device (/dev/neuron*)"

_INDEX = "--extra-index-url https://pip.repos.neuron.amazonaws.com"
_TORCH_INDEX = "--extra-index-url https://download.pytorch.org/whl/cpu"
INSTALL_HINT = (
    "on a Trainium instance: sudo apt-get install aws-neuronx-dkms and sudo modprobe neuron, then pip install "
    f"'trninfer[neuron]' {_INDEX}; trninfer doctor has the commands for each kind of machine"
)
# Container images to start from, and the command to run in a clone of trninfer. The sources are listed in docs/chip.md.
INSTALL_COMMANDS = (
    (
        "on the Deep Learning AMI Neuron torch-neuronx 2.14.0",
        "source /opt/aws_neuronx_venv_torch_neuronx_2_14_0/bin/activate && pip install .",
    ),
    (
        "on Ubuntu 26.04 with driver, runtime and tools",
        f"python3 -m venv ~/trninfer && ~/trninfer/bin/pip install '.[neuron]' {_INDEX} {_TORCH_INDEX}",
    ),
    (
        "without PyTorch (NEFF and nki.runtime)",
        f"python3 -m venv ~/trninfer && ~/trninfer/bin/pip install '.[neuron-neff]' {_INDEX}",
    ),
    (
        "driver, runtime and tools",
        "sudo apt-get install aws-neuronx-dkms aws-neuronx-runtime-lib aws-neuronx-tools, from AWS's repository for "
        "apt, and sudo modprobe neuron",
    ),
)

# On PyPI, the packages with these names contain only this warning; the real packages are in AWS's repository.
_PLACEHOLDER_MARK = "WRONG PACKAGE"


@dataclass(frozen=True)
class Bounds:
    """Versions of a package: `needed` is the oldest version that may work. trninfer was written for the versions from
    `lowest` up to, but excluding, `beyond`."""

    needed: str
    lowest: str
    beyond: str


# Real machines may have development versions that the release notes do not list, such as nki 0.7.0b1 and neuronx-cc
# 2.0.404830 with torch-neuronx 2.14.3. torch-neuronx before 2.13 is a different product (PyTorch NeuronX, based on
# XLA).
_BOUNDS = {
    "nki": Bounds("0.6", "0.7", "0.8"),
    "neuronx-cc": Bounds("2.0", "2.28", "2.29"),
    "torch-neuronx": Bounds("2.13", "2.13", "2.15"),
}
_PYTHON = {"torch-neuronx": (3, 12)}  # first version with wheels (torch/get-started/quickstart-nki-kernel)
_NEEDED = {TORCHNEURON: ("nki", "neuronx-cc", "torch-neuronx"), NRT: ("nki", "neuronx-cc")}

State = Literal["ready", "newer", "older", "missing", "placeholder", "too old"]


@dataclass(frozen=True)
class Package:
    """A package and its state: "ready", "newer" or "older" than the versions that trninfer was written for (but used
    anyway), "missing", "placeholder" (PyPI's stub) or "too old"."""

    name: str
    version: str | None
    state: State
    bounds: Bounds

    @property
    def is_usable(self) -> bool:
        """True if, according to its version, it can compile and run kernels."""
        return self.state in ("ready", "newer", "older")

    @property
    def explanation(self) -> str:
        """A description of the state, as a clause."""
        if self.state == "placeholder":
            return f"version {self.version} is the placeholder from PyPI (its only content: {_PLACEHOLDER_MARK})"
        if self.state == "too old":
            return f"version {self.version} is too old; expected {self.bounds.needed} or newer"
        if self.state in ("newer", "older"):
            return (
                f"version {self.version} is {self.state} than the version that trninfer was written for "
                f"({self.bounds.lowest})"
            )
        if self.version:
            return f"version {self.version}"
        needed = _PYTHON.get(self.name, (0, 0))
        if _python() >= needed:
            return "not installed"
        return "not installed; it requires Python {}.{} or newer, but this is {}.{}".format(*needed, *_python())


def neuron_devices() -> tuple[str, ...]:
    """Return the device files of the Neuron driver, in order (/dev/neuron0, ...)."""
    devices = [path for path in glob.glob("/dev/neuron*") if re.fullmatch(r"/dev/neuron\d+", path)]
    return tuple(sorted(devices, key=lambda path: int(path[len("/dev/neuron") :])))


@dataclass(frozen=True)
class Way:
    """The way in which kernels run on the chip: TORCHNEURON or NRT, or None if packages are missing. `missing`
    describes each of these in a clause."""

    way: str | None
    missing: tuple[str, ...]


def neuron_packages() -> tuple[Package, ...]:
    """Return the state of each AWS package that is required to use the chip."""
    return tuple(_inspect(name, bounds) for name, bounds in _BOUNDS.items())


def unexpected_versions() -> list[str]:
    """Return a clause for each package that is used although trninfer was written for other versions."""
    return [
        f"{package.name}: {package.explanation}" for package in neuron_packages() if package.state in ("newer", "older")
    ]


def find_way() -> Way:
    """Return the way to use the chip: TorchNeuron if installed, else NEFF and nki.runtime.

    If neither is installed, the packages missing for TorchNeuron are reported.
    """
    device = [] if neuron_devices() else [NO_DEVICE]
    lacking = missing_packages()
    for way in (TORCHNEURON, NRT):
        if not device and not lacking[way]:
            return Way(way, ())
    return Way(None, (*device, *lacking[TORCHNEURON]))


def missing_packages() -> dict[str, list[str]]:
    """Return a clause for each package that is missing for each way of using the chip."""
    packages = {package.name: package for package in neuron_packages()}
    return {
        way: [f"{name}: {packages[name].explanation}" for name in names if not packages[name].is_usable]
        for way, names in _NEEDED.items()
    }


def _python() -> tuple[int, int]:
    return sys.version_info[:2]


def _inspect(name: str, bounds: Bounds) -> Package:
    import importlib.metadata  # imported late, because it is slow and only needed if there is a device

    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return Package(name, None, "missing", bounds)
    version = metadata["Version"]
    description = metadata.get("Description") or metadata.get_payload()  # type: ignore[attr-defined]
    state: State = "ready"
    if _PLACEHOLDER_MARK in str(description):
        state = "placeholder"
    elif _numbers(version) < _numbers(bounds.needed):
        state = "too old"
    elif _numbers(version) < _numbers(bounds.lowest):
        state = "older"
    elif _numbers(version) >= _numbers(bounds.beyond):
        state = "newer"
    return Package(name, version, state, bounds)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, which are sufficient for comparing it with the bounds."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else ()
