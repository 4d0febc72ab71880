"""A feed-forward network with one hidden layer whose intermediate values stay in SBUF.

    for block of up to 512 rows of x:
        for group of up to 512 hidden units:
            for panel of w1:                                # a group of features; the loop covers all of them
                turned = transpose(x[block, features])      # only for the first group
                sums[units] += panel^T @ turned             # 4 tiles of units, one PSUM bank each
            hidden[units] = relu(sums + b1)                 # one unit per partition
        for group of up to 512 classes:
            for panel of w2:
                sums[rows] += hidden^T @ panel              # 4 tiles of rows, one PSUM bank each
            logits[rows] = sums + b2                        # one row per partition
        finish(logits)

Each row block reads the weights once. Each panel is loaded while the previous panel is multiplied.
"""

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from .argmax import SEARCH_WIDTH
from .ffnn_plan import WIDTH
from .matmul_blocks import padded
from .tiling.packing import ceil_div
from .tiling.tiles import (
    PARTITIONS,
    copy_by_hardware,
    even_tiles,
    evict,
    itemsize,
    load_early,
    sbuf_tile,
    several_columns,
    tiles,
    transposed_dtype,
    whole_words,
)
from .tiling.warm_up import is_worth_warming, psum_tile, warm_bank


@dataclass
class _Block:
    """The values of a row block.

    Features and hidden units are [128, tiles, rows], with one feature or unit per partition; logits are float32 [128,
    tiles of rows, classes].
    """

    turned: nl.NkiTensor
    hidden: nl.NkiTensor
    logits: nl.NkiTensor


class Finish:
    """The last step of a network, which processes the logits.

    `wants_peaks`: whether it reads the largest logit of each group of classes.
    """

    wants_peaks = False

    def answer(self, start, end, logits, peaks):
        """Process the logits of rows [start, end) of x.

        logits: float32 [partitions, tiles, at least 8 classes]; the tiles are full, or there is one partial tile.
        peaks: [partitions, groups] of one tile, or None if there is a single group.
        """
        raise NotImplementedError


def run_fused(operands, plan, finish):
    """Compute the logits of each row block and pass them to `finish`."""
    x, w1, b1, w2, b2 = operands
    dtype, columns = x.dtype, plan.columns
    row_tiles = ceil_div(columns, PARTITIONS)
    values = _Block(
        nl.ndarray((PARTITIONS, ceil_div(w1.shape[0], PARTITIONS), columns), dtype=dtype, buffer=nl.sbuf),
        nl.ndarray((PARTITIONS, ceil_div(w2.shape[0], PARTITIONS), columns), dtype=dtype, buffer=nl.sbuf),
        nl.ndarray((PARTITIONS, row_tiles, max(SEARCH_WIDTH, w2.shape[1])), dtype=nl.float32, buffer=nl.sbuf),
    )
    warm = _warm(w1, plan)
    first, second = _Weights(w1, plan.keeps), _Weights(w2, plan.keeps)
    first_bias = _BiasColumns(b1)
    second_bias = None
    for block in plan.blocks:
        _hidden_layer(values, (x[block.start : block.end, :], first, first_bias), plan, warm)
        if second_bias is None:
            second_bias = sbuf_tile((PARTITIONS, b2.shape[1]), b2.dtype)
            copy_by_hardware(dst=second_bias, src=b2.broadcast(0, PARTITIONS))
        _output_layer(values, (block, second, second_bias), plan, finish)
        warm = None


def _warm(w1, plan):
    """Return a PSUM bank of zeros for the first sums, or None if warming up is not worthwhile."""
    size = itemsize(w1.dtype)
    matmuls = ceil_div(w1.shape[0], PARTITIONS) * ceil_div(w1.shape[1], PARTITIONS)
    if not is_worth_warming(matmuls * plan.columns, size):
        return None
    return warm_bank(PARTITIONS, nl.tile_size.psum_bank_fmax, size)


class _Weights:
    """Weights [rows, columns] in HBM that are loaded into SBUF as panels.

    If all panels fit, they are kept for all row blocks.
    """

    def __init__(self, w, keeps):
        self.w = w
        self._kept: dict[tuple[int, int], nl.NkiTensor] | None = {} if keeps else None

    def panel(self, part, columns, early=False):
        """Return a panel: the tiles `part` of 128 rows, restricted to a range of columns."""
        if self._kept is None:
            return _panel(self.w, part, columns, early)
        key = part.start, columns.start
        if key not in self._kept:
            self._kept[key] = _panel(self.w, part, columns, early)
        return self._kept[key]


