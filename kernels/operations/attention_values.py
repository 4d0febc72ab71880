"""The stationary operands of the second product of attention: the values, transposed because the product contracts over
keys, and ones, which sum the weights."""

import nki.isa as nisa
import nki.language as nl

from ..tiling.packing import ceil_div
from ..tiling.tiles import PARTITIONS, evict, itemsize, sbuf_tile, several_columns, transposed_dtype, whole_words
from .attention_operands import Piece, Tokens, head_pieces

BANKS_OF_SUMS = 6  # of the 8 banks of PSUM; scores and transposed weights use the others
KEPT_BYTES = 32 * 1024  # transposed values of up to this many bytes per partition are kept for the next queries


class TurnedValues:
    """The values of an image, [keys, channels] for each head.

    The columns of the other heads of a tile are zero, so that the products of all heads of a tile add up to the whole
    tile.
    """

    def __init__(self, launch, tokens: Tokens, heads, key_tiles) -> None:
        self._launch, self._tokens, self._key_tiles = launch, tokens, key_tiles
        self._pieces: dict[int, list[Piece]] = {}
        for pieces in head_pieces(tokens.heights, heads):
            for piece in pieces:
                self._pieces.setdefault(piece.tile, []).append(piece)
        self._made: dict[tuple[int, int], nl.NkiTensor] = {}
        self._turn = 0
        width = sum(len(pieces) * tokens.heights[t] for t, pieces in self._pieces.items())
        self._stays = len(key_tiles) * width * itemsize(launch.dtype) <= KEPT_BYTES

    def of_piece(self, piece: Piece, row, keys):
        """Return the stationary operand of a head: [keys, channels of its tile]."""
        key = piece.tile, row
        if key not in self._made:
            if not self._stays or any(other != row for _, other in self._made):
                self._made = {}
            self._made[key] = self._turned(piece.tile, row)
        return self._made[key][0 : keys.size, keys.index, piece.head - self._pieces[piece.tile][0].head]

    def _turned(self, t, row):
        """Return the values of a tile of channels as [keys, key tile, heads, channels]."""
        pieces, size = self._pieces[t], self._tokens.heights[t]
        wide = several_columns(size, self._launch.dtype)
        transposed = sbuf_tile((PARTITIONS, len(self._key_tiles), len(pieces), wide), self._launch.dtype)
        if len(pieces) > 1 or wide > size:
            nisa.memset(dst=transposed, value=0.0, engine=nisa.engine.gpsimd)
        tokens = self._of_whole_words(self._tokens.of_tile(t, row))
        dtype = transposed_dtype(self._launch.dtype)
        is_odd = itemsize(dtype) == 2 and any(piece.first % 2 for piece in pieces)  # engines read whole words
        for keys in self._key_tiles:
            bank = nl.ndarray((keys.size, tokens.shape[0]), dtype=dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=bank, data=tokens[:, keys.start : keys.end], engine=nisa.engine.tensor)
            if is_odd:
                copy = sbuf_tile(bank.shape, dtype)
                nisa.tensor_copy(dst=copy, src=bank, engine=nisa.engine.vector)
                bank = copy
            for n, piece in enumerate(pieces):
                self._turn += 1
                evict(
                    dst=transposed[0 : keys.size, keys.index, n, piece.first : piece.end],
                    src=bank[:, piece.first : piece.end],
                    turn=self._turn,
                )
        return transposed

    def _of_whole_words(self, tokens):
        """Return tokens, with a zero token appended if their number is odd, because transposes write whole words of
        PSUM."""
        channels, count = tokens.shape
        wide = whole_words(channels, self._launch.dtype)
        if wide == channels:
            return tokens
        copy = sbuf_tile((wide, count), self._launch.dtype)
        nisa.memset(dst=copy, value=0.0, engine=nisa.engine.gpsimd)
        nisa.tensor_copy(dst=copy[0:channels], src=tokens, engine=nisa.engine.gpsimd)
        return copy


class OnesOfHeads:
    """Matrices of shape [128, channels per tile], with ones in the columns that belong to a head.

    Multiplying by one of them sums the weights of that head and writes the sum to the partitions of its channels.
    """

    def __init__(self, dtype) -> None:
        self._dtype = dtype
        self._made: dict[tuple[int, int, int], nl.NkiTensor] = {}

    def of_piece(self, piece: Piece, columns):
        """Return the matrix of a piece, with the given number of columns."""
        key = piece.first, piece.end, columns
        if key not in self._made:
            ones = sbuf_tile((PARTITIONS, columns), self._dtype)
            if piece.first > 0 or piece.end < columns:
                nisa.memset(dst=ones, value=0.0, engine=nisa.engine.gpsimd)
            nisa.memset(dst=ones[:, piece.first : piece.end], value=1.0, engine=nisa.engine.gpsimd)
            self._made[key] = ones
        return self._made[key]


def sequences_at_once(sums, queries):
    """Return the number of sequences whose sums are stored together: a bank of them, or fewer if there are many tiles
    of sums, because all tiles accumulate until the last head of the last sequence."""
    per_bank = ceil_div(sums, BANKS_OF_SUMS)
    return max(1, nl.tile_size.psum_bank_fmax // per_bank // queries)


def divide(dst, sums, totals):
    """Compute dst = sums / totals, both in PSUM."""
    copy = nl.ndarray(totals.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=copy, op=nl.copy, data=totals)
    nisa.scalar_tensor_tensor(dst=dst, data=copy, op0=nl.power, operand0=-1.0, op1=nl.multiply, operand1=sums)
