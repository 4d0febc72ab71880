"""Descriptions of networks, weight files, preprocessing of pictures, and the golden NumPy reference.

This package is independent of backends. `preprocess` needs Pillow and is imported only by code that opens pictures:
`from trninfer.models.preprocess import open_image, preprocess`.
"""

from .bundled import Accuracy, BundledModel, bundled_models
from .errors import ModelError
from .files import Model, load_model, save_model
from .golden import GoldenRun, run_network
from .inputs import FeatureInput, ImageInput
from .layers import (
    Activation,
    Affine,
    ChannelShuffle,
    ChannelSlice,
    Combine,
    Concat,
    Conv2d,
    Dense,
    Flatten,
    GroupNorm,
    Layer,
    LayerNorm,
    LocalResponseNorm,
    Pad,
    Pool,
    PRelu,
    Reshape,
    Softmax,
    Transpose,
)
from .network import Network
from .outputs import Output

__all__ = [
    "Accuracy",
    "Activation",
    "Affine",
    "BundledModel",
    "ChannelShuffle",
    "ChannelSlice",
    "Combine",
    "Concat",
    "Conv2d",
    "Dense",
    "FeatureInput",
    "Flatten",
    "GoldenRun",
    "GroupNorm",
    "ImageInput",
    "Layer",
    "LayerNorm",
    "LocalResponseNorm",
    "Model",
    "ModelError",
    "Network",
    "Output",
    "PRelu",
    "Pad",
    "Pool",
    "Reshape",
    "Softmax",
    "Transpose",
    "bundled_models",
    "load_model",
    "run_network",
    "save_model",
]
