"""Networks as data, their weight files, preprocessing of pictures, and the golden NumPy reference.

Nothing here knows of a kernel or a backend. `preprocess`, which needs Pillow, is imported by those who open pictures:
`from trninfer.models.preprocess import open_image, preprocess`.
"""

from .bundled import Accuracy, BundledModel, bundled_models
from .files import Model, load_model, save_model
from .golden import GoldenRun, run_network
from .network import (
    Conv2d,
    Dense,
    FeatureInput,
    Flatten,
    ImageInput,
    Layer,
    ModelError,
    Network,
    Output,
    Pool,
    Softmax,
)

__all__ = [
    "Accuracy",
    "BundledModel",
    "Conv2d",
    "Dense",
    "FeatureInput",
    "Flatten",
    "GoldenRun",
    "ImageInput",
    "Layer",
    "Model",
    "ModelError",
    "Network",
    "Output",
    "Pool",
    "Softmax",
    "bundled_models",
    "load_model",
    "run_network",
    "save_model",
]
