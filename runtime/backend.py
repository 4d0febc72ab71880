"""Contract of the backends that run kernels, their errors, and the notes on their times."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, get_args

import ml_dtypes
import numpy as np

from ..models.errors import TrninferError
from .launch_options import BackendName

BACKENDS = get_args(BackendName)
DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
}
EIGHT_BITS = "float8_e4m3"  # of networks alone: what is not in 8 bits, and all that is launched with, is bfloat16
NETWORK_DTYPES = {**DTYPES, EIGHT_BITS: DTYPES["bfloat16"]}
DEFAULT_TARGET = "trn2"
DEVICE_LABEL = "measured, device"  # of a time on the chip
TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"  # AWS's variable, which its compiler and simulator read too


class BackendUnavailable(TrninferError, RuntimeError):  # noqa: N818 (the condition, as in the exit status)
    """The backend that was asked for is not here; the message is one line for the user."""


class TargetError(TrninferError, ValueError):
    """A target that does not exist; the message is one line for the user."""


class KernelError(TrninferError, ValueError):
    """A kernel refused what it was given; the message is one line for the user."""


@dataclass(frozen=True)
class LaunchTime:
    """Time of one launch of a kernel, in microseconds, and its work.

    `latency_us` is what the backend's `latency_label` says, `device_us` the time on the device alone where that was
    measured beside it; each with its 99th percentile where one is known, and `device_by` names what measured
    the time on the device. `flops` are the model's operations: 2 for a multiply-accumulate and 1 for an
    elementwise operation; `hardware_flops` what the PE array multiplied, zeros,
    warm-up and transposes included; `hbm_bytes` what moved to and from HBM. They are 0 where nobody counts them.

    `critical` are the microseconds of the critical path by resource (simulator/timing/critical_path.py), which add up
    to `latency_us`; `bound_by` is the resource with most of them. `mfu` and `hfu` (0..1) are of `active_us`, in which
    the instructions and DMAs that did the work ran, beside others'. None, or empty, where the backend does not know
    them. `latency_error` is how far a predicted time is likely to be off, as a share of it; None where it is measured
    or its error is unknown. `form` is how a convolution multiplies its filters (lowering/describe.py), None if there
    is none or it is unknown. `sbuf_peak_bytes` are what a launch holds of a partition of SBUF at most, None for parts.
    """

    latency_us: float
    latency_us_p99: float | None = None
    device_us: float | None = None
    device_us_p99: float | None = None
    flops: int = 0
    hbm_bytes: int = 0
    bound_by: str | None = None
    mfu: float | None = None
    latency_error: float | None = None
    form: str | None = None
    device_by: str | None = None
    hardware_flops: int = 0
    hfu: float | None = None
    active_us: float | None = None
    critical: Mapping[str, float] = field(default_factory=dict)
    sbuf_peak_bytes: int | None = None


@dataclass(frozen=True)
class LaunchResult:
    """Result of one launch of a kernel: its outputs (none if it was only timed) and its time.

    Outputs may be on the device: they have `shape`, `dtype`, `len` and `reshape`, another launch takes them as they
    are, and `np.asarray` brings their values.
    `timeline` is a `simulator.Run` without outputs where the simulator was asked to keep timelines, else None. Of a
    kernel that runs the layers of a network, and on a backend that times layers, `layers` has what each of them
    took, by name; they and `launch`, what is no layer's, add up to the time.
    """

    outputs: tuple[Any, ...]
    time: LaunchTime
    timeline: object | None = None
    launch: LaunchTime | None = None
    layers: Mapping[str, LaunchTime] = field(default_factory=dict)


@dataclass(frozen=True)
class ArraySpec:
    """Shape and dtype of an array whose values do not matter."""

    shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class BackendInfo:
    """Description of a backend in reports: its name ("sim" or "neuron"), its target ("trn1", "trn2" or "trn3"), and the
    kind of its times ("predicted" or "measured") with a label that says how they were found. `tells_layers`: it times
    each layer within one launch. `lnc`: the NeuronCores of the logical core that a launch runs on, 1 or 2."""

    name: str
    target: str
    latency_kind: str
    latency_label: str
    tells_layers: bool = False
    lnc: int = 1


class Backend(Protocol):
    """Runs kernels. Operands are positional, or by name among the parameters."""

    @property
    def info(self) -> BackendInfo:
        """The description of the backend in reports."""

    def launch(self, kernel: Any, *arrays: Any, **parameters: Any) -> LaunchResult:
        """Run a kernel on arrays; KernelError where the kernel refuses them."""

    def time(self, kernel: Any, *specs: ArraySpec, **parameters: Any) -> LaunchResult:
        """Time a kernel on arrays of these shapes; the result has no outputs."""


def split_arguments(
    kernel: Any, arrays: Sequence[Any], parameters: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a call's operands by name, in the order of the kernel's parameters, and its other arguments by name.

    KernelError where the kernel has no parameter for an argument.
    """
    signature = inspect.signature(kernel)
    try:
        given = signature.bind(*arrays, **parameters).arguments
    except TypeError as error:
        raise KernelError(f"{kernel.__name__}: {error}") from None
    operands = {name: value for name, value in given.items() if is_operand(value)}
    return operands, {name: value for name, value in given.items() if name not in operands}


def is_operand(value: Any) -> bool:
    """True for an array, its spec, or an array on the device; NumPy's numbers are none."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic)


def latency_note(backend: BackendInfo) -> str | None:
    """Return the note to show beside the times of a backend (trn3's are not validated), or None."""
    if backend.name != "sim":
        return None
    from ..simulator.running.run import TWO_CORES_NOTE
    from ..simulator.timing.constants import scaled_note

    notes = [scaled_note(backend.target), TWO_CORES_NOTE if backend.lnc > 1 else None]
    return "; ".join(note for note in notes if note) or None


def check_cores(target: str, lnc: int) -> None:
    """TargetError where a logical core of a target cannot have that number of NeuronCores."""
    from ..simulator.machine.chip import find_target

    if lnc > 1 and find_target(target).generation < 3:
        raise TargetError(f"a logical core of {target} has one NeuronCore; --lnc {lnc} is for trn2 and trn3")


def resolve_target(target: str | None) -> str:
    """The target's own name: that of the argument, else of NEURON_PLATFORM_TARGET_OVERRIDE, else trn2.

    TargetError where there is no such target.
    """
    from ..simulator import NkiValidationError
    from ..simulator.machine.chip import find_target

    try:
        return find_target(target or os.environ.get(TARGET_VARIABLE) or DEFAULT_TARGET).name
    except NkiValidationError as error:
        raise TargetError(str(error) if target else f"{TARGET_VARIABLE}: {error}") from None
