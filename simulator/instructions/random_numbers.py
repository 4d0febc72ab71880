"""Random numbers of the Vector and the GpSimd Engine.

Both engines keep one generator a partition (on the Vector Engine four, which take turns), here Marsaglia's XORWOW, the
algorithm that the API names. How the chip fills its states from a seed is not documented: a kernel gets the same
numbers in every run of the simulator, and not those of the chip. A run starts from a fixed state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import (
    active_since,
    broadcast_value,
    destination,
    engine_of,
    in_sbuf,
    not_psum_on_gpsimd,
    same_size,
    scalar_operand,
    shaped,
    tile,
)
from ..chip import PARTITIONS
from ..core import NeuronCore, active
from ..dtypes import Array
from ..errors import NkiValidationError
from ..instruction import Instruction, engine
from ..tensor import NkiTensor

WORDS = 6  # of one generator's state: five of the shift register and a counter
GENERATORS = {engine.gpsimd: 1, engine.vector: 4}  # a partition: 6 or 24 words of state (nisa.rand_set_state)
_STEP = np.uint32(362437)  # of the counter
_STATE = {engine.gpsimd: "gpsimd random numbers", engine.vector: "vector random numbers"}
_INTEGERS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
_RAND2_TYPES = ("float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "tfloat32", *_INTEGERS)
_VECTOR, _GPSIMD = engine.vector, engine.gpsimd


def rng(dst: NkiTensor, engine: engine = engine.vector, name: str | None = None) -> Instruction:
    """dst = random integers: the low bits of 32 random ones."""
    core = active("rng")
    destination("rng", dst)
    unit = engine_of("rng", engine, _VECTOR, (_VECTOR, _GPSIMD) if core.target.generation >= 3 else (_VECTOR,))
    not_psum_on_gpsimd("rng", unit, dst)
    if dst.dtype not in _INTEGERS:
        raise NkiValidationError(f"rng: dst {dst.label} must be one of {', '.join(_INTEGERS)}")
    cost = core.costs.one_pass(unit, dst)
    instruction = core.issue("rng", unit, (dst,), (), cost, name)
    core.share(_STATE[unit], instruction)

    if core.functional:
        dst.write(shaped(_draw(core, unit, dst).astype(dst._dtype.held), dst.shape))
    return instruction


def rand2(dst: NkiTensor, min: Any, max: Any, name: str | None = None) -> Instruction:
    """dst = uniform random numbers in [min, max]; numbers or one a partition. NeuronCore-v4 and newer."""
    core = active_since("rand2", 4)
    destination("rand2", dst)
    if dst.dtype not in _RAND2_TYPES:
        raise NkiValidationError(f"rand2: dst {dst.label} must be one of {', '.join(_RAND2_TYPES)}")
    low, high = scalar_operand("rand2", "min", min, dst), scalar_operand("rand2", "max", max, dst)
    reads = tuple(operand for operand in (low, high) if isinstance(operand, NkiTensor))
    if not reads and not low < high:
        raise NkiValidationError(f"rand2: min {low} must be less than max {high}")
    cost = core.costs.one_pass(_VECTOR, dst)
    instruction = core.issue("rand2", _VECTOR, (dst,), reads, cost, name)
    core.share(_STATE[_VECTOR], instruction)

    if core.functional:
        unit = _uniform(core, dst)
        low, high = broadcast_value(low, 2), broadcast_value(high, 2)
        dst.write(shaped(np.minimum(low + unit * (high - low), high), dst.shape))
    return instruction


def dropout(dst: NkiTensor, data: NkiTensor, prob: Any, name: str | None = None) -> Instruction:
    """dst = data, or 0 with probability prob (a number or one a partition)."""
    core = active("dropout")
    destination("dropout", dst)
    tile("dropout", "data", data)
    same_size("dropout", dst, "data", data)
    if dst.dtype != data.dtype:
        raise NkiValidationError(f"dropout: dst {dst.label} must have the dtype of data, {data.dtype}")
    chance = scalar_operand("dropout", "prob", prob, data, float32=data._dtype.is_integer)
    if isinstance(chance, NkiTensor):
        if not chance._dtype.is_float:
            raise NkiValidationError(f"dropout: prob {chance.label} must be of a float type")
    elif not 0 <= chance <= 1:
        raise NkiValidationError(f"dropout: prob must be 0 to 1, came {chance}")
    reads = (data, chance) if isinstance(chance, NkiTensor) else (data,)
    cost = core.costs.one_pass(_VECTOR, dst)
    instruction = core.issue("dropout", _VECTOR, (dst,), reads, cost, name)
    core.share(_STATE[_VECTOR], instruction)

    if core.functional:
        kept = _uniform(core, dst) >= broadcast_value(chance, 2)
        values = data.values
        dst.write(shaped(np.where(shaped(kept, values.shape), values, np.zeros((), values.dtype)), dst.shape))
    return instruction


def set_rng_seed(src_seeds: NkiTensor, name: str | None = None) -> Instruction:
    """Seed the Vector Engine's generators with the 32-bit value of src_seeds [1, 1]."""
    core = active("set_rng_seed")
    tile("set_rng_seed", "src_seeds", src_seeds)
    if src_seeds.size != 1 or src_seeds._dtype.itemsize != 4:
        raise NkiValidationError(f"set_rng_seed: src_seeds {src_seeds.label} must be one 32-bit value, [1, 1]")
    instruction = core.issue("set_rng_seed", _VECTOR, (), (src_seeds,), core.costs.one_pass(_VECTOR, src_seeds), name)
    core.share(_STATE[_VECTOR], instruction)

    if core.functional:
        seed = int(np.ascontiguousarray(src_seeds.values).reshape(-1).view(np.uint32)[0])
        core.registers[_STATE[_VECTOR]] = _seeded(seed, GENERATORS[_VECTOR])
    return instruction


