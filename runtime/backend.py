"""The interface of backends that run kernels, their errors, and the notes on their times."""

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
EIGHT_BITS = "float8_e4m3"  # for networks only; operands and layers that are not in 8 bits are bfloat16
NETWORK_DTYPES = {**DTYPES, EIGHT_BITS: DTYPES["bfloat16"]}
DEFAULT_TARGET = "trn2"
DEVICE_LABEL = "measured, device"  # label of a time measured on the chip
TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"  # AWS's variable, which AWS's compiler and simulator also read


class BackendUnavailable(TrninferError, RuntimeError):  # noqa: N818 (the condition, as in the exit status)
    """The requested backend is not available on this machine. The message is one line for the user."""


class TargetError(TrninferError, ValueError):
    """The target does not exist. The message is one line for the user."""


class KernelError(TrninferError, ValueError):
    """A kernel rejected its arguments. The message is one line for the user."""


@dataclass(frozen=True)
class LaunchTime:
    """The time of one launch of a kernel, in microseconds, and its work.

    Unknown values are None, and unknown counts are 0. The `latency_label` of the backend describes how `latency_us` was
    obtained. The rates `mfu` and `hfu` (0 to 1) are relative to `active_us`.
    """

    latency_us: float
    latency_us_p99: float | None = None
    device_us: float | None = None  # on the device alone, if it was also measured
    device_us_p99: float | None = None
    flops: int = 0  # of the model: 2 for a multiply-accumulate, 1 for an elementwise operation
    hbm_bytes: int = 0  # moved to and from HBM
    bound_by: str | None = None  # the resource with the largest part of `critical`
    mfu: float | None = None
    latency_error: float | None = None  # expected relative error of a predicted time
    form: str | None = None  # the convolution algorithm (lowering/describe.py)
    device_by: str | None = None  # the tool that measured `device_us`
    hardware_flops: int = 0  # all operations of the PE array: also zeros, warm-up and transposes
    hfu: float | None = None
    active_us: float | None = None  # the time during which the launch's own instructions and DMAs ran
    # `latency_us` by resource along the critical path (simulator/timing/critical_path.py)
    critical: Mapping[str, float] = field(default_factory=dict)
    sbuf_peak_bytes: int | None = None  # peak usage of an SBUF partition; None for a part of a launch


@dataclass(frozen=True)
class LaunchResult:
    """The result of one launch of a kernel: its outputs (none if it was only timed) and its time.

    Outputs may be on the device: they have `shape`, `dtype`, `len` and `reshape`, can be passed to another launch
    unchanged, and are copied to the host by `np.asarray`.
    """

    outputs: tuple[Any, ...]
    time: LaunchTime
    timeline: object | None = None  # a `simulator.Run` without outputs, if the simulator keeps timelines
    # If the kernel runs a network on a backend that times layers: the time that belongs to no layer, and the time of
    # each layer. Together they add up to the total time.
    launch: LaunchTime | None = None
    layers: Mapping[str, LaunchTime] = field(default_factory=dict)


@dataclass(frozen=True)
class ArraySpec:
    """The shape and dtype of an array, without values."""

    shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class BackendInfo:
    """The description of a backend in reports: its name ("sim" or "neuron"), its target ("trn1", "trn2" or "trn3"), and
    the kind of its times ("predicted" or "measured") with a label that describes how they were obtained.
    `has_layer_times` is True if it times each layer within a launch. `lnc` is the number of NeuronCores in the logical
    core of a launch, 1 or 2."""

    name: str
    target: str
    latency_kind: str
    latency_label: str
    has_layer_times: bool = False
    lnc: int = 1


class Backend(Protocol):
    """Runs kernels. Operands are given by position or by parameter name."""

    @property
    def info(self) -> BackendInfo:
        """The description of the backend in reports."""

    def launch(self, kernel: Any, *arrays: Any, **parameters: Any) -> LaunchResult:
        """Run a kernel on arrays. Raises KernelError if the kernel rejects them."""

    def time(self, kernel: Any, *specs: ArraySpec, **parameters: Any) -> LaunchResult:
        """Time a kernel on arrays of the given shapes. The result has no outputs."""


def split_arguments(
    kernel: Any, arrays: Sequence[Any], parameters: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two dictionaries keyed by name: a call's operands, in the order of the kernel's parameters, and its other
    arguments.

    Raises KernelError if the kernel has no parameter for an argument.
    """
    signature = inspect.signature(kernel)
    try:
        arguments = signature.bind(*arrays, **parameters).arguments
    except TypeError as error:
        raise KernelError(f"{kernel.__name__}: {error}") from None
    operands = {name: value for name, value in arguments.items() if is_operand(value)}
    return operands, {name: value for name, value in arguments.items() if name not in operands}


def is_operand(value: Any) -> bool:
    """True for an array, an array spec, or an array on the device; False for NumPy scalars."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic)


def latency_note(backend: BackendInfo) -> str | None:
    """Return the note to show next to a backend's times (for trn3, a warning that they are not validated), or None."""
    if backend.name != "sim":
        return None
    from ..simulator.running.run import TWO_CORES_NOTE
    from ..simulator.timing.constants import scaled_note

    notes = [scaled_note(backend.target), TWO_CORES_NOTE if backend.lnc > 1 else None]
    return "; ".join(note for note in notes if note) or None


def check_cores(target: str, lnc: int) -> None:
    """Raise TargetError if the target has no logical cores of that number of NeuronCores."""
    from ..simulator.machine.chip import find_target

    if lnc > 1 and find_target(target).generation < 3:
        raise TargetError(f"--lnc {lnc} requires trn2 or trn3; a logical core of {target} consists of one NeuronCore")


def resolve_target(target: str | None) -> str:
    """Return the target's canonical name: the argument, else NEURON_PLATFORM_TARGET_OVERRIDE, else trn2.

    Raises TargetError if there is no such target.
    """
    from ..simulator import NkiValidationError
    from ..simulator.machine.chip import find_target

    try:
        return find_target(target or os.environ.get(TARGET_VARIABLE) or DEFAULT_TARGET).name
    except NkiValidationError as error:
        raise TargetError(str(error) if target else f"{TARGET_VARIABLE}: {error}") from None
