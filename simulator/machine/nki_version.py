"""The version of NKI that kernels are written in: 0.7, or 0.6 for those who are still on SDK 2.32.

NKI 0.7 traces a kernel by running it as Python. `NKI_COMPILER_FRONTEND=custom` keeps the front end of 0.6, a parser of
a part of Python, for one more release (about-neuron/announcements/neuron2.x/announce-nki-specialization-change.rst);
the same variable chooses it here, and so do the parameter `nki` of `simulator.run` and the option `--nki`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import NkiValidationError

VERSIONS = ("0.7", "0.6")
VARIABLE = "NKI_COMPILER_FRONTEND"
_EARLIER = ("custom", "parser")  # its values that mean the front end of 0.6

_chosen: list[str] = []


def current() -> str:
    """The version that holds now: what `using` chose, else what the environment says, else 0.7."""
    if _chosen:
        return _chosen[-1]
    return "0.6" if os.environ.get(VARIABLE) in _EARLIER else "0.7"


def is_traced() -> bool:
    """True where kernels are traced by running them, as since 0.7."""
    return current() != "0.6"


def checked(version: str) -> str:
    """The version, or NkiValidationError where there is no such one."""
    if version not in VERSIONS:
        raise NkiValidationError(f"NKI {version!r} is not simulated; allowed: {', '.join(VERSIONS)}")
    return version


@contextmanager
def using(version: str | None) -> Iterator[None]:
    """Take kernels inside as written in `version`; None leaves what holds."""
    if version is None:
        yield
        return
    _chosen.append(checked(version))
    try:
        yield
    finally:
        _chosen.pop()
