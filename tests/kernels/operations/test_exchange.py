"""Exchanges between the two cores of a launch: each sends a part of its own numbers for one of the other core's."""

import numpy as np
import pytest
from nki_tensors import counted
from single_operations import load_of
from trninfer import simulator
from trninfer.kernels.network import run_network
from trninfer.kernels.places import Memory
from trninfer.kernels.program import Exchange, Operation, Place, Program, Room, Stage, Store

SIZE = {"channels": 256, "rows": 6, "columns": 4}
PARTS = {True: ((0, 1), (1, 2)), False: ((0, 2), (4, 6))}  # of two tiles, or of six rows


def stage(core: int, first: int, by_tiles: bool, joint: bool) -> Stage:
    """A room with the input of a core's number, of which core `first` sends the first part and gets the second."""
    sent, received = PARTS[by_tiles][:: 1 if core == first else -1]
    x = np.zeros((2, 256, 6, 4))
    operations: list[Operation] = [
        Room(name="r", **SIZE, heights=(128, 128), margin=(1, 0, 2, 1), joint=joint),
        load_of(x, core, into=Place(0)),
        Exchange(name="x", **SIZE, sources=((0,),), sent=sent, received=received, by_tiles=by_tiles),
    ]
    if core == 0:  # which writes the outputs
        operations.append(Room(name="o", **SIZE, memory=Memory.OUTPUT))
        operations.append(Store(name="o", **SIZE, sources=((0,),), into=Place(3)))
    return Stage(tuple(operations), 2)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(("by_tiles", "joint"), [(False, False), (False, True), (True, True)])
def test_a_part_is_the_other_core_s(first: int, by_tiles: bool, joint: bool) -> None:
    inputs = [counted(2, 256, 6, 4) + 10_000 * core for core in range(2)]
    stages = [(stage(core, first, by_tiles, joint),) for core in range(2)]
    program = Program(stages[0], 1, 2, partner=stages[1])
    (found,) = simulator.run(run_network, inputs[0], more0=inputs[1], lnc=2, program=program).outputs
    expected = inputs[0].copy()
    start, end = PARTS[by_tiles][1 if first == 0 else 0]  # of what core 0 has got
    part = np.s_[:, 128 * start : 128 * end] if by_tiles else np.s_[:, :, start:end]
    expected[part] = inputs[1][part]
    np.testing.assert_array_equal(found, expected)
