"""A network of class maps with known classes: it distinguishes red, green and blue from grey."""

from pathlib import Path

import numpy as np
from trninfer.models import save_model
from trninfer.models.inputs import ImageInput
from trninfer.models.layers import Conv2d, PixelArgmax
from trninfer.models.network import Network
from trninfer.models.outputs import Output

LABELS = ("background", "red", "green", "blue")


def save_colours(path: Path) -> Path:
    """Write the network to a model file."""
    spec = ImageInput(3, 16, 16, "photo", (0.0,) * 3, (1.0,) * 3, resize=16, resize_mode="squash")
    weight = np.array([[0, 0, 0], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], np.float32).reshape(4, 3, 1, 1)
    layers = (Conv2d("scores", 3, 4, kernel_size=(1, 1)), PixelArgmax("classes", 4))
    network = Network("colours", spec, layers, LABELS, Output("map"), output_shape=(16, 16))
    save_model(path, network, {"scores.weight": weight, "scores.bias": np.array([0.3, 0, 0, 0], np.float32)}, {})
    return path
