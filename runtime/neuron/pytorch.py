"""PyTorch NeuronX as the Neuron backend uses it: tensors in and out, compile.

For SDK 2.31 and before, and the set of versions that the extra `neuron-torch` names: torch-neuronx with `trace` is not
part of SDK 2.32 (setup/pytorch/manual.rst), and torch-neuronx 2.10 and newer is another product without it.

Sources (aws-neuron-sdk): frameworks/torch/torch-neuronx/api-reference-guide/inference/api-torch-neuronx-trace.rst for
`torch_neuronx.trace`, `torch.jit.save` and `torch.jit.load`; nki/guides/use-neuron-profile.rst for a module that calls
an NKI kernel and for `compiler_workdir`; compiler/error-codes/EARG001.rst for `compiler_args=["--lnc", ...]`;
neuron-runtime/explore/direct-hbm-tensor-alloc.rst for `neuron:0`, `move_trace_to_device`, and that outputs stay on the
device only where all inputs are there.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ..backend import BackendUnavailable
from .errors import CompileError, first_useful_line

DEVICE = "neuron:0"
_ON_DEVICE = ("neuron", "privateuseone", "xla")  # the names of a NeuronCore's tensors in the pages above
COMPILER_ARGUMENTS = ["--lnc", "1"]  # one physical NeuronCore, as NEURON_LOGICAL_NC_CONFIG=1; all that trn1 allows


def load_packages() -> tuple[Any, Any]:
    """The modules `torch` and `torch_neuronx`; BackendUnavailable where one cannot be imported, with the reason."""
    folder = str(Path(sys.executable).parent)  # importing torch_neuronx runs a program that lies there
    if folder not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PATH")])])
    os.environ.setdefault("PJRT_DEVICE", "NEURON")  # else torch-xla may fall back to the CPU with a line in its log
    modules = []
    for name in ("torch", "torch_neuronx"):
        try:
            modules.append(importlib.import_module(name))
        except (ImportError, OSError) as error:  # OSError: a shared library such as libnrt is not found
            raise BackendUnavailable(f"{name} cannot be imported: {first_useful_line(str(error))}") from error
    if not hasattr(modules[1], "trace"):
        raise BackendUnavailable(
            "this torch_neuronx has no `trace` (2.10 and newer is another product); NEFF and nrtpy need no PyTorch"
        )
    return modules[0], modules[1]


def on_neuron_core(tensor: Any) -> bool:
    """Whether a tensor lies on a NeuronCore, and so was computed there."""
    return str(tensor.device).startswith(_ON_DEVICE)


def to_tensor(torch: Any, array: np.ndarray) -> Any:
    """A CPU tensor with an array's values. NumPy has no bfloat16 that PyTorch knows, so its bits go over as int16."""
    array = np.ascontiguousarray(array)
    if not array.flags.writeable:
        array = array.copy()  # PyTorch warns of tensors on memory that must not be written
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def to_array(torch: Any, tensor: Any) -> np.ndarray:
    """An array with a tensor's values, wherever the tensor is."""
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        bits: np.ndarray = tensor.view(torch.int16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    array: np.ndarray = tensor.numpy()
    return array


def compile_kernel(
    torch: Any,
    torch_neuronx: Any,
    kernel: Any,
    tensors: Sequence[Any],
    parameters: Mapping[str, Any],
    workdir: Path,
) -> Any:
    """Compile a kernel for tensors like these: a callable that runs it on the NeuronCore it is loaded to.

    The compiler works in `workdir` and leaves the NEFF there, under a name with a hash in it
    (neuron-runtime/nrtpy/nrtpy-troubleshooting.rst). CompileError with all that it said.
    """

    class KernelModule(torch.nn.Module):  # type: ignore[misc]
        """Calls the kernel, and nothing else: the compiled graph is the kernel."""

        def forward(self, *operands: Any) -> Any:
            return kernel(*operands, **parameters)

    module = KernelModule()
    module.eval()
    try:
        return torch_neuronx.trace(
            module, tuple(tensors), compiler_workdir=str(workdir), compiler_args=list(COMPILER_ARGUMENTS)
        )
    except Exception as error:  # which exceptions the compiler raises is not documented
        raise CompileError(str(error)) from error


@contextlib.contextmanager
def standard_output_to(file: int) -> Iterator[None]:
    """Send what is written to standard output to another file descriptor.

    The compiler prints its progress there (nki/get-started/quickstart-implement-run-kernel.rst), where machine formats
    must stand alone. Both Python's stream and the process's descriptor are turned, since libraries write past Python.
    """
    sys.stdout.flush()
    saved = os.dup(1)
    try:
        with open(os.dup(file), "w", encoding="utf-8", errors="replace", buffering=1) as stream:
            os.dup2(file, 1)
            with contextlib.redirect_stdout(stream):
                yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
