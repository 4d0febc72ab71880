"""Vector addition, c = a + b, in four versions, from one number per tile to explicit SBUF addresses.

1. `vector_add_naive`: one number per tile. Each number requires two loads, an addition and a store; all of the time is
spent issuing DMAs.
2. `vector_add_tiled`: `rows` numbers per tile, one per partition. With 128 rows every lane is used, but each
   instruction processes only one number per lane.
3. `vector_add_stream`: the vector is folded over the 128 partitions and each tile contains `free` numbers of each
   partition, so that DMAs and instructions are long.
4. `vector_add_direct_allocation`: the same tiles at addresses that the kernel chooses, `tiles` of them in rotation,
   so that loads, additions and stores of successive tiles overlap in a bounded part of SBUF.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiling.tiles import PARTITIONS, ceil_div, check_dtype, itemsize, sbuf_tile, usable_sbuf_bytes
from .tiling.tiles import tiles as cover

ADDRESS_ALIGNMENT = 64  # alignment in bytes of explicitly placed tiles: a multiple of every target's requirement


def _check_vectors(a, b):
    assert len(a.shape) == 1, f"a must have 1 dimension, got shape {a.shape}"
    assert a.shape == b.shape, f"a and b must have the same shape, got {a.shape} and {b.shape}"
    assert a.dtype == b.dtype, f"a and b must have the same dtype, got {a.dtype} and {b.dtype}"
    assert a.shape[0] > 0, "a must not be empty"
    check_dtype("a", a)


def _add_tile(out, a, b):
    """Add two [partitions, free] windows of HBM through freshly allocated tiles."""
    a_tile = sbuf_tile(a.shape, a.dtype)
    b_tile = sbuf_tile(b.shape, b.dtype)
    sum_tile = sbuf_tile(out.shape, out.dtype)
    nisa.dma_copy(dst=a_tile, src=a)
    nisa.dma_copy(dst=b_tile, src=b)
    nisa.tensor_tensor(dst=sum_tile, data1=a_tile, data2=b_tile, op=nl.add)
    nisa.dma_copy(dst=out, src=sum_tile)


def _add_columns(out, a, b, rows):
    """Add vectors with `rows` numbers per tile, one on each partition."""
    column = (a.shape[0], 1)
    out_column, a_column, b_column = out.reshape(column), a.reshape(column), b.reshape(column)
    for tile in cover(a.shape[0], rows):
        _add_tile(
            out_column[tile.start : tile.end, :], a_column[tile.start : tile.end, :], b_column[tile.start : tile.end, :]
        )


def _add_placed(out, a, b, turn, tiles, place):
    """Add two [partitions, free] windows of HBM, using the tiles of one turn: [ a slots | b slots | sum slots ]."""
    a_tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf, address=(0, turn * place))
    b_tile = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf, address=(0, (tiles + turn) * place))
    sum_tile = nl.ndarray(out.shape, dtype=out.dtype, buffer=nl.sbuf, address=(0, (2 * tiles + turn) * place))
    nisa.dma_copy(dst=a_tile, src=a)
    nisa.dma_copy(dst=b_tile, src=b)
    nisa.tensor_tensor(dst=sum_tile, data1=a_tile, data2=b_tile, op=nl.add)
    nisa.dma_copy(dst=out, src=sum_tile)


def _fold(vector, columns):
    """Return columns of the vector, folded to [128, n // 128] so that consecutive numbers are on one partition."""
    share = vector.shape[0] // PARTITIONS
    return vector[0 : PARTITIONS * share].reshape((PARTITIONS, share))[:, columns[0] : columns[1]]


def _rest(vector):
    """Return the last n % 128 numbers of a vector as a row: they remain after it is divided evenly over 128
    partitions."""
    n = vector.shape[0]
    start = n // PARTITIONS * PARTITIONS
    return vector[start:n].reshape((1, n - start))


@nki.jit
def vector_add_naive(a, b):
    """Add two vectors, with one number per tile.

    Dimensions:
        n: length of the vectors; arbitrary.
    Args:
        a, b: [n] in HBM; float32, bfloat16 or float16, with the same dtype.
    Returns:
        [n] in HBM, with the same dtype as a. The sum is computed in float32 and rounded once.
    Notes:
        The baseline for the other versions: three DMAs for every number.
    """
    _check_vectors(a, b)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    _add_columns(out, a, b, 1)
    return out


@nki.jit
def vector_add_tiled(a, b, rows=128):
    """Add two vectors with `rows` numbers per tile, one on each partition.

    Dimensions:
        n: length of the vectors; arbitrary.
    Args:
        a, b: [n] in HBM; float32, bfloat16 or float16, with the same dtype.
        rows: numbers per tile, from 1 to 128.
    Returns:
        [n] in HBM, with the same dtype as a. The sum is computed in float32 and rounded once.
    Notes:
        Every number requires a separate DMA descriptor, which moves one element to one partition.
    """
    _check_vectors(a, b)
    assert rows >= 1 and rows <= PARTITIONS, f"rows must be between 1 and {PARTITIONS}, got {rows}"
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    _add_columns(out, a, b, rows)
    return out


@nki.jit
def vector_add_stream(a, b, free=1000):
    """Add two vectors folded over the 128 partitions, with `free` numbers of each partition per tile.

    Dimensions:
        n: length of the vectors; arbitrary; the remaining n % 128 numbers are added in a separate row.
    Args:
        a, b: [n] in HBM; float32, bfloat16 or float16, with the same dtype.
        free: numbers of each partition per tile; three tiles must fit in SBUF.
    Returns:
        [n] in HBM, with the same dtype as a. The sum is computed in float32 and rounded once.
    Notes:
        Long tiles make DMAs efficient; short tiles overlap better. At n = 256,000, two tiles of 1,000 are faster than
        one of 2,000.
    """
    _check_vectors(a, b)
    most = usable_sbuf_bytes() // (3 * itemsize(a.dtype))
    assert free >= 1 and free <= most, f"free must be between 1 and {most} for {a.dtype}, got {free}"
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    shared = a.shape[0] // PARTITIONS * PARTITIONS
    if shared > 0:
        for tile in cover(shared // PARTITIONS, free):
            columns = (tile.start, tile.end)
            _add_tile(_fold(out, columns), _fold(a, columns), _fold(b, columns))
    if shared < a.shape[0]:
        _add_tile(_rest(out), _rest(a), _rest(b))
    return out


@nki.jit
def vector_add_direct_allocation(a, b, free=1000, tiles=4):
    """Add two vectors through tiles at explicit SBUF addresses, with `tiles` tiles per operand in rotation.

    Dimensions:
        n: length of the vectors; arbitrary; the remaining n % 128 numbers are added in a separate row.
    Args:
        a, b: [n] in HBM; float32, bfloat16 or float16, with the same dtype.
        free: numbers of each partition per tile.
        tiles: number of slots for each of a, b and the sum; 3 * tiles * free numbers must fit in an SBUF partition.
    Returns:
        [n] in HBM, with the same dtype as a. The sum is computed in float32 and rounded once.
    Notes:
        Tile i is stored in slot i % tiles. Its load may begin as soon as tile i - tiles has been added, and its sum
        waits for the store of that tile. With a single slot, nothing overlaps. No other part of SBUF is used.
    """
    _check_vectors(a, b)
    assert free >= 1, f"free must be at least 1, got {free}"
    assert tiles >= 1, f"tiles must be at least 1, got {tiles}"
    n = a.shape[0]
    shared = n // PARTITIONS * PARTITIONS
    address = ceil_div(max(free, n - shared) * itemsize(a.dtype), ADDRESS_ALIGNMENT) * ADDRESS_ALIGNMENT
    capacity = usable_sbuf_bytes()
    assert 3 * tiles * address <= capacity, (
        f"3 x {tiles} tiles of {address} bytes per partition must fit in the {capacity} bytes of SBUF; "
        "use a smaller free or fewer tiles"
    )
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    turn = 0
    if shared > 0:
        for tile in cover(shared // PARTITIONS, free):
            columns = (tile.start, tile.end)
            _add_placed(_fold(out, columns), _fold(a, columns), _fold(b, columns), turn % tiles, tiles, address)
            turn += 1
    if shared < n:
        _add_placed(_rest(out), _rest(a), _rest(b), turn % tiles, tiles, address)
    return out
