"""The description of a convolution, and the pieces in which it is computed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import nki.isa as nisa
import nki.language as nl

from ..tiling.packing import Taps, filter_steps
from ..tiling.tiles import check_dtype, itemsize
from .forms import QUICKEST, Form


class FilterSource(Enum):
    """The source of the filters, which determines their layout."""

    FRAMEWORK = "framework"  # in the layout of frameworks; rearranged on the chip
    PACKED = "packed"  # in stationary layout, passed as a kernel argument
    NETWORK = "network"  # in stationary layout in a network; the host has also combined them for minimal filtering


@dataclass(frozen=True)
class Images:
    """The images that a convolution reads."""

    count: int
    rows: int
    columns: int
    item_bytes: int
    in_planes: bool = False  # pairs of 8-bit input tiles are loaded from HBM as the two planes of a matmul


@dataclass(frozen=True)
class Filters:
    """The filters of a convolution. Pairs are (rows, columns)."""

    in_channels: int
    out_channels: int
    kernel: tuple[int, int]
    taps: Taps  # taps that share the partition axis
    source: FilterSource

    @property
    def are_stationary(self) -> bool:
        """True if the filters are already in stationary layout."""
        return self.source is not FilterSource.FRAMEWORK

    @property
    def come_from_network(self) -> bool:
        """True for filters of a network: the host has combined them and rounded them only once."""
        return self.source is FilterSource.NETWORK


@dataclass(frozen=True)
class Movement:
    """The movement of a filter over its input. Pairs are (rows, columns); padding is (top, left, bottom, right)."""

    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]


@dataclass(frozen=True)
class Finish:
    """The pooling and activation applied to a convolution's sums."""

    pool_size: int
    activation: str
    parameters: tuple[float, ...]


@dataclass(frozen=True)
class Problem:
    """One convolution of one section of channels.

    `output` is (rows, columns) before pooling, excluding an odd last row or column, which pooling drops. `form` may be
    "quickest".
    """

    images: Images
    filters: Filters
    movement: Movement
    finish: Finish
    output: tuple[int, int]
    form: Form | str = Form.DIRECT


@dataclass
class Block:
    """A block of the output before pooling. Its position is relative to all images or to a group of images."""

    image: int
    images: int
    row: int
    rows: int
    column: int
    columns: int


@dataclass(frozen=True)
class Step:
    """One matmul of a filter: it reads the input tile shifted by `down` rows and `right` columns, and contracts over
    `taps` taps.

    `filter_row` and `filter_column` give the position of the first tap.
    """

    down: int
    right: int
    taps: int
    filter_row: int
    filter_column: int


@dataclass(frozen=True)
class Chunk:
    """Filter rows, with their steps, that are loaded and rearranged together."""

    row: int
    rows: int
    step: int
    steps: int


def movement_of(stride, dilation, padding):
    """Check the arguments of a kernel and return the movement. `padding` consists of one number or four."""
    assert min(stride) >= 1 and min(dilation) >= 1, (
        f"conv2d: stride and dilation must be at least 1, got {stride} and {dilation}"
    )
    sides = padding if isinstance(padding, tuple) else (padding,) * 4
    assert len(sides) == 4 and min(sides) >= 0, (
        f"conv2d: padding must be a number or (top, left, bottom, right), at least 0, got {padding}"
    )
    return Movement(stride, dilation, sides)


def make_problem(x, filters, movement, finish, form, in_planes=False):
    """Check the arguments of a kernel and return the problem of a whole convolution.

    `in_planes` is for 8-bit images only.
    """
    kernel, pool_size = filters.kernel, finish.pool_size
    assert len(x.shape) == 4, f"conv2d: x must be [B, Cin, H, W], got {x.shape}"
    if not in_planes:
        check_dtype("conv2d: x", x)
    batch, channels, height, width = x.shape
    message = f"conv2d: x has {channels} channels, but the filters have {filters.in_channels}"
    assert channels == filters.in_channels, message
    assert pool_size in (1, 2), f"conv2d: pool_size must be 1 or 2, got {pool_size}"
    top, left, bottom, right = movement.padding
    rows = output_extent(height, kernel[0], movement.stride[0], movement.dilation[0], top + bottom)
    columns = output_extent(width, kernel[1], movement.stride[1], movement.dilation[1], left + right)
    assert min(rows, columns) >= pool_size, (
        f"conv2d: {height}x{width} with padding {movement.padding} is too small for filters of "
        f"{kernel[0]}x{kernel[1]}, dilation {movement.dilation} and pool_size {pool_size}"
    )
    return Problem(
        images=Images(batch, height, width, itemsize(x.dtype), in_planes),
        filters=filters,
        movement=movement,
        finish=finish,
        output=(rows // pool_size * pool_size, columns // pool_size * pool_size),
        form=form if form == QUICKEST else Form(form),
    )


def is_gen2():
    """True on NeuronCore-v2."""
    return nisa.get_nc_version() == nisa.nc_version.gen2


def output_extent(size, kernel, stride, dilation, zeros):
    """Return the number of outputs along an axis of `size` inputs and `zeros` padding elements.

    It is below 1 if there are none.
    """
    return (size + zeros - dilation * (kernel - 1) - 1 + stride) // stride


def steps_of(problem):
    """Return the matmuls of a filter for one tile of input channels."""
    pitch = row_pitch(problem)
    return [
        Step(
            down=step.row * problem.movement.dilation[0] // pitch,
            right=step.column * problem.movement.dilation[1],
            taps=step.taps,
            filter_row=step.row,
            filter_column=step.column,
        )
        for step in filter_steps(problem.filters.kernel, problem.filters.taps)
    ]


def row_pitch(problem):
    """Return the distance in image rows between SBUF rows.

    If no step moves down, rows that no tap reads are skipped.
    """
    return problem.movement.stride[0] if problem.filters.taps.rows == problem.filters.kernel[0] else 1


def bank_columns():
    """Return the number of float32 columns of a PSUM bank."""
    return nl.tile_size.psum_bank_fmax
