"""Random numbers of the Vector Engine and the GpSimd Engine.

Each partition has one generator in GpSimd and four in the Vector Engine, which are used in turn. The simulator uses
Marsaglia's XORWOW, the algorithm that the API specifies. AWS does not document how states are derived from a seed. The
simulator's numbers are therefore reproducible from run to run, but do not match those of the chip. Every run starts
from a fixed state.
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

WORDS = 6  # words in the state of one generator: five for the shift register, and one for a counter
# Number of generators per partition; their states have 6 or 24 words in total (nisa.rand_set_state).
GENERATORS = {engine.gpsimd: 1, engine.vector: 4}
_STEP = np.uint32(362437)  # increment of the counter
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
    """Fill dst with random integers, which are the low bits of 32-bit random numbers."""
    core = active("rng")
    dst.write(shaped(_draw(core, engine, dst).astype(dst._dtype.held), dst.shape))


def _ordered(call: Call) -> None:
    """If min and max are numbers, min must be less than max."""
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
    """Fill dst with uniform random numbers in [min, max] (NeuronCore-v4 and newer).

    The bounds are numbers, or tiles with one element per partition.
    """
    core = active("rand2")
    unit = _uniform(core, dst)
    low, high = broadcast_value(min, 2), broadcast_value(max, 2)
    dst.write(shaped(np.minimum(low + unit * (high - low), high), dst.shape))


def _probability(call: Call) -> None:
    """prob must be between 0 and 1. If it is a tile, it must be float32 if data contains integers, otherwise any float
    type."""
    prob = call.prob
    if not isinstance(prob, NkiTensor):
        if not 0 <= prob <= 1:
            raise NkiValidationError(f"dropout: prob must be 0 to 1, got {prob}")
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
    """Copy data to dst, setting each element to 0 with probability prob (a number, or one element per partition)."""
    core = active("dropout")
    keeps = _uniform(core, dst) >= broadcast_value(prob, 2)
    values = data.values
    dst.write(shaped(np.where(shaped(keeps, values.shape), values, np.zeros((), values.dtype)), dst.shape))


def _one_word(call: Call) -> None:
    """src_seeds must be a single 32-bit value [1, 1]."""
    if call.src_seeds.size != 1 or call.src_seeds._dtype.itemsize != 4:
        raise call.refuse("src_seeds", call.src_seeds, "must be one 32-bit value, [1, 1]")


@instruction(_VECTOR, cost=("one_pass", "unit", "src_seeds"), rules=(_one_word,), state=_STATE)
def set_rng_seed(src_seeds: Annotated[NkiTensor, Tile()], name: str | None = None) -> None:
    """Seed the Vector Engine's generators with the 32-bit value of src_seeds [1, 1]."""
    core = active("set_rng_seed")
    seed = int(np.ascontiguousarray(src_seeds.values).reshape(-1).view(np.uint32)[0])
    core.registers[_STATE[_VECTOR]] = _seeded(seed, GENERATORS[_VECTOR])


def _words_of_state(call: Call) -> None:
    """The state must have 6 elements per partition for the GpSimd Engine and 24 for the Vector Engine; before
    NeuronCore-v4, dst must be in SBUF."""
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
    """Set the states of an engine's generators to src_seeds, with 6 (GpSimd) or 24 (Vector) uint32 per partition."""
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
    """Write the states of an engine's generators to dst, with 6 (GpSimd) or 24 (Vector) uint32 per partition."""
    core = active("rand_get_state")
    dst.write(shaped(_states(core, engine, dst).reshape(dst.shape[0], -1), dst.shape))


def _states(core: NeuronCore, unit: engine, tensor: NkiTensor) -> Array:
    """Return the generator states of the partitions of a tensor, as uint32 [partition, generator, word]."""
    state = core.registers.get(_STATE[unit])
    if state is None:
        state = core.registers[_STATE[unit]] = _seeded(0, GENERATORS[unit])
    first = tensor.access.row
    states: Array = state[first : first + tensor.shape[0]]
    return states


def _seeded(seed: int, generators: int) -> Array:
    source = np.random.default_rng(seed)
    return source.integers(1, 1 << 32, (PARTITIONS, generators, WORDS), dtype=np.uint32)


def _draw(core: NeuronCore, unit: engine, dst: NkiTensor) -> Array:
    """Return the next random words for the elements of dst, as uint32 [partitions, elements]."""
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
    """Return random float32 numbers in [0, 1) with 24 random bits each, from the Vector Engine's generators."""
    words = _draw(core, _VECTOR, dst)
    uniform: Array = (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    return uniform
