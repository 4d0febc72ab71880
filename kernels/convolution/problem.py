"""The description of one convolution, and the pieces in which it is computed."""

from __future__ import annotations

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from ..tiling.packing import Taps, filter_steps
from ..tiling.tiles import check_dtype, itemsize
from .forms import QUICKEST, Form


@dataclass(frozen=True)
class Problem:
    """One convolution of one section of channels. Output rows and columns are those before pooling.

    Pairs are (rows, columns), `padding` is (top, left, bottom, right). `out_rows` and `out_columns` leave out the odd
    last row and column that pooling drops. `packed`: weights come in stationary layout. `from_host`: filters come
    combined for minimal filtering, rounded once. `form` may be "quickest". `in_planes`: input tiles come from HBM in
    twos, planes of matmuls that contract over two (double_rows.py).
    """

    batch: int
    in_channels: int
    height: int
    width: int
    out_channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]
    taps: Taps
    pool_size: int
    activation: str
    parameters: tuple[float, ...]
    out_rows: int
    out_columns: int
    item_bytes: int
    packed: bool
    form: Form | str = Form.DIRECT
    from_host: bool = False
    in_planes: bool = False

    @property
    def output(self) -> tuple[int, int]:
        """Rows and columns of the output before pooling."""
        return self.out_rows, self.out_columns


@dataclass
class Block:
    """A block of the output before pooling: of all images, or of a group of them and relative to it."""

    image: int
    images: int
    row: int
    rows: int
    column: int
    columns: int


@dataclass(frozen=True)
class Step:
    """One matmul of a filter: it reads the input tile shifted by `down` rows and `right` columns, and contracts over
    `taps`.

    `filter_row` and `filter_column` are the position of the first tap.
    """

    down: int
    right: int
    taps: int
    filter_row: int
    filter_column: int


@dataclass(frozen=True)
class Chunk:
    """Filter rows, and their steps, that are loaded and laid out together."""

    row: int
    rows: int
    step: int
    steps: int


@dataclass(frozen=True)
class Movement:
    """The movement of a filter over its input: pairs are (rows, columns), padding is (top, left, bottom, right)."""

    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]


def movement_of(stride, dilation, padding):
    """Check a kernel's arguments and return the movement; `padding` is one number or four."""
    assert min(stride) >= 1 and min(dilation) >= 1, (
        f"conv2d: stride and dilation must be at least 1, came {stride} and {dilation}"
    )
    sides = padding if isinstance(padding, tuple) else (padding,) * 4
    assert len(sides) == 4 and min(sides) >= 0, (
        f"conv2d: padding must be a number or (top, left, bottom, right), at least 0, came {padding}"
    )
    return Movement(stride, dilation, sides)


@dataclass(frozen=True)
class Filters:
    """The filters of a convolution: channels (Cin, Cout), size (rows, columns), and the taps in the partitions.
    `packed`: they come in stationary layout."""

    channels: tuple[int, int]
    kernel: tuple[int, int]
    taps: Taps
    packed: bool


@dataclass(frozen=True)
class Finish:
    """Pooling and activation of a convolution's sums, and the `form` of its matmuls, which may be "quickest"."""

    pool_size: int
    activation: str
    parameters: tuple[float, ...]
    form: str


def make_problem(x, filters, movement, finish, in_planes=False):
    """Check and return the problem of a whole convolution; `in_planes` only for 8-bit images."""
    channels, kernel, pool_size = filters.channels, filters.kernel, finish.pool_size
    assert len(x.shape) == 4, f"conv2d: x must be [B, Cin, H, W], came {x.shape}"
    if not in_planes:
        check_dtype("conv2d: x", x)
    batch, in_channels, height, width = x.shape
    assert in_channels == channels[0], f"conv2d: x has {in_channels} channels, the filters {channels[0]}"
    assert pool_size in (1, 2), f"conv2d: pool_size must be 1 or 2, came {pool_size}"
    top, left, bottom, right = movement.padding
    rows = output_extent(height, kernel[0], movement.stride[0], movement.dilation[0], top + bottom)
    columns = output_extent(width, kernel[1], movement.stride[1], movement.dilation[1], left + right)
    assert min(rows, columns) >= pool_size, (
        f"conv2d: {height}x{width} with padding {movement.padding} is too small for filters of "
        f"{kernel[0]}x{kernel[1]}, dilation {movement.dilation} and pool_size {pool_size}"
    )
    return Problem(
        batch=batch,
        in_channels=in_channels,
        height=height,
        width=width,
        out_channels=channels[1],
        kernel=kernel,
        stride=movement.stride,
        dilation=movement.dilation,
        padding=movement.padding,
        taps=filters.taps,
        pool_size=pool_size,
        activation=finish.activation,
        parameters=finish.parameters,
        out_rows=rows // pool_size * pool_size,
        out_columns=columns // pool_size * pool_size,
        item_bytes=itemsize(x.dtype),
        packed=filters.packed,
        form=finish.form if finish.form == QUICKEST else Form(finish.form),
        in_planes=in_planes,
    )


def is_gen2():
    """True on NeuronCore-v2."""
    return nisa.get_nc_version() == nisa.nc_version.gen2


def output_extent(size, kernel, stride, dilation, zeros):
    """Return the number of outputs along one axis of `size` inputs and `zeros` padding; below 1 if there are none."""
    return (size + zeros - dilation * (kernel - 1) - 1 + stride) // stride


def steps_of(problem):
    """Return the matmuls of a filter for one tile of input channels."""
    pitch = row_pitch(problem)
    return [
        Step(
            down=step.row * problem.dilation[0] // pitch,
            right=step.column * problem.dilation[1],
            taps=step.taps,
            filter_row=step.row,
            filter_column=step.column,
        )
        for step in filter_steps(problem.kernel, problem.taps)
    ]


def row_pitch(problem):
    """Return the distance in image rows between SBUF rows: rows that no tap reads are skipped if no step moves down."""
    return problem.stride[0] if problem.taps.rows == problem.kernel[0] else 1


def bank_columns():
    """Return the float32 columns of a PSUM bank."""
    return nl.tile_size.psum_bank_fmax
