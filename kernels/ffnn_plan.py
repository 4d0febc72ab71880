"""Blocks of the feed-forward network in one go (ffnn_fused.py): how many rows SBUF holds with all they become.

Everything here is arithmetic on compile-time integers; no instruction is issued.
"""

from dataclasses import dataclass, replace

from .matmul_plan import TILE_N
from .tiling.packing import ceil_div, round_up
from .tiling.tiles import DMA_BYTES, PARTITIONS, Tile, tiles

WIDTH = TILE_N  # columns of weights that are multiplied together: a PSUM bank of them, or 4 tiles of hidden units
MOST_TILES = 4  # of 128 rows in a block: half of the 8 PSUM banks, so that the other half can be copied out
PANEL_BYTES = 4 * DMA_BYTES // PARTITIONS  # of a partition, for weights that come in one DMA
LEAST_PANEL_BYTES = DMA_BYTES // PARTITIONS
PANELS = 3  # of weights at a time: one is multiplied, the next two are on their way
PITCH = 4096  # bytes whose multiples apart rows of weights are slow on trn1
# Rows of a block below which weights come slower from HBM than they are multiplied, by bytes of an element: on trn2 and
# trn3, on trn1, and there where rows of weights lie apart by multiples of PITCH.
LEAST_ROWS = {2: 256, 4: 192}
LEAST_ROWS_OF_TRN1 = {2: 384, 4: 192}
LEAST_ROWS_APART = {2: 1024, 4: 448}
MOST_CLASSES = 8192  # that the largest of is found in one pass


@dataclass(frozen=True)
class FusedPlan:
    """Blocks of rows; tiles of 128 features that are turned together; bytes of a partition that a panel of weights has.

    `keeps`: all weights stay in SBUF, for all blocks.
    """

    blocks: tuple[Tile, ...]
    turned: int
    panel_bytes: int = 0
    keeps: bool = False

    @property
    def columns(self) -> int:
        """Columns of the largest block, an even number of them."""
        return max(round_up(block.size, 2) for block in self.blocks)

    def panel_tiles(self, columns: int, item_bytes: int) -> int:
        """Return the tiles of 128 rows of a panel with `columns`."""
        return max(1, self.panel_bytes // (columns * item_bytes))


@dataclass(frozen=True)
class Sizes:
    """Rows, features, hidden units and classes of a network, its elements of `item_bytes`. `is_pitched`: its weights
    come slowly, because parts of their rows meet in few channels of HBM."""

    rows: int
    features: int
    hidden: int
    classes: int
    item_bytes: int
    is_pitched: bool = False

    @property
    def panel_bytes(self) -> int:
        """Bytes of a partition for all weights."""
        first = ceil_div(self.features, PARTITIONS) * round_up(self.hidden, 2)
        return self.item_bytes * (first + ceil_div(self.hidden, PARTITIONS) * round_up(self.classes, 2))


def row_blocks(rows, most_tiles):
    """Return as few blocks of up to `most_tiles` tiles of 128 rows as cover all: of even size where that takes no more
    tiles, since a tile of one row takes as long as a full one."""
    each_tile = ceil_div(rows, PARTITIONS)
    count = ceil_div(each_tile, most_tiles)
    even = tiles(rows, ceil_div(rows, count))
    if sum(ceil_div(block.size, PARTITIONS) for block in even) > each_tile:
        return tuple(tiles(rows, ceil_div(each_tile, count) * PARTITIONS))
    return tuple(even)


def plan_fused(sizes, sbuf_bytes, least_rows):
    """Return the plan with the largest blocks that fit in a partition's SBUF; None where none does, or where they would
    have so few rows, below `least_rows`, that weights, which each block reads, come slower than they are multiplied."""
    if sizes.classes > MOST_CLASSES:
        return None
    for most_tiles in range(MOST_TILES, 0, -1):
        blocks = row_blocks(sizes.rows, most_tiles)
        plan = FusedPlan(blocks, MOST_TILES * ceil_div(MOST_TILES, ceil_div(blocks[0].size, PARTITIONS)))
        room = sbuf_bytes - _held(sizes, plan)
        keeps = sizes.panel_bytes <= room
        reads_once = keeps or (len(blocks) == 1 and (not sizes.is_pitched or sizes.rows <= PARTITIONS))
        if room >= PANELS * LEAST_PANEL_BYTES and (reads_once or plan.columns >= least_rows):
            return replace(plan, panel_bytes=min(PANEL_BYTES, room if keeps else room // PANELS), keeps=keeps)
    return None


def _held(sizes, plan):
    """Bytes of a partition beside the panels of weights."""
    size, columns = sizes.item_bytes, plan.columns
    row_tiles = ceil_div(columns, PARTITIONS)
    values = (ceil_div(sizes.features, PARTITIONS) + ceil_div(sizes.hidden, PARTITIONS)) * columns * size
    pieces = 2 * row_tiles * plan.turned * PARTITIONS * size
    scores = max(sizes.classes, 8) * (4 * row_tiles + 4 + 2 * size * (1 if sizes.classes > WIDTH else row_tiles))
    biases = 4 * (2 * PARTITIONS + ceil_div(sizes.hidden, PARTITIONS))
    return values + pieces + scores + biases + 2 * WIDTH * size  # zeros to warm up on, and numbers of rows
