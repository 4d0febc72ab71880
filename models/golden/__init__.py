"""The golden model: what each layer computes, in NumPy float32, readable and independent of every kernel.

Arrays carry the batch first: images [B, C, H, W], features [B, F]. Results are float32. Nothing here is tuned to
agree with the kernels; the tests hold it against ONNX Runtime.
"""

from .activation import activate
from .convolution import conv2d, dense
from .layers import argmax, average_pool, log_softmax, pool, softmax
from .run import GoldenRun, probabilities_of, run_layer, run_network

__all__ = [
    "GoldenRun",
    "activate",
    "argmax",
    "average_pool",
    "conv2d",
    "dense",
    "log_softmax",
    "pool",
    "probabilities_of",
    "run_layer",
    "run_network",
    "softmax",
]
