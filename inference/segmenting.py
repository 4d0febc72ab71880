"""Segmentation: predictions that consist of the class map of a picture and the area of each class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..models.errors import InputError
from ..models.frame import frame_of, own_frame
from ..models.inputs import ImageInput
from ..models.network import Network
from .class_maps import Overlap, compare, read_map, to_picture
from .detections import Sizes
from .map_scoring import MapLabels
from .predictions import Prediction
from .search import InputProblem

SaveMap = Callable[["str | int", np.ndarray], None]


class Segmenter:
    """Converts the output of a network of class maps to predictions.

    `sizes` contains the width and height of each picture until its prediction is made. Inputs without a size, such as
    arrays, are treated as pictures of the size of the network's image. With `right`, maps are compared with the correct
    maps; `problems` lists the pictures for which that failed. `save` is called with the name and the map of each
    picture. Predictions include the pixels of the map if `keeps_pixels`.
    """

    def __init__(
        self,
        sizes: Sizes,
        right: MapLabels | None = None,
        save: SaveMap | None = None,
        keeps_pixels: bool = False,
    ) -> None:
        self._sizes = sizes
        self._right = right
        self._save = save
        self._keeps_pixels = keeps_pixels
        self.problems: list[InputProblem] = []

    def __call__(
        self, names: Sequence[str | int], network: Network, classes: np.ndarray, probabilities: np.ndarray
    ) -> list[Prediction]:
        """Return the prediction for each input; see `make_predictions`."""
        spec = network.input
        assert isinstance(spec, ImageInput)
        maps = network.unpack(probabilities)[0].reshape(len(names), *network.output_shape)
        answers = []
        for name, class_map in zip(names, maps, strict=True):
            size = self._sizes.pop(name, None)
            frame = frame_of(spec, *size) if size is not None and spec.preprocess == "photo" else own_frame(spec)
            pixels = to_picture(class_map, frame, (spec.height, spec.width), len(network.labels))
            if self._save is not None:
                self._save(name, pixels)
            answer = read_map(pixels, network.labels, self._compare(name, pixels, len(network.labels)))
            if self._keeps_pixels:
                answer = replace(answer, pixels=pixels)
            answers.append(Prediction(name, None, None, None, (), map=answer))
        return answers

    def _compare(self, name: str | int, pixels: np.ndarray, count: int) -> tuple[Overlap, ...] | None:
        """Compare the map of a picture with the correct map; return None if that is unknown or unusable."""
        if self._right is None:
            return None
        try:
            right = self._right.read(str(name), (pixels.shape[1], pixels.shape[0]))
        except InputError as error:
            self.problems.append(InputProblem(name, f"not scored: {error}"))
            return None
        return None if right is None else compare(pixels, right, count)
