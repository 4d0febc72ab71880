"""The input of an imported network: channel-wise numbers in the order of its channels."""

import pytest
from trninfer.models.errors import ModelError
from trninfer.models.importing.picture import IMAGENET_MEAN, IMAGENET_STD, PreprocessingOptions, network_input
from trninfer.models.inputs import FeatureInput, ImageInput

IMAGE = (3, 224, 224)


def photo(**options: object) -> ImageInput:
    found = network_input(IMAGE, PreprocessingOptions(**options))  # type: ignore[arg-type]
    assert isinstance(found, ImageInput)
    return found


@pytest.mark.parametrize(("order", "step"), [(None, 1), ("rgb", 1), ("bgr", -1)])
def test_channel_order_is_as_requested(order: str | None, step: int) -> None:
    """The default numbers are reversed with the colours; specified ones are in the network's own order."""
    found = photo(channel_order=order)
    assert found.channel_order == (order or "rgb")
    assert (found.mean, found.std) == (IMAGENET_MEAN[::step], IMAGENET_STD[::step])
    given = photo(channel_order=order, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
    assert given.channel_order == (order or "rgb") and given.mean == (0.1, 0.2, 0.3)


def test_a_range_is_one_mean_and_deviation() -> None:
    found = photo(input_range=(-1.0, 1.0))
    assert found.mean == pytest.approx((0.5,) * 3) and found.std == pytest.approx((0.5,) * 3)
    turned = photo(input_range=(-1.0, 1.0), invert=True)
    assert turned.mean == pytest.approx((0.5,) * 3) and turned.std == pytest.approx((-0.5,) * 3)
    with pytest.raises(ModelError, match="the input range 1,1 is empty"):
        photo(input_range=(1.0, 1.0))


def test_features_take_no_preprocessing() -> None:
    assert network_input((20,), PreprocessingOptions()) == FeatureInput(20)
    with pytest.raises(ModelError, match="the preprocessing of pictures do not apply"):
        network_input((20,), PreprocessingOptions(channel_order="bgr"))
