"""A few hand-written operations of a program on the simulator, without a network and without lowering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from trninfer import simulator
from trninfer.kernels.network import run_network
from trninfer.kernels.operation_fields import Memory
from trninfer.kernels.program import (
    LAUNCH_INPUT,
    Buffer,
    ClassifierHead,
    Load,
    Operation,
    Program,
    Stage,
    Store,
    WeightLoad,
    WriteRegion,
    input_name,
)
from trninfer.lowering.emission.weight_loads import placed, weight_loads
from trninfer.simulator.machine.chip import PARTITIONS


def columns_of(*numbers: Any) -> NDArray[np.float32]:
    """Return constants, [128, columns], with one column for every 128 numbers of each row."""
    parts = [
        np.asarray(each)[first : first + PARTITIONS] for each in numbers for first in range(0, len(each), PARTITIONS)
    ]
    constants = np.zeros((PARTITIONS, len(parts)), np.float32)
    for column, part in enumerate(parts):
        constants[: len(part), column] = part
    return constants


def load_of(x: NDArray[Any], number: int = 0, packed: int = 1, **fields: Any) -> Load:
    """Return the load of input `number` of a launch, [B, C, H, W]."""
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


@dataclass(frozen=True)
class LaidOut:
    """The weights of an operation in the order of its loads."""

    numbers: NDArray[Any]
    loads: tuple[WeightLoad, ...]


def run_program(
    operations: list[Operation],
    *inputs: NDArray[Any],
    packed: int = 1,
    at_once: int = 0,
    constants: Any = None,
    weights: LaidOut | Sequence[LaidOut] = (),
    target: str = "trn2",
) -> Any:
    """Run a program with one stage.

    inputs: [B, C, H, W] each, with `packed` images on the partitions. `at_once`: the number of unpacked images in a
    pass, by default all. `weights`: the weights of the operations that have any, in order.
    """
    laid_out = [weights] if isinstance(weights, LaidOut) else list(weights)
    offset, left = 0, list(laid_out)
    for number, operation in enumerate(operations):
        if left and hasattr(operation, "weights"):
            own = left.pop(0)
            loads = placed(own.loads, offset)
            offset += own.numbers.size
            operations[number] = replace(operation, weights=replace(operation.weights, loads=loads))
    program = Program((Stage(tuple(operations), at_once or len(inputs[0]) // packed),), packed, len(inputs[0]))
    operands = {input_name(number): x for number, x in enumerate(inputs)}
    if constants is not None:
        operands["channel_constants"] = constants
    if laid_out:
        operands["weights"] = np.concatenate([each.numbers for each in laid_out]).astype(inputs[0].dtype)
    return simulator.run(run_network, target=target, program=program, **operands).outputs


def run_operations(operations: list[Operation], *inputs: NDArray[Any], **options: Any) -> Any:
    """Return the value [B, C, H, W] of the last operation, or its (scores, classes); the options are those of
    `run_program`."""
    last = operations[-1]
    if isinstance(last, ClassifierHead):
        return run_program(operations, *inputs, **options)
    count = len(operations)
    name, size = last.name, {"channels": last.channels, "rows": last.rows, "columns": last.columns}
    buffer = Buffer(name=name, **size, packed=last.packed, memory=Memory.OUTPUT)
    store = Store(name=name, **size, packed=last.packed, sources=((count - 1,),), into=WriteRegion(buffer=count))
    return run_program([*operations, buffer, store], *inputs, **options)[0]


def lay_out_weights(units: list[dict[int, NDArray[Any]]]) -> LaidOut:
    """Return the weights of an operation as they are loaded: for each output tile, the units [rows, matrices, outputs]
    of the input tiles that it reads."""
    rows = {t: unit.shape[0] for own in units for t, unit in own.items()}
    reads = [range(min(own), max(own) + 1) for own in units]
    columns = [next(iter(own.values())).shape[2] for own in units]
    matrices = next(iter(units[0].values())).shape[1]
    loads = weight_loads([rows[t] for t in sorted(rows)], columns, reads, matrices, 4)
    parts = [
        np.concatenate([units[unit.out_tile][unit.in_tile].reshape(load.rows, -1) for unit in load.units], axis=1)
        for load in loads
    ]
    return LaidOut(np.concatenate([part.reshape(-1) for part in parts]), tuple(loads))
