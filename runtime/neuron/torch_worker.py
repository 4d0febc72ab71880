"""The program that uses a NeuronCore through TorchNeuron; `device.py` starts `main` and sends it messages.

Sources (aws-neuron-sdk): torch/get-started/quickstart-nki-kernel (`import torch_neuronx, nki`; torch-neuronx needs
nki), torch/guides/how-to-work-with-nki (a kernel under `nki.jit` is called with tensors on a Neuron device; the first
call compiles for shapes, dtypes and the values of other arguments), torch/index (PyTorch loads the device `neuron`
automatically; `torch.accelerator` works), torch/guides/memory-profiling-guide (`torch.neuron.synchronize`),
tools/neuron-explorer/how-to-profile-pytorch (torch.profiler with a NeuronConfig). Work on the device is asynchronous,
and an operator that the device does not support may run on the CPU. Therefore, this module only copies tensors, and
checks the device of every result. In a public pre-release, the key of a compiled kernel contains the hash of the other
arguments.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...kernels import use_nki
from .jobs import arguments_hash, outputs_of, read_job
from .messages import serve_pipe
from .settings import NEFF_FOLDER

DEVICE = "neuron"


class NotOnNeuronCore(RuntimeError):  # noqa: N818 (named in on_device.py)
    """Raised if a tensor is not on the NeuronCore because an operator ran on the CPU."""


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel and its other arguments."""

    kernel: Any
    arguments: dict[str, Any]


def load_packages() -> Any:
    """Import torch, torch_neuronx and AWS's nki, and return torch.

    If an import fails, raise ImportError with the reason.
    """
    try:
        use_nki("neuron")
        import torch
        import torch_neuronx  # noqa: F401 (imported by torch too; here its error is its own)
    except (OSError, RuntimeError) as error:  # OSError: a shared library such as libnrt is not found
        raise ImportError(str(error)) from error
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None or accelerator.type != DEVICE:
        raise ImportError(f"PyTorch's accelerator is {accelerator}, not {DEVICE}")
    return torch


def to_tensor(torch: Any, data: bytes, shape: Sequence[int], dtype: str) -> Any:
    """Return a CPU tensor that consists of the given bytes."""
    if not data:
        return torch.empty(list(shape), dtype=_dtype(torch, dtype))
    return torch.frombuffer(bytearray(data), dtype=_dtype(torch, dtype)).reshape(list(shape))


def to_bytes(torch: Any, tensor: Any) -> bytes:
    """Return the bytes of a CPU tensor of any dtype (NumPy lacks bfloat16)."""
    data: bytes = tensor.contiguous().reshape([-1]).view(torch.uint8).numpy().tobytes()
    return data


