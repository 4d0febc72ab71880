"""Convolution fused with bias, activation and 2x2 max pooling: no intermediate result is written to HBM.

    for section of channels (only one unless the convolution is grouped):
        for group of image rows, or of a few whole images:
            tiles = load(x, group)                          # [taps and channels, images, rows, columns]
            for out_tile of up to 128 output channels:
                for piece of up to 512 pixels:              # a PSUM bank
                    for tile of up to 128 input channels:
                        sums = accumulate(weights[out_tile, tile], tiles[tile])     # a matmul for each step
                    result[piece] = finish(sums)            # pool, bias, activation
                store(out, result)

1. Input rows are in SBUF as [channels, images, rows, columns]; a tap is a strided view of them. All filter taps and
   output channels read the same group. Rows shared with the next group are copied on chip instead of being reloaded.
2. Weights are in SBUF as [channels, steps, output channels]. Each matmul computes up to 512 output pixels for one tap,
   or for several taps if few channels leave room on the partition axis (tiling/packing.py); all taps accumulate in one
   bank. On larger images, minimal filtering reduces the matmul work of 3x3 filters to two thirds or four ninths; it is
   used if it is faster (convolution/forms.py).
3. The Vector Engine computes the maxima of 2x2 windows directly from PSUM; the Scalar Engine adds the bias and applies
   the activation in one instruction. The maximum is computed before the activation if the activation is monotonically
   increasing.

The inner function, `convolve_tile`, only accesses SBUF and PSUM. `fused_conv2d_maxpool` accepts filters as frameworks
store them and rearranges them on chip between the first matmuls; `fused_conv2d_maxpool_packed` accepts them in SBUF
layout.
"""

from dataclasses import dataclass, replace

import nki
import nki.language as nl

from .convolution.forms import FORMS, QUICKEST, Form, matmul_columns, matrices
from .convolution.input import advance, load_first, look_ahead, open_inputs, start_inputs, zeroed_inputs
from .convolution.plan import halve_last, plan_conv2d, psum_pieces
from .convolution.problem import Filters, FilterSource, Finish, make_problem, movement_of
from .convolution.sums import Epilogue, OutputTile, convolve_tile
from .convolution.weights import load_biases, open_weights, stage_weights, weights_of
from .tiling.packing import (
    ceil_div,
    conv2d_sections,
    matmul_passes,
    output_blocks,
    packed_layout,
    taps_in_partitions,
)
from .tiling.tiles import PARTITIONS, copy_by_hardware, usable_sbuf_bytes
from .tiling.warm_up import is_worth_warming, warm_bank


@nki.jit
def fused_conv2d_maxpool(
    x,
    w,
    bias,
    pool_size=1,
    padding=0,
    activation="identity",
    stride=(1, 1),
    dilation=(1, 1),
    groups=1,
    parameters=(),
    form=QUICKEST,
):
    """Compute activation(maxpool(conv2d(x, w) + bias)), with non-overlapping pool_size x pool_size windows.

    Dimensions:
        B: batch, Cin and Cout: channels, H and W: image size, kh and kw: kernel size
        Ho = ((H + top + bottom - dilation * (kh - 1) - 1) // stride + 1) // pool_size, and Wo likewise: pooling drops
        a last row or column that does not fill a window

    Args:
        x: [B, Cin, H, W] in HBM, float32, bfloat16 or float16
        w: [Cout, Cin / groups, kh, kw] in HBM, of x's dtype
        bias: [Cout] in HBM, float32 or of x's dtype
        pool_size: 1 (no pooling) or 2
        padding: rows and columns of zeros, >= 0: on each side, or (top, left, bottom, right)
        activation, parameters: the name of an activation and its parameters, as for `activate`
        stride, dilation: (rows, columns), >= 1
        groups: number of channel groups, a divisor of Cin and Cout; each group of output channels reads the
            corresponding group of input channels
        form: the algorithm for 3x3 filters, "direct", "pairs" or "squares" (convolution/forms.py), or "quickest"

    Returns:
        [B, Cout, Ho, Wo] in shared HBM, of x's dtype; sums are float32.
    Notes:
        An infinity or NaN in x propagates to the outputs whose window contains it and, with minimal filtering, also to
        the neighbouring outputs. This kernel convolves each group separately; the packed kernel combines as many groups
        as fit in the systolic array.
    """
    out_channels, group_channels, *kernel = _checked_filters(x, w, bias, groups)
    taps = taps_in_partitions(group_channels, tuple(kernel), PARTITIONS)
    filters = Filters(group_channels * groups, out_channels, tuple(kernel), taps, FilterSource.FRAMEWORK)
    finish = Finish(pool_size, activation, parameters)
    problem = make_problem(x, filters, movement_of(stride, dilation, padding), finish, _checked_form(form))
    out = _output(x, problem)
    for section in conv2d_sections(group_channels * groups, out_channels, groups, 1):
        outputs = slice(section.first_out, section.first_out + section.channels_out)
        channels = x[:, section.first_in : section.first_in + section.channels_in]
        convolve_section(out[:, outputs], channels, w[outputs], (bias[outputs],), _of_section(problem, section))
    return out


