"""Random numbers of the Vector and the GpSimd Engine.

GpSimd has one generator for each partition, the Vector Engine four used in turn, here Marsaglia's XORWOW, the algorithm
that the API names. How the chip derives states from a seed is not documented: a kernel gets the same numbers in every
run of the simulator, but not those of the chip. A run starts from a fixed state.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ..machine.chip import PARTITIONS
from ..machine.dtypes import Array
from ..machine.errors import NkiValidationError
from ..machine.instruction import engine
from ..machine.memory import SBUF
from ..tensors.tensor import NkiTensor
from .checks import broadcast_value, shaped
from .core import NeuronCore, active
from .declaration import Engine, instruction
from .operands import Call, Scalar
from .tensor_operands import Tile

WORDS = 6  # words of one generator's state: five of the shift register and a counter
# generators of each partition: 6 or 24 words of state (nisa.rand_set_state)
GENERATORS = {engine.gpsimd: 1, engine.vector: 4}
_STEP = np.uint32(362437)  # step of the counter
_STATE = {engine.gpsimd: "gpsimd random numbers", engine.vector: "vector random numbers"}
_INTEGERS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
_RAND2_TYPES = ("float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "tfloat32", *_INTEGERS)
_VECTOR, _GPSIMD = engine.vector, engine.gpsimd


@instruction(_VECTOR, _GPSIMD, cost=("one_pass", "unit", "dst"), engine_generations={_GPSIMD: 3}, state=_STATE)
def rng(
    dst: Annotated[NkiTensor, Tile(written=True, dtypes=_INTEGERS)],
    engine: Annotated[engine, Engine()] = engine.vector,
    name: str | None = None,
) -> None:
    """dst = random integers: the low bits of 32 random ones."""
    core = active("rng")
    dst.write(shaped(_draw(core, engine, dst).astype(dst._dtype.held), dst.shape))


def _ordered(call: Call) -> None:
    """Two numbers: min is less than max."""
    low, high = call.min, call.max
    if not isinstance(low, NkiTensor) and not isinstance(high, NkiTensor) and not low < high:
        raise NkiValidationError(f"rand2: min {low} must be less than max {high}")


@instruction(_VECTOR, cost=("one_pass", "unit", "dst"), generation=4, rules=(_ordered,), state=_STATE)
def rand2(
    dst: Annotated[NkiTensor, Tile(written=True, dtypes=_RAND2_TYPES)],
    min: Annotated[Any, Scalar("dst")],
    max: Annotated[Any, Scalar("dst")],
    name: str | None = None,
) -> None:
    """dst = uniform random numbers in [min, max]; numbers or one a partition. NeuronCore-v4 and newer."""
    core = active("rand2")
    unit = _uniform(core, dst)
    low, high = broadcast_value(min, 2), broadcast_value(max, 2)
    dst.write(shaped(np.minimum(low + unit * (high - low), high), dst.shape))


def _probability(call: Call) -> None:
    """prob is 0 to 1; a tile of it is float32 where data is of integers, else of any float type."""
    prob = call.prob
    if not isinstance(prob, NkiTensor):
        if not 0 <= prob <= 1:
            raise NkiValidationError(f"dropout: prob must be 0 to 1, came {prob}")
    elif not prob._dtype.is_float:
        raise call.refuse("prob", prob, "must be of a float type")
    elif call.data._dtype.is_integer and prob.dtype != "float32":
        raise call.refuse("prob", prob, "must be float32")


@instruction(_VECTOR, cost=("one_pass", "unit", "dst"), rules=(_probability,), state=_STATE)
def dropout(
    dst: Annotated[NkiTensor, Tile(written=True, size_of="data", dtype_of="data")],
    data: Annotated[NkiTensor, Tile()],
    prob: Annotated[Any, Scalar(dtypes=())],
    name: str | None = None,
) -> None:
    """dst = data, or 0 with probability prob (a number or one a partition)."""
    core = active("dropout")
    kept = _uniform(core, dst) >= broadcast_value(prob, 2)
    values = data.values
    dst.write(shaped(np.where(shaped(kept, values.shape), values, np.zeros((), values.dtype)), dst.shape))


def _one_word(call: Call) -> None:
    """src_seeds is one 32-bit value, [1, 1]."""
    if call.src_seeds.size != 1 or call.src_seeds._dtype.itemsize != 4:
        raise call.refuse("src_seeds", call.src_seeds, "must be one 32-bit value, [1, 1]")


@instruction(_VECTOR, cost=("one_pass", "unit", "src_seeds"), rules=(_one_word,), state=_STATE)
def set_rng_seed(src_seeds: Annotated[NkiTensor, Tile()], name: str | None = None) -> None:
    """Seed the Vector Engine's generators with the 32-bit value of src_seeds [1, 1]."""
    core = active("set_rng_seed")
    seed = int(np.ascontiguousarray(src_seeds.values).reshape(-1).view(np.uint32)[0])
    core.registers[_STATE[_VECTOR]] = _seeded(seed, GENERATORS[_VECTOR])


