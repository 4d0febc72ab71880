"""Collectives between ranks, which are the NeuronCores of one simulated chip. Only their values are simulated.

The time of a collective depends on its algorithm and on the links, for which no figures are published; it is modelled
as zero, and a note informs the user. Sums are computed in the order of the group, in float32, and rounded once. The
ring of an implicit permute is assumed to follow the order of its group in every channel; this is not documented.

Sources: nki/api/nki/collectives/__init__.py of aws-neuron-sdk 2.32, and the pages of all_reduce and all_to_all of 2.33.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from ..machine.dtypes import Array
from ..machine.errors import NkiValidationError
from ..machine.instruction import Instruction, engine
from ..machine.memory import SBUF, MemoryRegion
from ..machine.objects import NKIObject
from ..machine.registers import VirtualRegister
from ..machine.world import Contribution
from ..tensors.tensor import IndirectTensor, NkiTensor
from .core import NeuronCore, active
from .operators import alu_operator
from .reported import check_collective_input

_REDUCTIONS = {"add": np.add, "minimum": np.minimum, "maximum": np.maximum}
_SHARED_OUTPUT = "NKI_LNC1_SHARED_HBM"  # with the value 1, dsts of an all_reduce may be in shared HBM
_MOST_CHANNELS = 4
_SBUF_RANK = 2


class ReplicaGroup(NKIObject):
    """Disjoint groups of ranks that communicate (nki.collectives.ReplicaGroup)."""

    def __init__(self, groups: Any = None) -> None:
        self.groups = groups

    def of(self, op: str, rank: int) -> tuple[int, ...]:
        """Return the ranks of the group that contains `rank`."""
        try:
            groups = [tuple(int(member) for member in group) for group in self.groups]
        except TypeError:
            raise NkiValidationError(f"{op}: replica_group {self.groups!r} must be lists of ranks") from None
        ranks = [member for group in groups for member in group]
        if len(set(ranks)) < len(ranks) or (ranks and min(ranks) < 0):
            raise NkiValidationError(f"{op}: replica_group {self.groups!r} contains a duplicate or negative rank")
        for group in groups:
            if rank in group:
                return group
        raise NkiValidationError(f"{op}: rank {rank} is in no group of {self.groups!r}")


def all_reduce(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> Instruction:
    """Reduce the srcs of all ranks of the group with `op`, and write the result to the dst of every rank."""
    function = _reduction("all_reduce", op)
    for src, dst in _pairs("all_reduce", srcs, dsts):
        _same_shape("all_reduce", src.shape, dst)
    group = _group("all_reduce", replica_group)
    _check_memories("all_reduce", srcs, dsts)
    instruction, received = _exchange("all_reduce", group, srcs, dsts, (function.__name__,), name)
    for dst, contributions in received:
        dst.write(reduce(function, contributions).reshape(dst.shape))
    return instruction


def all_gather(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> Instruction:
    """Concatenate the srcs of all ranks of the group along a dimension, and write them to the dst of every rank."""
    group = _group("all_gather", replica_group)
    for src, dst in _pairs("all_gather", srcs, dsts):
        _check_dimension("all_gather", collective_dim, 1 if src.storage.region is SBUF else 0)
        _same_shape("all_gather", _scaled(src.shape, collective_dim, len(group)), dst)
    instruction, received = _exchange("all_gather", group, srcs, dsts, (collective_dim,), name)
    for dst, contributions in received:
        dst.write(np.concatenate(contributions, axis=collective_dim))
    return instruction


def reduce_scatter(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    collective_dim: int,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> Instruction:
    """Reduce the srcs of all ranks of the group with `op`, and write the n-th part of the result, along a dimension, to
    the dst of the n-th rank."""
    function = _reduction("reduce_scatter", op)
    group = _group("reduce_scatter", replica_group)
    for src, dst in _pairs("reduce_scatter", srcs, dsts):
        _check_dimension("reduce_scatter", collective_dim, 0)
        _same_shape("reduce_scatter", src.shape, dst, _scaled(dst.shape, collective_dim, len(group)))
    terms = (function.__name__, collective_dim)
    instruction, received = _exchange("reduce_scatter", group, srcs, dsts, terms, name)
    for dst, contributions in received:
        parts = np.split(reduce(function, contributions), len(group), axis=collective_dim)
        dst.write(parts[group.index(_rank(_core("reduce_scatter")))])
    return instruction


def all_to_all(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> Instruction:
    """Concatenate the n-th parts of all ranks' srcs in the group, and write them to the dst of the n-th rank."""
    group = _group("all_to_all", replica_group)
    for src, dst in _pairs("all_to_all", srcs, dsts, in_hbm=True):
        _check_dimension("all_to_all", collective_dim, 0)
        _same_shape("all_to_all", src.shape, dst)
        if src.shape[collective_dim] % len(group):
            raise NkiValidationError(
                f"all_to_all: src {src.label} must be divisible into {len(group)} parts along dimension 0"
            )
    instruction, received = _exchange("all_to_all", group, srcs, dsts, (collective_dim,), name)
    for dst, contributions in received:
        mine = group.index(_rank(_core("all_to_all")))
        parts = [np.split(values, len(group), axis=collective_dim)[mine] for values in contributions]
        dst.write(np.concatenate(parts, axis=collective_dim))
    return instruction


