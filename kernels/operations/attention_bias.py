"""The bias of attention (relative positions and masks), [heads, sequences, queries, keys] in HBM, which is loaded tile
by tile."""

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from ..attention_operation import Attention
from ..tiling.tiles import PARTITIONS, Tile, copy_by_hardware, itemsize, sbuf_tile

KEPT_BYTES = 24 * 1024  # a bias of up to this many bytes per partition is kept in SBUF for the next image


@dataclass(frozen=True)
class Unit:
    """One head of one sequence."""

    row: int
    head: int


class Bias:
    """The bias in HBM. Its tiles, float32 [queries, keys] for each head and sequence, are cached in SBUF."""

    def __init__(self, launch, operation: Attention) -> None:
        self._launch, self._operation = launch, operation
        heads, rows, queries, keys = self.shape = operation.bias_shape or (1, 1, 1, 1)
        tiles_of_queries = -(-queries // PARTITIONS)
        self._stays = heads * rows * tiles_of_queries * keys * itemsize(launch.dtype) <= KEPT_BYTES
        self._kept: dict[tuple[int, int, int], nl.NkiTensor] = {}
        self._kept_of_units: dict[tuple[int, int, int, int], nl.NkiTensor] = {}

    @property
    def is_empty(self):
        """True if there is no bias."""
        return not self._operation.bias_shape

    def tile(self, unit: Unit, queries: Tile):
        """Return the bias of a tile of queries as [queries, keys], in the dtype of the launch."""
        heads, rows, count, keys = self.shape
        key = unit.head % heads, unit.row % rows, queries.start
        if key in self._kept:
            return self._kept[key]
        first = self._operation.bias_at + ((key[0] * rows + key[1]) * count + queries.start) * keys
        tile = sbuf_tile((queries.size, keys), self._launch.dtype)
        count_here = min(queries.size, count - queries.start)
        if count_here < queries.size:  # a single query, padded with zeros
            nisa.memset(dst=tile, value=0.0, engine=nisa.engine.gpsimd)
        source = self._launch.weights[first : first + count_here * keys].reshape((count_here, keys))
        copy_by_hardware(dst=tile[0:count_here], src=source)
        if self._stays:
            self._kept[key] = tile
        return tile

    def tile_of_units(self, units, queries: Tile):
        """Load the bias of a tile of queries with one DMA, for adjacent heads or for all heads of several sequences.

        Returns [queries, units, keys].
        """
        heads, rows, count, keys = self.shape
        key = units[0].head, len(units), units[0].row % rows, queries.start
        if key in self._kept_of_units:
            return self._kept_of_units[key]
        first, last = units[0], units[len(units) - 1]
        count_here = min(queries.size, count - queries.start)
        tile = sbuf_tile((queries.size, len(units), keys), self._launch.dtype)
        if count_here < queries.size:
            nisa.memset(dst=tile, value=0.0, engine=nisa.engine.gpsimd)
        at = self._operation.bias_at
        biases = self._launch.weights[at : at + heads * rows * count * keys].reshape((heads, rows, count, keys))
        heads_biases = biases[first.head if heads > 1 else 0 : last.head + 1 if heads > 1 else 1]
        sequences = 1 if rows == 1 else last.row - first.row + 1
        start = first.row if rows > 1 else 0
        part = heads_biases[:, start : start + sequences, queries.start : queries.start + count_here].permute(
            (2, 1, 0, 3)
        )
        if sequences * heads_biases.shape[0] == len(units):
            copy_by_hardware(dst=tile[0:count_here].reshape_dim(1, (sequences, heads_biases.shape[0])), src=part)
        else:  # the bias is the same for all sequences, or for all heads
            alike = sbuf_tile((queries.size, sequences, heads_biases.shape[0], keys), self._launch.dtype)
            copy_by_hardware(dst=alike[0:count_here], src=part)
            wide = (last.row - first.row + 1, len(units) // (last.row - first.row + 1))
            for axis, extent in enumerate(wide, 1):
                if alike.shape[axis] < extent:
                    alike = alike.broadcast(axis, extent)
            nisa.tensor_copy(
                dst=tile[0:count_here].reshape_dim(1, wide), src=alike[0:count_here], engine=nisa.engine.gpsimd
            )
        units_kept = sum(each.shape[1] for each in self._kept_of_units.values()) + len(units)
        if units_kept * keys * itemsize(self._launch.dtype) <= KEPT_BYTES:
            self._kept_of_units[key] = tile
        return tile
