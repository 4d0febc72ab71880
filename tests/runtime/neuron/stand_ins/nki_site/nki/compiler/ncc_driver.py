"""Part of the stand-in for nki: nki/compiler/ncc_driver.py, using the simulator. Its estimate is derived from the
prediction."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from trninfer import simulator

import nki

FAULT = os.environ.get("STAND_IN_NKI_INTERNALS", "")


@dataclass(frozen=True)
class CompileOptions:
    artifacts_dir: str
    enable_simulation: bool = False
    nki_opt_pipeline_options: tuple = ()
    emit_predicted_latency: bool = False

    def disable_backend_optimizations(self):
        off = ("enable-linear-scan-allocation=false", "enable-instruction-scheduling=false")
        return replace(self, nki_opt_pipeline_options=off)


def make_nir(kernel, inputs, compile_opts):
    """Return NirResult with the compiler's estimate if requested: 1.5 times the simulator's prediction.

    The source allows it to estimate nothing unless requested, which is the worst case: public code that reads
    `total_time_ns` requests it with `emit_predicted_latency`.
    """
    estimates = compile_opts.emit_predicted_latency and FAULT != "silent"
    if FAULT == "optimized" and compile_opts.nki_opt_pipeline_options:
        estimates = False
    tensors = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
    constants = {name: value for name, value in inputs.items() if name not in tensors}
    nki._compile(kernel, {name: (a.shape, a.dtype.name) for name, a in tensors.items()}, constants)
    returned, read = nki._trace(kernel, tensors, constants)
    specs = {name: simulator.TensorSpec(a.shape, a.dtype.name) for name, a in tensors.items()}
    target = os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    run = simulator.run(kernel.func, target=target, functional=False, **specs, **constants)
    results = returned if isinstance(returned, tuple) else (returned,)
    told = {"total_time_ns": int(1500 * run.latency_us), "estimated_utilization": {"PE": 0.25, "Pool": 0.5}}
    return SimpleNamespace(
        **(told if estimates else {"total_time_ns": None, "estimated_utilization": None}),
        mac_count=run.flops // 2,
        hbm_bytes=run.hbm_bytes,
        input_specs=[SimpleNamespace(name=name) for name in tensors if name in read],
        output_specs=[SimpleNamespace(name=f"output_{number}") for number in range(len(results))],
        returned=results,
    )


def compile_bir_to_neff(compile_opts, bir, input_arrays, argument_names, output_arg_names):
    if compile_opts.enable_simulation:
        assert len(input_arrays) == len(argument_names) == len(bir.input_specs)
        if FAULT == "birsim":
            raise RuntimeError("BIRSim: an instruction that it does not know")
    path = Path(compile_opts.artifacts_dir, "kernel.neff")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("NEFF")
    outputs = list(bir.returned) if compile_opts.enable_simulation else None
    return SimpleNamespace(neff_path=str(path), bir=bir, birsim_outputs=outputs)
