"""Functions of earlier versions of NKI that run and time kernels: `nki.benchmark` and related functions.

Up to NKI 0.3, a script ran a kernel with `nki.baremetal(kernel)(...)`, timed it with `nki.benchmark(...)(kernel)(...)`
and read `benchmark_result.nc_latency.get_latency_percentile(99)` (general/nki/api of SDK 2.21). In the simulator, the
latency is a single prediction, so all percentiles are equal.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any

from ..machine.chip import TARGET_VARIABLE
from ..machine.settings import generates_descriptors
from .kernel import Kernel, simulate
from .launch import run

NO_DGE = "--disable-dge"  # compiler option, passed in `additional_compile_opt`
_TARGET = "trn2"
_OPTIONS = frozenset(inspect.signature(run).parameters)


class NcLatency:
    """The latencies of a benchmark in microseconds, which consist of a single prediction."""

    def __init__(self, microseconds: float) -> None:
        self.predicted_us = microseconds

    def get_latency_percentile(self, percentile: float) -> float:
        """Return the predicted latency in microseconds for any percentile from 0 to 100.

        Raise ValueError for other numbers.
        """
        if not 0 <= percentile <= 100:
            raise ValueError(f"percentile must be from 0 to 100, got {percentile}")
        return self.predicted_us

    def __repr__(self) -> str:
        return f"NcLatency({self.predicted_us:.2f} us predicted)"


class BenchmarkResult:
    """The result of `nki.benchmark`. `nc_latency` is the latency on the NeuronCore."""

    def __init__(self, microseconds: float) -> None:
        self.nc_latency = NcLatency(microseconds)


class Benchmark:
    """A kernel that is timed when it is called.

    As in AWS's implementation, the call returns nothing. No values are computed.
    """

    def __init__(self, kernel: Callable[..., Any], dge: bool, profiled: bool = False) -> None:
        functools.update_wrapper(self, kernel)
        self._kernel = _kernel(kernel)
        self._dge = dge
        self._profiled = profiled
        self.benchmark_result: BenchmarkResult | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        ignored = set(kwargs) & _OPTIONS
        if ignored:  # kernel parameters with the same names as parameters of `run` are passed by position
            args = (*args, *(kwargs.pop(name) for name in _parameters(self._kernel)[len(args) :] if name in kwargs))
        target = os.environ.get(TARGET_VARIABLE) or _TARGET
        dge = self._dge and generates_descriptors()
        result = run(self._kernel, *args, target=target, functional=False, dge=dge, profiled=self._profiled, **kwargs)
        self.benchmark_result = BenchmarkResult(result.latency_us)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        if "grid" in _parameters(self._kernel):  # a migrated kernel takes its launch grid as an argument
            return functools.partial(self, grid=grid if isinstance(grid, tuple) else (grid,))
        return Benchmark(self._kernel[grid], self._dge, self._profiled)


def benchmark(kernel: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Time a kernel when it is called: `nki.benchmark(kernel)` or `nki.benchmark(warmup=..., iters=...)(kernel)`.

    `additional_compile_opt` may contain --disable-dge. Other options, such as those for warm-up and for files that only
    the tools for a chip write, have no effect.
    """
    dge = NO_DGE not in str(options.get("additional_compile_opt", ""))
    return _decorated(kernel, lambda function: Benchmark(function, dge))


def profile(kernel: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Time a kernel when it is called, counting the launch as a profile does (`nki.profile`). No files are written."""
    dge = NO_DGE not in str(options.get("additional_compile_opt", ""))
    return _decorated(kernel, lambda function: Benchmark(function, dge, profiled=True))


def baremetal(kernel: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Run a kernel when it is called, and return its outputs (`nki.baremetal`)."""
    return _decorated(kernel, _kernel)


def trace(kernel: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Turn a function into a kernel. `nki.trace` is the old name of `nki.jit`."""
    return _decorated(kernel, _kernel)


def simulate_kernel(kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a kernel on the simulator and return its outputs: `nki.simulate_kernel(kernel, ...)`."""
    return simulate(kernel)(*args, **kwargs)


RUNNERS = {
    "baremetal": baremetal,
    "benchmark": benchmark,
    "profile": profile,
    "simulate_kernel": simulate_kernel,
    "trace": trace,
}


def _decorated(kernel: Callable[..., Any] | None, decorate: Callable[[Callable[..., Any]], Any]) -> Any:
    return decorate if kernel is None else decorate(kernel)


def _kernel(function: Callable[..., Any]) -> Kernel:
    return function if isinstance(function, Kernel) else Kernel(function)


def _parameters(kernel: Kernel) -> list[str]:
    code = kernel.function.__code__
    return list(code.co_varnames[: code.co_argcount])
