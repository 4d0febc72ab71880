"""Detectors with known boxes: a dense layer whose bias is the answer."""

from pathlib import Path

import numpy as np
from PIL import Image
from trninfer.models import Dense, Model, Network, Output
from trninfer.models.boxes import BoxHead
from trninfer.models.inputs import ImageInput
from trninfer.models.layers import Flatten
from trninfer.models.outputs import NamedOutput

SIDE = 16
LETTERBOX = ImageInput(
    3, SIDE, SIDE, "photo", (0.0,) * 3, (1.0,) * 3, SIDE, resize_mode="pad", filter="linear", pad_colour=114
)
LABELS = ("cat", "dog")
# Centre, sides and the scores of cat and dog, in an image of 16x16: two overlapping cats, a dog, and an unlikely dog.
ROWS = [[4, 8, 4, 4, 0.9, 0.1], [4.5, 8, 4, 4, 0.8, 0.1], [12, 8, 6, 2, 0.2, 0.7], [12, 4, 2, 2, 0.1, 0.2]]


def detector(rows=ROWS, name: str = "detector", keypoints: int = 0, masks: bool = False) -> Model:
    """Return a network that finds the boxes of `rows` in any picture; the first score increases with the red value in
    the middle."""
    table = np.array(rows, np.float32)
    head = BoxHead(
        2,
        "columns",
        keypoints=keypoints,
        keypoint_size=3 if keypoints else 0,
        masks=int(masks),
        prototypes="maps" if masks else "",
    )
    bias = table.T.ravel()
    layers: list = [Flatten("flat", inputs=("input",))]
    weight = np.zeros((3 * SIDE * SIDE, bias.size), np.float32)
    weight[8 * SIDE + 8, 4 * len(table)] = 0.05
    tensors = {}
    others = ()
    if masks:
        layers.append(Dense("maps", 3 * SIDE * SIDE, 16, inputs=("flat",)))
        left = np.where(np.arange(4) < 2, 1.0, -1.0)  # the left half of the image is inside the mask
        tensors |= {"maps.weight": np.zeros((3 * SIDE * SIDE, 16)), "maps.bias": np.tile(left, 4)}
        others = (NamedOutput("maps", "maps", (1, 4, 4), Output("values")),)
    layers.append(Dense("rows", 3 * SIDE * SIDE, bias.size, inputs=("flat",)))
    tensors |= {"rows.weight": weight, "rows.bias": bias}
    shapes = {n: s for layer in layers for n, s in layer.tensor_shapes().items()}
    tensors = {n: np.asarray(tensors[n], np.float32).reshape(shapes[n]) for n in shapes}
    output = Output("boxes", boxes=head)
    network = Network(name, LETTERBOX, tuple(layers), LABELS, output, others, "rows", table.T.shape)
    return Model(network, tensors, {})


def write_pictures(folder: Path, sizes=((32, 32), (64, 32), (32, 64))) -> list[Path]:
    """Write black pictures of the given sizes."""
    paths = []
    for number, size in enumerate(sizes):
        paths.append(folder / f"{number}.png")
        Image.new("RGB", size).save(paths[-1])
    return paths
