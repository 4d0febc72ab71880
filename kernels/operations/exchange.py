"""Exchanges between the two cores of a launch: tiles or rows of a value that each has computed a part of."""

import nki.isa as nisa
import nki.language as nl

from ..program import Exchange
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
        if operation.by_tiles:
            sent, received = whole[:, first:end], whole[:, theirs:last]
        else:
            top = room.margins[0][0]
            sent, received = whole[:, :, :, top + first : top + end], whole[:, :, :, top + theirs : top + last]
        parts = _messages(sent.shape, MESSAGES[operation.beside])
        for part in parts:
            _swap(sent[part], received[part], pipe, nisa.dma_engine.gpsimd_dma)
        if not parts:
            _swap(sent, received, pipe, nisa.dma_engine.dma)
    return room


def _messages(shape, most):
    """Return the parts of [partitions, tiles, images, rows, columns] that GpSimd's engines move, some rows of all tiles
    at a time or, where a row is too much, of some tiles or images; none where they are more than `most`."""
    _, tiles, images, rows, columns = shape
    tiles_at_once = max(1, min(tiles, GPSIMD_ELEMENTS // (images * columns)))
    images_at_once = max(1, min(images, GPSIMD_ELEMENTS // columns))
    rows_at_once = GPSIMD_ELEMENTS // (tiles_at_once * images_at_once * columns)
    if rows_at_once == 0:
        return []
    sizes = ((tiles, tiles_at_once), (images, images_at_once), (rows, rows_at_once))
    if ceil_div(tiles, tiles_at_once) * ceil_div(images, images_at_once) * ceil_div(rows, rows_at_once) > most:
        return []
    parts = [[slice(first, min(size, first + each)) for first in range(0, size, each)] for size, each in sizes]
    return [(slice(None), tile, image, row) for tile in parts[0] for image in parts[1] for row in parts[2]]


def _swap(sent, received, pipe, dma_engine):
    """Exchange parts of equal shape with the other core."""
    other = 1 - nl.program_id(0)
    nisa.sendrecv(src=sent, dst=received, send_to_rank=other, recv_from_rank=other, pipe_id=pipe, dma_engine=dma_engine)
