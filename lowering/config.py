"""Settings for planning launches: the target, the convolution forms, the cost model and the cache."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..kernels.convolution.forms import Form
from ..kernels.tiling.packing import IDENTITY_BYTES
from ..simulator.machine.chip import find_target
from .cost_model import CostModel
from .eight_bits import EightBits
from .graph import Graph
from .launch_plan import LaunchPlanner
from .plan_cache import PlanCache, plan_folder
from .search import UNBOUNDED

FREE = 12  # percent of an SBUF partition reserved for the compiler, whose allocator does not spill (docs/chip.md)


@dataclass(frozen=True)
class LoweringConfig:
    """Settings that all launches of a network share.

    `target`: the hardware target, which determines the SBUF size and the instruction costs. `itemsize`: bytes per
    element. `forms`: the forms of minimal filtering that may replace direct multiplication of 3x3 filters if they are
    faster. `cache`: the cache of plans; by default, the user's cache. `cores`: the number of cores that share a launch.
    `eight_bits`: the tensors of the network that are stored in 8 bits, or None.
    """

    target: str
    itemsize: int
    forms: tuple[Form, ...] = ()
    cache: PlanCache = field(default_factory=lambda: PlanCache(plan_folder()))
    cores: int = 1
    eight_bits: EightBits | None = None
    cost_model: CostModel = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost_model", CostModel(self.target, self.itemsize, self.cores))

    @property
    def budget_bytes(self) -> int:
        """Bytes of an SBUF partition that a launch may use."""
        return find_target(self.target).usable_sbuf_bytes * (100 - FREE) // 100 - IDENTITY_BYTES

    def planner(self, graph: Graph, most: int = UNBOUNDED) -> LaunchPlanner:
        """Return a planner for a graph whose launches have at most `most` instructions if possible."""
        return LaunchPlanner(graph, self.forms, self.budget_bytes, self.cost_model, self.cache, most)
