"""Convolution of 8-bit images with 8-bit filters.

Each matmul contracts over two planes, which doubles the throughput of 16 bits.

Images, filters and result are divided by scales, as in an 8-bit network (docs/eight-bits.md): the instruction that
evicts PSUM multiplies by a column of scales. The rows of paired input tiles are interleaved in SBUF, and so are the
rows of their filters (convolution/double_rows.py).
"""

import nki
import nki.language as nl

from .conv2d import convolve_section
from .convolution.forms import Form
from .convolution.problem import Filters, FilterSource, Finish, make_problem, movement_of
from .tiling.packing import packed_layout
from .tiling.tiles import PARTITIONS


@nki.jit
def fused_conv2d_float8(
    x, w_packed, bias_packed, scale_packed, in_channels, kernel_size, pool_size=1, padding=0, activation="identity"
):
    """Compute activation(maxpool(conv2d(x, w)) * scale + bias) in float8_e4m3; see `fused_conv2d_maxpool_packed`.

    Args:
        x: [B, Cin, H, W] in HBM, uint8: float8_e4m3 values as bytes, because frameworks have no such dtype
        w_packed: [R, S * Cout] uint8, filters in SBUF layout, as bytes
        bias_packed, scale_packed: [channels of the first block, blocks] float32, a column for each block of output
            channels; scales are positive
        in_channels, kernel_size, pool_size, padding, activation: as for `fused_conv2d_maxpool_packed`

    Returns:
        [B, Cout, Ho, Wo] in shared HBM, uint8: float8_e4m3 values as bytes; sums are float32.
    """
    assert x.dtype == nl.uint8 and w_packed.dtype == nl.uint8, (
        f"conv2d: x and w_packed must be uint8, the bytes of float8_e4m3, got {x.dtype} and {w_packed.dtype}"
    )
    kernel = (kernel_size, kernel_size)
    steps = packed_layout(in_channels, 1, kernel, 1, PARTITIONS).steps
    assert w_packed.shape[1] % steps == 0, (
        f"conv2d: the number of columns of w_packed must be a multiple of {steps}, the number of matmuls of a filter, "
        f"got {w_packed.shape[1]}"
    )
    layout = packed_layout(in_channels, w_packed.shape[1] // steps, kernel, 1, PARTITIONS)
    (section,) = layout.sections
    filters = Filters(in_channels, section.channels_out, kernel, layout.taps, FilterSource.PACKED)
    finish = Finish(pool_size, activation, ())
    images = x.view(nl.float8_e4m3)
    problem = make_problem(images, filters, movement_of((1, 1), (1, 1), padding), finish, Form.DIRECT, in_planes=True)
    shape = (x.shape[0], problem.filters.out_channels, problem.output[0] // pool_size, problem.output[1] // pool_size)
    out = nl.ndarray(shape, dtype=nl.uint8, buffer=nl.shared_hbm)
    weights = w_packed.view(nl.float8_e4m3)
    convolve_section(out.view(nl.float8_e4m3), images, weights, (bias_packed, scale_packed), problem)
    return out
