"""Small models and pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from trninfer.models import Network, save_model


def write_model(path: Path, network: Network, seed: int = 0, **metadata: str) -> Path:
    """Write a model file with random weights."""
    random = np.random.default_rng(seed)
    tensors = {name: random.standard_normal(shape, np.float32) * 0.3 for name, shape in network.tensor_shapes().items()}
    save_model(path, network, tensors, metadata)
    return path


def draw_picture(path: Path, number: int = 0) -> Path:
    """Draw a picture of a digit-like shape."""
    image = Image.new("L", (60, 80), 255)
    pen = ImageDraw.Draw(image)
    pen.ellipse((15, 15, 45, 65), outline=0, width=5)
    pen.line((30, 15, 30 + 8 * number, 65), fill=0, width=5)
    image.save(path)
    return path