def collective_permute(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    source_target_pairs: Sequence[tuple[int, int]],
    priority: int | None = None,
    name: str | None = None,
) -> Instruction:
    """Copy the src of each source rank to the dst of its target rank. The dst of other ranks is unchanged."""
    core = _core("collective_permute")
    pairs = [(int(source), int(target)) for source, target in source_target_pairs]
    sources = {target: source for source, target in pairs}
    if len(sources) < len(pairs) or len({source for source, _ in pairs}) < len(pairs):
        raise NkiValidationError(f"collective_permute: {pairs} contains a duplicate source or target")
    _single("collective_permute", srcs, dsts)
    for src, dst in _pairs("collective_permute", srcs, dsts, in_hbm=True):
        _same_shape("collective_permute", src.shape, dst)
    group = tuple(sorted({rank for pair in pairs for rank in pair}))
    if _rank(core) not in group:
        return core.issue("collective_permute", engine.sync, (), (), name=name)
    _check_group("collective_permute", core, group)
    instruction, received = _exchange("collective_permute", group, srcs, dsts, (tuple(sorted(pairs)),), name)
    for dst, contributions in received:
        if _rank(core) in sources:
            dst.write(contributions[group.index(sources[_rank(core)])])
    return instruction


def collective_permute_implicit(
    srcs_by_channel: Sequence[Sequence[NkiTensor]],
    dsts_by_channel: Sequence[Sequence[NkiTensor]],
    replica_group: ReplicaGroup,
    channel_ids: Sequence[int] = [0],
    priority: int | None = None,
    name: str | None = None,
) -> Instruction:
    """Copy each rank's src to the dst of the next rank in the group's ring."""
    op = "collective_permute_implicit"
    group = _group(op, replica_group)
    srcs, dsts = _channels(op, channel_ids, srcs_by_channel, dsts_by_channel)
    for src, dst in _pairs(op, srcs, dsts, coalesced=True):
        _same_shape(op, src.shape, dst)
    instruction, received = _exchange(op, group, srcs, dsts, (tuple(channel_ids),), name)
    for dst, contributions in received:
        dst.write(contributions[group.index(_rank(_core(op))) - 1])
    return instruction


def collective_permute_implicit_reduce(
    srcs0_by_channel: Sequence[Sequence[NkiTensor]],
    srcs1_by_channel: Sequence[Sequence[NkiTensor]],
    dsts_by_channel: Sequence[Sequence[NkiTensor]],
    replica_group: ReplicaGroup,
    op: Any,
    channel_ids: Sequence[int] = [0],
    priority: int | None = None,
    name: str | None = None,
) -> Instruction:
    """Write each rank's op(src0, src1) to the dst of the next rank in the group's ring."""
    shown = "collective_permute_implicit_reduce"
    function = _reduction(shown, op)
    group = _group(shown, replica_group)
    first, dsts = _channels(shown, channel_ids, srcs0_by_channel, dsts_by_channel)
    second, _ = _channels(shown, channel_ids, srcs1_by_channel, dsts_by_channel)
    for first_src, other, dst in zip(first, second, dsts):
        for src, _ in _pairs(shown, [first_src, other], [dst, dst], coalesced=True):
            _same_shape(shown, src.shape, dst)
    terms = (function.__name__, tuple(channel_ids))
    mine = group.index(_rank(_core(shown)))
    both = [*first, *second]
    instruction, received = _exchange(shown, group, both, [*dsts, *dsts], terms, name)
    for (dst, left), (_, right) in zip(received[: len(first)], received[len(first) :]):
        dst.write(function(left[mine - 1], right[mine - 1]))
    return instruction


