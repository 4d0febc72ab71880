"""A stand-in for nki.runtime: SpikeModel and SpikeTensor on the simulator, checking every call.

They are called as in nki/compiler/ncc_driver.py; the rest is documented under other names: aws-neuron-sdk,
neuron-runtime/nrtpy/model.rst, tensor.rst, errors.rst, nrtpy-troubleshooting.rst (void dtypes); tensors whose shape or
dtype differs from the model's are rejected as in aws-neuron/nkipy, spike_model.py. It reads the NEFF that the stand-in
for nki wrote. STAND_IN_NRT injects a fault: "load", "run", "busy", "oob", "trace", "events", "die" (also "die:KERNEL"),
"stuck:KERNEL" (and all later kernels), "hang", "sizes", "type" (of an output), "read", "short" (reads), "library" (a
shared library is missing). With "mean", a benchmark reports only its mean; with "dtypes" and "void", dtypes are
reported as in nkipy, with "void" for outputs as bytes.
"""

import base64
import importlib
import importlib.util
import json
import os
import pickle
import time
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np

_FAULT = os.environ.get("STAND_IN_NRT", "")
_stuck = []  # after a fault that affects all later executions in this process
if _FAULT == "library":
    raise OSError("libnrt.so.1: cannot open shared object file: No such file or directory")


class SpikeError(RuntimeError):
    pass


class NrtError(RuntimeError):
    pass


def _kernel(neff):
    """Return the kernel of a NEFF, on the simulator."""
    from trninfer import kernels, simulator

    kernels.use_nki("neuron")
    if ".kernels." in neff["module"]:
        return simulator.jit(kernels.kernel(neff["kernel"]).func)
    spec = importlib.util.spec_from_file_location("neff", neff["file"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return simulator.jit(getattr(module, neff["kernel"]).func)


def _dtype(name):
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def _info(way, shape, dtype):
    out = way == "outputs"
    told = {"dtypes": dtype.name, "void": f"|V{dtype.itemsize}" if out else dtype.name}
    told["type"] = "uint32" if out else dtype.name
    more = {"dtype": told[_FAULT]} if _FAULT in told else {}
    return SimpleNamespace(shape=list(shape), size=int(np.prod(shape)) * dtype.itemsize, **more)


class SpikeTensor:
    def __init__(self, tensor_ref, shape, dtype, name=None) -> None:
        self.tensor_ref, self.shape, self.dtype, self.name = tensor_ref, tuple(shape), dtype, name

    @classmethod
    def from_numpy(cls, array, name=None, core_id=0):
        assert isinstance(array, np.ndarray) and core_id == 0 and isinstance(name, str)
        return cls(bytearray(np.ascontiguousarray(array).tobytes()), array.shape, array.dtype, name)

    def write_from_numpy(self, array):
        data = np.ascontiguousarray(array).tobytes()
        if len(data) != len(self.tensor_ref):
            raise ValueError("byte size does not match")
        self.tensor_ref[:] = data

    def numpy(self):
        if _FAULT == "read":
            raise NrtError("NRT Error NRT_EXEC_HW_ERR_HBM_UE(1204): Failed to read tensor")
        if _FAULT == "short":
            return np.zeros(1, np.int8)
        return np.frombuffer(bytes(self.tensor_ref), f"V{self.dtype.itemsize}").reshape(self.shape)


class SpikeModel:
    @classmethod
    def load_from_neff(cls, neff_path, name=None, core_id=0, cc_enabled=False, rank_id=0, world_size=1):
        assert os.environ["NEURON_RT_NUM_CORES"] == "1" and os.environ["LD_LIBRARY_PATH"].startswith("/opt/aws/neuron")
        assert "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS" not in os.environ  # calls would return too early
        assert core_id == 0 and not cc_enabled and isinstance(neff_path, (str, Path))
        if _FAULT == "load":
            raise NrtError("NRT Error NRT_FAILURE(6): Failed to load model")
        if _FAULT == "busy":
            raise NrtError(
                "Logical Neuron Core(s) not available - Requested:lnc0-lnc0 Available:0 Logical Core size:2 "
                "(cores busy, ret=-16)"
            )
        model = cls()
        model._neff = json.loads(Path(neff_path).read_text())
        info = {
            way: {
                name: _info(way, shape, _dtype(dtype))
                for name, shape, dtype in reversed(model._neff[way])  # in arbitrary order
            }
            for way in ("inputs", "outputs")
        }
        if _FAULT == "sizes":
            next(iter(info["inputs"].values())).size += 4
        model.input_tensors_info, model.output_tensors_info = info["inputs"], info["outputs"]
        return model

    def __call__(self, inputs, outputs=None, save_trace=False, ntff_name=None):
        assert outputs is not None, "allocated for each call otherwise"
        self._check(inputs, outputs)
        print("TDRV: a line that the runtime might print")
        if _FAULT in ("die", f"die:{self._neff['kernel']}"):
            os._exit(9)
        if f"stuck:{self._neff['kernel']}" == _FAULT or _stuck:
            _stuck.append(True)
            raise NrtError("NRT Error NRT_EXEC_OOB(1006): Failed to execute model")
        if _FAULT == "hang":
            time.sleep(60)
        if _FAULT == "run":
            raise NrtError("NRT Error NRT_EXEC_HW_ERR_NC_UE(1202): Failed to execute model")
        if _FAULT == "oob":
            raise NrtError("NRT Error NRT_EXEC_OOB(1006): Failed to execute model")
        arrays = {
            name: np.frombuffer(bytes(inputs[name].tensor_ref), _dtype(dtype)).reshape(shape)
            for name, shape, dtype in self._neff["inputs"]
        }
        returned = _kernel(self._neff)(**arrays, **pickle.loads(base64.b64decode(self._neff["parameters"])))
        results = returned if isinstance(returned, tuple) else (returned,)
        for (name, _, _), result in zip(self._neff["outputs"], results, strict=True):
            outputs[name].write_from_numpy(result)

    def benchmark(self, inputs, outputs=None, warmup_iter=5, benchmark_iter=5, mode="device"):
        if mode not in ("device", "host") or benchmark_iter < 1:
            raise ValueError("mode or benchmark_iter")
        if _FAULT == "trace":
            raise RuntimeError("no device execution events captured")
        self._check(inputs, outputs or {})
        if _FAULT == "mean":
            return SimpleNamespace(mean_ms=0.011, min_ms=0.010, max_ms=0.012, std_dev_ms=0.001)
        events = benchmark_iter * (2 if _FAULT == "events" else 1)
        return SimpleNamespace(durations_ms=[0.010 + 0.001 * i for i in range(events)], iterations=events)

    def _check(self, inputs, outputs):
        for given, told in ((inputs, self.input_tensors_info), (outputs, self.output_tensors_info)):
            assert set(given) == set(told)
            for name, tensor in given.items():
                assert hasattr(tensor, "tensor_ref") and len(tensor.tensor_ref) == told[name].size
                assert tensor.shape == tuple(told[name].shape), f"{name}: expected shape {told[name].shape}"
                assert not hasattr(told[name], "dtype") or tensor.dtype == told[name].dtype, f"{name}: another dtype"
