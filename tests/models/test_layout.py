"""The packed layout of convolution weights, compared with its definition element by element."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer.kernels.program import OutputOrder
from trninfer.kernels.tiling.packing import Taps, filter_steps, packed_layout, taps_in_partitions
from trninfer.models.layout import pack_conv2d, pack_images
from trninfer.simulator.machine.chip import PARTITIONS

channels = st.sampled_from([1, 3, 5, 14, 15, 42, 43, 64, 65, 127, 128, 129])


@settings(deadline=None, max_examples=40)
@given(channels, st.sampled_from([1, 2, 127, 128, 129, 257]), st.integers(1, 5))
def test_weights_are_laid_out_as_defined(in_channels: int, out_channels: int, kernel_size: int) -> None:
    rng = np.random.default_rng(1)
    w = rng.standard_normal((out_channels, in_channels, kernel_size, kernel_size)).astype(np.float32)
    bias = rng.standard_normal(out_channels).astype(np.float32)
    packed, bias_packed = pack_conv2d(w, bias)
    kernel = kernel_size, kernel_size
    taps = taps_in_partitions(in_channels, kernel, PARTITIONS)
    steps = filter_steps(kernel, taps)
    assert packed.shape == ((taps.count - 1) * taps.stride + in_channels, len(steps) * out_channels)
    expected = np.zeros_like(packed)
    for number, step in enumerate(steps):
        for i in range(min(taps.rows, kernel_size - step.row)):
            for j in range(taps.columns):
                first = (i * taps.columns + j) * taps.stride
                for n in range(out_channels):
                    block = n // 128
                    width = min(128, out_channels - 128 * block)
                    column = 128 * block * len(steps) + number * width + n % 128
                    expected[first : first + in_channels, column] = w[n, :, step.row + i, step.column + j]
    np.testing.assert_array_equal(packed, expected)
    for n in range(out_channels):
        assert bias_packed[n % 128, n // 128] == bias[n]
    assert bias_packed.dtype == np.float32
    assert bias_packed.flags.c_contiguous and packed.flags.c_contiguous


@pytest.mark.parametrize(("groups", "each_in", "each_out"), [(32, 4, 4), (3, 50, 20), (200, 1, 1), (2, 130, 140)])
def test_groups_are_on_the_diagonal(groups: int, each_in: int, each_out: int) -> None:
    """Multiplying by a step of a section, restricted to its columns, equals the convolution's matrix at that tap."""
    w = np.random.default_rng(1).standard_normal((groups * each_out, each_in, 3, 1)).astype(np.float32)
    packed, _ = pack_conv2d(w, np.zeros(len(w), np.float32), groups)
    layout = packed_layout(groups * each_in, len(w), (3, 1), groups, PARTITIONS)
    taps, steps = layout.taps, layout.steps
    assert packed.shape == (layout.rows, steps * len(w))
    assert sum(section.channels_out for section in layout.sections) == len(w)
    for part in layout.sections:
        section = packed[:, part.first_out * steps : (part.first_out + part.channels_out) * steps]
        for n in range(part.channels_out):
            block = n // 128 * 128
            width = min(128, part.channels_out - block)
            for tap in range(3):
                step, within = (0, tap) if steps == 1 else divmod(tap, taps.rows)
                found = section[within * taps.stride :, steps * block + step * width + n - block][: part.channels_in]
                expected = np.zeros(part.channels_in)
                group = (part.first_out + n) // each_out
                expected[group * each_in - part.first_in :][:each_in] = w[part.first_out + n, :, tap, 0]
                np.testing.assert_array_equal(found, expected)


def test_the_dtype_of_the_weights_is_kept_and_biases_are_float32() -> None:
    packed, bias = pack_conv2d(np.ones((4, 3, 3, 3), np.float16), np.ones(4, np.float16))
    assert packed.dtype == np.float16
    assert bias.dtype == np.float32


@pytest.mark.parametrize(
    ("shape", "bias", "message"),
    [
        ((4, 3, 3), 4, "must be [Cout, Cin / groups, kh, kw], got [4, 3, 3]"),
        ((4, 3, 3, 3), 5, "bias must be [4], got [5]"),
        ((4, 0, 3, 3), 4, "got [4, 0, 3, 3]"),
    ],
)
def test_shapes_that_are_no_filters_are_refused(shape: tuple[int, ...], bias: int, message: str) -> None:
    with pytest.raises(ValueError) as error:
        pack_conv2d(np.ones(shape, np.float32), np.ones(bias, np.float32))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("phases", "rows", "images", "channels"), [(1, 1, 2, 5), (4, 1, 2, 3), (1, 2, 4, 6), (2, 4, 1, 40)]
)
@pytest.mark.parametrize("taps", [Taps(1, 1, 24), Taps(3, 1, 32), Taps(2, 1, 24)])
def test_packed_images_are_multiplied_by_their_own_filters(
    phases: int, rows: int, images: int, channels: int, taps: Taps
) -> None:
    """Return the outputs (phase, row, image, channel) of every tap, using the filters of the definition."""
    order = OutputOrder(phases, rows, images, channels)
    together = phases * images
    each_in, kernel = 24 // together, (3, 2)
    w = np.random.default_rng(1).standard_normal((rows, channels, each_in, *kernel)).astype(np.float32)
    packed = pack_images(w.reshape(rows * channels, each_in, *kernel), order, taps, 128)
    steps = filter_steps(kernel, taps)
    assert packed.shape == (taps.used_partitions(24), len(steps) * together * rows * channels)
    column = 0
    numbers = list(np.ndindex(phases, rows, images, channels))
    for first in range(0, len(numbers), 128):
        block = numbers[first : first + 128]
        for step in steps:
            for phase, row, image, channel in block:
                expected = np.zeros(packed.shape[0], np.float32)
                for tap in range(min(taps.rows, kernel[0] - step.row)):
                    start = tap * taps.stride + (phase * images + image) * each_in
                    expected[start : start + each_in] = w[row, channel, :, step.row + tap, step.column]
                np.testing.assert_array_equal(packed[:, column], expected)
                column += 1
