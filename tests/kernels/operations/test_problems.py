"""The problem that an operation is for the kernels of convolutions."""

import nki.language as nl
from nki_tensors import hbm, on
from trninfer.kernels.operations.problems import problem_of
from trninfer.kernels.operations.value import value_in_hbm
from trninfer.kernels.program import Activation, Convolution
from trninfer.kernels.tiling.packing import Taps


def test_packed_images_are_channels_of_one() -> None:
    """Six pictures, three on the partitions at a time, are two images of three times the channels."""
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
        found = problem_of(
            operation,
            value,
            outputs=15,
            output=(4, 6),
            stride=(2, 1),
            dilation=(1, 1),
            padding=(0, 0, 0, 0),
            pool_size=1,
            item_bytes=4,
        )
    assert (found.batch, found.in_channels, found.height, found.width) == (2, 12, 8, 7)
    assert (found.out_channels, found.output, found.kernel, found.stride) == (15, (4, 6), (3, 2), (2, 1))
    assert (found.activation, found.parameters, found.taps) == ("clip", (0.0, 6.0), Taps(3, 1, 12))
    assert found.packed and found.from_host  # filters are laid out, and combined, on the host
