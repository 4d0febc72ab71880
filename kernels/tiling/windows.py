"""Windows that slide over images: the positions they read, tiles of padded images, and reductions over window axes.

Pooling and depthwise convolutions share this module. A window is described separately for each axis, as a `Sweep`. A
padded image is in SBUF as [partitions, images, rows, columns], so that each tap of a window is a strided view of it.
"""

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from .tiles import Tile, ceil_div, copy_by_hardware, even_tiles, sbuf_tile

CHUNK = 4096  # elements of a partition processed together: 16 KiB, so that SBUF can hold several chunks in flight
MAX_REACH = 16384  # columns that a window may span: 64 KiB of the at least 192 KiB of a partition
PIECE_ROWS = 16  # rows that must fit together with a column tile, so that a tall window is reduced in few pieces
LONG_FOLD = 8  # with at least this many taps, a single reduction instruction replaces a chain of instructions


@dataclass(frozen=True)
class Window:
    """A window along one axis. `padding` contains the numbers of padding positions before and after the axis.

    If `ceil_mode`, the last window may extend past the padding, provided that it begins in the image or in the padding
    before it.
    """

    size: int
    stride: int = 1
    dilation: int = 1
    padding: tuple[int, int] = (0, 0)
    ceil_mode: bool = False


@dataclass
class Sweep:
    """A window that slides along one axis: tap j of output i reads position i * stride - before + j * dilation.

    Positions from -before to -1, and positions of at least `extent`, are padding. A window spans `reach` positions.
    Columns may be in `phases` (column_phases.py).
    """

    extent: int
    size: int
    stride: int
    dilation: int
    before: int
    after: int
    reach: int
    outputs: int
    phases: int = 1


@dataclass
class Span:
    """Positions [start, start + size) of an axis, of which the first `head` and the last `tail` are padding."""

    start: int
    size: int
    head: int
    tail: int


@dataclass
class OutputBlock:
    """A tile of output rows times a tile of output columns."""

    rows: Tile
    columns: Tile


@dataclass
class Blocks:
    """The blocks of an output, and the tiles of window rows that are read together.

    There is a single tile if a window fits.
    """

    outputs: list[OutputBlock]
    taps: list[Tile]
    elements: int  # maximum number of elements of a plane that are read together


def make_sweep(axis, extent, window):
    """Check and return the sweep of a window over an axis of `extent`. `axis` identifies the axis in error messages."""
    size, stride, dilation = window.size, window.stride, window.dilation
    before, after = window.padding
    assert size >= 1 and stride >= 1 and dilation >= 1, (
        f"window, stride and dilation must be at least 1, got {size}, {stride} and {dilation} {axis}"
    )
    reach = (size - 1) * dilation + 1
    assert before >= 0 and after >= 0, f"padding must be at least 0 {axis}, got {before} and {after}"
    slack = extent + before + after - reach
    assert slack >= 0, f"a window that spans {reach} {axis} does not fit {extent} with padding {before} and {after}"
    outputs = slack // stride + 1
    if window.ceil_mode:
        outputs = ceil_div(slack, stride) + 1
        if (outputs - 1) * stride >= extent + before:
            outputs -= 1
    return Sweep(
        extent=extent,
        size=size,
        stride=stride,
        dilation=dilation,
        before=before,
        after=after,
        reach=reach,
        outputs=outputs,
    )


def input_span(sweep, outputs, taps):
    """Return the positions that a tile of outputs reads through a tile of the window's taps."""
    start = outputs.start * sweep.stride - sweep.before + taps.start * sweep.dilation
    size = (outputs.size - 1) * sweep.stride + (taps.size - 1) * sweep.dilation + 1
    head = min(size, max(0, -start))
    tail = min(size - head, max(0, start + size - sweep.extent))
    return Span(start, size, head, tail)


