"""One token through the experts that a router chose for it: the loops and instructions of the measured rows o02 to o11.

The weights of an expert are addressed at run time (`scalar_offset`), so GpSimd generates the descriptors of their DMAs.
The rows differ in the size of DMAs and the width of the second product; `launch_of` (measurements.py) returns the
parameters of each row.

    for expert k of the token:
        sums[2 I] = gate_up[k].T @ hidden      a tile or a row of tiles per DMA
        act = silu(gate) * up
        down[H]   = down[k].T @ act            128 or 512 columns per matmul
        out += weight[k] * down
"""

import nki
import nki.isa as nisa
import nki.language as nl

P = 128
GROUP = 4  # tiles of a wide product, one PSUM bank


@nki.jit
def moe_sparse(
    hidden,
    gate_up,
    down,
    experts,
    routing,
    gate_up_by="tile",
    down_by="tile",
    group=1,
    routing_at_once=False,
    hidden_at_once=False,
):
    """hidden [1, H], gate_up [E, H, 2 I], down [E, I, H], experts [1, K] int32, routing [1, K] -> [1, H].

    gate_up_by: what a DMA loads: a "tile" of 128 x 128, a "row" of tiles, all rows before any matmul ("rows first"), or
    a row that is used as the moving operand ("moving"). down_by: a DMA loads a "tile" of `group` x 128 columns or a
    "row".
    """
    _, features = hidden.shape
    count = experts.shape[1]
    out = nl.ndarray((1, features), dtype=hidden.dtype, buffer=nl.shared_hbm)
    chosen = nl.ndarray((P, count), dtype=experts.dtype, buffer=nl.sbuf)
    nisa.memset(dst=chosen, value=0)
    nisa.dma_copy(dst=chosen[0:1, 0:count], src=experts)
    tokens = _load_hidden(hidden, hidden_at_once)
    totals = []
    for _ in range(features // (group * P)):
        total = nl.ndarray((1, group * P), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=total, value=0.0)
        totals.append(total)
    sums = _psum_tiles((P, 1), gate_up.shape[2] // P)
    if gate_up_by == "moving":
        sums = _psum_tiles((1, gate_up.shape[2]), 1)
    products = _psum_tiles((1, group * P), features // (group * P))
    weights = nl.ndarray((1, count), dtype=nl.float32, buffer=nl.sbuf)
    if routing_at_once:
        nisa.dma_copy(dst=weights, src=routing)
    for k in range(count):
        expert = chosen.ap(pattern=[[count, 1], [1, 1]], offset=k)
        weight = weights[0:1, k : k + 1]
        if not routing_at_once:
            weight = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=weight, src=routing[0:1, k : k + 1])
        for tile in sums:
            nisa.memset(dst=tile, value=0.0)
        _gate_up(gate_up, expert, tokens, sums, gate_up_by)
        acts = _activate_row(sums[0]) if gate_up_by == "moving" else _activate_columns(sums)
        _down(down, expert, acts, products, down_by, group)
        _add_weighted(totals, products, weight)
    for tile in range(len(totals)):
        cast = nl.ndarray((1, group * P), dtype=hidden.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=cast, src=totals[tile])
        nisa.dma_copy(dst=out[0:1, tile * group * P : (tile + 1) * group * P], src=cast)
    return out


def _psum_tiles(shape, count):
    tiles = []
    for _ in range(count):
        tiles.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum))
    return tiles


def _load_hidden(hidden, at_once):
    """Load the hidden state as columns [128, 1], with one DMA per column or a single DMA."""
    tiles = hidden.shape[1] // P
    columns = []
    if at_once:
        all_columns = nl.ndarray((P, tiles), dtype=hidden.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=all_columns, src=hidden.ap(pattern=[[1, P], [P, tiles]], offset=0))
        for t in range(tiles):
            columns.append(all_columns[0:P, t : t + 1])
        return columns
    for t in range(tiles):
        column = nl.ndarray((P, 1), dtype=hidden.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=column, src=hidden.ap(pattern=[[1, P], [hidden.shape[1], 1]], offset=t * P))
        columns.append(column)
    return columns