class Core:
    """The kernels and tensors on the only NeuronCore that is visible to this process.

    Each message calls a method and is answered with its result.
    """

    def __init__(self) -> None:
        self._torch = load_packages()
        self._kernels: dict[int, LoadedKernel] = {}
        self._by_key: dict[tuple[Any, ...], list[LoadedKernel]] = {}
        self._tensors: dict[int, Any] = {}
        self._count = 0

    def hello(self) -> dict[str, Any]:
        """Return the versions of Python and of the library."""
        import torch_neuronx

        version = getattr(torch_neuronx, "__version__", "of unknown version")
        return {"library": f"torch-neuronx {version}", "python": sys.version.split()[0]}

    def load(self, job: dict[str, Any], log: str) -> dict[str, Any]:
        """Call a kernel on zeros, which compiles it, and write the output to the file `log`. Return its number, the
        shapes and dtypes of its results, the new NEFFs, and the time and peak memory."""
        start = time.perf_counter()
        with _output_to(log):
            kernel, forms, arguments = read_job(job)
            kernel = self._distinct(kernel, forms, arguments)
            before = _neffs()
            zeros = {
                name: self._to_core(self._torch.zeros(list(shape), dtype=_dtype(self._torch, dtype)))
                for name, (shape, dtype) in forms.items()
            }
            returned = self._run(LoadedKernel(kernel, arguments), zeros)
        number = self._number()
        self._kernels[number] = LoadedKernel(kernel, arguments)
        outputs = [[list(output.shape), str(output.dtype).removeprefix("torch.")] for output in returned]
        peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        neffs = sorted(str(path) for path in _neffs() - before)
        reply = {"kernel": number, "outputs": outputs, "neffs": neffs, "peak_bytes": peak * 1024}
        return {**reply, "seconds": time.perf_counter() - start}

    def put(self, shape: list[int], dtype: str, data: bytes) -> dict[str, Any]:
        """Create a tensor with the given values on the NeuronCore, and return its number."""
        return {"tensor": self._keep(self._to_core(to_tensor(self._torch, data, shape, dtype)))}

    def write(self, tensor: int, shape: list[int], dtype: str, data: bytes) -> dict[str, Any]:
        """Replace the values of a tensor of the same size."""
        self._tensors[tensor].copy_(to_tensor(self._torch, data, shape, dtype))
        return {}

    def free(self, tensor: int) -> dict[str, Any]:
        """Delete a tensor. PyTorch frees its memory when the last reference is gone."""
        self._tensors.pop(tensor, None)
        return {}

    def read(self, tensor: int) -> bytes:
        """Return a tensor's bytes."""
        return to_bytes(self._torch, self._tensors[tensor].cpu())

    def run(self, kernel: int, inputs: dict[str, tuple[int, list[int]]]) -> dict[str, Any]:
        """Call a kernel on tensors, keyed by name, each in a given shape.

        Return the numbers of its results and the microseconds, measured with the host's clock. The device is idle at
        the beginning and at the end.
        """
        tensors = self._shaped(inputs)
        self._torch.neuron.synchronize()
        start = time.perf_counter()
        returned = self._run(self._kernels[kernel], tensors)
        took = (time.perf_counter() - start) * 1e6
        return {"outputs": [self._keep(output) for output in returned], "us": took}

    def profile(self, kernel: int, inputs: dict[str, tuple[int, list[int]]], folder: str) -> dict[str, Any]:
        """Call a kernel once under torch.profiler, which writes the NEFF and the NTFF below the folder."""
        from torch.profiler import ProfilerActivity, profile
        from torch_neuronx.profiling import NeuronConfig, ProfileMode

        tensors = self._shaped(inputs)
        config = NeuronConfig(
            modes=[ProfileMode.DEVICE], profile_output_dir=folder, neff_cache_dir=os.environ.get(NEFF_FOLDER)
        )
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1], experimental_config=config):
            self._run(self._kernels[kernel], tensors)
        return {}

    def _run(self, loaded: LoadedKernel, tensors: Mapping[str, Any]) -> Sequence[Any]:
        """Call a kernel and wait until it has finished. Raise NotOnNeuronCore if a result is not on the NeuronCore."""
        returned = outputs_of(loaded.kernel(**tensors, **loaded.arguments))
        self._torch.neuron.synchronize()
        for output in returned:
            if output.device.type != DEVICE:
                raise NotOnNeuronCore(f"its result is on {output.device}, so it did not run on the NeuronCore")
        return returned

    def _distinct(self, kernel: Any, forms: Mapping[str, Any], arguments: dict[str, Any]) -> Any:
        """Return the kernel.

        If the arguments of another call have the same hash (as -1 and -2 have), return a copy of it, since
        torch-neuronx would confuse the two calls.
        """
        key = (id(kernel), tuple(forms.items()), arguments_hash(arguments))
        known = self._by_key.setdefault(key, [])
        for loaded in known:
            if loaded.arguments == arguments:
                return loaded.kernel
        result = _copy(kernel) if known else kernel
        known.append(LoadedKernel(result, arguments))
        return result

    def _shaped(self, inputs: Mapping[str, tuple[int, Sequence[int]]]) -> dict[str, Any]:
        """Return tensors, keyed by name, each as a view with the requested shape."""
        tensors = {}
        for name, (number, shape) in inputs.items():
            tensor = self._tensors[number]
            tensors[name] = tensor if list(tensor.shape) == list(shape) else tensor.view(list(shape))
        return tensors

    def _to_core(self, tensor: Any) -> Any:
        on_core = tensor.to(DEVICE)
        if on_core.device.type != DEVICE:
            raise NotOnNeuronCore(f"a tensor moved to {DEVICE} is on {on_core.device}")
        return on_core

    def _keep(self, tensor: Any) -> int:
        number = self._number()
        self._tensors[number] = tensor
        return number

    def _number(self) -> int:
        self._count += 1
        return self._count


def _dtype(torch: Any, name: str) -> Any:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"PyTorch has no dtype {name}")
    return dtype


def _copy(kernel: Any) -> Any:
    """Copy a kernel with its function. Its attributes in nki/framework/kernel.py are `func` and `__wrapped__`."""
    import nki

    function = getattr(kernel, "func", None) or getattr(kernel, "__wrapped__", None)
    if not isinstance(function, types.FunctionType):
        raise RuntimeError(
            "its arguments have the same hash as those of an earlier launch, so TorchNeuron may confuse the two "
            "launches"
        )
    copied = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    copied.__module__, copied.__qualname__, copied.__doc__ = (
        function.__module__, function.__qualname__, function.__doc__,
    )  # fmt: skip
    return nki.jit(copied)


def _neffs() -> set[Path]:
    """Return the NEFFs that TorchNeuron saved, if its folder is known."""
    folder = os.environ.get(NEFF_FOLDER)
    return set(Path(folder).rglob("*.neff")) if folder else set()


@contextlib.contextmanager
def _output_to(path: str) -> Iterator[None]:
    """Redirect the output of this process and its children to a file while the block runs."""
    saved = [os.dup(descriptor) for descriptor in (1, 2)]
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for descriptor in (1, 2):
            os.dup2(file, descriptor)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, original in zip((1, 2), saved):
            os.dup2(original, descriptor)
            os.close(original)
        os.close(file)


def main() -> None:
    """Serve requests from standard input."""
    serve_pipe(Core)
