"""`trninfer.segment`: pictures in every form, and invalid arguments."""

import numpy as np
import pytest
import trninfer
from PIL import Image
from trninfer.models.files import Model
from trninfer.models.inputs import ImageInput
from trninfer.models.layers import Conv2d, PixelArgmax
from trninfer.models.network import Network
from trninfer.models.outputs import Output


def light_and_dark() -> Model:
    spec = ImageInput(3, 8, 8, "photo", (0.0,) * 3, (1.0,) * 3, resize=8, resize_mode="squash")
    layers = (Conv2d("scores", 3, 2, kernel_size=(1, 1)), PixelArgmax("classes", 2))
    network = Network("light", spec, layers, ("dark", "light"), Output("map"), output_shape=(8, 8))
    weight = np.array([[0, 0, 0], [1, 1, 1]], np.float32).reshape(2, 3, 1, 1)
    return Model(network, {"scores.weight": weight, "scores.bias": np.array([0, -1.5], np.float32)}, {})


def test_maps_of_pictures_and_of_arrays() -> None:
    picture = Image.new("RGB", (20, 10), "black")
    picture.paste("white", (10, 0, 20, 10))
    first, second = trninfer.segment([picture, np.zeros((3, 8, 8), np.float32)], light_and_dark())
    assert first.map.pixels.shape == (10, 20) and first.map.pixels.dtype == np.uint8
    assert (first.map.pixels[:, :9] == 0).all() and (first.map.pixels[:, 11:] == 1).all()
    assert [(area.label, area.share) for area in first.map.areas] == [("dark", 0.5), ("light", 0.5)]
    assert second.map.pixels.shape == (8, 8) and second.text == "dark 100.0 %"


def test_network_without_a_map_is_refused() -> None:
    with pytest.raises(trninfer.ModelError, match="does not predict a map; use classify"):
        trninfer.segment(Image.new("RGB", (9, 9)), "digits-cnn")
    with pytest.raises(trninfer.ModelError, match="predicts a class for each pixel; use segment"):
        trninfer.classify(Image.new("RGB", (9, 9)), light_and_dark())
