"""The program that executes NEFFs on a NeuronCore through `nki.runtime`; `device.py` starts `main` and sends it
messages.

`nki.runtime` is in the nki wheel: nki/compiler/ncc_driver.py, which uses it to run kernels, calls SpikeModel
(load_from_neff, call, benchmark) and SpikeTensor (from_numpy, numpy). The same classes are documented under other names
as nrtpy (aws-neuron-sdk, neuron-runtime/nrtpy/model.rst, tensor.rst, errors.rst), and their source is public as `spike`
in aws-neuron/nkipy: a call is passed to nrt_execute, which is synchronous by default (neuron-runtime/explore/
runtime-performance-tips.rst), and is rejected if the shape or dtype of a tensor differs from the model's, even if the
bytes are the same.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from .jobs import array_type
from .messages import serve_pipe


def load_library() -> tuple[Any, Any]:
    """Return the classes of models and tensors. Raise ImportError, with the reason, if they are not available."""
    try:
        from nki.runtime import SpikeModel, SpikeTensor
    except OSError as error:  # a shared library such as libnrt is not found
        raise ImportError(str(error)) from error
    return SpikeModel, SpikeTensor


def stated_type(info: Any) -> np.dtype[Any] | None:
    """Return the dtype in a tensor's info, or None if there is none of the right size.

    AWS documents only the shape and the size; the dtype may be void (nrtpy-troubleshooting.rst).
    """
    try:
        specified = info.dtype
        dtype = array_type(specified) if isinstance(specified, str) else np.dtype(specified)
    except (AttributeError, TypeError, ValueError):
        return None
    return dtype if int(np.prod(tuple(info.shape))) * dtype.itemsize == int(info.size) else None


class Core:
    """The models and tensors on the first core that is visible to this process.

    Each message calls a method and is answered with its result.
    """

    def __init__(self) -> None:
        self._model, self._tensor = load_library()
        self._models: dict[int, Any] = {}
        self._tensors: dict[int, Any] = {}
        self._views: dict[int, dict[tuple[tuple[int, ...], str], Any]] = {}  # views by number, shape and dtype
        self._count = 0

    def hello(self) -> dict[str, Any]:
        """Return the versions of Python and of the library."""
        return {"library": self._model.__module__, "python": sys.version.split()[0]}

    def load(self, path: str) -> dict[str, Any]:
        """Load a NEFF.

        Return its number, the sizes in bytes of its inputs and outputs, keyed by name, and the dtypes of the outputs if
        the model specifies them.
        """
        model = self._model.load_from_neff(path)
        number = self._number()
        self._models[number] = model
        inputs = {name: int(info.size) for name, info in model.input_tensors_info.items()}
        outputs = {name: int(info.size) for name, info in model.output_tensors_info.items()}
        types = {name: stated_type(info) for name, info in model.output_tensors_info.items()}
        dtypes = {name: dtype.name for name, dtype in types.items() if dtype is not None and dtype.kind != "V"}
        dtypes.update({name: "bfloat16" for name, dtype in types.items() if str(dtype) == "bfloat16"})  # its kind is V
        return {"model": number, "inputs": inputs, "outputs": outputs, "dtypes": dtypes}

    def put(self, shape: list[int], dtype: str, data: bytes) -> dict[str, Any]:
        """Create a tensor with the given values on the device, and return its number."""
        number = self._number()
        array = np.frombuffer(data, array_type(dtype)).reshape(shape)
        self._tensors[number] = self._tensor.from_numpy(array, name=f"tensor{number}")
        return {"tensor": number}

    def write(self, tensor: int, shape: list[int], dtype: str, data: bytes) -> dict[str, Any]:
        """Replace the values of a tensor of the same size."""
        self._tensors[tensor].write_from_numpy(np.frombuffer(data, array_type(dtype)).reshape(shape))
        return {}

    def free(self, tensor: int) -> dict[str, Any]:
        """Delete a tensor. The runtime frees its memory when the last reference is gone."""
        self._views.pop(tensor, None)
        self._tensors.pop(tensor, None)
        return {}

    def read(self, tensor: int) -> bytes:
        """Return a tensor's bytes.

        The dtype is ignored, because outputs may be returned as void (nrtpy-troubleshooting.rst).
        """
        return np.ascontiguousarray(self._tensors[tensor].numpy()).tobytes()

    def run(self, model: int, inputs: dict[str, int], outputs: dict[str, int], times: int = 1) -> dict[str, Any]:
        """Execute a model `times` times on tensors of this process.

        Return the microseconds of each call, measured with the host's clock.
        """
        called = self._models[model]
        tensors = self._fitting(inputs, called.input_tensors_info)
        written = self._fitting(outputs, called.output_tensors_info)
        took = []
        for _ in range(times):
            start = time.perf_counter()
            called(inputs=tensors, outputs=written)
            took.append((time.perf_counter() - start) * 1e6)
        return {"us": took}

    def benchmark(
        self, model: int, inputs: dict[str, int], outputs: dict[str, int], warmup: int, iterations: int
    ) -> dict[str, Any]:
        """Return the microseconds of each execution on the NeuronCore only, as traced on the device.

        If the runtime returns only the mean, return the mean (ncc_driver.py reads mean_ms).
        """
        called = self._models[model]
        stats = called.benchmark(
            inputs=self._fitting(inputs, called.input_tensors_info),
            outputs=self._fitting(outputs, called.output_tensors_info),
            warmup_iter=warmup,
            benchmark_iter=iterations,
            mode="device",
        )
        durations = getattr(stats, "durations_ms", None)
        if durations is None:
            return {"us": [], "mean_us": float(stats.mean_ms) * 1e3}
        return {"us": [float(milliseconds) * 1e3 for milliseconds in durations], "mean_us": None}

    def _fitting(self, numbers: dict[str, int], specified: Any) -> dict[str, Any]:
        """Return tensors, keyed by name, with the shapes and dtypes that the model specifies.

        If necessary, they are views of the same memory.
        """
        return {name: self._view(number, specified[name]) for name, number in numbers.items()}

    def _view(self, number: int, info: Any) -> Any:
        tensor = self._tensors[number]
        shape, dtype = tuple(info.shape), stated_type(info)
        if tuple(tensor.shape) == shape and dtype in (None, tensor.dtype):
            return tensor
        views = self._views.setdefault(number, {})
        key = (shape, str(dtype))
        if key not in views:
            views[key] = self._tensor(tensor.tensor_ref, shape, tensor.dtype if dtype is None else dtype, tensor.name)
        return views[key]

    def _number(self) -> int:
        self._count += 1
        return self._count


def main() -> None:
    """Serve requests from standard input."""
    serve_pipe(Core)
