"""A few operations of a program, written by hand, on the simulator: without a network and without lowering."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from trninfer import simulator
from trninfer.kernels.network import run_network
from trninfer.kernels.places import Memory
from trninfer.kernels.program import LAUNCH_INPUT, Answers, Load, Operation, Place, Program, Room, Stage, Store
from trninfer.simulator.chip import PARTITIONS


def columns_of(*numbers: Any) -> NDArray[np.float32]:
    """Constants, [128, columns]: a column for each 128 of each row of numbers."""
    parts = [
        np.asarray(each)[first : first + PARTITIONS] for each in numbers for first in range(0, len(each), PARTITIONS)
    ]
    constants = np.zeros((PARTITIONS, len(parts)), np.float32)
    for column, part in enumerate(parts):
        constants[: len(part), column] = part
    return constants


def load_of(x: NDArray[Any], number: int = 0, packed: int = 1, **fields: Any) -> Load:
    """The load of input `number` of a launch, [B, C, H, W]."""
    _, channels, rows, columns = x.shape
    return Load(
        name=f"load{number}",
        channels=channels,
        rows=rows,
        columns=columns,
        packed=packed,
        sources=((LAUNCH_INPUT - number,),),
        **fields,
    )


def run_operations(
    operations: list[Operation],
    *inputs: NDArray[Any],
    packed: int = 1,
    at_once: int = 0,
    constants: Any = None,
    weights: Any = None,
    target: str = "trn2",
) -> Any:
    """Return the value [B, C, H, W] of the last operation, or its (scores, classes).

    inputs: [B, C, H, W] each, `packed` of them on the partitions at a time. `at_once`: images of a pass that are not
    packed, all by default.
    """
    last = operations[-1]
    count = len(operations)
    if not isinstance(last, Answers):
        name, size = last.name, {"channels": last.channels, "rows": last.rows, "columns": last.columns}
        room = Room(name=name, **size, packed=last.packed, memory=Memory.OUTPUT)
        store = Store(name=name, **size, packed=last.packed, sources=((count - 1,),), into=Place(room=count))
        operations = [*operations, room, store]
    images = len(inputs[0]) // packed
    program = Program((Stage(tuple(operations), at_once or images),), packed, len(inputs[0]))
    numbers = np.zeros((PARTITIONS, 1), np.float32) if constants is None else constants
    flat = np.zeros(1, inputs[0].dtype) if weights is None else np.asarray(weights, inputs[0].dtype).reshape(-1)
    run = simulator.run(run_network, inputs[0], flat, numbers, *inputs[1:], target=target, program=program)
    return run.outputs if isinstance(last, Answers) else run.outputs[0]
