"""What runs kernels: the contract of a backend, its errors, and what is said of its times."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

BACKENDS = ("auto", "neuron", "sim")
DEFAULT_TARGET = "trn2"
TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"  # AWS's variable, which its compiler and simulator read too


class BackendUnavailable(RuntimeError):  # noqa: N818 (the condition, as in the exit status)
    """The backend that was asked for is not here; the message is one line for the user."""


class TargetError(ValueError):
    """A target that does not exist; the message is one line for the user."""


class KernelError(ValueError):
    """A kernel refused what it was given; the message is one line for the user."""


@dataclass(frozen=True)
class Launch:
    """What one launch of a kernel gave: outputs (empty where it was only timed) and its time in microseconds.

    `flops` are 2 for a multiply-accumulate and 1 for an elementwise operation, `hbm_bytes` what moved to and from HBM.
    `bound_by`, `mfu` (0..1) and the 99th percentile are None where the backend does not know them. `timeline` is a
    `simulator.Run` without outputs where the simulator was asked to keep timelines, else None.
    """

    outputs: tuple[np.ndarray, ...]
    latency_us: float
    latency_us_p99: float | None
    flops: int
    hbm_bytes: int
    bound_by: str | None
    mfu: float | None
    timeline: object | None


@dataclass(frozen=True)
class ArraySpec:
    """Shape and dtype of an array whose values do not matter."""

    shape: tuple[int, ...]
    dtype: Any


class Backend(Protocol):
    """Runs kernels. `latency_kind` says what its times are: "predicted" or "measured"."""

    name: str
    target: str
    latency_kind: str

    def launch(self, kernel: Any, *arrays: np.ndarray, **parameters: Any) -> Launch:
        """Run a kernel on arrays; KernelError where the kernel refuses them."""

    def time(self, kernel: Any, *specs: ArraySpec, **parameters: Any) -> Launch:
        """Time a kernel on arrays of these shapes; the launch has no outputs."""


class Labelled(Protocol):
    """What a backend is called, and its target."""

    @property
    def name(self) -> str:
        """sim or neuron."""

    @property
    def target(self) -> str:
        """trn1, trn2 or trn3."""


def latency_note(backend: Labelled) -> str | None:
    """What must be said beside the times of a backend (that trn3's are not validated), or None."""
    if backend.name != "sim":
        return None
    from ..simulator.timing.constants import scaled_note

    return scaled_note(backend.target)


def latency_label(backend: Backend) -> str:
    """What a backend's times are, in words: its `latency_label` where it has one, else its `latency_kind`."""
    return str(getattr(backend, "latency_label", backend.latency_kind))


def resolve_target(target: str | None) -> str:
    """The target's own name: that of the argument, else of NEURON_PLATFORM_TARGET_OVERRIDE, else trn2.

    TargetError where there is no such target.
    """
    from ..simulator import NkiValidationError
    from ..simulator.targets import find_target

    try:
        return find_target(target or os.environ.get(TARGET_VARIABLE) or DEFAULT_TARGET).name
    except NkiValidationError as error:
        raise TargetError(str(error) if target else f"{TARGET_VARIABLE}: {error}") from None