def _words_of_state(call: Call) -> None:
    """6 elements in a partition for the GpSimd Engine, 24 for the Vector Engine; dst in SBUF before NeuronCore-v4."""
    operand = "dst" if call.instruction == "rand_get_state" else "src_seeds"
    tensor, words = getattr(call, operand), WORDS * GENERATORS[call.unit]
    if tensor.free_size != words:
        why = f"must have {words} elements in a partition for the {call.unit.name} engine, has {tensor.free_size}"
        raise call.refuse(operand, tensor, why)
    if call.core.target.generation < 4 and tensor.storage.region is not SBUF:
        raise call.refuse(operand, tensor, "must be in SBUF")


@instruction(
    _GPSIMD,
    _VECTOR,
    cost=("one_pass", "unit", "src_seeds"),
    generation=3,
    engine_generations={_VECTOR: 4},
    rules=(_words_of_state,),
    state=_STATE,
)
def rand_set_state(
    src_seeds: Annotated[NkiTensor, Tile(buffers=(SBUF,), dtypes=("uint32",))],
    engine: Annotated[engine, Engine()] = engine.gpsimd,
    name: str | None = None,
) -> None:
    """The states of an engine's generators = src_seeds, 6 (GpSimd) or 24 (Vector) uint32 a partition."""
    core = active("rand_set_state")
    values = src_seeds.values.reshape(src_seeds.shape[0], -1, WORDS)
    _states(core, engine, src_seeds)[:] = values


@instruction(
    _GPSIMD,
    _VECTOR,
    cost=("one_pass", "unit", "dst"),
    generation=3,
    engine_generations={_VECTOR: 4},
    rules=(_words_of_state,),
    state=_STATE,
)
def rand_get_state(
    dst: Annotated[NkiTensor, Tile(written=True, dtypes=("uint32",))],
    engine: Annotated[engine, Engine()] = engine.gpsimd,
    name: str | None = None,
) -> None:
    """dst = the states of an engine's generators, 6 (GpSimd) or 24 (Vector) uint32 a partition."""
    core = active("rand_get_state")
    dst.write(shaped(_states(core, engine, dst).reshape(dst.shape[0], -1), dst.shape))


def _states(core: NeuronCore, unit: engine, tensor: NkiTensor) -> Array:
    """Return the states for the partitions of a tensor, [partition, generator, word] uint32."""
    found = core.registers.get(_STATE[unit])
    if found is None:
        found = core.registers[_STATE[unit]] = _seeded(0, GENERATORS[unit])
    first = tensor.access.row
    states: Array = found[first : first + tensor.shape[0]]
    return states


def _seeded(seed: int, generators: int) -> Array:
    source = np.random.default_rng(seed)
    return source.integers(1, 1 << 32, (PARTITIONS, generators, WORDS), dtype=np.uint32)


def _draw(core: NeuronCore, unit: engine, dst: NkiTensor) -> Array:
    """Return the next random words for the elements of dst, [partitions, elements] uint32."""
    states = _states(core, unit, dst)
    partitions, count = dst.shape[0], dst.free_size
    turns = -(-count // states.shape[1])
    words = np.empty((partitions, turns, states.shape[1]), np.uint32)
    x, y, z, w, v, counter = (states[:, :, word].copy() for word in range(WORDS))
    for turn in range(turns):
        mixed = x ^ (x >> np.uint32(2))
        x, y, z, w = y, z, w, v
        v = (v ^ (v << np.uint32(4))) ^ (mixed ^ (mixed << np.uint32(1)))
        counter = counter + _STEP
        words[:, turn] = counter + v
    for word, value in enumerate((x, y, z, w, v, counter)):
        states[:, :, word] = value
    return words.reshape(partitions, -1)[:, :count]


def _uniform(core: NeuronCore, dst: NkiTensor) -> Array:
    """Return random float32 in [0, 1) from the Vector Engine's generators, 24 bits each."""
    words = _draw(core, _VECTOR, dst)
    uniform: Array = (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    return uniform
