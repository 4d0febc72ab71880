"""Stands in for nrtpy: the documented classes, with times that tell how they were asked for.

Source: aws-neuron-sdk, neuron-runtime/nrtpy/model.rst and tensor.rst. STAND_IN_NRTPY makes it fail: "load" or "events".
"""

import os
import sys
from types import SimpleNamespace

import numpy as np


class NrtError(RuntimeError):
    pass


class NrtpyTensor:
    def __init__(self, tensor_ref, shape, dtype, name=None) -> None:
        self.shape, self.dtype, self.name = shape, dtype, name

    @classmethod
    def from_numpy(cls, array, name=None, core_id=0):
        assert isinstance(array, np.ndarray) and core_id == 0
        return cls(None, array.shape, array.dtype, name)


class NrtpyModel:
    input_tensors_info = {  # noqa: RUF012
        "a_input": SimpleNamespace(shape=[4, 3], size=48),
        "b_input": SimpleNamespace(shape=[3, 5], size=30),
    }

    @classmethod
    def load_from_neff(cls, neff_path, name=None, core_id=0, cc_enabled=False, rank_id=0, world_size=1):
        folder = os.path.realpath(os.path.dirname(sys.argv[0]))  # whose modules could hide others of the same names
        assert folder not in map(os.path.realpath, sys.path)
        assert os.environ["NEURON_RT_NUM_CORES"] == "1" and "NEURON_RT_VISIBLE_CORES" not in os.environ
        assert os.environ["LD_LIBRARY_PATH"].startswith("/opt/aws/neuron/lib")
        if os.environ.get("STAND_IN_NRTPY") == "load":
            raise NrtError("NRT Error NRT_FAILURE(1): Failed to load model")
        with open(neff_path, "rb") as neff:
            assert neff.read() == b"NEFF"
        return cls()

    def benchmark(self, inputs, outputs=None, warmup_iter=5, benchmark_iter=5, mode="device"):
        assert mode == "device" and set(inputs) == set(self.input_tensors_info)
        for name, info in self.input_tensors_info.items():
            tensor = inputs[name]
            assert tensor.name == name and list(tensor.shape) == info.shape
            assert tensor.dtype.itemsize * int(np.prod(tensor.shape)) == info.size
        events = benchmark_iter * (2 if os.environ.get("STAND_IN_NRTPY") == "events" else 1)
        print("a line that nrtpy might print")
        return SimpleNamespace(durations_ms=[0.010 + 0.001 * i for i in range(events)], iterations=events)
