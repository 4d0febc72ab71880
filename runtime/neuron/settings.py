"""Collect the settings that a compilation depends on besides the kernel: versions of packages, and environment
variables that AWS's packages read.

The settings are part of the key of compiled kernels, of the name of TorchNeuron's cache folder, and of the self-test's
archive. Kernels use NKI's default CompileConfig (nki/api/generated/nki.compiler.CompileConfig).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import Any

from .environment import neuron_packages
from .kernel_source import kernels_digest
from .system import COMPILER_FLAGS, LOGICAL_CORES

FRONT_END = "NKI_COMPILER_FRONTEND"  # nki/migration/index: "custom" is the front end of NKI 0.6, deprecated
DEBUG_INFO = "NKI_DEBUG_INFO"  # includes NKI source lines in the NEFF
_VARIABLES = (FRONT_END, COMPILER_FLAGS, DEBUG_INFO, LOGICAL_CORES)

NEFF_FOLDER = "TORCH_NEURONX_NEFF_CACHE_DIR"  # folder of TorchNeuron's NEFFs (tools/neuron-explorer/profile-artifacts)
NKI_FOLDER = "NKI_COMPILE_CACHE_URL"  # folder in which NKI saves its traces; found in public code, not documented


def package_versions() -> dict[str, str | None]:
    """Return the versions of the packages that compile kernels, or None for packages that are not installed."""
    versions = {package.name: package.version for package in neuron_packages()}
    try:
        versions["torch"] = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        versions["torch"] = None
    return versions


def compiler_settings() -> dict[str, Any]:
    """Return, as JSON values, everything that compiled kernels depend on besides the kernel and its shapes."""
    return {
        "versions": package_versions(),
        "python": ".".join(map(str, sys.version_info[:2])),
        "variables": {name: os.environ.get(name, "") for name in _VARIABLES},
        "compile_config": "default",
    }


def torch_variables(folder: Path | None) -> dict[str, str]:
    """Return the environment variables that make TorchNeuron save compiled kernels below a folder.

    The name of the folder is derived from versions, settings and the source of all kernels: according to a public
    report, an earlier libtorch replayed a kernel whose helper had changed. The user's own settings are kept.
    """
    if folder is None:
        return {}
    material = json.dumps([compiler_settings(), kernels_digest()], sort_keys=True)
    subfolder = folder / "torchneuron" / hashlib.sha256(material.encode()).hexdigest()[:16]
    return {
        name: str(subfolder / part)
        for name, part in ((NEFF_FOLDER, "neff"), (NKI_FOLDER, "nki"))
        if name not in os.environ
    }