@nki.jit
def fused_conv2d_maxpool_packed(
    x,
    w_packed,
    bias_packed,
    in_channels,
    kernel_size,
    pool_size=1,
    padding=0,
    activation="identity",
    stride=(1, 1),
    dilation=(1, 1),
    groups=1,
    out_channels=0,
    parameters=(),
    form=QUICKEST,
):
    """Compute `fused_conv2d_maxpool` with weights that are already in SBUF layout.

    Args:
        x: [B, Cin, H, W] in HBM, float32, bfloat16 or float16
        w_packed: [R, S * Cout] of x's dtype. R is the number of partitions occupied by the filter taps that share the
            partition axis: one tap, the taps of some filter rows, or the whole filter, with one block of channels for
            each tap (see packing.py). S matmuls then cover a filter. The columns are in blocks of 128 output channels,
            and each block is ordered (S, output channel). With groups, blocks do not cross sections, and the channels
            of a section's groups share R
        bias_packed: [channels of the first block, blocks] float32, a column for each block of output channels
        in_channels, kernel_size: Cin and k or (kh, kw), which the packed shapes do not determine
        out_channels: Cout; 0 selects all columns of w_packed
        pool_size, padding, activation, stride, dilation, groups, parameters, form: as for `fused_conv2d_maxpool`

    Returns:
        [B, Cout, Ho, Wo] in shared HBM, of x's dtype.
    """
    weights = PackedWeights(w_packed, bias_packed, in_channels, out_channels, _pair(kernel_size), groups)
    movement = movement_of(stride, dilation, padding)
    finish = Finish(pool_size, activation, parameters)
    return _convolve_packed(x, weights, movement, finish, _checked_form(form))


@nki.jit
def fused_conv2d_add_packed(
    x,
    added,
    w_packed,
    bias_packed,
    in_channels,
    kernel_size,
    padding=0,
    activation="identity",
    stride=(1, 1),
    dilation=(1, 1),
    groups=1,
    out_channels=0,
    parameters=(),
    form=QUICKEST,
):
    """Compute activation(conv2d(x, w) + bias + added): a convolution fused with a residual sum.

    Args:
        added: [B, Cout, Ho, Wo] in HBM, of x's dtype
        all others: as for `fused_conv2d_maxpool_packed`

    Returns:
        [B, Cout, Ho, Wo] in shared HBM, of x's dtype; sums, including `added`, are accumulated in float32.
    """
    assert added.dtype == x.dtype, f"conv2d: added must have the dtype of x, {x.dtype}, got {added.dtype}"
    weights = PackedWeights(w_packed, bias_packed, in_channels, out_channels, _pair(kernel_size), groups)
    movement = movement_of(stride, dilation, padding)
    finish = Finish(1, activation, parameters)
    return _convolve_packed(x, weights, movement, finish, _checked_form(form), added)


@dataclass(frozen=True)
class PackedWeights:
    """Weights in SBUF layout, as passed to a kernel. `out_channels` may be 0."""

    w: nl.NkiTensor
    bias: nl.NkiTensor
    in_channels: int
    out_channels: int
    kernel: tuple[int, int]
    groups: int


def _pair(size):
    return size if isinstance(size, tuple) else (size, size)


def _checked_form(form):
    assert form in FORMS, f"conv2d: form must be one of {', '.join(FORMS)}, got {form}"
    return form


def _of_section(problem, section):
    """Return the convolution problem of one section of the channels."""
    filters = replace(problem.filters, in_channels=section.channels_in, out_channels=section.channels_out)
    return replace(problem, filters=filters)


