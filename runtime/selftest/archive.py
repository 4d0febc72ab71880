"""Compare an archive of `doctor --selftest` with current predictions, for each kernel and engine."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ... import simulator
from ...kernels.nki_source import use_nki
from ..backend import DTYPES
from .checks import Check, checks

DOCUMENT = "selftest.json"
MAX_BYTES = 256 << 20  # size limit for the unpacked document
# Maps trninfer's names of engines to AWS's names. Unknown names are shown unchanged.
ENGINES = {"pe": "tensor", "dve": "vector", "act": "scalar", "activation": "scalar", "pool": "gpsimd"}


class ArchiveError(ValueError):
    """The file is not an archive of the self-test. The message is one line for the user."""


@dataclass(frozen=True)
class ComparedKernel:
    """The current prediction for a kernel, AWS's estimate and a measured device time, in microseconds.

    The estimate and the measured time are None if the archive does not contain them. `critical` (the microseconds of
    each resource) and `engines` (the fraction of the time for which each is busy) are trninfer's predictions;
    `aws_engines` is AWS's estimate of the busy fractions.
    """

    target: str
    dtype: str
    kernel: str
    variant: str
    size: str
    predicted_us: float
    bound_by: str
    aws_estimate_us: float | None = None
    measured_device_us: float | None = None
    critical: Mapping[str, float] = field(default_factory=dict)
    engines: Mapping[str, float] = field(default_factory=dict)
    aws_engines: Mapping[str, float] = field(default_factory=dict)

    @property
    def explanation(self) -> str:
        """An explanation of the prediction's error in terms of the critical path."""
        parts = []
        for label, other in (("AWS's estimate", self.aws_estimate_us), ("measured", self.measured_device_us)):
            if other is not None:
                parts.append(f"{label} is {other / self.predicted_us:.2f} times the prediction")
        longest = sorted(self.critical.items(), key=lambda item: -item[1])[:2]
        parts.append("ours: " + ", ".join(f"{name} {us:.1f} us" for name, us in longest))
        shared = [name for name in self.engines if name in self.aws_engines]
        gaps = {name: self.aws_engines[name] - self.engines[name] for name in shared}
        if gaps:
            name = max(gaps, key=lambda each: abs(gaps[each]))
            parts.append(
                f"{name} is busy for {self.engines[name]:.0%} of the predicted time, but {self.aws_engines[name]:.0%} "
                "of AWS's"
            )
        return "; ".join(parts)


@dataclass(frozen=True)
class ArchivedKernel:
    """A check in an archive, with its times in microseconds and AWS's estimate of the fraction for which each engine is
    busy, keyed by trninfer's names of engines. A time that the archive does not contain is None; at least one is
    present."""

    target: str
    dtype: str
    check: Check
    aws_estimate_us: float | None
    measured_device_us: float | None
    aws_engines: Mapping[str, float]

    @property
    def operands(self) -> list[str]:
        """The shapes and dtypes of the operands, in the order of the kernel, in the format that is passed to observers
        of launches."""
        arrays = (*self.check.arrays, *self.check.named.values())
        return [f"{list(array.shape)} {array.dtype.name}" for array in arrays]

    def predicted(self) -> ComparedKernel:
        """Predict the time of trninfer's kernel again, and return the comparison."""
        from ... import kernels  # only after the backend is chosen

        check = self.check
        specs = [_spec(array) for array in check.arrays]
        operand_specs: dict[str, Any] = {name: _spec(array) for name, array in check.named.items()}
        kernel = kernels.kernel(check.kernel)
        return self.beside(
            simulator.run(kernel, *specs, target=self.target, functional=False, **operand_specs, **check.parameters)
        )

    def beside(self, run: simulator.Run) -> ComparedKernel:
        """Return the comparison of this kernel with a launch on the simulator."""
        return ComparedKernel(
            target=self.target,
            dtype=self.dtype,
            kernel=self.check.kernel,
            variant=self.check.variant,
            size=self.check.size,
            predicted_us=run.latency_us,
            bound_by=run.bound_by,
            aws_estimate_us=self.aws_estimate_us,
            measured_device_us=self.measured_device_us,
            critical=run.critical.by_resource,
            engines={name: run.engines[name].share for name in ("tensor", "vector", "scalar", "gpsimd")},
            aws_engines=self.aws_engines,
        )


def compare_archive(path: Path) -> list[ComparedKernel]:
    """Predict the times of all kernels in an archive for which there is an estimate by AWS or a measured time.

    Raises ArchiveError, as `read_archive` does.
    """
    return [kernel.predicted() for kernel in read_archive(path)]


def read_archive(path: Path) -> list[ArchivedKernel]:
    """Return the kernels in an archive for which there is an estimate by AWS or a measured time.

    Raises ArchiveError if the file is not an archive of the self-test, or if no kernel has either time.
    """
    use_nki("sim")
    kernels = [kernel for run in _runs(path) for kernel in _kernels_of(run)]
    if not kernels:
        raise ArchiveError(
            f"{path}: it contains neither AWS's estimate nor a measured time for any kernel; create one on a chip, or "
            "with trninfer doctor --selftest --compile-only"
        )
    return kernels


def _runs(path: Path) -> list[dict[str, Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo(DOCUMENT).file_size > MAX_BYTES:
                raise ArchiveError(f"{path}: its {DOCUMENT} is larger than {MAX_BYTES >> 20} MiB")
            document = json.loads(archive.read(DOCUMENT))
        runs: list[dict[str, Any]] = document.get("runs") or [document]
        for run in runs:
            _ = (run["target"], DTYPES[run["dtype"]], [row["kernel"] for row in run["kernels"]])
        return runs
    except OSError as error:
        raise ArchiveError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, ArchiveError):
            raise
        message = f"{path}: not an archive of trninfer doctor --selftest: its {DOCUMENT} is missing or invalid"
        raise ArchiveError(message) from None


def _kernels_of(run: Mapping[str, Any]) -> Iterator[ArchivedKernel]:
    rows = {(row["kernel"], row.get("variant", ""), row.get("size", "")): row for row in run["kernels"]}
    rows = {key: row for key, row in rows.items() if _has_times(row)}
    for check in checks(DTYPES[run["dtype"]]) if rows else ():
        row = rows.get((check.kernel, check.variant, check.size))
        if row is not None and [list(shape) for shape in check.shapes] == [list(shape) for shape in row["shapes"]]:
            estimate = row.get("aws_estimate") or {}
            yield ArchivedKernel(
                target=run["target"],
                dtype=run["dtype"],
                check=check,
                aws_estimate_us=estimate.get("total_us"),
                measured_device_us=row.get("measured_device_us"),
                aws_engines=_shares(estimate.get("utilization") or {}),
            )


def _has_times(row: Mapping[str, Any]) -> bool:
    estimate = row.get("aws_estimate") or {}
    return estimate.get("total_us") is not None or row.get("measured_device_us") is not None


def _spec(array: np.ndarray) -> simulator.TensorSpec:
    return simulator.TensorSpec(array.shape, array.dtype.name)


def _shares(utilization: Mapping[str, Any]) -> dict[str, float]:
    """Return AWS's utilization of the engines as fractions, keyed by trninfer's names.

    Numbers above 1 are interpreted as percentages.
    """
    shares = {ENGINES.get(str(name).lower(), str(name)): float(share) for name, share in utilization.items()}
    return {name: share / 100 for name, share in shares.items()} if max(shares.values(), default=0) > 1 else shares
