"""The accumulators of the Vector Engine, one float32 per partition, and the instructions that reduce into them.

All of these instructions share the accumulators, which keep their values between instructions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from ..machine.chip import PARTITIONS
from ..machine.dtypes import Array
from ..machine.errors import NkiValidationError
from ..machine.instruction import engine
from ..tensors.tensor import NkiTensor
from .checks import broadcast_value, float_values, shaped
from .core import NeuronCore, active
from .declaration import instruction
from .operands import Call, Member, Operator, Scalar, Unchecked
from .operators import ALU, AluOperator
from .scalar_engine import reduce_cmd
from .tensor_operands import FOUR, Tile
from .tensor_scalar import apply

VECTOR_LANES = "vector accumulators"
_IDENTITY = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}
REDUCERS = ("add", "multiply", "maximum", "minimum")
_IDLE, _REDUCE, _RESET, _LOAD = reduce_cmd.idle, reduce_cmd.reduce, reduce_cmd.reset_reduce, reduce_cmd.load_reduce
_FLOATS = ("float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "tfloat32")
_WHOLE = ("int8", "int16", "int32", "uint8", "uint16")


def watch_idle(core: NeuronCore, op: str, found: tuple[Any, ...]) -> None:
    """Warn if accumulators are reused after an instruction with reduce_cmd idle, which may change them
    (nki/api/nki/isa/__init__.py, `exponential`)."""
    (command,) = [value for value in found if isinstance(value, reduce_cmd)]
    if command is _IDLE:
        core.idled = op
    elif command is not _REDUCE:
        core.idled = ""
    elif core.idled:
        core.warn(
            f"{op}: reduce_cmd reduce continues with accumulators that {core.idled} with reduce_cmd idle may have "
            "changed; begin with reset_reduce"
        )


ACCUMULATES: dict[str, Any] = {"state": {engine.vector: VECTOR_LANES}, "watch": watch_idle}
"""Arguments that are common to the declarations of all instructions that use the accumulators."""


@dataclass(frozen=True, eq=False)
class Initial(Scalar):
    """The value loaded by load_reduce. With other commands, it must be None or `unset`."""

    unset: Any = None

    def relate(self, call: Call, name: str, value: Any) -> None:
        command = call.reduce_cmd
        if command is _LOAD:
            if value is None:
                raise NkiValidationError(f"{call.instruction}: reduce_cmd load_reduce needs {name}")
            super().relate(call, name, value)
        elif value is not None and (isinstance(value, NkiTensor) or value != self.unset):
            raise NkiValidationError(f"{call.instruction}: {name} requires reduce_cmd load_reduce, got {command.name}")

    @property
    def limits(self) -> str:
        return f"with load_reduce {super().limits}"


def result(of: str, dtypes: tuple[str, ...] = ()) -> Tile:
    """Return the declaration of the operand that receives the accumulators."""
    return Tile(written=True, dtypes=dtypes, partitions_of=of, elements=(1, 1), optional=True)


def reduces(call: Call) -> None:
    """reduce_res requires a reduce_cmd that reduces."""
    if call.reduce_res is not None and call.reduce_cmd is _IDLE:
        raise NkiValidationError(f"{call.instruction}: reduce_res requires a reduce_cmd other than idle")


def _not_reversed(call: Call) -> None:
    """reverse0 is not supported by the API yet."""
    if call.reverse0:
        raise NkiValidationError("tensor_scalar_reduce: reverse0 is not supported by the hardware's API yet")


@instruction(engine.vector, cost=("reduce_and_read", "data"), rules=(_not_reversed,), flops=(2, "dst"), **ACCUMULATES)
def tensor_scalar_reduce(
    dst: Annotated[NkiTensor, Tile(written=True, dimensions=FOUR)],
    data: Annotated[NkiTensor, Tile(size_of="dst", dimensions=FOUR)],
    op0: Annotated[Any, Operator(arithmetic=True)],
    operand0: Annotated[Any, Scalar(operator="op0")],
    reduce_op: Annotated[Any, Operator(REDUCERS)],
    reduce_res: Annotated[NkiTensor | None, result("data")] = None,
    reverse0: bool = False,
    reduce_cmd: Annotated[reduce_cmd, Member(reduce_cmd, (_RESET, _REDUCE, _LOAD))] = reduce_cmd.reset_reduce,
    reduce_init: Annotated[Any, Initial()] = None,
    reduce_res_negate: Annotated[bool, Unchecked()] = False,
    name: str | None = None,
) -> None:
    """Compute dst = data <op0> operand0, and reduce dst over its free axes with `reduce_op` into reduce_res."""
    values = apply(op0, float_values(data), operand0, False, len(data.shape))
    dst.write(shaped(values, dst.shape))
    accumulate(data, values, Reduction(reduce_op, reduce_cmd, reduce_init, reduce_res_negate), reduce_res)


@instruction(
    engine.vector,
    cost=("exponential", "src", "reduce_res"),
    generation=4,
    rules=(reduces,),
    flops=(2, "dst"),
    **ACCUMULATES,
)
def exponential(
    dst: Annotated[NkiTensor, Tile(written=True, dtypes=(*_FLOATS, *_WHOLE), dimensions=FOUR)],
    src: Annotated[NkiTensor, Tile(size_of="dst", dtypes=(*_FLOATS[:-1], *_WHOLE, "uint32"), dimensions=FOUR)],
    max_value: Annotated[Any, Scalar("src")] = 0.0,
    reduce_res: Annotated[NkiTensor | None, result("src", _FLOATS)] = None,
    reduce_cmd: Annotated[reduce_cmd, Member(reduce_cmd, (_IDLE, _RESET, _REDUCE, _LOAD))] = reduce_cmd.idle,
    reduce_init: Annotated[Any, Initial("src", unset=0)] = 0.0,
    name: str | None = None,
) -> None:
    """Compute dst = exp(src - max_value) (NeuronCore-v4 and newer).

    The sum of dst over its free axes can be accumulated in the accumulators.
    """
    values = np.exp(float_values(src) - broadcast_value(max_value, len(src.shape)))
    dst.write(shaped(values, dst.shape))
    if reduce_cmd is not _IDLE:
        accumulate(src, values, Reduction(ALU["add"], reduce_cmd, reduce_init), reduce_res)


class Reduction(NamedTuple):
    """A reduction into the accumulators. `command` determines their initial values, which may be loaded from `init`."""

    operator: AluOperator
    command: reduce_cmd
    init: Any = None
    negate: bool = False  # if True, the result is negated when it is read

    def start(self, lanes: Array) -> Array:
        """Return the initial values of the accumulators."""
        if self.command is _RESET:
            return np.full(lanes.shape, _IDENTITY[self.operator.name], np.float32)
        if self.command is _LOAD:
            return np.array(np.broadcast_to(broadcast_value(self.init, 1), lanes.shape), np.float32)
        return lanes.copy()


def accumulate(data: NkiTensor, values: Array, reduction: Reduction, result: NkiTensor | None) -> None:
    """Reduce values [partitions, ...] into the accumulators of the partitions of `data`, and write them to `result`."""
    operator = reduction.operator
    assert operator.reduction is not None
    lanes = vector_accumulators(data)
    state = reduction.start(lanes)
    lanes[:] = operator.compute(state, operator.reduction(values.reshape(len(lanes), -1), axis=(1,)))
    if result is not None:
        result.write(shaped(-lanes if reduction.negate else lanes, result.shape))


def vector_accumulators(data: NkiTensor) -> Array:
    """Return the Vector Engine's accumulators for the partitions of `data`. They are NaN before the first reset."""
    core = active()
    accumulators = core.registers.get(VECTOR_LANES)
    if accumulators is None:
        accumulators = core.registers[VECTOR_LANES] = np.full(PARTITIONS, np.nan, np.float32)
    first = data.access.row
    lanes: Array = accumulators[first : first + data.shape[0]]
    return lanes
