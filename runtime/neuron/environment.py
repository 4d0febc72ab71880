"""What this machine offers of AWS Neuron: devices and packages, found without importing anything of it."""

from __future__ import annotations

import glob
import importlib.metadata
import importlib.util
import re
from dataclasses import dataclass

INSTALL_HINT = (
    "on a Trainium instance: the driver by sudo apt-get install aws-neuronx-dkms (from apt.repos.neuron.amazonaws.com) "
    "and sudo modprobe neuron, the packages by pip install 'trninfer[neuron]' --extra-index-url "
    "https://pip.repos.neuron.amazonaws.com"
)

# PyPI holds packages under these names whose only content is this warning; the real ones are in AWS's repository.
_PLACEHOLDER_MARK = "WRONG PACKAGE"

# Distribution name and the first version that will do (those of the extra `neuron`).
_REQUIRED = {"nki": "0.6", "neuronx-cc": "2.20", "torch-neuronx": "2.7"}
_RELATED = ("libneuronxla",)


@dataclass(frozen=True)
class Package:
    """One of AWS's packages here: `state` is "ready", "missing", "placeholder" (PyPI's stub) or "too old"."""

    name: str
    version: str | None
    state: str
    required: str | None  # the first version that will do

    @property
    def explanation(self) -> str:
        """The state in words."""
        if self.state == "placeholder":
            return f"version {self.version} is the placeholder from PyPI (its only content: {_PLACEHOLDER_MARK})"
        if self.state == "too old":
            return f"version {self.version} is too old; {self.required} or newer is needed"
        return f"version {self.version}" if self.version else "not installed"


def neuron_devices() -> tuple[str, ...]:
    """The device files of the Neuron driver, in order (/dev/neuron0, ...)."""
    found = [path for path in glob.glob("/dev/neuron*") if re.fullmatch(r"/dev/neuron\d+", path)]
    return tuple(sorted(found, key=lambda path: int(path[len("/dev/neuron") :])))


def neuron_packages() -> tuple[Package, ...]:
    """AWS's packages that the chip needs, and what is here of them."""
    return tuple(_inspect(name, bound) for name, bound in [*_REQUIRED.items(), *((name, None) for name in _RELATED)])


def missing_for_neuron() -> tuple[str, ...]:
    """What keeps kernels from running on a NeuronCore here, one clause each; nothing where all is there."""
    reasons = [] if neuron_devices() else ["no Neuron device (/dev/neuron*)"]
    reasons += [
        f"{package.name}: {package.explanation}"
        for package in neuron_packages()
        if package.required is not None and package.state != "ready"
    ]
    return tuple(reasons)


def _inspect(name: str, required: str | None) -> Package:
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return Package(name, None, "missing", required)
    version = metadata["Version"]
    description = metadata.get("Description") or metadata.get_payload()  # type: ignore[attr-defined]
    if _PLACEHOLDER_MARK in str(description):
        return Package(name, version, "placeholder", required)
    if required is not None and _numbers(version) < _numbers(required):
        return Package(name, version, "too old", required)
    return Package(name, version, "ready", required)


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, which is all that the lower bounds need."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found.group().split(".")) if found else ()
