"""A network as data: what goes in, layers in topological order, labels, and what comes out, checked when it is built.

Nothing here computes. The golden model (`golden/`), the weight layout and the runtime read the same description, so
that a network is told once. Shapes are those of one example, without the batch: (C, H, W) for an image, (F,) for
features. To add a kind of layer: a frozen dataclass of `Layer` with `kind`, `tensor_shapes` and `output_shape`, an
entry in `kinds.LAYER_KINDS`, and its arithmetic in `golden/`.
"""

from .activation import ACTIVATION_PARAMETERS, ACTIVATIONS, MONOTONE, Activation, PRelu
from .arrange import MAX_AXES, ChannelShuffle, ChannelSlice, Concat, Flatten, Pad, Reshape, Transpose
from .checks import (
    INPUT,
    MAX_CHANNELS,
    MAX_ELEMENTS,
    MAX_FEATURES,
    MAX_KERNEL_ELEMENTS,
    MAX_KERNEL_SIZE,
    MAX_LABELS,
    MAX_SIDE,
    MAX_STRIDE,
    ModelError,
    Shape,
    describe_shape,
)
from .convolution import Conv2d, Dense
from .elementwise import OPERATIONS, Affine, Combine
from .ends import FeatureInput, ImageInput, Input, Output
from .graph import Network
from .kinds import LAYER_KINDS
from .layer import Layer
from .normalize import GroupNorm, LayerNorm, LocalResponseNorm, Softmax
from .pooling import Pool

__all__ = [
    "ACTIVATIONS",
    "ACTIVATION_PARAMETERS",
    "INPUT",
    "LAYER_KINDS",
    "MAX_AXES",
    "MAX_CHANNELS",
    "MAX_ELEMENTS",
    "MAX_FEATURES",
    "MAX_KERNEL_ELEMENTS",
    "MAX_KERNEL_SIZE",
    "MAX_LABELS",
    "MAX_SIDE",
    "MAX_STRIDE",
    "MONOTONE",
    "OPERATIONS",
    "Activation",
    "Affine",
    "ChannelShuffle",
    "ChannelSlice",
    "Combine",
    "Concat",
    "Conv2d",
    "Dense",
    "FeatureInput",
    "Flatten",
    "GroupNorm",
    "ImageInput",
    "Input",
    "Layer",
    "LayerNorm",
    "LocalResponseNorm",
    "ModelError",
    "Network",
    "Output",
    "PRelu",
    "Pad",
    "Pool",
    "Reshape",
    "Shape",
    "Softmax",
    "Transpose",
    "describe_shape",
]
