"""Kernels that repeat one instruction back to back.

Each kernel returns a tensor that its last instruction writes, so that no instruction is dead code.
"""

import nki
import nki.isa as nisa
import nki.language as nl

PARTITIONS = 128


def _load(source):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def _return(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def _scalar_or_vector(unit):
    assert unit == "scalar" or unit == "vector", f"unit must be scalar or vector, got {unit}"
    return nisa.engine.scalar if unit == "scalar" else nisa.engine.vector


@nki.jit
def matmuls(stationary, moving, count):
    """Accumulate `count` matmuls of stationary[:, :, 0] and moving in one PSUM bank, and return the sum.

    stationary is [K, M, stride], so that its columns are `stride` elements apart in SBUF; moving is [K, N]. Returns [M,
    N] float32.
    """
    left = _load(stationary)[:, :, 0]
    right = _load(moving)
    sums = nl.ndarray((stationary.shape[1], moving.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for i in range(count):
        nisa.nc_matmul(dst=sums, stationary=left, moving=right, accumulate=i > 0)
    result = nl.ndarray(sums.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=sums)
    return _return(result)


@nki.jit
def transposes(a, count):
    """Transpose a[:, :, 0] `count` times on the Tensor Engine, always into the same PSUM tile, and return the transpose
    [F, P].

    a is [P, F, stride], so that its columns are `stride` elements apart in SBUF.
    """
    tile = _load(a)[:, :, 0]
    turned = nl.ndarray((a.shape[1], a.shape[0]), dtype=a.dtype, buffer=nl.psum)
    for _ in range(count):
        nisa.nc_transpose(dst=turned, data=tile, engine=nisa.engine.tensor)
    result = nl.ndarray(turned.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=turned)
    return _return(result)


@nki.jit
def copies(a, unit, from_psum, dtype, count):
    """Copy a [128, N] tensor from PSUM or SBUF `count` times on the engine `unit`, converting it to `dtype`.

    Returns [128, count, N].
    """
    tile = _load(a)
    source = tile
    if from_psum:
        source = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.psum)
        nisa.tensor_copy(dst=source, src=tile, engine=nisa.engine.vector)
    result = nl.ndarray((a.shape[0], count, a.shape[1]), dtype=dtype, buffer=nl.sbuf)
    for i in range(count):
        nisa.tensor_copy(dst=result[:, i, :], src=source, engine=_scalar_or_vector(unit))
    return _return(result)


@nki.jit
def additions(a, b, count):
    """Add a [128, N] and b, which is [128, N] or a column [128, 1], `count` times on the Vector Engine.

    Returns [128, count, N].
    """
    left = _load(a)
    right = _load(b)
    if b.shape[1] == 1:
        right = right.broadcast(1, a.shape[1])
    result = nl.ndarray((a.shape[0], count, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    for i in range(count):
        nisa.tensor_tensor(dst=result[:, i, :], data1=left, data2=right, op=nl.add, engine=nisa.engine.vector)
    return _return(result)


@nki.jit
def maxima(a, halves, count):
    """Compute the maxima of pairs of elements in a [128, N] tensor, adjacent or from different halves, `count` times.

    Returns [128, count, N / 2].
    """
    tile = _load(a)
    pairs = a.shape[1] // 2
    data = tile.reshape((a.shape[0], pairs, 2))
    if halves:
        data = tile.reshape((a.shape[0], 2, pairs)).permute((0, 2, 1))
    result = nl.ndarray((a.shape[0], count, pairs), dtype=a.dtype, buffer=nl.sbuf)
    for i in range(count):
        nisa.tensor_reduce(dst=result[:, i, :], op=nl.maximum, data=data, axis=2)
    return _return(result)


@nki.jit
def squares_in_turn(a, count):
    """Square a [128, N] `count` times on the Scalar Engine.

    Each instruction depends on the previous one. Returns [128, N].
    """
    tile = _load(a)
    for _ in range(count):
        squared = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.activation(dst=squared, op=nl.square, data=tile)
        tile = squared
    return _return(tile)


@nki.jit
def load_elements(a, size, software):
    """Load the first `size` numbers of each row of a [128, rows, columns] as separate DMA elements.

    Returns [128, rows, size]. `software`: whether GpSimd (software DGE) generates the descriptors instead of the
    hardware.
    """
    tile = nl.ndarray((PARTITIONS, a.shape[1], size), dtype=a.dtype, buffer=nl.sbuf)
    mode = nisa.dge_mode.swdge if software else nisa.dge_mode.unknown
    nisa.dma_copy(dst=tile, src=a[:, :, 0:size], dge_mode=mode)
    return _return(tile)


@nki.jit
def independent_loads(a, count):
    """Load a [128, N] tensor `count` times into separate tiles. Returns [128, count, N]."""
    tile = nl.ndarray((a.shape[0], count, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    for i in range(count):
        nisa.dma_copy(dst=tile[:, i, :], src=a)
    return _return(tile)
