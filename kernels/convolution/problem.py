"""What a convolution is asked to compute, and the pieces in which it is told."""

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from ..tiling.packing import filter_steps
from ..tiling.tiles import check_dtype, itemsize


@dataclass(frozen=True)
class Problem(nl.NKIObject):
    """What one convolution computes, of one section of channels. Output rows and columns are those before pooling."""

    batch: int
    in_channels: int
    height: int
    width: int
    out_channels: int
    kernel: tuple[int, int]  # filter rows, columns; as all pairs below
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]  # top, left, bottom, right
    taps: tuple[int, int, int]  # filter rows and columns that share the partition axis, partitions between their blocks
    pool_size: int
    activation: str
    parameters: tuple[float, ...]  # of the activation
    out_rows: int  # without the odd last row and column that pooling drops
    out_columns: int
    item_bytes: int
    packed: bool  # weights come in stationary layout
    form: str = "direct"  # in which filters are multiplied (forms.py), or "quickest"
    gen2: bool = False  # on NeuronCore-v2
    from_host: bool = False  # filters come combined, rounded once


@dataclass
class Block(nl.NKIObject):
    """A block of the output: of all images, or of a group of them and relative to it. Before pooling."""

    image: int
    images: int
    row: int
    rows: int
    column: int
    columns: int


@dataclass
class Step(nl.NKIObject):
    """One matmul of a filter: it reads the input tile `down` rows and `right` columns on, and contracts over `taps`.

    `filter_row` and `filter_column` are the first of the taps.
    """

    down: int
    right: int
    taps: int
    filter_row: int
    filter_column: int


@dataclass
class Chunk(nl.NKIObject):
    """A piece in which filters are loaded and laid out: some of their rows, which are some of the steps."""

    row: int
    rows: int
    step: int
    steps: int


def make_problem(x, channels, kernel, movement, taps, pool_size, activation, packed, form):
    """The problem of a whole convolution, checked; `channels` are (Cin, Cout), `movement` stride, dilation and padding,
    the last a number or four, `activation` a name and its numbers."""
    stride, dilation, padding = movement
    assert len(x.shape) == 4, f"conv2d: x must be [B, Cin, H, W], came {x.shape}"
    check_dtype("conv2d: x", x)
    batch, in_channels, height, width = x.shape
    assert in_channels == channels[0], f"conv2d: x has {in_channels} channels, the filters {channels[0]}"
    assert pool_size == 1 or pool_size == 2, f"conv2d: pool_size must be 1 or 2, came {pool_size}"
    assert min(stride) >= 1 and min(dilation) >= 1, (
        f"conv2d: stride and dilation must be at least 1, came {stride} and {dilation}"
    )
    sides = padding if isinstance(padding, tuple) else (padding, padding, padding, padding)
    assert len(sides) == 4 and min(sides) >= 0, (
        f"conv2d: padding must be a number or (top, left, bottom, right), at least 0, came {padding}"
    )
    rows = output_extent(height, kernel[0], stride[0], dilation[0], sides[0], sides[2])
    columns = output_extent(width, kernel[1], stride[1], dilation[1], sides[1], sides[3])
    assert min(rows, columns) >= pool_size, (
        f"conv2d: {height}x{width} with padding {padding} is too small for filters of {kernel[0]}x{kernel[1]}, "
        f"dilation {dilation} and pool_size {pool_size}"
    )
    return Problem(
        batch,
        in_channels,
        height,
        width,
        channels[1],
        kernel,
        stride,
        dilation,
        sides,
        taps,
        pool_size,
        activation[0],
        activation[1],
        rows // pool_size * pool_size,
        columns // pool_size * pool_size,
        itemsize(x.dtype),
        packed,
        form,
        nisa.get_nc_version() == nisa.nc_version.gen2,
    )


def of_section(problem, in_channels, out_channels):
    """The problem of a section of the channels."""
    return Problem(
        problem.batch,
        in_channels,
        problem.height,
        problem.width,
        out_channels,
        problem.kernel,
        problem.stride,
        problem.dilation,
        problem.padding,
        problem.taps,
        problem.pool_size,
        problem.activation,
        problem.parameters,
        problem.out_rows,
        problem.out_columns,
        problem.item_bytes,
        problem.packed,
        problem.form,
        problem.gen2,
    )


def output_extent(size, kernel, stride, dilation, before, after):
    """Outputs along one axis of `size` inputs with so many zeros before and after; below 1 where nothing is left."""
    return (size + before + after - dilation * (kernel - 1) - 1 + stride) // stride


def steps_of(problem):
    """The matmuls that a filter takes for one tile of input channels."""
    steps = []
    for step in filter_steps(problem.kernel[0], problem.kernel[1], problem.taps[0], problem.taps[1]):
        row, column, taps = step
        down = row * problem.dilation[0] // row_pitch(problem)
        steps.append(Step(down, column * problem.dilation[1], taps, row, column))
    return steps


def row_pitch(problem):
    """Image rows from one row of SBUF to the next: those that no tap reads are left out where no step goes down."""
    return problem.stride[0] if problem.taps[0] == problem.kernel[0] else 1
