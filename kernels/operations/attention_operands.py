"""The operands of attention: the partitions of each head, and the tokens of an image along the free axis."""

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from ..program import NO_SIDES
from ..tiling.tiles import Tile, itemsize, sbuf_tile

QUADRANT = 32  # operands begin at partitions that are multiples of this
MASKED_BYTES = 20 * 1024  # up to this many bytes per partition of zero-padded queries are kept for the next tile


@dataclass(frozen=True)
class Piece:
    """Partitions [first, end) of a tile of channels that belong to one head.

    `size` is the number of partitions of the tile.
    """

    head: int
    tile: int
    first: int
    end: int
    size: int
    is_first: bool
    is_last: bool

    @property
    def is_aligned(self):
        """True if an operand can begin at the piece: at partition 0, at 64 with up to 64 partitions, or at 32 or 96
        with up to 32."""
        count = self.end - self.first
        most = {0: self.size, QUADRANT: QUADRANT, 2 * QUADRANT: 2 * QUADRANT, 3 * QUADRANT: QUADRANT}
        return count <= most.get(self.first, 0)

    @property
    def rows(self):
        """The partitions to multiply: only the partitions of the piece if it is aligned, otherwise the whole tile, with
        zeros on all other partitions."""
        return slice(self.first, self.end) if self.is_aligned else slice(0, self.size)


def head_pieces(heights, heads):
    """Return the pieces of each head, given the number of channels of each tile."""
    head_height = sum(heights) // heads
    pieces: list[list[Piece]] = [[] for _ in range(heads)]
    start = 0
    for tile, size in enumerate(heights):
        for head in range(start // head_height, (start + size - 1) // head_height + 1):
            first, end = max(0, head * head_height - start), min(size, (head + 1) * head_height - start)
            pieces[head].append(
                Piece(head=head, tile=tile, first=first, end=end, size=size, is_first=first == 0, is_last=end == size)
            )
        start += size
    return pieces


class Tokens:
    """The tokens of an image, or of one row if `by_rows`: [channels, tokens] for each tile.

    If `is_padded`, a single 16-bit token is padded with a zero token to form a valid stationary operand. `masks`
    contains the masks of the pieces, shared by all images.
    """

    def __init__(self, value, image, by_rows, is_padded=False, masks=None) -> None:
        self._masks: dict[tuple[int, int, int], nl.NkiTensor] = {} if masks is None else masks
        self._value, self._image, self._by_rows = value, image, by_rows
        self._copied: dict[int, nl.NkiTensor] = {}
        self._masked: dict[tuple[int, int, int], nl.NkiTensor] = {}  # masked operands by tile, head and row
        count = value.columns if by_rows else value.rows * value.columns
        self._pads = is_padded and count == 1 and itemsize(value.dtype) == 2
        self.count = 2 if self._pads else count
        self.heights = value.heights

    def of_tile(self, t, row):
        """Return a tile of channels: [channels, tokens]."""
        image = self._value.inside(t)[:, self._image]
        if self._pads:
            return self._padded(t, row, image)
        if self._by_rows:
            return image[:, row]
        if self._value.rows == 1:
            return image[:, 0]
        if self._value.margins[t] == NO_SIDES:
            return image.flatten_dims(1, 2)
        if t not in self._copied:
            copy = nl.ndarray(image.shape, dtype=image.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=copy, src=image, engine=nisa.engine.gpsimd)
            self._copied[t] = copy.flatten_dims(1, 2)
        return self._copied[t]

    def of_piece(self, piece: Piece, row):
        """Return the partitions of a piece or, if it is not aligned, its whole tile with zeros on all other
        partitions."""
        tokens = self.of_tile(piece.tile, row)
        if piece.is_aligned:
            return tokens[piece.rows]
        key = piece.tile, piece.head, row
        if key not in self._masked:
            if (len(self._masked) + 1) * self.count * itemsize(tokens.dtype) > MASKED_BYTES:
                self._masked = {}
            masked = sbuf_tile(tokens.shape, tokens.dtype)
            mask = self._mask_of(piece)
            nisa.tensor_scalar(dst=masked, data=tokens, op0=nl.multiply, operand0=mask, engine=nisa.engine.vector)
            self._masked[key] = masked
        return self._masked[key]

    def _mask_of(self, piece: Piece):
        key = piece.first, piece.end, piece.size
        if key not in self._masks:
            self._masks[key] = _mask(piece)
        return self._masks[key]

    def _padded(self, t, row, image):
        if t not in self._copied or self._by_rows:
            copy = nl.ndarray((image.shape[0], 2), dtype=image.dtype, buffer=nl.sbuf)
            nisa.memset(dst=copy, value=0.0, engine=nisa.engine.gpsimd)
            nisa.tensor_copy(dst=copy[:, 0:1], src=image[:, row if self._by_rows else 0], engine=nisa.engine.gpsimd)
            self._copied[t] = copy
        return self._copied[t]


def _mask(piece: Piece):
    """Return a float32 column [partitions, 1] with ones on the partitions of a piece and zeros on the others."""
    column = nl.ndarray((piece.size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=column, value=1.0, engine=nisa.engine.gpsimd)
    bounds = ((nl.greater_equal, -piece.first), (nl.less_equal, 1 - piece.end))
    for comparison, offset in bounds:
        mask = nl.ndarray((piece.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.affine_select(
            dst=mask,
            pattern=[[0, 1]],
            channel_multiplier=1,
            on_true_tile=column,
            on_false_value=0.0,
            cmp_op=comparison,
            offset=offset,
        )
        column = mask
    return column


def tiles_of_whole_words(parts, dtype):
    """Extend odd tiles by one element, at their start or end, because 16-bit transposes require even sizes."""
    if itemsize(dtype) == 4 or len(parts) == 1:
        return parts
    even = []
    for part in parts:
        odd = part.size % 2
        before = odd if part.start > 0 else 0
        even.append(Tile(part.index, part.start - before, part.size + odd, part.end + odd - before))
    return even