def _convolve_packed(x, packed, movement, finish, form, added=None):
    """Run a convolution with packed weights. `added` is None if there is no residual sum."""
    assert packed.w.dtype == x.dtype, f"conv2d: w_packed must have the dtype of x, {x.dtype}, got {packed.w.dtype}"
    cout, layout = _checked_layout(packed)
    filters = Filters(packed.in_channels, cout, packed.kernel, layout.taps, FilterSource.PACKED)
    problem = make_problem(x, filters, movement, finish, form)
    out = _output(x, problem)
    assert added is None or tuple(added.shape) == tuple(out.shape), (
        f"conv2d: added must have the shape {out.shape} of the result, got {added.shape}"
    )
    block = 0
    for section in layout.sections:
        outputs = slice(section.first_out, section.first_out + section.channels_out)
        blocks_here = ceil_div(section.channels_out, PARTITIONS)
        convolve_section(
            out[:, outputs],
            x[:, section.first_in : section.first_in + section.channels_in],
            packed.w[
                0 : layout.taps.used_partitions(section.channels_in),
                outputs.start * layout.steps : outputs.stop * layout.steps,
            ],
            (packed.bias[:, block : block + blocks_here],),
            _of_section(problem, section),
            None if added is None else added[:, outputs],
        )
        block += blocks_here
    return out


def _checked_layout(packed):
    """Check the shapes of packed weights. Return the number of output channels and the layout."""
    w, bias, kernel, groups = packed.w, packed.bias, packed.kernel, packed.groups
    assert len(w.shape) == 2, f"conv2d: w_packed must be two-dimensional, got {w.shape}"
    assert bias.dtype == nl.float32, f"conv2d: bias_packed must be float32, got {bias.dtype}"
    assert groups == 1 or packed.out_channels > 0, f"conv2d: out_channels must be given for {groups} groups"
    columns = w.shape[1]
    steps = packed_layout(packed.in_channels, 1, kernel, 1, PARTITIONS).steps if groups == 1 else 1
    cout = packed.out_channels if packed.out_channels > 0 else columns // steps
    layout = packed_layout(packed.in_channels, cout, kernel, groups, PARTITIONS)
    described = f"{packed.in_channels} channels in {groups} groups and filters of {kernel[0]}x{kernel[1]}"
    assert w.shape[0] == layout.rows, f"conv2d: w_packed must have {layout.rows} rows for {described}, got {w.shape[0]}"
    assert cout * layout.steps == columns, (
        f"conv2d: the number of columns of w_packed must be a multiple of {layout.steps}, the number of matmuls of a "
        f"filter, got {columns}"
    )
    blocks = output_blocks(layout.sections, PARTITIONS)
    assert tuple(bias.shape) == (blocks[0][1], len(blocks)), (
        f"conv2d: bias_packed must be [{blocks[0][1]}, {len(blocks)}] for {cout} output channels, got {bias.shape}"
    )
    return cout, layout


def _output(x, problem):
    """Allocate the result in HBM."""
    pool_size = problem.finish.pool_size
    shape = (x.shape[0], problem.filters.out_channels, problem.output[0] // pool_size, problem.output[1] // pool_size)
    return nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm)


