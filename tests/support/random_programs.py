"""Random small kernels of loads, sums, functions, matmuls and stores on a few tiles."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
from hypothesis import reject
from hypothesis import strategies as st
from trninfer import simulator

TILES = 4  # names that a program's steps use
ROWS = 128  # a tile of up to 64 partitions may share its bytes of a partition with another


@nki.jit
def program(a: Any, steps: Any, widths: Any) -> Any:
    """Draw random steps on a few tiles, some of which are replaced, some rewritten, some used in parts."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    between = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.hbm)
    tiles = [nl.ndarray((ROWS, width), dtype=a.dtype, buffer=nl.sbuf) for width in widths]
    for tile in tiles:
        nisa.dma_copy(dst=tile, src=a[0:ROWS, 0 : tile.shape[1]])
    nisa.dma_copy(dst=between, src=a)
    for kind, first, second in steps:
        x, y = tiles[first], tiles[second]
        width = min(x.shape[1], y.shape[1])
        if kind == "load":
            nisa.dma_copy(dst=x, src=a[0:ROWS, 0 : x.shape[1]])
        elif kind == "load_row":
            nisa.dma_copy(dst=x[0:32, :], src=between[0:32, 0 : x.shape[1]])
        elif kind == "replace":
            tiles[first] = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tiles[first], src=a[0:ROWS, 0 : x.shape[1]])
        elif kind == "add":
            nisa.tensor_tensor(dst=x[:, 0:width], data1=x[:, 0:width], data2=y[:, 0:width], op=nl.add)
        elif kind == "activate":
            nisa.activation(dst=x[:, 0:width], op=nl.exp if second % 2 else nl.tanh, data=y[:, 0:width])
        elif kind == "copy":
            nisa.tensor_copy(dst=x[:, 0:width], src=y[:, 0:width], engine=nisa.engine.gpsimd)
        elif kind == "store":
            nisa.dma_copy(dst=out[0:ROWS, 0 : x.shape[1]], src=x)
        elif kind == "park":
            nisa.dma_copy(dst=between[0:ROWS, 0 : x.shape[1]], src=x)
        elif kind == "multiply":
            columns = min(width, 128)
            sums = nl.ndarray((columns, columns), dtype=nl.float32, buffer=nl.psum)
            for step in range(3):
                nisa.nc_matmul(dst=sums, stationary=x[:, 0:columns], moving=y[:, 0:columns], accumulate=step > 0)
            nisa.tensor_copy(dst=x[0 : min(ROWS, columns), 0:columns], src=sums[0 : min(ROWS, columns), :])
        else:
            with nl.no_reorder():
                nisa.tensor_scalar(dst=x, data=x, op0=nl.add, operand0=1.0)
                nisa.dma_copy(dst=out[0:ROWS, 0 : x.shape[1]], src=x)
    nisa.dma_copy(dst=out[0:ROWS, 0 : tiles[0].shape[1]], src=tiles[0])
    return out


KINDS = ("load", "load_row", "replace", "add", "activate", "copy", "store", "park", "multiply", "ordered")
place = st.integers(0, TILES - 1)
all_steps = st.lists(st.tuples(st.sampled_from(KINDS), place, place), min_size=1, max_size=30)
small = st.lists(st.integers(8, 600), min_size=TILES, max_size=TILES)
large = st.lists(st.sampled_from([2000, 6000, 11000, 12500]), min_size=TILES, max_size=TILES)  # fills SBUF quickly
targets = st.sampled_from(["trn1", "trn2", "trn3"])


def walk(steps: Any, widths: Any, target: str, dge: bool = True) -> simulator.Run:
    spec = simulator.TensorSpec((128, 12500), "float32")
    parameters = {"steps": tuple(steps), "widths": tuple(widths)}
    try:
        return simulator.run(program, spec, target=target, dge=dge, functional=False, **parameters)
    except simulator.CapacityError:  # the program itself exceeds the capacity
        reject()