def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int, replica_group: ReplicaGroup, channel_id: int = 0, name: str | None = None
) -> VirtualRegister:
    """Return a register with the rank whose data is processed in a step of the ring. In step 0, it is this rank."""
    op = "collective_permute_implicit_current_processing_rank_id"
    core, group = _core(op), _group(op, replica_group)
    core.issue(op, engine.sync, (), (), name=name)
    return VirtualRegister(group[(group.index(_rank(core)) - int(iteration_id)) % len(group)])


def rank_id(name: str | None = None) -> VirtualRegister:
    """Return a register that contains the index of this rank."""
    core = _core("rank_id")
    core.issue("rank_id", engine.sync, (), (), name=name)
    return VirtualRegister(_rank(core))


# Code shared by collectives


def _core(op: str) -> NeuronCore:
    core = active(op)
    if core.pair is not None:
        raise NkiValidationError(f"{op}: ranks that consist of two cores are not simulated; launch it on one core")
    return core


def _rank(core: NeuronCore) -> int:
    return core.world_rank


def _group(op: str, replica_group: ReplicaGroup) -> tuple[int, ...]:
    core = _core(op)
    if not isinstance(replica_group, ReplicaGroup):
        raise NkiValidationError(f"{op}: replica_group must be a ReplicaGroup, got {type(replica_group).__name__}")
    group = replica_group.of(op, _rank(core))
    _check_group(op, core, group)
    return group


def _check_group(op: str, core: NeuronCore, group: tuple[int, ...]) -> None:
    size = core.world.size if core.world is not None else 1
    if core.functional and max(group) >= size:
        ranks = "1 rank" if size == 1 else f"{size} ranks"
        raise NkiValidationError(
            f"{op}: the group {list(group)} contains rank {max(group)}, but the kernel runs on {ranks}; "
            "simulator.run_ranks(kernel, [arrays of rank 0, arrays of rank 1, ...]) runs a kernel on several ranks"
        )


def _reduction(op: str, operator: Any) -> Any:
    reduction = alu_operator(operator, op, "op").name
    if reduction not in _REDUCTIONS:
        raise NkiValidationError(
            f"{op}: op must be one of {', '.join(f'nl.{allowed}' for allowed in _REDUCTIONS)}, got nl.{reduction}"
        )
    return _REDUCTIONS[reduction]


def _region_of(op: str, tensor: object) -> str:
    """Return the memory of an operand."""
    if not isinstance(tensor, NkiTensor) or isinstance(tensor, IndirectTensor):
        raise NkiValidationError(f"{op}: srcs and dsts must contain tensors, got {type(tensor).__name__}")
    if tensor.storage.region is not SBUF:
        return "psum" if tensor.storage.on_chip else "hbm"
    if len(tensor.shape) != _SBUF_RANK:
        raise NkiValidationError(f"{op}: {tensor.label} in SBUF must have two dimensions")
    return "sbuf"


def _pairs(
    op: str, srcs: Sequence[NkiTensor], dsts: Sequence[NkiTensor], in_hbm: bool = False, coalesced: bool = False
) -> list[tuple[NkiTensor, NkiTensor]]:
    """Check the tensors and return (src, dst) pairs."""
    if not isinstance(srcs, (list, tuple)) or not isinstance(dsts, (list, tuple)) or len(srcs) != len(dsts) or not srcs:
        raise NkiValidationError(f"{op}: srcs and dsts must be lists with the same number of tensors, at least one")
    regions = {_region_of(op, tensor) for tensor in (*srcs, *dsts)}
    if len(regions) > 1 or "psum" in regions:
        raise NkiValidationError(f"{op}: srcs and dsts must all be in HBM, or all in SBUF")
    if "sbuf" in regions and (in_hbm or (len(srcs) > 1 and not coalesced)):
        allowed = "the tensors must be in HBM" if in_hbm else "only a single tensor can be in SBUF"
        raise NkiValidationError(f"{op}: {srcs[0].label} is in SBUF, but {allowed}")
    for src, dst in zip(srcs, dsts):
        if src.dtype != dst.dtype:
            raise NkiValidationError(f"{op}: src {src.label} and dst {dst.label} must have the same dtype")
    return list(zip(srcs, dsts))