def rand_set_state(src_seeds: NkiTensor, engine: engine = engine.gpsimd, name: str | None = None) -> Instruction:
    """The states of an engine's generators = src_seeds, 6 (GpSimd) or 24 (Vector) uint32 a partition."""
    core = active("rand_set_state")
    in_sbuf("rand_set_state", "src_seeds", src_seeds)
    unit = _state_engine("rand_set_state", core, engine, "src_seeds", src_seeds)
    cost = core.costs.one_pass(unit, src_seeds)
    instruction = core.issue("rand_set_state", unit, (), (src_seeds,), cost, name)
    core.share(_STATE[unit], instruction)

    if core.functional:
        values = src_seeds.values.reshape(src_seeds.shape[0], -1, WORDS)
        _states(core, unit, src_seeds)[:] = values
    return instruction


def rand_get_state(dst: NkiTensor, engine: engine = engine.gpsimd, name: str | None = None) -> Instruction:
    """dst = the states of an engine's generators, 6 (GpSimd) or 24 (Vector) uint32 a partition."""
    core = active("rand_get_state")
    destination("rand_get_state", dst)
    if core.target.generation < 4:
        in_sbuf("rand_get_state", "dst", dst)
    unit = _state_engine("rand_get_state", core, engine, "dst", dst)
    not_psum_on_gpsimd("rand_get_state", unit, dst)
    cost = core.costs.one_pass(unit, dst)
    instruction = core.issue("rand_get_state", unit, (dst,), (), cost, name)
    core.share(_STATE[unit], instruction)

    if core.functional:
        dst.write(shaped(_states(core, unit, dst).reshape(dst.shape[0], -1), dst.shape))
    return instruction


def _state_engine(op: str, core: NeuronCore, chosen: engine, operand: str, tensor: NkiTensor) -> engine:
    if core.target.generation < 3:
        raise NkiValidationError(f"{op}: needs NeuronCore-v3 (trn2) or newer, came {core.target.name}")
    unit = engine_of(op, chosen, _GPSIMD, (_GPSIMD, _VECTOR) if core.target.generation >= 4 else (_GPSIMD,))
    words = WORDS * GENERATORS[unit]
    if tensor.dtype != "uint32" or tensor.free_size != words:
        raise NkiValidationError(
            f"{op}: {operand} {tensor.label} must be uint32 with {words} elements in a partition for the "
            f"{unit.name} engine"
        )
    return unit


def _states(core: NeuronCore, unit: engine, tensor: NkiTensor) -> Array:
    """The states of the partitions that a tensor is in, [partition, generator, word] uint32."""
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
    """The next random words for the elements of dst, [partitions, elements] uint32."""
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
    """Random float32 in [0, 1) from the Vector Engine's generators: 24 bits each."""
    words = _draw(core, _VECTOR, dst)
    uniform: Array = (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    return uniform
