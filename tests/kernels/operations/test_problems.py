"""The fields of a convolution's problem that an operation and its value determine."""

import nki.language as nl
from nki_tensors import hbm, on
from trninfer.kernels.convolution.problem import Filters, FilterSource, Finish, Images
from trninfer.kernels.operations.problems import filters_of, finish_of, images_of
from trninfer.kernels.operations.value import value_in_hbm
from trninfer.kernels.program import Activation, Convolution
from trninfer.kernels.tiling.packing import Taps


def test_packed_images_are_channels_of_one() -> None:
    """Six pictures, packed in threes, are two images with three times the channels."""
    operation = Convolution(
        name="c",
        channels=5,
        rows=4,
        columns=6,
        kernel=(3, 2),
        taps=Taps(3, 1, 12),
        activation=Activation("clip", (0.0, 6.0)),
    )
    with on("trn2"):
        value = value_in_hbm(hbm((2, 12, 8, 7), nl.float32), 3, 6)
        assert images_of(value, 4) == Images(2, 8, 7, 4)
        assert filters_of(operation, value, 15) == Filters(12, 15, (3, 2), Taps(3, 1, 12), FilterSource.NETWORK)
    assert finish_of(operation, 2) == Finish(2, "clip", (0.0, 6.0))