class _BiasColumns:
    """A bias row [1, units] as columns [128, 1], one per tile of units.

    The bias is loaded in rows of 128 and transposed on first use, so that early matmuls do not wait for it.
    """

    def __init__(self, bias):
        self._bias = bias
        self._loaded = []
        self._turned = []
        units = bias.shape[1]
        for part in tiles(ceil_div(units, PARTITIONS), PARTITIONS):
            start, end = part.start * PARTITIONS, min(units, part.end * PARTITIONS)
            count = whole_words(part.size, bias.dtype)
            data = nl.ndarray((count, PARTITIONS), dtype=bias.dtype, buffer=nl.sbuf)
            full_tiles = (end - start) // PARTITIONS
            if full_tiles < count:
                nisa.memset(dst=data, value=0.0)
            if full_tiles > 0:
                full = bias[0, start : start + full_tiles * PARTITIONS]
                copy_by_hardware(dst=data[0:full_tiles, :], src=full.reshape((full_tiles, PARTITIONS)))
            if start + full_tiles * PARTITIONS < end:
                rest = bias[:, start + full_tiles * PARTITIONS : end]
                copy_by_hardware(dst=data[full_tiles : full_tiles + 1, 0 : rest.shape[1]], src=rest)
            self._loaded.append(data)

    def of_tile(self, tile, rows):
        """Return the biases of a tile of units, float32 [rows, 1]."""
        if len(self._turned) == 0:
            for data in self._loaded:
                self._turned.append(_turned_bias(data))
        column = tile % PARTITIONS
        return self._turned[tile // PARTITIONS][0:rows, column : column + 1]


def _turned_bias(data):
    """Transpose rows of a bias, and return the result in float32."""
    count = data.shape[0]
    bank = nl.ndarray((PARTITIONS, count), dtype=transposed_dtype(data.dtype), buffer=nl.psum)
    nisa.nc_transpose(dst=bank, data=data, engine=nisa.engine.tensor)
    columns = nl.ndarray((PARTITIONS, count), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=columns, src=bank, engine=nisa.engine.vector)
    return columns


def _load_tiles(dst, src, early):
    """Load an HBM matrix [rows, columns] into SBUF [128, tiles, columns].

    Unlike `load_rows`, it uses hardware-generated descriptors, because GpSimd would generate descriptors only after
    those of earlier stores. `early`: whether the load may start without waiting for earlier instructions.
    """
    copy = load_early if early else copy_by_hardware
    rows = src.shape[0]
    full_tiles = rows // PARTITIONS
    if full_tiles > 0:
        folded = src[0 : full_tiles * PARTITIONS, :].reshape_dim(0, (full_tiles, PARTITIONS)).permute((1, 0, 2))
        copy(dst[:, 0:full_tiles, :], folded)
    if full_tiles * PARTITIONS < rows:
        copy(dst[0 : rows - full_tiles * PARTITIONS, full_tiles, :], src[full_tiles * PARTITIONS : rows, :])


def _panel(w, part, columns, early):
    """Load the tiles `part` of 128 rows of weights, restricted to a range of columns, as [128, tiles, columns].

    If the last tile of 128 columns has a single 16-bit column, it is padded with zeros.
    """
    width = padded(columns.size, w.dtype)
    panel = nl.ndarray((PARTITIONS, part.size, width), dtype=w.dtype, buffer=nl.sbuf)
    if width > columns.size:
        nisa.memset(dst=panel[:, :, columns.size : width], value=0.0)
    source = w[part.start * PARTITIONS : min(w.shape[0], part.end * PARTITIONS), columns.start : columns.end]
    _load_tiles(panel[:, :, 0 : columns.size], source, early)
    return panel


def _rows_of(tile, extent):
    """Return the number of rows in a tile if an extent is divided into tiles of 128 rows."""
    return min(PARTITIONS, extent - tile * PARTITIONS)


def _turn(turned, x, part, columns):
    """Transpose the tiles `part` of 128 features of a row block, [rows, features] in HBM, into `turned`.

    Several tiles share a PSUM bank.

    With 16-bit values, an odd number of rows is padded with a copy of the last row, because PSUM can only be written in
    whole words.
    """
    seen = x[:, part.start * PARTITIONS : min(x.shape[1], part.end * PARTITIONS)]
    rows, features = seen.shape
    data = sbuf_tile((PARTITIONS, ceil_div(rows, PARTITIONS), features), x.dtype)
    _load_tiles(data, seen, False)
    if columns > rows:
        last = rows // PARTITIONS
        remaining = rows - last * PARTITIONS
        copy_by_hardware(data[remaining : remaining + 1, last, :], seen[rows - 1 : rows, :])
    dtype = transposed_dtype(x.dtype)
    each_bank = nl.tile_size.psum_bank_fmax_bytes // (columns * itemsize(dtype))
    full_tiles = features // PARTITIONS
    groups = tiles(full_tiles, each_bank)
    for first, count, height in [(group.start, group.size, PARTITIONS) for group in groups] + (
        [(full_tiles, 1, features - full_tiles * PARTITIONS)] if full_tiles < part.size else []
    ):
        bank = nl.ndarray((height, count, columns), dtype=dtype, buffer=nl.psum)
        for i in range(count):
            start = (first + i) * PARTITIONS
            for m in tiles(columns, PARTITIONS):
                block = data[0 : m.size, m.index, start : start + height]
                nisa.nc_transpose(dst=bank[:, i, m.start : m.end], data=block, engine=nisa.engine.tensor)
        slot = part.start + first
        evict(dst=turned[0:height, slot : slot + count, 0:columns], src=bank, turn=first + part.index)


def _hidden_layer(values, operands, plan, warm):
    """Compute the hidden units of a row block, x [rows, features] in HBM, with one unit per partition."""
    x, weights, bias = operands
    features, units = weights.w.shape
    columns = x.shape[0] if itemsize(x.dtype) == 4 else whole_words(x.shape[0], x.dtype)
    starts = warm is not None
    for group in tiles(units, WIDTH):
        unit_tiles = tiles(group.size, PARTITIONS)
        sums = []
        for unit in unit_tiles:
            sums.append(psum_tile((several_columns(unit.size, x.dtype), columns), warm if unit.index == 0 else None))
        is_first = group.index == 0
        at_once = plan.turned if is_first else plan.panel_tiles(group.size, itemsize(x.dtype))
        for part in tiles(ceil_div(features, PARTITIONS), at_once):
            if is_first:
                _turn(values.turned, x, part, columns)
            panel = weights.panel(part, group, is_first and starts)
            for i in range(part.size):
                k = part.start + i
                height = _rows_of(k, features)
                for unit in unit_tiles:
                    end = unit.start + several_columns(unit.size, x.dtype)
                    nisa.nc_matmul(
                        dst=sums[unit.index],
                        stationary=panel[0:height, i, unit.start : end],
                        moving=values.turned[0:height, k, 0:columns],
                        accumulate=k > 0 or (warm is not None and unit.index == 0),
                    )
        warm = None
        for unit in unit_tiles:
            slot = group.index * (WIDTH // PARTITIONS) + unit.index
            target = values.hidden[0 : unit.size, slot, 0:columns]
            _relu(target, sums[unit.index][0 : unit.size, :], bias.of_tile(slot, unit.size), slot)


def _relu(dst, data, bias, turn):
    """Compute relu(data + bias), alternating between the Scalar Engine and the Vector Engine."""
    if turn % 2 == 0:
        nisa.activation(dst=dst, op=nl.relu, data=data, bias=bias)
    else:
        nisa.tensor_scalar(
            dst=dst,
            data=data,
            op0=nl.add,
            operand0=bias,
            op1=nl.maximum,
            operand1=0.0,
            engine=nisa.engine.vector,
        )


def _output_layer(values, operands, plan, finish):
    """Compute the logits of a row block, with one row per partition."""
    block, weights, bias = operands
    units, classes = weights.w.shape
    dtype = weights.w.dtype
    row_tiles = tiles(block.size, PARTITIONS)
    groups = even_tiles(classes, WIDTH)
    peaks = nl.ndarray((PARTITIONS, len(row_tiles), len(groups)), dtype=nl.float32, buffer=nl.sbuf)
    for group in groups:
        width = several_columns(group.size, dtype)
        sums = []
        for rows in row_tiles:
            count = several_columns(whole_words(rows.size, dtype), dtype)
            sums.append(nl.ndarray((count, width), dtype=nl.float32, buffer=nl.psum))
        for part in tiles(ceil_div(units, PARTITIONS), plan.panel_tiles(group.size, itemsize(dtype))):
            panel = weights.panel(part, group)
            for rows in row_tiles:
                for i in range(part.size):
                    k = part.start + i
                    height = _rows_of(k, units)
                    nisa.nc_matmul(
                        dst=sums[rows.index],
                        stationary=values.hidden[0:height, k, rows.start : rows.start + sums[rows.index].shape[0]],
                        moving=panel[0:height, i, 0:width],
                        accumulate=k > 0,
                    )
        is_last = group.index == len(groups) - 1
        for rows in row_tiles:
            logits = values.logits[0 : rows.size, rows.index, group.start : group.end]
            added = bias[0 : rows.size, group.start : group.end]
            nisa.tensor_tensor(
                dst=logits, data1=sums[rows.index][0 : rows.size, 0 : group.size], data2=added, op=nl.add
            )
            if len(groups) == 1:
                continue
            if finish.wants_peaks:
                peak = peaks[0 : rows.size, rows.index, group.index : group.index + 1]
                nisa.tensor_reduce(dst=peak, op=nl.maximum, data=logits, axis=1)
            if is_last:
                start, own = block.start + rows.start, values.logits[0 : rows.size, rows.index : rows.index + 1, :]
                finish.answer(start, start + rows.size, own, peaks[0 : rows.size, rows.index, :])
    if len(groups) == 1:
        for first, count, size in _full_and_rest(block.size):
            start = block.start + first * PARTITIONS
            logits = values.logits[0:size, first : first + count, :]
            finish.answer(start, start + (count - 1) * PARTITIONS + size, logits, None)


def _full_and_rest(rows):
    """Return the full tiles of 128 rows and the partial tile as (first tile, tiles, rows of each tile)."""
    full_tiles, rest = rows // PARTITIONS, rows % PARTITIONS
    return ([(0, full_tiles, PARTITIONS)] if full_tiles > 0 else []) + ([(full_tiles, 1, rest)] if rest > 0 else [])
