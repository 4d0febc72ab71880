"""Settings for planning launches: the target, the convolution forms, the cost model and the cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ..kernels.convolution.forms import Form
from ..kernels.tiling.packing import IDENTITY_BYTES
from ..simulator.machine.chip import find_target
from .eight_bits import EightBits
from .plan_cache import PlanCache, plan_folder
from .search.cost_model import CostModel

FREE = 12  # percent of an SBUF partition reserved for the compiler, whose allocator does not spill (docs/chip.md)


@dataclass(frozen=True)
class LoweringConfig:
    """Settings that all launches of a network share."""

    target: str  # the hardware target, which determines the SBUF size and the instruction costs
    itemsize: int  # bytes per element
    # the forms of minimal filtering that may replace direct multiplication of 3x3 filters if they are faster
    forms: tuple[Form, ...] = ()
    # the cache of plans; by default, the user's cache
    cache: PlanCache = field(default_factory=lambda: PlanCache(plan_folder()))
    cores: int = 1  # the number of cores that share a launch
    eight_bits: EightBits | None = None  # the tensors of the network that are stored in 8 bits, or None

    @cached_property
    def cost_model(self) -> CostModel:
        """The cost model for the target and for the cores together."""
        return CostModel(self.target, self.itemsize, self.cores)

    @property
    def budget_bytes(self) -> int:
        """Bytes of an SBUF partition that a launch may use."""
        return find_target(self.target).usable_sbuf_bytes * (100 - FREE) // 100 - IDENTITY_BYTES