def _check_memories(op: str, srcs: Sequence[NkiTensor], dsts: Sequence[NkiTensor]) -> None:
    """Check which HBM the operands are in. The kernel runs on one core, whose srcs must be in private HBM."""
    for name, tensors in (("srcs", srcs), ("dsts", dsts)):
        if len({tensor.storage.region for tensor in tensors}) > 1:
            raise NkiValidationError(f"{op}: {name} must all be in nl.private_hbm, or all in nl.shared_hbm")
    for src in srcs:
        if _is_argument(src):
            check_collective_input(_core(op), op, src)
        elif src.storage.region is MemoryRegion.shared_hbm:
            raise NkiValidationError(f"{op}: src {src.label} must be in nl.private_hbm on a logical core of one core")
    if dsts[0].storage.region is MemoryRegion.shared_hbm and os.environ.get(_SHARED_OUTPUT) != "1":
        raise NkiValidationError(
            f"{op}: dst {dsts[0].label} is in nl.shared_hbm; on a logical core of one core it must be in "
            f"nl.private_hbm, unless the environment has {_SHARED_OUTPUT}=1"
        )


def _is_argument(tensor: NkiTensor) -> bool:
    """Return True if the tensor is an input of the kernel."""
    owner = tensor.storage.owner
    return owner is not None and owner.argument


def _single(op: str, srcs: Sequence[NkiTensor], dsts: Sequence[NkiTensor]) -> None:
    if len(srcs) != 1 or len(dsts) != 1:
        raise NkiValidationError(f"{op}: srcs and dsts must contain one tensor each, got {len(srcs)} and {len(dsts)}")


def _channels(op: str, channel_ids: Sequence[int], *lists: Sequence[Sequence[NkiTensor]]) -> list[list[NkiTensor]]:
    """For each list, return the tensors of all channels."""
    count = len(channel_ids)
    if list(channel_ids) != list(range(count)) or not 1 <= count <= _MOST_CHANNELS:
        raise NkiValidationError(
            f"{op}: channel_ids {list(channel_ids)} must be 0, 1, ..., with at most {_MOST_CHANNELS} channels"
        )
    for item in lists:
        if len(item) != count or any(len(channel) != 1 for channel in item):
            raise NkiValidationError(f"{op}: a list with one tensor is required for each of the {count} channels")
    return [[channel[0] for channel in item] for item in lists]


def _check_dimension(op: str, dimension: int, most: int) -> None:
    if isinstance(dimension, bool) or not isinstance(dimension, int) or not 0 <= dimension <= most:
        allowed = "0" if most == 0 else "0 and 1, in SBUF"
        raise NkiValidationError(f"{op}: collective_dim must be {allowed}, got {dimension!r}")


def _scaled(shape: tuple[int, ...], dimension: int, times: int) -> tuple[int, ...]:
    return (*shape[:dimension], shape[dimension] * times, *shape[dimension + 1 :])


def _same_shape(op: str, shape: tuple[int, ...], dst: NkiTensor, of_dst: tuple[int, ...] | None = None) -> None:
    if shape != (of_dst or dst.shape):
        requirement = f"src must be {list(of_dst)}" if of_dst else f"dst must be {list(shape)}"
        raise NkiValidationError(
            f"{op}: dst {dst.label} has the wrong shape: {requirement}; "
            f"the shape that results from src is {list(shape)}"
        )


def _exchange(
    op: str,
    group: tuple[int, ...],
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    terms: tuple[Any, ...],
    name: str | None,
) -> tuple[Instruction, list[tuple[NkiTensor, list[Array]]]]:
    """Issue the instruction and return it with (dst, srcs of all ranks) for each tensor.

    The list is empty if the run computes no values.
    """
    core = _core(op)
    instruction = core.issue(op, engine.sync, tuple(dict.fromkeys(dsts)), tuple(srcs), name=name)
    if not core.functional:
        return instruction, []
    sources = [src.values.copy() for src in srcs]
    location = f"{op} of {instruction.line[0]}:{instruction.line[1]}"
    shapes = tuple((src.shape, src.dtype) for src in srcs)
    contribution = Contribution((op, terms, shapes), location, sources)
    received = core.world.meet(_rank(core), group, contribution) if core.world is not None else [sources]
    return instruction, [(dst, [values[at] for values in received]) for at, dst in enumerate(dsts)]
