"""The program that talks to a NeuronCore through nrtpy: started and asked by `device.py`.

It runs in an environment with the standalone wheel of nrtpy, whose names are NrtpyModel and NrtpyTensor (that wheel and
nki cannot be installed together), or in AWS's NKI environment where that brings nrtpy along under the names SpikeModel
and SpikeTensor. So it imports nothing of trninfer.

Sources (aws-neuron-sdk): neuron-runtime/nrtpy/model.rst (load_from_neff, tensors' info, call, benchmark), tensor.rst
(constructor, from_numpy, write_from_numpy, numpy), errors.rst, index.rst (environments). SpikeModel and SpikeTensor are
seen in public code that runs in NKI's environment, not documented; their own source is public as `spike` in
aws-neuron/nkipy, from which nrtpy comes: a call goes to nrt_execute, which is synchronous by default
(neuron-runtime/explore/runtime-performance-tips.rst), and is refused for tensors of another shape or dtype than the
model states, although the bytes are the same.
"""

import importlib
import json
import os
import sys
import time
from typing import Any, BinaryIO

import numpy as np

NAMES = (("nrtpy", "NrtpyModel", "NrtpyTensor"), ("nrtpy", "SpikeModel", "SpikeTensor"))


def load_library() -> tuple[Any, Any, str]:
    """Classes of a model and of a tensor, and what they are called; ImportError where there is no nrtpy."""
    for module, model, tensor in NAMES:
        library = importlib.import_module(module)
        if hasattr(library, model) and hasattr(library, tensor):
            return getattr(library, model), getattr(library, tensor), f"{module}.{model}"
    raise ImportError("nrtpy has neither NrtpyModel and NrtpyTensor nor SpikeModel and SpikeTensor")


def array_type(name: str) -> np.dtype[Any]:
    """NumPy's dtype of a name; bfloat16 is ml_dtypes', which nrtpy knows."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def stated_type(info: Any) -> "np.dtype[Any] | None":
    """Return the dtype in a tensor's info; None if it has none of the tensor's size. AWS documents shape and size
    alone; where there is a dtype, it may be void (nrtpy-troubleshooting.rst)."""
    try:
        told = info.dtype
        dtype = array_type(told) if isinstance(told, str) else np.dtype(told)
    except (AttributeError, TypeError, ValueError):
        return None
    return dtype if int(np.prod(tuple(info.shape))) * dtype.itemsize == int(info.size) else None


class Core:
    """Models and tensors on core 0 of those that this process sees. A method a message; the answer is its result."""

    def __init__(self) -> None:
        self._model, self._tensor, self.library = load_library()
        self._models: dict[int, Any] = {}
        self._tensors: dict[int, Any] = {}
        self._views: dict[int, dict[tuple[tuple[int, ...], str], Any]] = {}  # of tensors, by number, shape and dtype
        self._count = 0

    def hello(self) -> dict[str, Any]:
        """Return the versions found here."""
        return {"library": self.library, "python": sys.version.split()[0]}

    def load(self, path: str) -> dict[str, Any]:
        """Load a NEFF: its number, the sizes in bytes of inputs and outputs by name, and the outputs' dtypes where they
        are stated as more than bytes."""
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
        """A new tensor on the device with these values: its number."""
        number = self._number()
        array = np.frombuffer(data, array_type(dtype)).reshape(shape)
        self._tensors[number] = self._tensor.from_numpy(array, name=f"tensor{number}")
        return {"tensor": number}

    def write(self, tensor: int, shape: list[int], dtype: str, data: bytes) -> dict[str, Any]:
        """New values for a tensor of the same size."""
        self._tensors[tensor].write_from_numpy(np.frombuffer(data, array_type(dtype)).reshape(shape))
        return {}

    def free(self, tensor: int) -> dict[str, Any]:
        """Forget a tensor; nrtpy frees its memory when nothing names it any more."""
        self._views.pop(tensor, None)
        self._tensors.pop(tensor, None)
        return {}

    def read(self, tensor: int) -> bytes:
        """A tensor's bytes. Its dtype is not asked: outputs may come back as void (nrtpy-troubleshooting.rst)."""
        return np.ascontiguousarray(self._tensors[tensor].numpy()).tobytes()

    def run(self, model: int, inputs: dict[str, int], outputs: dict[str, int], times: int = 1) -> dict[str, Any]:
        """Execute a model `times` times on tensors held here: microseconds of each call, by this host's clock."""
        called = self._models[model]
        given = self._fitting(inputs, called.input_tensors_info)
        written = self._fitting(outputs, called.output_tensors_info)
        took = []
        for _ in range(times):
            start = time.perf_counter()
            called(inputs=given, outputs=written)
            took.append((time.perf_counter() - start) * 1e6)
        return {"us": took}

    def benchmark(
        self, model: int, inputs: dict[str, int], outputs: dict[str, int], warmup: int, iterations: int
    ) -> dict[str, Any]:
        """Microseconds of each execution on the NeuronCore alone, by tracing on the device."""
        called = self._models[model]
        stats = called.benchmark(
            inputs=self._fitting(inputs, called.input_tensors_info),
            outputs=self._fitting(outputs, called.output_tensors_info),
            warmup_iter=warmup,
            benchmark_iter=iterations,
            mode="device",
        )
        return {"us": [float(milliseconds) * 1e3 for milliseconds in stats.durations_ms]}

    def _fitting(self, numbers: dict[str, int], told: Any) -> dict[str, Any]:
        """Tensors by name, in the shape and dtype that the model states for each: another view of the same memory where
        they have another."""
        return {name: self._view(number, told[name]) for name, number in numbers.items()}

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


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer messages until there are no more."""
    core: Core | None = None
    while line := requests.readline():
        message = json.loads(line)
        operation, size = message.pop("op"), message.pop("bytes")
        if operation in ("put", "write"):
            message["data"] = requests.read(size)
        data = b""
        try:
            core = core or Core()
            result = getattr(core, operation)(**message)
            data = result if isinstance(result, bytes) else b""
            answer = {"ok": True, **({} if isinstance(result, bytes) else result)}
        except Exception as error:  # whatever the runtime raises is for the process that asks
            answer = {"ok": False, "error": str(error), "type": type(error).__name__}
        answers.write(json.dumps({**answer, "bytes": len(data)}).encode() + b"\n" + data)
        answers.flush()


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "wb") as pipe:
        os.dup2(2, 1)  # what libraries print goes to standard error: the pipe is for answers
        serve(sys.stdin.buffer, pipe)