def cut_into_blocks(rows, columns, chunk=CHUNK):
    """Divide the output into blocks that read at most `chunk` elements of a partition, including halos.

    Larger windows are reduced in pieces, for one row of outputs at a time.
    """
    assert columns.reach <= MAX_REACH, f"a window may span at most {MAX_REACH} columns, got {columns.reach}"
    line = max(columns.reach, chunk // min(rows.reach, PIECE_ROWS))
    wide = min(columns.outputs, (line - columns.reach) // columns.stride + 1)
    lines = max(1, chunk // ((wide - 1) * columns.stride + columns.reach))
    high = 1
    taps = (lines - 1) // rows.dilation + 1
    if lines >= rows.reach:
        high = (lines - rows.reach) // rows.stride + 1
        taps = rows.size
    pieces = even_tiles(rows.size, taps)
    outputs = []
    for row_tile in even_tiles(rows.outputs, high):
        for column_tile in even_tiles(columns.outputs, wide):
            outputs.append(OutputBlock(row_tile, column_tile))
    tall = input_span(rows, outputs[0].rows, pieces[0]).size
    return Blocks(outputs, pieces, tall * input_span(columns, outputs[0].columns, whole(columns.size)).size)


def whole(extent):
    """Return the tile that covers an entire axis."""
    return Tile(0, 0, extent, extent)


def load_padded(images, rows, columns, fill):
    """Load the rows and columns of two spans from images in HBM, with the padding set to `fill`.

    images: [partitions, ..., H, W], with one or two axes in between. Returns [partitions, images, rows, columns], with
    the axes in between merged.
    """
    between = images.shape[1:-2]
    count = between[0] * between[1] if len(between) == 2 else between[0]
    data = nl.ndarray((images.shape[0], count, rows.size, columns.size), dtype=images.dtype, buffer=nl.sbuf)
    fill_border(data, rows, columns, fill)
    bottom = rows.size - rows.tail
    right = columns.size - columns.tail
    if rows.head < bottom and columns.head < right:
        source = images.slice(-2, rows.start + rows.head, rows.start + bottom)
        source = source.slice(-1, columns.start + columns.head, columns.start + right)
        copy_by_hardware(
            dst=data[:, :, rows.head : bottom, columns.head : right].reshape_dim(1, between),
            src=source,
        )
    return data


def fill_border(data, rows, columns, fill):
    """Set the padding of a tile [partitions, images, rows, columns] to a constant."""
    bottom = rows.size - rows.tail
    right = columns.size - columns.tail
    if rows.head > 0:
        nisa.memset(dst=data[:, :, 0 : rows.head, :], value=fill, engine=nisa.engine.gpsimd)
    if bottom < rows.size:
        nisa.memset(dst=data[:, :, bottom : rows.size, :], value=fill, engine=nisa.engine.gpsimd)
    if rows.head < bottom and columns.head > 0:
        nisa.memset(dst=data[:, :, rows.head : bottom, 0 : columns.head], value=fill, engine=nisa.engine.gpsimd)
    if rows.head < bottom and right < columns.size:
        nisa.memset(dst=data[:, :, rows.head : bottom, right : columns.size], value=fill, engine=nisa.engine.gpsimd)


def row_tap(data, sweep, outputs, tap):
    """View the elements of a tile [partitions, images, rows, columns] that window row `tap` reads for `outputs` output
    rows."""
    first = tap * sweep.dilation
    return data[:, :, first : first + (outputs - 1) * sweep.stride + 1 : sweep.stride, :]


def column_tap(data, sweep, outputs, tap):
    """View the elements of a tile [partitions, images, rows, columns] that window column `tap` reads for `outputs`
    output columns."""
    first, step = tap * sweep.dilation, sweep.stride
    if sweep.phases > 1:
        per_phase, column = data.shape[3] // sweep.phases, first - sweep.before
        first = column % sweep.phases * per_phase + ceil_div(sweep.before, sweep.phases) + column // sweep.phases
        step = step // sweep.phases
    return data[:, :, :, first : first + (outputs - 1) * step + 1 : step]


def fold_rows(data, op, sweep, outputs, taps, dtype):
    """Reduce `taps` window rows with `op`, "maximum" or "add".

    [P, images, rows, columns] becomes [P, images, outputs, columns] in `dtype`, or a view of `data` for a single tap.
    """
    if taps == 1:
        return row_tap(data, sweep, outputs, 0)
    partitions, images, _, columns = data.shape
    folded = nl.ndarray((partitions, images, outputs, columns), dtype=dtype, buffer=nl.sbuf)
    if taps >= LONG_FOLD:
        lanes, image, row, column = data.get_pattern()
        windows = [lanes, image, [row[0] * sweep.stride, outputs], column, [row[0] * sweep.dilation, taps]]
        nisa.tensor_reduce(dst=folded, op=_operator(op), data=data.ap(windows), axis=4)
        return folded
    before = row_tap(data, sweep, outputs, 0)
    for tap in range(1, taps):
        nisa.tensor_tensor(dst=folded, data1=before, data2=row_tap(data, sweep, outputs, tap), op=_operator(op))
        before = folded
    return folded


def fold_columns(data, op, sweep, outputs, dtype, into=None):
    """Reduce all window columns in the same way as `fold_rows` reduces rows.

    If there is more than one column and `into`, a tile of `dtype`, is given, the result is written to `into`.
    """
    if sweep.size == 1:
        return column_tap(data, sweep, outputs, 0)
    partitions, images, rows, _ = data.shape
    folded = into
    if into is None:
        folded = sbuf_tile((partitions, images, rows, outputs), dtype)
    if sweep.size >= LONG_FOLD:
        lanes, image, row, column = data.get_pattern()
        windows = [lanes, image, row, [column[0] * sweep.stride, outputs], [column[0] * sweep.dilation, sweep.size]]
        nisa.tensor_reduce(dst=folded, op=_operator(op), data=data.ap(windows), axis=4)
        return folded
    before = column_tap(data, sweep, outputs, 0)
    for tap in range(1, sweep.size):
        nisa.tensor_tensor(dst=folded, data1=before, data2=column_tap(data, sweep, outputs, tap), op=_operator(op))
        before = folded
    return folded


def _operator(op):
    return nl.maximum if op == "maximum" else nl.add
