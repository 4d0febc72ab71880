"""Exchanges between the two cores of a launch: tiles or rows of a value that each has computed a part of."""

import itertools
import math

import nki.isa as nisa
import nki.language as nl

from ..program import Exchange, Part
from ..tiling.packing import ceil_div

GPSIMD_ELEMENTS = 256  # of a partition, that GpSimd's own DMA engines move at most in a message
MESSAGES = {False: 2, True: 8}  # by them at most, each of which follows the one before; by Exchange.beside


def exchange(launch, number, operation: Exchange, operands):
    """Send this core's part of a room to the other core, and receive that one's part.

    One message is for all tiles of the same height. GpSimd's own DMA engines move it beside loads on their way, in
    several messages where it is more than they move at a time; what takes too many queues behind the loads.
    """
    (room,) = operands
    (first, end), (theirs, last) = operation.sent, operation.received
    wholes = [tile.expand_dim(1) for tile in room.tiles] if room.joint is None else [room.joint]
    for pipe, whole in enumerate(wholes):
        top, left = room.margins[0][0:2]
        whole = whole[:, :, :, top : top + room.rows, left : left + room.columns]
        if operation.by_tiles:
            sent, received = whole[:, first:end], whole[:, theirs:last]
        else:
            sent, received = whole[:, :, :, first:end], whole[:, :, :, theirs:last]
        parts = _messages(sent.shape, MESSAGES[operation.beside])
        for part in parts:
            _swap(sent[part], received[part], pipe, nisa.dma_engine.gpsimd_dma)
        if not parts:
            _swap(sent, received, pipe, nisa.dma_engine.dma)
    return room


def exchange_sums(sums):
    """Send sums, float32 [partitions, ...] in SBUF, to the other core, and return what that one sends.

    They are of the last layer: all loads are done by then, so that it waits for none of them.
    """
    received = nl.ndarray(sums.shape, dtype=nl.float32, buffer=nl.sbuf)
    _swap(sums, received, 0, nisa.dma_engine.dma)
    return received


def take_part(launch, number, operation: Part, operands):
    """Return some tiles of a value."""
    (value,) = operands
    return value.of_tiles(*operation.tiles)


def _messages(shape, most):
    """Return the parts of [partitions, tiles, images, rows, columns] that GpSimd's engines move, none where they are
    more than `most`: tile by tile, so that the first are on their way while the last tile is computed."""
    _, tiles, images, rows, columns = shape
    if columns > GPSIMD_ELEMENTS:
        return []
    together = [1, 1, 1]  # tiles, images and rows
    room = GPSIMD_ELEMENTS // columns
    for axis, size in ((2, rows), (1, images), (0, tiles)):
        together[axis] = min(size, room)
        room //= size
        if room == 0:
            break
    pairs = list(zip((tiles, images, rows), together))
    if math.prod(ceil_div(size, each) for size, each in pairs) > most:
        return []
    parts = [[slice(first, min(size, first + each)) for first in range(0, size, each)] for size, each in pairs]
    return [(slice(None), *part) for part in itertools.product(*parts)]


def _swap(sent, received, pipe, dma_engine):
    """Exchange parts of equal shape with the other core."""
    other = 1 - nl.program_id(0)
    nisa.sendrecv(src=sent, dst=received, send_to_rank=other, recv_from_rank=other, pipe_id=pipe, dma_engine=dma_engine)
