"""Part of the stand-in for nki: nki/framework/compiled.py. A StandaloneKernel compiles, and then calls its executor.

STAND_IN_NKI_INTERNALS: "none" (a wheel without them), "nir" (StandaloneKernel accepts no executor), "birsim" (BIRSim
fails), "silent" (no estimate), "optimized" (an estimate only with all optimizations of the pipeline).
"""

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nki
from nki.compiler.ncc_driver import CompileOptions, compile_bir_to_neff, make_nir

FAULT = os.environ.get("STAND_IN_NKI_INTERNALS", "")


@dataclass(frozen=True)
class CompileKernel(nki.Kernel):
    artifacts_dir: str = ""
    _frontend_cls: type | None = None
    _enable_backend_opt: bool = False
    _executor: Callable | None = None
    _enable_simulation: bool = False

    def _compile_opts(self):
        options = CompileOptions(artifacts_dir=self.artifacts_dir, enable_simulation=self._enable_simulation)
        return options if self._enable_backend_opt else options.disable_backend_optimizations()


@dataclass(frozen=True)
class StandaloneKernel(CompileKernel):
    def __call__(self, *args, **kwargs):
        if FAULT == "nir":
            raise TypeError("__init__() got an unexpected keyword argument '_executor'")
        inputs = inspect.signature(self.func).bind(*args, **kwargs).arguments
        options = self._compile_opts()
        nir = make_nir(self, inputs, options)
        arrays = [inputs[spec.name] for spec in nir.input_specs]
        names = [[spec.name for spec in specs] for specs in (nir.input_specs, nir.output_specs)]
        self._executor(compile_bir_to_neff(options, nir, arrays, *names), inputs, {})


def compile_kernel_to_nir(kernel, *, inputs, compile_opts, frontend=None, enable_cache=True):
    Path(compile_opts.artifacts_dir).mkdir(parents=True, exist_ok=True)
    return make_nir(kernel, inputs, compile_opts)