def convolve_section(out, x, w, columns, problem, added=None):
    """Run the convolution of one section of channels from HBM to HBM. If `added` is given, it is added to the sums.

    `columns` contains the biases and, optionally, the scales.
    """
    # The addend is as large as the output, so only half of SBUF is left for everything else.
    plan = plan_conv2d(problem, usable_sbuf_bytes() if added is None else usable_sbuf_bytes() // 2)
    input_tiles = len(plan.channel_tiles)
    out_tiles = plan.weights.out_tiles
    biases: list[nl.NkiTensor] = []
    scales: list[nl.NkiTensor | None] = [None] * len(out_tiles)
    zeroed: list[nl.NkiTensor] = []
    warm = _warm_up(plan)
    ahead = 1 if warm is None else 2  # filters to load before the first input; transposing them keeps the clock high
    for first in range(0, len(out_tiles), plan.weights.resident_tiles):
        count = min(plan.weights.resident_tiles, len(out_tiles) - first)
        weights = open_weights(w, plan, first, count)
        inputs = open_inputs(x, plan)
        for t in range(input_tiles):  # in the order in which the first matmuls need the tiles
            stage_weights(weights, t + ahead)
            load_first(inputs, t)
        if first == 0:
            biases = load_biases(columns[0], plan)
            if len(columns) > 1:
                scales = load_biases(columns[1], plan)
            zeroed = zeroed_inputs(x, plan)
        weights_of(weights, 0, 0)  # prepare the weights before combining the input
        start_inputs(inputs, zeroed)
        for index in range(len(plan.groups)):
            group = plan.groups[index]
            for tile in range(count):
                look_ahead(inputs, index, tile, count)
                channels = out_tiles[first + tile]
                result = nl.ndarray(_result_shape(problem, group, channels), dtype=out.dtype, buffer=nl.sbuf)
                other = None if added is None else _load_window(added, result.shape, problem, group, channels)
                pieces = psum_pieces(plan, group)
                ends = index == len(plan.groups) - 1 and first + tile == len(out_tiles) - 1
                if ends:
                    pieces = halve_last(pieces, plan)
                output = OutputTile(result, group, tile, pieces)
                epilogue = Epilogue(biases[first + tile], scales[first + tile], addend=other)
                convolve_tile(output, inputs.tiles, weights, epilogue, warm)
                warm = None
                apart = pieces[len(pieces) - 1].row // problem.finish.pool_size if ends and group.images == 1 else 0
                _store(_window(out, result.shape, problem, group, channels), result, apart)
            advance(inputs, index)


def _store(out, result, apart):
    """Store the output of a group. If `apart` is given, a separate DMA stores the rows starting there, which shortens
    the final wait."""
    rows = result.shape[2]
    if apart > 0:
        copy_by_hardware(dst=out[:, :, 0:apart, :], src=result[:, :, 0:apart, :])
    copy_by_hardware(dst=out[:, :, apart:rows, :], src=result[:, :, apart:rows, :])


def _warm_up(plan):
    """Return a PSUM tile of zeros that is at least as large as the first sums, or None if warming up is not
    worthwhile."""
    problem = plan.problem
    stationary = len(plan.channel_tiles) * len(plan.weights.out_tiles) * matrices(plan.form, len(plan.steps))
    columns = problem.images.count * matmul_columns(plan.form, problem.output[0], problem.output[1]) * stationary
    columns *= matmul_passes(problem.images.item_bytes)
    if not is_worth_warming(columns, problem.images.item_bytes):
        return None
    piece = psum_pieces(plan, plan.groups[0])[0]
    columns = piece.images * matmul_columns(plan.form, piece.rows, piece.columns)
    if plan.form is Form.SQUARES:
        columns = 2 * columns  # a tile contains the sums of two combinations
    return warm_bank(plan.weights.out_tiles[0].size, columns, problem.images.item_bytes)


def _result_shape(problem, group, channels):
    """Return the shape of a group's output for a tile of output channels: [channels, images, rows, columns], pooled."""
    return (
        channels.size,
        group.images,
        group.rows // problem.finish.pool_size,
        group.columns // problem.finish.pool_size,
    )


def _window(out, shape, problem, group, channels):
    """Return the view of `out`, in HBM, for a group and a tile of output channels."""
    top = group.row // problem.finish.pool_size
    left = group.column // problem.finish.pool_size
    images = out[group.image : group.image + group.images, channels.start : channels.end]
    return images[:, :, top : top + shape[2], left : left + shape[3]].permute((1, 0, 2, 3))


def _load_window(added, shape, problem, group, channels):
    """Load the addend of a group and a tile of output channels into SBUF."""
    other = nl.ndarray(shape, dtype=added.dtype, buffer=nl.sbuf)
    copy_by_hardware(dst=other, src=_window(added, shape, problem, group, channels))
    return other


def _checked_filters(x, w, bias, groups):
    """Check that the filters and the bias match x, and return the shape of the filters."""
    assert len(w.shape) == 4, f"conv2d: w must be [Cout, Cin / groups, kh, kw], got {w.shape}"
    assert w.dtype == x.dtype, f"conv2d: w must have the dtype of x, {x.dtype}, got {w.dtype}"
    out_channels = w.shape[0]
    assert tuple(bias.shape) == (out_channels,), f"conv2d: bias must be [{out_channels}], got {bias.shape}"
    assert bias.dtype in (x.dtype, nl.float32), (
        f"conv2d: bias must be float32 or have the dtype of x, {x.dtype}, got {bias.dtype}"
    )
    assert out_channels % groups == 0, f"conv2d: {out_channels} output channels cannot be divided into {groups} groups"
    return w.shape
