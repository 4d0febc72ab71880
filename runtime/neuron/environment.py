"""What this machine offers of AWS Neuron: devices and packages, found without importing anything of it."""

from __future__ import annotations

import glob
import importlib.metadata
import importlib.util
import os
import re
from dataclasses import dataclass

NRTPY_VARIABLE = "TRNINFER_NRTPY"  # the Python, or the folder, of an environment with nrtpy
_INDEX = "--extra-index-url https://pip.repos.neuron.amazonaws.com"
_ENVIRONMENT = "in a clone of trninfer: python3 -m venv ~/trninfer && ~/trninfer/bin/pip install"
INSTALL_HINT = (
    "on a Trainium instance: sudo apt-get install aws-neuronx-dkms and sudo modprobe neuron, then pip install "
    f"'trninfer[neuron]' {_INDEX}; trninfer doctor has the commands for each kind of machine"
)
# Where somebody starts from, and what to run there; for SDK 2.32 (August 2026), by the pages that docs/chip.md names.
INSTALL_COMMANDS = (
    ("on an AMI of SDK 2.32", f"{_ENVIRONMENT} '.[neuron]' {_INDEX}"),
    ("on an AMI of SDK 2.31", f"{_ENVIRONMENT} '.[neuron-torch]' {_INDEX}"),
    (
        "on bare Ubuntu 24.04",
        "first sudo apt-get install aws-neuronx-dkms aws-neuronx-runtime-lib aws-neuronx-tools, from AWS's repository "
        "for apt, and sudo modprobe neuron; then as on an AMI of SDK 2.32",
    ),
)

# PyPI holds packages under these names whose only content is this warning; the real ones are in AWS's repository.
_PLACEHOLDER_MARK = "WRONG PACKAGE"

# Distributions, the first version that will do, and the first that will not. neuronx-cc 2.26 belongs to nki 0.5;
# torch-neuronx 2.10 is another product, without `trace`; islpy 2026.2 breaks neuronx-cc 2.27 (SDK issue 1391).
_BOUNDS: dict[str, tuple[str | None, str | None]] = {
    "nki": ("0.6", None),
    "neuronx-cc": ("2.27", None),
    "torch-neuronx": ("2.9", "2.10"),
    "islpy": (None, "2026.2"),
    "libneuronxla": (None, None),
}
# What each way to the chip cannot do without. With nki comes nrtpy, which is no distribution of its own there.
_WAYS = {"nrtpy": ("nki",), "torch_neuronx": ("nki", "neuronx-cc", "torch-neuronx")}


@dataclass(frozen=True)
class Package:
    """A package here: `state` is "ready", "missing", "placeholder" (PyPI's stub), "too old" or "too new"."""

    name: str
    version: str | None
    state: str
    lowest: str | None  # the first version that will do
    beyond: str | None  # the first that will not

    @property
    def explanation(self) -> str:
        """The state in words."""
        if self.state == "placeholder":
            return f"version {self.version} is the placeholder from PyPI (its only content: {_PLACEHOLDER_MARK})"
        if self.state == "too old":
            return f"version {self.version} is too old; {self.lowest} or newer is needed"
        if self.state == "too new":
            return f"version {self.version} is too new; older than {self.beyond} is needed"
        return f"version {self.version}" if self.version else "not installed"


def neuron_devices() -> tuple[str, ...]:
    """The device files of the Neuron driver, in order (/dev/neuron0, ...)."""
    found = [path for path in glob.glob("/dev/neuron*") if re.fullmatch(r"/dev/neuron\d+", path)]
    return tuple(sorted(found, key=lambda path: int(path[len("/dev/neuron") :])))


@dataclass(frozen=True)
class Way:
    """How kernels reach the chip here: "nrtpy" or "torch_neuronx"; None with what is `missing`, one clause each."""

    way: str | None
    missing: tuple[str, ...]


def neuron_packages() -> tuple[Package, ...]:
    """AWS's packages that the chip needs, and what is here of them."""
    return tuple(_inspect(name, *bounds) for name, bounds in _BOUNDS.items())


def bundled_nrtpy() -> bool:
    """Whether this environment has nrtpy: nki's brings it along."""
    return importlib.util.find_spec("nrtpy") is not None


def find_way(nrtpy_elsewhere: bool = False) -> Way:
    """The way to the chip that this machine has: NEFF and nrtpy, else PyTorch NeuronX.

    `nrtpy_elsewhere` says that an environment with nrtpy is named. What is missing is told of the first way, and of the
    second where torch-neuronx is there.
    """
    packages = {package.name: package for package in neuron_packages()}
    device = [] if neuron_devices() else ["no Neuron device (/dev/neuron*)"]
    lacking = {
        way: [f"{name}: {packages[name].explanation}" for name in names if packages[name].state != "ready"]
        for way, names in _WAYS.items()
    }
    if not (bundled_nrtpy() or nrtpy_elsewhere):
        lacking["nrtpy"].append("nrtpy: not in this environment, and TRNINFER_NRTPY names none")
    if packages["islpy"].state == "too new":
        for reasons in lacking.values():
            reasons.append(f"islpy: {packages['islpy'].explanation}")
    for way, reasons in lacking.items():
        if not device and not reasons:
            return Way(way, ())
    also = lacking["torch_neuronx"] if packages["torch-neuronx"].state != "missing" else []
    return Way(None, tuple(dict.fromkeys([*device, *lacking["nrtpy"], *also])))


def way_here() -> Way:
    """The way to the chip, with the environment that TRNINFER_NRTPY names."""
    return find_way(bool(os.environ.get(NRTPY_VARIABLE)))


def _inspect(name: str, lowest: str | None, beyond: str | None) -> Package:
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return Package(name, None, "missing", lowest, beyond)
    version = metadata["Version"]
    description = metadata.get("Description") or metadata.get_payload()  # type: ignore[attr-defined]
    state = "ready"
    if _PLACEHOLDER_MARK in str(description):
        state = "placeholder"
    elif lowest is not None and _numbers(version) < _numbers(lowest):
        state = "too old"
    elif beyond is not None and _numbers(version) >= _numbers(beyond):
        state = "too new"
    return Package(name, version, state, lowest, beyond)


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, which is all that the lower bounds need."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found.group().split(".")) if found else ()
