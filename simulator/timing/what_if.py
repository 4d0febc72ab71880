"""Reschedule a program on a machine with one faster resource (critical_path.py lists the resources).

An engine that is twice as fast needs half the time for every instruction, including its latency, and a DMA engine that
is twice as fast needs half the time for every byte and element. The clock of a faster Tensor Engine then switches to
the full rate at half the utilization, that is, after the same amount of work.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..machine.instruction import Cost, Instruction, engine
from .constants import TABLE, Machine
from .critical_path import MEETINGS

_ENGINES = {
    "tensor": (engine.tensor,),
    "vector": (engine.vector,),
    "scalar": (engine.scalar,),
    "gpsimd": (engine.gpsimd, engine.sync, engine.unknown),
}
# The timing constants that the scheduler uses, for each resource. Constants that determine the cost of an instruction
# are not listed, because the program stores the resulting costs.
_TIMES = {
    "dma_issue": ("trigger_ns", "dge_ns", "dge_ring_ns", "dge_descriptor_ns"),
    "dma_latency": (
        *("load_first_byte_ns", "store_first_byte_ns", "load_first_byte_static_ns", "store_first_byte_static_ns"),
        *("load_landing_ns", "store_landing_ns", "ring_static_ns", "ring_hardware_ns", "ring_software_ns"),
        "swdge_lead_ns",
    ),
    "dma_bandwidth": ("descriptor_ns", "swdge_element_ns", "semaphore_ns", "small_element_ns", "partial_write_ns"),
    "tensor": ("warm_utilization",),
    "scalar": ("table_load_ns",),
    "gpsimd": ("swdge_ns", "swdge_descriptor_ns", "address_load_ns", "address_ns"),
    "semaphore": (
        *("hop_tensor_ns", "hop_vector_ns", "hop_scalar_ns", "hop_gpsimd_ns", "hop_dma_ns"),
        *("landed_tensor_ns", "landed_ns", "landed_dma_ns"),
    ),
}
_RATES = {"dma_bandwidth": ("dma_peak", "dma_sustained", "pitched_rate", "hbm_stack_rate", "gpsimd_dma_rate")}
_AFTER_TRIGGER = ("load_first_byte_static_ns", "store_first_byte_static_ns")  # counted from the start of the trigger


def faster_machine(machine: Machine, resource: str, times: float) -> Machine:
    """Return a machine on which one resource is `times` as fast."""
    values = {name: float(getattr(machine, name)) for name in TABLE}
    trigger = values["trigger_ns"]
    for name in _TIMES.get(resource, ()):
        trigger_ns = trigger if name in _AFTER_TRIGGER else 0.0
        values[name] = trigger_ns + (values[name] - trigger_ns) / times
    for name in _RATES.get(resource, ()):
        values[name] *= times
    return Machine(values)


def faster_program(program: Sequence[Instruction], resource: str, times: float) -> list[Instruction]:
    """Return a program in which the costs of one engine's instructions are divided by `times`.

    All other instructions are shared with the original program.
    """
    if resource == "other_core":
        return [_at(i, 1 / times, i.options) if i.op in MEETINGS else i for i in program]
    units = _ENGINES.get(resource)
    if units is None:
        return list(program)
    return [_of_engine(instruction, units, 1 / times) for instruction in program]


def _of_engine(instruction: Instruction, units: tuple[engine, ...], share: float) -> Instruction:
    is_of_engine = instruction.engine in units and instruction.op not in MEETINGS and instruction.dma is None
    if not is_of_engine and not any(unit in units for unit, _ in instruction.options):
        return instruction
    options = tuple((unit, _part(cost, share) if unit in units else cost) for unit, cost in instruction.options)
    return _at(instruction, share if is_of_engine else 1.0, options)


def _at(i: Instruction, share: float, options: tuple[tuple[engine, Cost], ...]) -> Instruction:
    """Return a copy of an instruction that costs only the fraction `share` of the original."""
    return i.replace(cost=_part(i.cost, share), options=options)


def _part(cost: Cost, share: float) -> Cost:
    return Cost(cost.interval * share, cost.latency * share, cost.cold * share, cost.table)
