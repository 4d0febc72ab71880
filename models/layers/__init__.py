"""Layer kinds, each of which (or each group of related kinds) is defined in a module of this package.

A kind defines fields, an output shape, tensors, and the NumPy reference. To add a kind, add a module: modules are
discovered automatically, and `LAYER_KINDS` contains every subclass of `Layer` that they define. The names imported
below are provided for the convenience of callers that build networks manually.
"""

import importlib
import pkgutil

from .activation import ACTIVATION_PARAMETERS, ACTIVATIONS, MONOTONE, Activation, PRelu, activate
from .attention import Attention
from .channels import ChannelShuffle, ChannelSlice, Concat
from .conv2d import Conv2d
from .dense import Dense
from .elementwise import OPERATIONS, Affine, Combine
from .layer import Layer
from .norm import GroupNorm, LayerNorm, LocalResponseNorm
from .pad import Pad
from .partial_softmax import ChannelSoftmax, RowSoftmax
from .pixel_argmax import PixelArgmax
from .pool import Pool
from .reshape import MAX_AXES, Flatten, Reshape, Transpose
from .softmax import Softmax

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

LAYER_KINDS: dict[str, type[Layer]] = {layer.kind: layer for layer in Layer.__subclasses__()}

__all__ = [
    "ACTIVATIONS",
    "ACTIVATION_PARAMETERS",
    "LAYER_KINDS",
    "MAX_AXES",
    "MONOTONE",
    "OPERATIONS",
    "Activation",
    "Affine",
    "Attention",
    "ChannelShuffle",
    "ChannelSlice",
    "ChannelSoftmax",
    "Combine",
    "Concat",
    "Conv2d",
    "Dense",
    "Flatten",
    "GroupNorm",
    "Layer",
    "LayerNorm",
    "LocalResponseNorm",
    "PRelu",
    "Pad",
    "PixelArgmax",
    "Pool",
    "Reshape",
    "RowSoftmax",
    "Softmax",
    "Transpose",
    "activate",
]
