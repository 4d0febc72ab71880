"""Choose the row blocks of the fused feed-forward network (ffnn_fused.py): as many rows as fit in SBUF together with
their values.

The module is pure arithmetic on compile-time integers; no instruction is issued.
"""

from dataclasses import dataclass, replace

from .matmul_plan import TILE_N
from .tiling.packing import ceil_div, round_up
from .tiling.tiles import DMA_BYTES, PARTITIONS, Tile, tiles

WIDTH = TILE_N  # columns of weights that are multiplied together: a PSUM bank, or 4 tiles of hidden units
MOST_TILES = 4  # maximum number of row tiles per block: half of the 8 PSUM banks; the other half is being evicted
PANEL_BYTES = 4 * DMA_BYTES // PARTITIONS  # bytes per partition of a panel loaded by one DMA
LEAST_PANEL_BYTES = DMA_BYTES // PARTITIONS
PANELS = 3  # number of panels in SBUF: one is being multiplied and two are being loaded
PITCH = 4096  # on trn1, weights whose row pitch is a multiple of this are slow to load
# Blocks of fewer rows are limited by loading weights from HBM. The keys are bytes per element. The three tables are for
# trn2 and trn3, for trn1, and for trn1 if the row pitch of the weights is a multiple of PITCH.
LEAST_ROWS = {2: 256, 4: 192}
LEAST_ROWS_OF_TRN1 = {2: 384, 4: 192}
LEAST_ROWS_APART = {2: 1024, 4: 448}
MOST_CLASSES = 8192  # maximum number of classes that a single pass can search


@dataclass(frozen=True)
class FusedPlan:
    """The row blocks of the fused network."""

    blocks: tuple[Tile, ...]
    turned: int  # tiles of 128 features transposed together
    panel_bytes: int = 0  # bytes per partition of a panel of weights
    keeps: bool = False  # True if all weights stay in SBUF for all blocks

    @property
    def columns(self) -> int:
        """The number of rows of the largest block, rounded up to an even number."""
        return max(round_up(block.size, 2) for block in self.blocks)

    def panel_tiles(self, columns: int, item_bytes: int) -> int:
        """Return the number of tiles of 128 rows in a panel with `columns` columns."""
        return max(1, self.panel_bytes // (columns * item_bytes))


@dataclass(frozen=True)
class Sizes:
    """The numbers of rows, features, hidden units and classes of a network, and the bytes per element."""

    rows: int
    features: int
    hidden: int
    classes: int
    item_bytes: int
    is_pitched: bool = False  # whether its weights are slow to load because parts of their rows share few HBM channels

    @property
    def panel_bytes(self) -> int:
        """The bytes per partition of all weights."""
        first = ceil_div(self.features, PARTITIONS) * round_up(self.hidden, 2)
        return self.item_bytes * (first + ceil_div(self.hidden, PARTITIONS) * round_up(self.classes, 2))


def row_blocks(rows, most_tiles):
    """Return the smallest number of blocks of up to `most_tiles` tiles of 128 rows that cover all rows.

    The blocks have nearly equal sizes unless that would require more tiles (a tile of one row takes as long as a full
    tile).
    """
    each_tile = ceil_div(rows, PARTITIONS)
    count = ceil_div(each_tile, most_tiles)
    even = tiles(rows, ceil_div(rows, count))
    if sum(ceil_div(block.size, PARTITIONS) for block in even) > each_tile:
        return tuple(tiles(rows, ceil_div(each_tile, count) * PARTITIONS))
    return tuple(even)


def plan_fused(sizes, sbuf_bytes, least_rows):
    """Return the plan with the largest blocks that fit in SBUF.

    Return None if none fits, or if blocks would have fewer than `least_rows` rows: loading the weights for each block
    would then take longer than multiplying them.
    """
    if sizes.classes > MOST_CLASSES:
        return None
    for most_tiles in range(MOST_TILES, 0, -1):
        blocks = row_blocks(sizes.rows, most_tiles)
        plan = FusedPlan(blocks, MOST_TILES * ceil_div(MOST_TILES, ceil_div(blocks[0].size, PARTITIONS)))
        free_bytes = sbuf_bytes - _held(sizes, plan)
        keeps = sizes.panel_bytes <= free_bytes
        reads_once = keeps or (len(blocks) == 1 and (not sizes.is_pitched or sizes.rows <= PARTITIONS))
        if free_bytes >= PANELS * LEAST_PANEL_BYTES and (reads_once or plan.columns >= least_rows):
            panel_bytes = min(PANEL_BYTES, free_bytes if keeps else free_bytes // PANELS)
            return replace(plan, panel_bytes=panel_bytes, keeps=keeps)
    return None


def _held(sizes, plan):
    """Return the bytes per partition occupied by everything except the panels of weights."""
    size, columns = sizes.item_bytes, plan.columns
    row_tiles = ceil_div(columns, PARTITIONS)
    values = (ceil_div(sizes.features, PARTITIONS) + ceil_div(sizes.hidden, PARTITIONS)) * columns * size
    pieces = 2 * row_tiles * plan.turned * PARTITIONS * size
    scores = max(sizes.classes, 8) * (4 * row_tiles + 4 + 2 * size * (1 if sizes.classes > WIDTH else row_tiles))
    biases = 4 * (2 * PARTITIONS + ceil_div(sizes.hidden, PARTITIONS))
    return values + pieces + scores + biases + 2 * WIDTH * size  # the last term: zeros for warming up, row statistics
