"""Stands in for PyTorch NeuronX: `trace` with the documented signature, compiling to the NeuronCore simulator.

Source of the signature: aws-neuron-sdk, frameworks/torch/torch-neuronx/api-reference-guide/inference/
api-torch-neuronx-trace.rst. What is wrong about a call is an AssertionError or TypeError here. `control` makes it fail,
and counts. STAND_IN_COMPILE_LOG names a file that gets a line for each compilation, STAND_IN_COMPILE_SECONDS slows one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

IMPORTED_WITH = dict(os.environ)  # what the packages could read when they were imported


@dataclass
class Control:
    compile_error: Exception | None = None
    execution_error: Exception | None = None
    save_error: str | None = None
    neff_names: tuple[str, ...] = ("graph.neff",)
    falls_back: bool = False  # as torch-xla does without its plugin: everything runs on the CPU
    synchronise: Callable[[], None] = lambda: None  # called when such an output is waited for
    compiles: int = 0
    loads: int = 0
    calls: int = 0
    saved: dict = field(default_factory=dict)


control = Control()


class ScriptModule:
    """Runs what was traced, for tensors of the same shapes and dtypes only."""

    def __init__(self, run, inputs, outputs) -> None:
        self._run = run
        self.device = None
        self.inputs = [[list(shape), name] for shape, name in inputs]
        self.outputs = [[list(shape), name] for shape, name in outputs]

    def __call__(self, *tensors):
        torch = sys.modules["torch"]
        control.calls += 1
        if control.execution_error is not None:
            raise control.execution_error
        assert self.device == 0, "move_trace_to_device comes first"
        assert all(isinstance(tensor, torch.Tensor) for tensor in tensors)
        assert [[list(tensor.shape), tensor.dtype.name] for tensor in tensors] == self.inputs
        if self._run is None:
            arrays = [np.zeros(shape, getattr(torch, name).numpy_type) for shape, name in self.outputs]
        else:
            arrays = self._run([tensor._array for tensor in tensors])
        stays = all(tensor.device == "neuron:0" for tensor in tensors) and not control.falls_back
        device = "neuron:0" if stays else "cpu"
        results = tuple(torch.Tensor(array, device) for array in arrays)
        return results[0] if len(results) == 1 else results


def move_trace_to_device(trace, device_id):
    """neuron-runtime/explore/direct-hbm-tensor-alloc.rst."""
    assert isinstance(trace, ScriptModule) and device_id == 0
    trace.device = device_id


def trace(
    func,
    example_inputs,
    *_,
    input_output_aliases={},  # noqa: B006 (as documented)
    compiler_workdir=None,
    compiler_args=None,
    partitioner_config=None,
    inline_weights_to_neff=True,
    cpu_backend=False,
):
    torch = sys.modules["torch"]
    assert not _, "keyword arguments must be given as such"
    assert isinstance(func, torch.nn.Module) or callable(func)
    assert not (isinstance(func, torch.nn.Module) and func.training), "the documentation traces modules after eval()"
    assert isinstance(example_inputs, tuple) and example_inputs
    assert all(isinstance(tensor, torch.Tensor) and tensor.device == "cpu" for tensor in example_inputs)
    assert isinstance(compiler_workdir, str) and Path(compiler_workdir).is_dir()
    assert isinstance(compiler_args, (str, list)) and all(isinstance(word, str) for word in compiler_args)
    words = compiler_args.split() if isinstance(compiler_args, str) else compiler_args
    assert words == ["--lnc", "1"]

    print(".", end="")
    os.write(1, b"\nCompiler status PASS\n" if control.compile_error is None else b"\nERROR: compiler says why\n")
    time.sleep(float(os.environ.get("STAND_IN_COMPILE_SECONDS", "0")))
    log = os.environ.get("STAND_IN_COMPILE_LOG")
    if log:
        with open(log, "a", encoding="utf-8") as stream:
            stream.write(f"{os.getpid()}\n")
    control.compiles += 1
    if control.compile_error is not None:
        raise control.compile_error
    for name in control.neff_names:
        Path(compiler_workdir, name).write_bytes(b"NEFF")

    def run(arrays):
        returned = func(*arrays)
        return list(returned) if isinstance(returned, (tuple, list)) else [returned]

    outputs = run([tensor._array for tensor in example_inputs])
    return ScriptModule(
        run,
        [(tensor.shape, tensor.dtype.name) for tensor in example_inputs],
        [(array.shape, torch.Tensor(array).dtype.name) for array in outputs],
    )
