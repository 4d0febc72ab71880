"""Time a NEFF on a NeuronCore with AWS's nrtpy: python nrtpy_benchmark.py NEFF WARMUP ITERATIONS

Prints one line of JSON: {"durations_ms": [...], "iterations": n}. Inputs are zeros of the sizes that the NEFF tells.

nrtpy cannot be installed beside nki, so this file runs in an environment of its own and imports nothing of trninfer.
Sources (aws-neuron-sdk): neuron-runtime/nrtpy/model.rst, tensor.rst, index.rst.
"""

import json
import math
import sys
from typing import Any

import numpy as np

# nrtpy tells no dtype of an input, only its shape and size in bytes; zeros are the same bits in all of a width.
_DTYPES = {1: np.uint8, 2: np.float16, 4: np.float32}


def zeros_for(info: Any) -> np.ndarray:
    """An array of zeros for an input (shape, size in bytes)."""
    shape = tuple(info.shape)
    return np.zeros(shape, _DTYPES[info.size // math.prod(shape)])


def main(neff: str, warmup: int, iterations: int) -> None:
    """Load, run, time on the device, print."""
    from nrtpy import NrtpyModel, NrtpyTensor  # type: ignore[import-not-found, unused-ignore]

    model = NrtpyModel.load_from_neff(neff)
    inputs = {
        name: NrtpyTensor.from_numpy(zeros_for(info), name=name) for name, info in model.input_tensors_info.items()
    }
    result = model.benchmark(inputs=inputs, warmup_iter=warmup, benchmark_iter=iterations, mode="device")
    print(json.dumps({"durations_ms": list(result.durations_ms), "iterations": result.iterations}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
