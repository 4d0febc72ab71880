"""Random kernels of a common structure: tiles of a matrix are loaded, processed by a chain of steps, and stored."""

import nki
import nki.isa as nisa
import nki.language as nl

P = 128
STEPS = ("add", "scale", "exp", "max", "turn", "multiply", "share", "copy", "narrow", "park", "cast", "sum")


@nki.jit
def random_chain(a, w, steps, turned=False, together=1, buffers=0, maker="unknown"):
    """Process a matrix [rows, columns] in tiles of up to 128 rows. w [128, 128] is the operand of "multiply".

    steps: names of STEPS, in order. turned: whether tiles are columns of `a` [columns, rows], which are read element by
    element. together: the number of tiles to which a step is applied before the next step. buffers: the number of SBUF
    tiles that loads use in rotation; 0 for a new tile each time. maker: the generator of descriptors, a member of
    `dge_mode`.
    """
    rows, columns = (a.shape[1], a.shape[0]) if turned else a.shape
    mode = getattr(nisa.dge_mode, maker)
    out = nl.ndarray((rows, columns), dtype=a.dtype, buffer=nl.shared_hbm)
    stored_tile = nl.ndarray((rows, columns), dtype=a.dtype, buffer=nl.private_hbm)
    weights = nl.ndarray((P, P), dtype=a.dtype, buffer=nl.sbuf)
    if "multiply" in steps:
        nisa.dma_copy(dst=weights, src=w, dge_mode=mode)
    pool = []
    for _ in range(buffers):
        pool.append(nl.ndarray((P, columns), dtype=a.dtype, buffer=nl.sbuf))
    starts = list(range(0, rows, P))
    for first in range(0, len(starts), together):
        tiles = []
        for start in starts[first : first + together]:
            size = min(P, rows - start)
            if buffers:
                tile = pool[(start // P) % buffers][0:size]
            else:
                tile = nl.ndarray((size, columns), dtype=a.dtype, buffer=nl.sbuf)
            source = a.ap(pattern=[[1, size], [rows, columns]], offset=start) if turned else a[start : start + size]
            nisa.dma_copy(dst=tile, src=source, dge_mode=mode)
            tiles.append((start, tile))
        for step in steps:
            for t in range(len(tiles)):
                start, tile = tiles[t]
                tiles[t] = (start, _taken(step, tile, weights, stored_tile, start, mode))
        for start, tile in tiles:
            nisa.dma_copy(dst=out[start : start + tile.shape[0]], src=tile, dge_mode=mode)
    return out


def _taken(step, tile, weights, kept, start, mode):
    """Apply a step to a tile, and return the result in a new tile."""
    size, columns = tile.shape
    result = nl.ndarray((size, columns), dtype=tile.dtype, buffer=nl.sbuf)
    if step == "add":
        nisa.tensor_tensor(dst=result, data1=tile, data2=tile, op=nl.add)
    elif step == "scale":
        nisa.tensor_scalar(dst=result, data=tile, op0=nl.multiply, operand0=2.0)
    elif step == "exp":
        nisa.activation(dst=result, op=nl.exp, data=tile)
    elif step == "copy":
        nisa.tensor_copy(dst=result, src=tile)
    elif step == "share":
        nisa.tensor_tensor(dst=result, data1=tile, data2=tile, op=nl.multiply, engine=nisa.engine.gpsimd)
    elif step == "cast":
        other = nl.bfloat16 if tile.dtype == nl.float32 else nl.float32
        between = nl.ndarray((size, columns), dtype=other, buffer=nl.sbuf)
        nisa.tensor_copy(dst=between, src=tile)
        nisa.activation(dst=result, op=nl.copy, data=between)
    elif step == "sum":
        total = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
        nisa.activation(dst=result, op=nl.copy, data=tile, scale=total)
    elif step == "max":
        largest = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=tile, axis=1)
        nisa.tensor_scalar(dst=result, data=tile, op0=nl.subtract, operand0=largest)
    elif step == "narrow":
        half = (columns + 1) // 2
        nisa.tensor_copy(dst=result, src=tile)
        nisa.tensor_tensor(dst=result[:, 0:half], data1=tile[:, 0:half], data2=tile[:, 0:half], op=nl.add)
    elif step == "park":
        nisa.dma_copy(dst=kept[start : start + size], src=tile, dge_mode=mode)
        nisa.dma_copy(dst=result, src=kept[start : start + size], dge_mode=mode)
    else:
        _multiplied(result, tile, weights, step == "turn")
    return result


def _multiplied(result, tile, weights, turn):
    """Set result to the transpose of tile, computed by the Tensor Engine ("turn"), or to weights.T @ tile."""
    size, columns = tile.shape
    for start in range(0, columns, P if turn else 512):
        width = min(P if turn else 512, columns - start)
        part = tile[:, start : start + width]
        if not turn:
            sums = nl.ndarray((size, width), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(sums, stationary=weights[0:size, 0:size], moving=part)
            nisa.tensor_copy(dst=result[:, start : start + width], src=sums)
            continue
        bank = nl.ndarray((width, size), dtype=tile.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=bank, data=part, engine=nisa.engine.tensor)
        rows = nl.ndarray((width, size), dtype=tile.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=rows, src=bank)
        back = nl.ndarray((size, width), dtype=tile.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=back, data=rows, engine=nisa.engine.tensor)
        nisa.tensor_copy(dst=result[:, start : start + width], src=back)