def _load_weights(weights, expert, row, column, columns):
    """Load weights[expert, row : row + 128, column : column + columns] for an expert that is known only at run time."""
    width = weights.shape[2]
    tile = nl.ndarray((P, columns), dtype=weights.dtype, buffer=nl.sbuf)
    source = weights.ap(
        pattern=[[width, P], [1, columns]], offset=row * width + column, scalar_offset=expert, indirect_dim=0
    )
    nisa.dma_copy(dst=tile, src=source)
    return tile


def _gate_up(gate_up, expert, tokens, sums, by):
    """Add gate_up[expert].T @ hidden to sums, processing tiles of 128 features sequentially."""
    width = gate_up.shape[2]
    first = []
    if by == "rows first":
        for t in range(len(tokens)):
            first.append(_load_weights(gate_up, expert, t * P, 0, width))
    for t in range(len(tokens)):
        if by == "tile":
            for s in range(len(sums)):
                tile = _load_weights(gate_up, expert, t * P, s * P, P)
                nisa.nc_matmul(dst=sums[s], stationary=tile, moving=tokens[t])
            continue
        row = first[t] if by == "rows first" else _load_weights(gate_up, expert, t * P, 0, width)
        if by == "moving":
            nisa.nc_matmul(dst=sums[0], stationary=tokens[t], moving=row)
            continue
        for s in range(len(sums)):
            nisa.nc_matmul(dst=sums[s], stationary=row[0:P, s * P : (s + 1) * P], moving=tokens[t])


def _silu_times(gate, up, shape):
    """Return silu(gate) * up of PSUM or SBUF tiles, as bfloat16."""
    gate_copy = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=gate_copy, src=gate)
    up_copy = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=up_copy, src=up)
    silu = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=silu, op=nl.silu, data=gate_copy, scale=1.0)
    product = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=product, data1=silu, data2=up_copy, op=nl.multiply)
    act = nl.ndarray(shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=act, src=product)
    return act


def _activate_columns(sums):
    half = len(sums) // 2
    acts = []
    for i in range(half):
        acts.append(_silu_times(sums[i], sums[half + i], (P, 1)))
    return acts


def _activate_row(sums):
    """Compute silu(gate) * up for a row [1, 2 I], and convert it to columns with transposes of 32 elements."""
    width = sums.shape[1] // 2
    row = nl.ndarray((1, 2 * width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=row, src=sums)
    act = _silu_times(row[0:1, 0:width], row[0:1, width : 2 * width], (1, width))
    acts = []
    for i in range(width // P):
        column = nl.ndarray((P, 1), dtype=nl.bfloat16, buffer=nl.sbuf)
        for c in range(P // 32):
            start = i * P + c * 32
            nisa.nc_transpose(dst=column[c * 32 : (c + 1) * 32, 0:1], data=act[0:1, start : start + 32])
        acts.append(column)
    return acts


def _down(down, expert, acts, products, by, group):
    """Compute products = down[expert].T @ act, processing groups of columns sequentially."""
    width = group * P
    rows = []
    if by == "row":
        for i in range(len(acts)):
            rows.append(_load_weights(down, expert, i * P, 0, down.shape[2]))
    for g in range(len(products)):
        nisa.memset(dst=products[g], value=0.0)
        for i in range(len(acts)):
            if by == "row":
                tile = rows[i][0:P, g * width : (g + 1) * width]
            else:
                tile = _load_weights(down, expert, i * P, g * width, width)
            nisa.nc_matmul(dst=products[g], stationary=acts[i], moving=tile)


def _add_weighted(totals, products, weight):
    """Compute totals += weight * products."""
    for g in range(len(totals)):
        copy = nl.ndarray(totals[g].shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copy, src=products[g])
        scaled = nl.ndarray(totals[g].shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=scaled, data=copy, op0=nl.multiply, operand0=weight)
        nisa.tensor_tensor(dst=totals[g], data1=totals[g], data2=scaled, op=nl.add)
