"""Exchanges between the two cores of a launch: tiles or rows of a value that each has computed a part of."""

import nki.isa as nisa
import nki.language as nl

from ..program import Exchange


def exchange(launch, number, operation: Exchange, operands):
    """Send this core's part of a room to the other core, and receive that one's part: one message for all tiles of the
    same height."""
    (room,) = operands
    other = 1 - nl.program_id(0)
    (first, end), (theirs, last) = operation.sent, operation.received
    wholes = [tile.expand_dim(1) for tile in room.tiles] if room.joint is None else [room.joint]
    for pipe, whole in enumerate(wholes):
        if operation.by_tiles:
            sent, received = whole[:, first:end], whole[:, theirs:last]
        else:
            top = room.margins[0][0]
            sent, received = whole[:, :, :, top + first : top + end], whole[:, :, :, top + theirs : top + last]
        nisa.sendrecv(src=sent, dst=received, send_to_rank=other, recv_from_rank=other, pipe_id=pipe)
    return room
