"""Compile a kernel without executing it, through internal modules of AWS's nki, and read AWS's own estimate.

The modules appear in AWS's sources and in public code: `nki.framework.compiled` has a StandaloneKernel, whose
`_executor` is called with the compiled kernel, and `compile_kernel_to_nir`, whose result `compile_bir_to_neff` of
`nki.compiler.ncc_driver` converts to a NEFF. Both results contain AWS's prediction (`total_time_ns`,
`estimated_utilization` by engine, `mac_count`, `hbm_bytes`) and, on request, the outputs of BIRSim, neuronx-cc's
instruction simulator. If the result contains no prediction, it is requested as in public code: with
`emit_predicted_latency` and with the pipeline optimizations that a StandaloneKernel turns off.

If a wheel lacks these modules or contains different versions, an ImportError, AttributeError or TypeError is raised,
and the next method is tried. The last method is the call that compiles and executes the kernel (compile_worker.py).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .errors import first_useful_line
from .jobs import array_type

REPORT = "report.json"
ESTIMATE = "AWS's estimate"
_OTHERWISE = (ImportError, AttributeError, TypeError, NotImplementedError)  # the wheel is not as expected


@dataclasses.dataclass(frozen=True)
class Estimate:
    """AWS's estimate of a kernel, which is neither predicted by trninfer nor measured.

    It consists of microseconds, the utilization of each engine, multiply-accumulates and HBM bytes. Values that AWS's
    compiler does not report are None.
    """

    total_us: float | None = None
    utilization: Mapping[str, float] = dataclasses.field(default_factory=dict)
    mac_count: int | None = None
    hbm_bytes: int | None = None


@dataclasses.dataclass(frozen=True)
class CompileReport:
    """A report on one compilation: the method that succeeded (`way`), the reasons why earlier methods failed, AWS's
    estimate, and the outputs of BIRSim if it ran."""

    way: str
    tried: tuple[tuple[str, str], ...] = ()
    estimate: Estimate | None = None
    birsim: tuple[np.ndarray, ...] | None = None

    def write(self, folder: Path) -> None:
        """Write the report to a folder, with the outputs as raw bytes in separate files."""
        outputs = None
        if self.birsim is not None:
            outputs = [[list(array.shape), array.dtype.name] for array in self.birsim]
            for number, array in enumerate(self.birsim):
                (folder / f"birsim{number}.bin").write_bytes(np.ascontiguousarray(array).tobytes())
        estimate = dataclasses.asdict(self.estimate) if self.estimate is not None else None
        text = json.dumps({"way": self.way, "tried": self.tried, "estimate": estimate, "birsim": outputs})
        (folder / REPORT).write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> CompileReport | None:
        """Return the report in a folder, or None if there is none."""
        if not (folder / REPORT).is_file():
            return None
        record = json.loads((folder / REPORT).read_text(encoding="utf-8"))
        birsim = None
        if record["birsim"] is not None:
            data = [(folder / f"birsim{number}.bin").read_bytes() for number in range(len(record["birsim"]))]
            birsim = tuple(
                np.frombuffer(output, array_type(dtype)).reshape(shape)
                for output, (shape, dtype) in zip(data, record["birsim"])
            )
        estimate = Estimate(**record["estimate"]) if record["estimate"] is not None else None
        return cls(record["way"], tuple(map(tuple, record["tried"])), estimate, birsim)


def compile_alone(
    kernel: Any, inputs: Mapping[str, np.ndarray], parameters: Mapping[str, Any], artifacts: Path, simulate: bool
) -> CompileReport | None:
    """Compile a kernel to `kernel.neff` below `artifacts`, without executing it.

    Return None if this version of nki does not support that.

    If `simulate` is True, BIRSim is also run on the inputs, if possible. Exceptions that the compiler raises for a
    kernel are propagated.
    """
    failed_ways: list[tuple[str, str]] = []
    for label, way, birsim in _attempts(simulate):
        folder = artifacts / label.replace(", ", "-").replace(" ", "-")
        try:
            compiled = _WAYS[way](kernel, inputs, parameters, folder, birsim)
        except Exception as error:
            shutil.rmtree(folder, ignore_errors=True)  # neuronx-cc needs an empty folder
            failed_ways.append((label, _reason(error)))
            if not birsim and not isinstance(error, _OTHERWISE):
                raise
            continue
        estimate = _estimate_of(getattr(compiled, "bir", None))
        if estimate is None or estimate.total_us is None:
            alone, failures = _try_estimate(kernel, inputs, parameters, artifacts / "estimate")
            estimate, failed_ways = alone or estimate, failed_ways + failures
        return CompileReport(label, tuple(failed_ways), estimate, _simulated(compiled) if birsim else None)
    return None


def _attempts(simulate: bool) -> list[tuple[str, str, bool]]:
    """Return the methods of compiling a kernel in the order in which they are tried: (label, key of `_WAYS`, whether to
    run BIRSim)."""
    runs = (True, False) if simulate else (False,)
    return [(f"{way}, BIRSim" if birsim else way, way, birsim) for way in _WAYS for birsim in runs]


def _reason(error: Exception) -> str:
    return first_useful_line(f"{type(error).__name__}: {error}")


def _simulated(compiled: Any) -> tuple[np.ndarray, ...] | None:
    """Return the outputs of BIRSim, or None if BIRSim did not run."""
    outputs = getattr(compiled, "birsim_outputs", None)
    return None if outputs is None else tuple(np.asarray(output) for output in outputs)


def _by_executor(
    kernel: Any, inputs: Mapping[str, np.ndarray], parameters: Mapping[str, Any], folder: Path, birsim: bool
) -> Any:
    """Compile with a StandaloneKernel whose executor only stores the compiled kernel that it receives."""
    from nki.compiler.frontend import resolve_frontend_cls
    from nki.framework.compiled import StandaloneKernel

    received: list[Any] = []

    def keep(compiled: Any, inputs: Any, outputs: Any, **more: Any) -> None:
        received.append(compiled)

    alone = kernel._to_subclass(
        StandaloneKernel,
        artifacts_dir=str(folder),
        _frontend_cls=resolve_frontend_cls(),
        _executor=keep,
        _enable_simulation=birsim,
    )
    alone(**inputs, **parameters)
    if not received:
        raise NotImplementedError("the executor was not called")
    return received[0]


def _by_nir(
    kernel: Any, inputs: Mapping[str, np.ndarray], parameters: Mapping[str, Any], folder: Path, birsim: bool
) -> Any:
    """Compile with `compile_kernel_to_nir` and `compile_bir_to_neff`."""
    from nki.compiler.frontend import resolve_frontend_cls
    from nki.compiler.ncc_driver import compile_bir_to_neff
    from nki.framework.compiled import CompileKernel, compile_kernel_to_nir

    subclass = kernel._to_subclass(
        CompileKernel, artifacts_dir=str(folder), _frontend_cls=resolve_frontend_cls(), _enable_simulation=birsim
    )
    options = dataclasses.replace(subclass._compile_opts(), emit_predicted_latency=True)
    nir = compile_kernel_to_nir(subclass, inputs={**inputs, **parameters}, compile_opts=options, enable_cache=False)
    names = [spec.name for spec in nir.input_specs]
    return compile_bir_to_neff(
        options,
        nir,
        input_arrays=[inputs[name] for name in names] if birsim else [],
        argument_names=names,
        output_arg_names=[spec.name for spec in nir.output_specs],
    )


_WAYS: dict[str, Callable[..., Any]] = {
    "executor that does nothing": _by_executor,
    "compile_kernel_to_nir and compile_bir_to_neff": _by_nir,
}


def _try_estimate(
    kernel: Any, inputs: Mapping[str, np.ndarray], parameters: Mapping[str, Any], folder: Path
) -> tuple[Estimate | None, list[tuple[str, str]]]:
    """Return AWS's estimate of a kernel or, if no estimate can be obtained, the reason.

    A failure does not invalidate the compiled kernel.
    """
    try:
        return _estimate_alone(kernel, inputs, parameters, folder), []
    except Exception as error:
        return None, [(ESTIMATE, _reason(error))]


def _estimate_alone(
    kernel: Any, inputs: Mapping[str, np.ndarray], parameters: Mapping[str, Any], folder: Path
) -> Estimate | None:
    """Return AWS's estimate of a kernel without generating a NEFF.

    The kernel is compiled as usual or, if that yields no estimate, with all optimizations of the pipeline. Return None
    if neither yields an estimate.
    """
    from nki.compiler.frontend import resolve_frontend_cls
    from nki.framework.compiled import CompileKernel, compile_kernel_to_nir

    estimate = None
    for optimizes in (False, True):
        subclass = kernel._to_subclass(
            CompileKernel,
            artifacts_dir=str(folder / ("optimized" if optimizes else "as-compiled")),
            _frontend_cls=resolve_frontend_cls(),
            _enable_backend_opt=optimizes,
        )
        options = dataclasses.replace(subclass._compile_opts(), emit_predicted_latency=True)
        nir = compile_kernel_to_nir(subclass, inputs={**inputs, **parameters}, compile_opts=options, enable_cache=False)
        estimate = _estimate_of(nir) or estimate
        if estimate is not None and estimate.total_us is not None:
            break
    return estimate


def _estimate_of(nir: Any) -> Estimate | None:
    """Return the estimate that a NirResult contains, or None if there is none."""
    total = getattr(nir, "total_time_ns", None)
    shares: dict[str, float] = {}
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        shares = dict(_numbers(nir.estimated_utilization))
    counts = {name: getattr(nir, name, None) for name in ("mac_count", "hbm_bytes")}
    if total is None and not shares:
        return None
    return Estimate(
        total_us=float(total) / 1000 if total is not None else None,
        utilization=shares,
        mac_count=int(counts["mac_count"]) if counts["mac_count"] is not None else None,
        hbm_bytes=int(counts["hbm_bytes"]) if counts["hbm_bytes"] is not None else None,
    )


def _numbers(found: Mapping[Any, Any]) -> Iterator[tuple[str, float]]:
    for name, share in found.items():
        yield str(name), float(share)
