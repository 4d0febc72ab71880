"""Attention in a launch, head by head: the products of queries and keys, and of weights and values.

Scores have up to 128 queries on the partitions and all keys along the free axis, so that the softmax requires one
maximum, one exponential and one sum per row. The second product contracts over keys. Therefore the Tensor Engine
transposes the weights, which moves keys to the partitions. Its output has the layout of every other value: channels on
the partitions and tokens along the free axis.

    for image, block of queries, unit (a sequence and a head), several together if there are few keys:
        for tile of queries:
            scores[q, unit, k] = queries[d, q]^T keys[d, k]                 # PSUM
            weights[q, unit, k] = exp(scale * scores - largest) / sum       # SBUF
            turned[k, unit, q] = weights^T                                  # PSUM, then SBUF
        for unit:
            sums[c, q] += values[k, c]^T turned[k, unit, q]                 # PSUM; zeros for channels of other heads

With 16-bit values and 128 to 256 keys, or a single head with fewer keys, the weights are not divided by their sum. A
third product, with ones instead of the values, sums the weights of each head onto the partitions of its channels. The
result of the second product is divided by these sums.

| tile | shape | bounds |
|---|---|---|
| scores | [queries, units, keys] | 128 queries; a PSUM bank, 512 keys; more keys are copied to SBUF |
| weights, turned | [queries, units, keys], [keys, key tile, units, queries] | in the dtype of the values |
| turned values | [keys, key tile, heads of a tile, channels] | zeros in the columns of other heads |
| sums | [channels, sequences, queries] | a bank: 512 queries |
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import nki.isa as nisa
import nki.language as nl

from ..attention_operation import Attention
from ..program import NO_SIDES
from ..tiling.tiles import (
    PARTITIONS,
    Tile,
    even_tiles,
    evict,
    itemsize,
    sbuf_tile,
    several_columns,
    tiles,
    transposed_dtype,
    whole_words,
)
from .attention_bias import Bias, Unit
from .attention_operands import Tokens, head_pieces, tiles_of_whole_words
from .attention_values import OnesOfHeads, TurnedValues, divide, sequences_at_once

GROUPS_AHEAD = 2  # groups of heads whose exponentials are computed while the Tensor Engine multiplies other groups
FEW_KEYS = PARTITIONS  # below this number of keys, one instruction computes the softmax of several heads
MANY_KEYS = 2 * PARTITIONS  # above this number of keys, the Tensor Engine has no time to sum the weights
BANKS_OF_SCORES = 2  # number of score tiles that wait in PSUM for their exponentials; additional tiles wait in SBUF


def attend(launch, number, operation: Attention, operands):
    """Compute softmax(scale * queries^T keys + bias), times the values."""
    output = launch.output_of(operation, [tile.size for tile in tiles(operation.channels, PARTITIONS)])
    work = _Work(launch, operation, operands, output, Bias(launch, operation), OnesOfHeads(launch.dtype))
    waiting: list[Any] = []  # second halves, which run after the first halves of later groups
    for image in range(output.images):
        for finish in _Image(work, image).halves():
            waiting.append(finish)
            if len(waiting) > GROUPS_AHEAD:
                waiting.pop(0)()
    for finish in waiting:
        finish()
    return output


@dataclass(frozen=True)
class _Work:
    """The attention over all images of a pass.

    `masks` contains a column for each unaligned piece, with ones on the partitions of the piece. Its keys are the first
    and the end partition of the piece, and the number of partitions of the tile.
    """

    launch: Any
    operation: Attention
    operands: Any
    output: Any
    bias: Bias
    ones: OnesOfHeads
    masks: dict[tuple[int, int, int], nl.NkiTensor] = field(default_factory=dict)


class _Image:
    """The attention of one image."""

    def __init__(self, work: _Work, image) -> None:
        launch, operation, output = work.launch, work.operation, work.output
        queries, keys, values = work.operands
        self._launch, self._operation, self._output, self._image, self._bias = (
            launch,
            operation,
            output,
            image,
            work.bias,
        )
        self._queries = Tokens(queries, image, operation.by_rows, is_padded=True, masks=work.masks)
        self._keys = Tokens(keys, image, operation.by_rows)
        self._rows = operation.rows if operation.by_rows else 1
        self._heads = head_pieces(queries.heights, operation.heads)
        self._out_heads = head_pieces([tile.shape[0] for tile in output.tiles], operation.heads)
        self._key_tiles = tiles(self._keys.count, PARTITIONS)
        self._values = TurnedValues(launch, Tokens(values, image, operation.by_rows), operation.heads, self._key_tiles)
        self._sums: dict[int, nl.NkiTensor] = {}  # sums of the current sequences, by output tile
        self._totals: dict[int, nl.NkiTensor] = {}  # sums of the weights, by output tile
        self._ones = work.ones
        self._groups = self._groups_of_units()
        self._by_groups = self._keys.count < FEW_KEYS and max(map(len, self._groups)) > 1  # one softmax for all units
        has_time = launch.dtype != nl.float32 and self._keys.count <= MANY_KEYS
        self._divides_sums = has_time and not self._by_groups and not operation.is_linear
        self._turn = 0
        self._result = self._open_result()

    def halves(self):
        """Compute the attention weights of a block of queries for several units together, and yield functions that
        multiply the values by these weights."""
        blocks = even_tiles(self._queries.count, self._block())
        for block in blocks:
            for group in self._groups:
                parts = tiles_of_whole_words(even_tiles(block.size, PARTITIONS), self._launch.dtype)
                weights = [self._weights(group, part.moved(block.start)) for part in parts]
                is_last = group is self._groups[-1] and block.end == self._queries.count
                yield partial(self._multiply_values, group, block, (parts, weights), is_last)

    def _groups_of_units(self):
        """Return groups of units that fit in a PSUM bank: all heads of some sequences, or some heads of one sequence;
        two heads if there are many keys."""
        most = max(1, nl.tile_size.psum_bank_fmax // max(1, self._keys.count))
        if self._keys.count >= FEW_KEYS:
            most = min(most, 2)
        heads = self._operation.heads
        if most >= heads:
            return [
                [Unit(row, head) for row in range(group.start, group.end) for head in range(heads)]
                for group in tiles(self._rows, most // heads)
            ]
        parts = even_tiles(heads, most)
        return [
            [Unit(row, head) for head in range(part.start, part.end)] for row in range(self._rows) for part in parts
        ]

    def _multiply_values(self, units, block: Tile, weights, is_last):
        """For each part of a block of queries, multiply the values of a group of units by their weights."""
        parts = len(self._output.tiles) * (2 if self._divides_sums else 1)
        at_once = sequences_at_once(parts, block.size) if self._rows > 1 else 1
        transposed = sbuf_tile((PARTITIONS, len(self._key_tiles), len(units), block.size), self._launch.dtype)
        for part, tile in zip(*weights, strict=True):
            for keys in self._key_tiles:
                self._turn_over(transposed[0 : keys.size, keys.index, :, part.start : part.end], tile, keys)
        for n, unit in enumerate(units):
            self._add_values(unit, block, transposed[:, :, n], at_once)
        if is_last:
            self._put_result()

    def _block(self):
        """Return the number of queries whose transposed weights are in SBUF at the same time: one bank of sums, or
        fewer if there are many keys."""
        most = nl.tile_size.psum_bank_fmax
        wide = len(self._key_tiles) * itemsize(self._launch.dtype)
        return max(PARTITIONS, min(most, 32 * 1024 // wide // PARTITIONS * PARTITIONS))

    def _turn_over(self, dst, weights, keys: Tile):
        """Transpose weights [queries, units, keys], for a tile of keys, to [keys, units, queries]."""
        wide, units, _ = weights.shape
        dtype = transposed_dtype(self._launch.dtype)
        most = nl.tile_size.psum_bank_fmax * 4 // itemsize(dtype) // wide
        for group in tiles(units, most):
            bank = nl.ndarray((keys.size, group.size, wide), dtype=dtype, buffer=nl.psum)
            for n in range(group.size):
                data = weights[:, group.start + n, keys.start : keys.end]
                nisa.nc_transpose(dst=bank[:, n], data=data, engine=nisa.engine.tensor)
            self._evict(dst[:, group.start : group.end], bank[:, :, 0 : dst.shape[2]])

    def _weights(self, units, queries: Tile):
        """Return the softmax [queries, units, keys] that a group of units yields for a tile of queries. An odd number
        of queries is padded with zeros, because the Tensor Engine writes whole words of PSUM."""
        keys = self._keys.count
        whole = sbuf_tile((whole_words(queries.size, self._launch.dtype), len(units), keys), self._launch.dtype)
        if whole.shape[0] > queries.size:
            nisa.memset(dst=whole, value=0.0, engine=nisa.engine.gpsimd)
        weights = whole[0 : queries.size]
        if self._operation.is_linear:
            self._copy_scores(units, queries, weights)
            return whole
        if self._divides_sums:
            self._exponentials(units, queries, weights, None)
            return whole
        sums = nl.ndarray((queries.size, len(units), 1), dtype=nl.float32, buffer=nl.sbuf)
        if self._by_groups:
            self._exponentials_of_units(units, queries, weights, sums)
        else:
            self._exponentials(units, queries, weights, sums)
        shares = nl.ndarray(sums.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=shares, data=sums)
        if self._by_groups:
            nisa.tensor_tensor(dst=weights, data1=weights, data2=shares.broadcast(2, keys), op=nl.multiply)
        else:
            for n in range(len(units)):
                if n % 2 == 1:  # GpSimd scales half of the units, because the Vector Engine has more to do
                    share = shares[:, n].broadcast(1, keys)
                    nisa.tensor_tensor(
                        dst=weights[:, n], data1=weights[:, n], data2=share, op=nl.multiply, engine=nisa.engine.gpsimd
                    )
                    continue
                nisa.tensor_scalar(
                    dst=weights[:, n],
                    data=weights[:, n],
                    op0=nl.multiply,
                    operand0=shares[:, n],
                    engine=nisa.engine.vector,
                )
        return whole

    def _copy_scores(self, units, queries: Tile, weights):
        """Compute the scores of linear attention, which has no softmax."""
        for block in even_tiles(self._keys.count, nl.tile_size.psum_bank_fmax):
            bank = nl.ndarray((queries.size, len(units), block.size), dtype=nl.float32, buffer=nl.psum)
            for n, unit in enumerate(units):
                self._multiply(bank[:, n], unit, queries, block)
            dst = weights[:, :, block.start : block.end]
            nisa.activation(dst=dst, op=nl.copy, data=bank, scale=self._operation.scale)

    def _exponentials_of_units(self, units, queries: Tile, weights, sums):
        """Compute the exponentials of several units, and their sums, with each instruction covering all units."""
        shape = (queries.size, len(units), self._keys.count)
        scores = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
        for n, unit in enumerate(units):
            self._multiply(scores[:, n], unit, queries, Tile(0, 0, shape[2], shape[2]))
        scale = self._operation.scale
        if not self._bias.is_empty:
            data = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
            self._add_bias(data, scores, self._bias.tile_of_units(units, queries))
            scores, scale = data, 1.0
        largest = nl.ndarray((shape[0], shape[1], 1), dtype=nl.float32, buffer=nl.sbuf)
        extreme = nl.maximum if scale >= 0 else nl.minimum
        nisa.tensor_reduce(dst=largest, op=extreme, data=scores, axis=2, keepdims=True)
        lower = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=lower, data1=scores, data2=largest.broadcast(2, shape[2]), op=nl.subtract)
        nisa.activation(dst=weights, op=nl.exp, data=lower, scale=scale)
        nisa.tensor_reduce(dst=sums, op=nl.add, data=weights, axis=2, keepdims=True)

    def _exponentials(self, units, queries: Tile, weights, sums):
        """Compute the exponentials and their sums unit by unit. The largest score is the bias of the activation."""
        blocks = even_tiles(self._keys.count, nl.tile_size.psum_bank_fmax)
        scale = self._operation.scale if self._bias.is_empty else 1.0
        extreme = nl.maximum if scale >= 0 else nl.minimum
        scores = self._scores(units, queries, blocks)
        largest = nl.ndarray((queries.size, len(units), len(blocks)), dtype=nl.float32, buffer=nl.sbuf)
        for block, data in zip(blocks, scores, strict=True):
            nisa.tensor_reduce(
                dst=largest[:, :, block.index : block.index + 1], op=extreme, data=data, axis=2, keepdims=True
            )
        if len(blocks) > 1:
            nisa.tensor_reduce(dst=largest[:, :, 0:1], op=extreme, data=largest, axis=2, keepdims=True)
        below = nl.ndarray((queries.size, len(units), 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=below, data=largest[:, :, 0:1], op0=nl.multiply, operand0=-scale)
        parts = sums
        if sums is None:
            for n in range(len(units)):
                for block, data in zip(blocks, scores, strict=True):
                    dst = weights[:, n, block.start : block.end]
                    nisa.activation(dst=dst, op=nl.exp, data=data[:, n], bias=below[:, n], scale=scale)
            return
        if len(blocks) > 1:
            parts = nl.ndarray((queries.size, len(units), len(blocks)), dtype=nl.float32, buffer=nl.sbuf)
        for n in range(len(units)):
            for block, data in zip(blocks, scores, strict=True):
                nisa.activation_reduce(
                    dst=weights[:, n, block.start : block.end],
                    op=nl.exp,
                    data=data[:, n],
                    reduce_op=nl.add,
                    reduce_res=parts[:, n, block.index : block.index + 1],
                    bias=below[:, n],
                    scale=scale,
                )
        if len(blocks) > 1:
            nisa.tensor_reduce(dst=sums, op=nl.add, data=parts, axis=2, keepdims=True)

    def _scores(self, units, queries: Tile, blocks):
        """Return the scores [queries, units, keys] of each block of keys: in PSUM, or in SBUF with the bias added."""
        scores = []
        in_sbuf = len(blocks) > BANKS_OF_SCORES or not self._bias.is_empty
        for block in blocks:
            bank = nl.ndarray((queries.size, len(units), block.size), dtype=nl.float32, buffer=nl.psum)
            for n, unit in enumerate(units):
                self._multiply(bank[:, n], unit, queries, block)
            data = bank
            if in_sbuf:
                data = nl.ndarray(bank.shape, dtype=nl.float32, buffer=nl.sbuf)
            for n, unit in enumerate(units):
                if not self._bias.is_empty:
                    bias = self._bias.tile(unit, queries)[:, block.start : block.end]
                    self._add_bias(data[:, n], bank[:, n], bias)
                elif in_sbuf:
                    self._evict(data[:, n], bank[:, n])
            scores.append(data)
        return scores

    def _add_bias(self, dst, scores, bias):
        """Compute dst = scale * scores + bias."""
        nisa.scalar_tensor_tensor(
            dst=dst, data=scores, op0=nl.multiply, operand0=self._operation.scale, op1=nl.add, operand1=bias
        )

    def _multiply(self, dst, unit: Unit, queries: Tile, keys: Tile):
        """Compute dst [queries, keys], the product of a head's queries and keys."""
        pieces = self._heads[unit.head]
        for n, piece in enumerate(pieces):
            left = self._queries.of_piece(piece, unit.row)
            right = self._keys.of_tile(piece.tile, unit.row)[piece.rows]
            nisa.nc_matmul(
                dst=dst,
                stationary=left[:, queries.start : queries.end],
                moving=right[:, keys.start : keys.end],
                accumulate=n > 0,
            )

    def _add_values(self, unit: Unit, block: Tile, turned, at_once):
        """Add the contribution of a head's values to the sums, and store the sums after the last head."""
        slot = unit.row % at_once
        for piece in self._out_heads[unit.head]:
            size = several_columns(piece.size, self._launch.dtype)
            if slot == 0 and piece.is_first:
                rows = min(at_once, self._rows - unit.row)
                self._sums[piece.tile] = nl.ndarray((size, rows, block.size), dtype=nl.float32, buffer=nl.psum)
                if self._divides_sums:
                    self._totals[piece.tile] = nl.ndarray((size, rows, block.size), dtype=nl.float32, buffer=nl.psum)
            sums = self._sums[piece.tile]
            for keys in self._key_tiles:
                moving, adds = turned[0 : keys.size, keys.index], not (piece.is_first and keys.index == 0)
                values = self._values.of_piece(piece, unit.row, keys)
                nisa.nc_matmul(dst=sums[:, slot], stationary=values, moving=moving, accumulate=adds)
                if self._divides_sums:
                    ones = self._ones.of_piece(piece, size)[0 : keys.size]
                    totals = self._totals[piece.tile][:, slot]
                    nisa.nc_matmul(dst=totals, stationary=ones, moving=moving, accumulate=adds)
            if piece.is_last and slot == sums.shape[1] - 1:
                self._store(piece.tile, unit.row - slot, block)

    def _store(self, tile, row, block: Tile):
        """Copy the sums of an output tile to the output, for a block of queries or for several sequences."""
        height = self._output.tiles[tile].shape[0]
        sums = self._sums[tile][0:height]
        totals = self._totals.pop(tile)[0:height] if tile in self._totals else None
        count = min(
            block.size, self._operation.rows * self._operation.columns if self._rows == 1 else self._operation.columns
        )
        if self._rows > 1 or self._operation.by_rows:
            dst = self._result[tile][:, row : row + sums.shape[1], block.start : block.start + count]
            sums, totals = sums[:, :, 0:count], None if totals is None else totals[:, :, 0:count]
        else:
            dst = self._result[tile][:, block.start : block.start + count]
            sums, totals = sums[:, 0, 0:count], None if totals is None else totals[:, 0, 0:count]
        if totals is None:
            self._evict(dst, sums)
        else:
            divide(dst, sums, totals)

    def _open_result(self):
        """Return the target of each output tile: the output buffer, or a temporary tile without a margin."""
        inside = [self._output.inside(t)[:, self._image] for t in range(len(self._output.tiles))]
        if self._operation.by_rows:
            return inside
        if self._operation.rows == 1:
            return [tile[:, 0] for tile in inside]
        if self._operation.margin == NO_SIDES and set(self._output.margins) == {NO_SIDES}:
            return [tile.flatten_dims(1, 2) for tile in inside]
        tokens = self._operation.rows * self._operation.columns
        return [sbuf_tile((tile.shape[0], tokens), tile.dtype) for tile in inside]

    def _put_result(self):
        """Copy the results from temporary tiles to the output buffer."""
        if self._operation.by_rows or self._operation.rows == 1:
            return
        if self._operation.margin == NO_SIDES and set(self._output.margins) == {NO_SIDES}:
            return
        for t, result in enumerate(self._result):
            shaped = result.reshape_dim(1, (self._operation.rows, self._operation.columns))
            nisa.tensor_copy(dst=self._output.inside(t)[:, self._image], src=shaped, engine=nisa.engine.gpsimd)

    def _evict(self, dst, src):
        """Copy from PSUM.

        With one to two tiles of keys, only the Vector Engine copies, because the Scalar Engine is busy with
        exponentials.
        """
        by_vector = FEW_KEYS <= self._keys.count <= MANY_KEYS and self._bias.is_empty
        self._turn += 1
        evict(dst=dst, src=src, turn=0 if by_vector else self._turn)
