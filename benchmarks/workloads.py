"""Create reproducible pictures and networks for measurements, including a large network with random weights."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from PIL import Image

from ..models.files import Model
from ..models.inputs import ImageInput
from ..models.layers import Combine, Conv2d, Dense, Flatten, Layer, Pool, Softmax
from ..models.network import Network
from ..models.outputs import Output

CLASSES = 10


def draw_photos(folder: Path, count: int, size: tuple[int, int]) -> None:
    """Draw JPEG files of `size` (width, height) with coarse and fine colour, so that decoding takes as long as for
    photos."""
    random = np.random.default_rng(0)
    width, height = size
    for number in range(count):
        coarse = random.integers(0, 256, (height // 40, width // 40, 3), np.uint8)
        picture = np.asarray(Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC), np.int16)
        noisy = picture + random.integers(-12, 13, (height, width, 3), np.int16)
        Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(folder / f"{number:06}.jpg", quality=90)


def residual_network(side: int, width: int = 64) -> Model:
    """Return a residual network for photos of side x side pixels.

    It has four stages of one block each, with `width` to 8 * `width` channels. The weights are random, and scaled to
    preserve the magnitude of values.
    """
    layers: list[Layer] = [Conv2d("stem", 3, width, (3, 3), (1, 1, 1, 1), activation="relu", stride=(2, 2))]
    channels = width
    for stage in range(4):
        out = width << stage
        layers += _block(f"stage{stage + 1}", layers[-1].name, channels, out, 1 if stage == 0 else 2)
        channels = out
    last = math.ceil(side / 16)
    layers += [
        Pool("pool", "average", (last, last), (last, last)),
        Flatten("flat"),
        Dense("scores", channels, CLASSES),
        Softmax("softmax"),
    ]
    network = Network(
        "residual",
        ImageInput(3, side, side, "photo", (0.5,) * 3, (0.25,) * 3, resize=side),
        tuple(layers),
        tuple(f"class {number}" for number in range(CLASSES)),
        Output("classes", "softmax"),
    )
    random = np.random.default_rng(0)
    tensors = {}
    for layer in layers:
        for name, shape in layer.tensor_shapes().items():
            scale = math.sqrt(2 / max(1, math.prod(shape[1:]))) if len(shape) > 1 else 0.1
            tensors[name] = (random.standard_normal(shape) * scale).astype(np.float32)
    return Model(network, tensors, {})


def _block(name: str, source: str, channels: int, out: int, stride: int) -> list[Layer]:
    """Return two 3x3 convolutions and a residual connection, which is convolved if its shape differs."""
    padding = (1, 1, 1, 1)
    first = Conv2d(
        f"{name}.1", channels, out, (3, 3), padding, activation="relu", stride=(stride, stride), inputs=(source,)
    )
    layers: list[Layer] = [first, Conv2d(f"{name}.2", out, out, (3, 3), padding)]
    if (channels, stride) != (out, 1):
        layers.append(Conv2d(f"{name}.shortcut", channels, out, (1, 1), stride=(stride, stride), inputs=(source,)))
        source = f"{name}.shortcut"
    return [*layers, Combine(f"{name}.sum", "add", "relu", inputs=(f"{name}.2", source))]
