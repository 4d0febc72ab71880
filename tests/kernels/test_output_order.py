"""The order of a convolution's outputs, compared with an enumeration by NumPy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from trninfer.kernels.output_order import OutputOrder

COUNTS = st.sampled_from([1, 2, 4])


@given(COUNTS, COUNTS, COUNTS, st.integers(1, 300), st.sampled_from([32, 128]))
def test_an_output_tile_is_a_part_of_one_row_of_one_phase(
    phases: int, rows: int, images: int, channels: int, partitions: int
) -> None:
    """The tiles contain all outputs, numbered (phase, row, image, channel), in order."""
    order = OutputOrder(phases, rows, images, channels)
    each = images * channels
    outputs = np.arange(phases * rows * each).reshape(phases, rows, each)
    sizes = order.tile_sizes(partitions)
    ends = np.cumsum(sizes)
    assert ends[-1] == outputs.size and max(sizes) <= partitions
    for tile, (size, end) in enumerate(zip(sizes, ends)):
        phase, row, place = order.position(tile, partitions)
        expected = outputs[phase, row, place * partitions : (place + 1) * partitions]
        np.testing.assert_array_equal(np.arange(end - size, end), expected)
