"""The class of each pixel, compared with ONNX Runtime."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_layer import normal, run_nodes
from trninfer.models.errors import ModelError
from trninfer.models.layers.pixel_argmax import PixelArgmax


@pytest.mark.parametrize("classes", [1, 2, 21])
def test_the_first_of_the_largest(classes: int) -> None:
    x = np.round(normal(3, 2, classes, 5, 4, scale=2))  # with ties
    find = helper.make_node("ArgMax", ["x"], ["found"], axis=1, keepdims=0, select_last_index=0)
    expected = run_nodes([find, helper.make_node("Cast", ["found"], ["y"], to=TensorProto.FLOAT)], {"x": x})
    np.testing.assert_array_equal(PixelArgmax("a", classes).run({}, x), expected.reshape(2, -1))


def test_shapes() -> None:
    assert PixelArgmax("a", 21).output_shape((21, 5, 4)) == (20,)
    with pytest.raises(ModelError, match="expects 21 channels, one for each class, but its input has 20"):
        PixelArgmax("a", 21).output_shape((20, 5, 4))
    with pytest.raises(ModelError, match="expects an image"):
        PixelArgmax("a", 21).output_shape((21,))
