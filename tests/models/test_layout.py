"""The packed layout of convolution weights, against its definition element by element."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer.kernels.conv2d_plan import contraction_steps, tap_block_stride, taps_in_partitions
from trninfer.models.layout import conv2d_block_stride, conv2d_taps_in_rows, pack_conv2d

channels = st.sampled_from([1, 3, 5, 14, 15, 42, 43, 64, 65, 127, 128, 129])


@settings(deadline=None, max_examples=40)
@given(channels, st.sampled_from([1, 2, 127, 128, 129, 257]), st.integers(1, 5))
def test_every_weight_is_where_the_definition_puts_it(in_channels: int, out_channels: int, kernel_size: int) -> None:
    rng = np.random.default_rng(1)
    w = rng.standard_normal((out_channels, in_channels, kernel_size, kernel_size)).astype(np.float32)
    bias = rng.standard_normal(out_channels).astype(np.float32)
    packed, bias_packed = pack_conv2d(w, bias)
    tap_rows, tap_columns = conv2d_taps_in_rows(in_channels, kernel_size)
    steps = contraction_steps(kernel_size, tap_rows, tap_columns)
    stride = conv2d_block_stride(in_channels, kernel_size)
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


@given(st.integers(1, 300), st.integers(1, 12))
def test_host_and_chip_agree_on_what_shares_the_partition_axis(in_channels: int, kernel_size: int) -> None:
    rows, columns = conv2d_taps_in_rows(in_channels, kernel_size)
    assert (rows, columns) == taps_in_partitions(in_channels, kernel_size)
    stride = conv2d_block_stride(in_channels, kernel_size)
    assert stride == tap_block_stride(in_channels, rows, columns) >= in_channels
    assert (rows, columns) == (1, 1) or (rows * columns - 1) * stride + in_channels <= 128


def test_the_dtype_of_the_weights_is_kept_and_biases_are_float32() -> None:
    packed, bias = pack_conv2d(np.ones((4, 3, 3, 3), np.float16), np.ones(4, np.float16))
    assert packed.dtype == np.float16
    assert bias.dtype == np.float32


@pytest.mark.parametrize(
    ("shape", "bias", "message"),
    [
        ((4, 3, 3), 4, "must be [Cout, Cin, k, k], came [4, 3, 3]"),
        ((4, 3, 3, 2), 4, "came [4, 3, 3, 2]"),
        ((4, 3, 3, 3), 5, "bias must be [4], came [5]"),
        ((4, 0, 3, 3), 4, "came [4, 0, 3, 3]"),
    ],
)
def test_shapes_that_are_no_filters_are_refused(shape: tuple[int, ...], bias: int, message: str) -> None:
    with pytest.raises(ValueError) as error:
        pack_conv2d(np.ones(shape, np.float32), np.ones(bias, np.float32))
    assert message in str(error.value)
