"""The packed layout of convolution weights, against its definition element by element."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer.kernels.tiling.packing import filter_steps, packed_layout, taps_in_partitions
from trninfer.models.layout import pack_conv2d

channels = st.sampled_from([1, 3, 5, 14, 15, 42, 43, 64, 65, 127, 128, 129])


@settings(deadline=None, max_examples=40)
@given(channels, st.sampled_from([1, 2, 127, 128, 129, 257]), st.integers(1, 5))
def test_every_weight_is_where_the_definition_puts_it(in_channels: int, out_channels: int, kernel_size: int) -> None:
    rng = np.random.default_rng(1)
    w = rng.standard_normal((out_channels, in_channels, kernel_size, kernel_size)).astype(np.float32)
    bias = rng.standard_normal(out_channels).astype(np.float32)
    packed, bias_packed = pack_conv2d(w, bias)
    tap_rows, tap_columns, stride = taps_in_partitions(in_channels, kernel_size, kernel_size)
    steps = filter_steps(kernel_size, kernel_size, tap_rows, tap_columns)
    assert packed.shape == ((tap_rows * tap_columns - 1) * stride + in_channels, len(steps) * out_channels)
    expected = np.zeros_like(packed)
    for step, (down, right, _) in enumerate(steps):
        for i in range(min(tap_rows, kernel_size - down)):
            for j in range(tap_columns):
                first = (i * tap_columns + j) * stride
                for n in range(out_channels):
                    block = n // 128
                    width = min(128, out_channels - 128 * block)
                    column = 128 * block * len(steps) + step * width + n % 128
                    expected[first : first + in_channels, column] = w[n, :, down + i, right + j]
    np.testing.assert_array_equal(packed, expected)
    for n in range(out_channels):
        assert bias_packed[n % 128, n // 128] == bias[n]
    assert bias_packed.dtype == np.float32
    assert bias_packed.flags.c_contiguous and packed.flags.c_contiguous


@given(st.integers(1, 300), st.integers(1, 12), st.integers(1, 12))
def test_taps_that_share_the_partition_axis_fit_it(in_channels: int, kernel_rows: int, kernel_columns: int) -> None:
    rows, columns, stride = taps_in_partitions(in_channels, kernel_rows, kernel_columns)
    assert stride >= in_channels
    assert (rows, columns) == (1, 1) or (rows * columns - 1) * stride + in_channels <= 128
    if columns > 1:
        assert (rows, columns) == (kernel_rows, kernel_columns)


@pytest.mark.parametrize(("groups", "each_in", "each_out"), [(32, 4, 4), (3, 50, 20), (200, 1, 1), (2, 130, 140)])
def test_groups_stand_on_the_diagonal(groups: int, each_in: int, each_out: int) -> None:
    """Multiplying by a step of a section, by its columns, is the convolution's matrix at that tap."""
    w = np.random.default_rng(1).standard_normal((groups * each_out, each_in, 3, 1)).astype(np.float32)
    packed, _ = pack_conv2d(w, np.zeros(len(w), np.float32), groups)
    taps, steps, sections, rows = packed_layout(groups * each_in, len(w), (3, 1), groups)
    assert packed.shape == (rows, steps * len(w))
    for first_in, channels_in, first_out, channels_out in sections:
        section = packed[:, first_out * steps : (first_out + channels_out) * steps]
        for n in range(channels_out):
            block = n // 128 * 128
            width = min(128, channels_out - block)
            for tap in range(3):
                step, within = (0, tap) if steps == 1 else divmod(tap, taps[0])
                found = section[within * taps[2] :, steps * block + step * width + n - block][:channels_in]
                expected = np.zeros(channels_in)
                group = (first_out + n) // each_out
                expected[group * each_in - first_in :][:each_in] = w[first_out + n, :, tap, 0]
                np.testing.assert_array_equal(found, expected)


def test_the_dtype_of_the_weights_is_kept_and_biases_are_float32() -> None:
    packed, bias = pack_conv2d(np.ones((4, 3, 3, 3), np.float16), np.ones(4, np.float16))
    assert packed.dtype == np.float16
    assert bias.dtype == np.float32


@pytest.mark.parametrize(
    ("shape", "bias", "message"),
    [
        ((4, 3, 3), 4, "must be [Cout, Cin / groups, kh, kw], came [4, 3, 3]"),
        ((4, 3, 3, 3), 5, "bias must be [4], came [5]"),
        ((4, 0, 3, 3), 4, "came [4, 0, 3, 3]"),
    ],
)
def test_shapes_that_are_no_filters_are_refused(shape: tuple[int, ...], bias: int, message: str) -> None:
    with pytest.raises(ValueError) as error:
        pack_conv2d(np.ones(shape, np.float32), np.ones(bias, np.float32))
    assert message in str(error.value)
