"""Find the name and source of a kernel without relying on the attributes of the object returned by `nki.jit`.

AWS documents that `nki.jit` returns a `Kernel` (aws-neuron-sdk, nki/api/generated/nki.jit) but documents none of its
attributes; in the source (nki/framework/kernel.py: a frozen dataclass with `func`, `lnc`, `schedule` and others) they
are marked internal. Therefore, a kernel is identified by finding the module attribute that is the same object.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

_KERNELS = f"{__package__.rsplit('.', 2)[0]}.kernels"
_KERNELS_FOLDER = Path(__file__).resolve().parents[2] / "kernels"


@dataclass(frozen=True)
class KernelSource:
    """The name of a kernel, and the SHA-256 of all files on which its code may depend (None if it is not in a module).

    `module` and `file` are the module and the file in which the kernel was found.
    """

    name: str
    digest: str | None
    module: str | None = None
    file: str | None = None


def find_source(kernel: Any) -> KernelSource:
    """Return the name and source digest of a kernel.

    The digest covers all files of trninfer.kernels, since kernels call each other, and the kernel's file if it is
    not one of these. A kernel that is not a module attribute (such as one defined inside a function) has no digest.
    """
    for module in _modules():
        for name, value in list(vars(module).items()):
            if value is kernel and not name.startswith("__"):
                file = getattr(module, "__file__", None)
                return KernelSource(name, _digest(file), module.__name__, file)
    return KernelSource(str(getattr(kernel, "__name__", type(kernel).__name__)), None)


def _modules() -> list[ModuleType]:
    """Return the loaded modules, beginning with the modules of trninfer.kernels, in which kernels have their original
    names."""
    loaded = [(name, module) for name, module in list(sys.modules.items()) if isinstance(module, ModuleType)]
    return [module for _, module in sorted(loaded, key=lambda item: not item[0].startswith(f"{_KERNELS}."))]


def kernels_digest() -> str:
    """Return the SHA-256 of all files of trninfer.kernels."""
    digest = _digest(str(_KERNELS_FOLDER / "__init__.py"))
    assert digest is not None
    return digest


@functools.cache
def _digest(file: str | None) -> str | None:
    if file is None:
        return None
    path = Path(file).resolve()
    sources = sorted(_KERNELS_FOLDER.rglob("*.py"))
    if _KERNELS_FOLDER not in path.parents:
        sources.append(path)
    digest = hashlib.sha256()
    for source in sources:
        text = source.read_bytes()
        digest.update(f"{source.name} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()
