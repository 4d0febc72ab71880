"""Lower the graph of some layers to a launch, as the decisions specify, by running the passes in dependency order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..kernels.convolution.forms import Form
from ..kernels.program import Memory, Program
from ..kernels.tiling.packing import ceil_div, round_up
from ..models.checks import Shape
from .decisions import Ask, Choice, Decisions
from .emission.emit import LoweredProgram, emit
from .emission.schedule import Schedule
from .emission.warmup import zeros_by
from .emission.weights import WeightLayout, lay_out_weights
from .graph.arrangement import AS_GIVEN, Arrangement
from .graph.graph import Graph
from .passes import all_passes
from .passes.base import Pass
from .passes.check import check_margins, check_order, check_tiles


@dataclass(frozen=True)
class LaunchPlan:
    """A launch: its program, its weights, and how the host arranges its input.

    `nanoseconds` and `instructions` are predictions for the whole launch; 0 if they have not been determined.
    """

    emitted: LoweredProgram
    layout: WeightLayout
    decisions: Decisions
    nanoseconds: float = 0.0
    instructions: int = 0
    # the number of cores that run the launch, each of which processes `program.pictures` pictures of the batch
    cores: int = 1

    def on_one_core(self) -> LaunchPlan:
        """Return a launch for two cores that runs this launch on one of them."""
        return replace(self, emitted=replace(self.emitted, program=replace(self.program, alone=True)))

    @property
    def program(self) -> Program:
        """The program that the kernel runs."""
        return self.emitted.program

    @property
    def graph(self) -> Graph:
        """The graph that the program was emitted from."""
        return self.layout.graph

    @property
    def images(self) -> int:
        """The number of input images: the pictures of each core, rounded up to a multiple of the packed images."""
        return self._shares * self._images

    @property
    def _shares(self) -> int:
        """The number of parts into which the batch is divided, one for each core that has work."""
        return 1 if self.program.alone else self.cores

    @property
    def _images(self) -> int:
        """The number of input images that each core reads."""
        return round_up(self.program.pictures, self.program.packed)

    @property
    def passes(self) -> tuple[int, ...]:
        """The number of passes in each stage."""
        free = self._images // self.program.packed
        return tuple(ceil_div(free, stage.at_once) for stage in self.program.stages)

    def outputs(self, returned: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Return (values, classes) for each output of the launch, in order, given the results of its kernel.

        `classes` is None if the output has none.
        """
        left = iter(returned)
        results: dict[int, tuple[Any, Any]] = {}
        for operation, number in zip(self.program.operations, self.emitted.nodes, strict=True):
            position = self.graph.nodes[number].output
            if operation.has_answers:
                results[position or 0] = next(left), next(left) if operation.has_scores else None
            elif operation.buffer is not None and operation.buffer.memory is Memory.OUTPUT:
                assert position is not None
                results[position] = next(left), None
        return [results[position] for position in sorted(results)]

    def arrange(self, value: Any, shape: Shape, dtype: np.dtype[Any]) -> Any:
        """Return inputs [pictures, ...] in the kernel's layout; data that is already on the device stays there."""
        if not self.graph.from_host:
            return self.arrange_input(0, value, dtype)
        pictures = np.asarray(value).reshape(-1, *shape)
        each = self.program.pictures
        return self._arranged(self.graph.arrangement, [pictures[n * each :][:each] for n in range(self._shares)], dtype)

    def arrange_input(self, number: int, value: Any, dtype: np.dtype[Any]) -> Any:
        """Return an input [pictures, ...] that the host does not rearrange, padded to the number of images.

        Images beyond that number are kept. Like the output of a launch, the input contains the same number of pictures
        for each core.
        """
        image = self.graph.inputs[number]
        if len(value) >= self.images:
            return value.reshape((len(value), *image))
        return self._arranged(AS_GIVEN, list(np.asarray(value).reshape(self._shares, -1, *image)), dtype)

    def _arranged(self, arrangement: Arrangement, shares: Sequence[np.ndarray], dtype: np.dtype[Any]) -> np.ndarray:
        """Return the arranged pictures of all cores, concatenated."""
        parts = [arrangement.arrange(pictures, self._images, dtype) for pictures in shares]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def pictures_of(self, output: Any) -> np.ndarray:
        """Return an output of the launch, or its classes, with the padding removed: [pictures, ...]."""
        values = np.asarray(output)
        shares = values.reshape(self._shares, -1, *values.shape[1:])[:, : self.program.pictures]
        return shares.reshape(-1, *values.shape[1:])


@dataclass(frozen=True)
class Pipeline:
    """The steps of lowering a graph to a launch that all candidates share."""

    graph: Graph
    forms: tuple[Form, ...]  # the forms of convolutions in addition to the direct one
    budget_bytes: int  # bytes of an SBUF partition
    passes: tuple[Pass, ...] = field(init=False, compare=False, repr=False)
    _layouts: dict[Hashable, WeightLayout] = field(init=False, default_factory=dict, compare=False, repr=False)
    _known: dict[Hashable, Graph] = field(init=False, default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "graph", self.graph.with_ids())
        object.__setattr__(self, "passes", all_passes(self.forms))

    def run(self, decisions: Decisions, ask: Ask | None = None, last: str = "") -> list[tuple[str, Graph]]:
        """Return (name, graph) after each pass, up to pass `last`. Raise Unsupported if a pass does not apply.

        `ask`: the function that answers the questions of passes; by default, `decisions.answer`. A graph that does not
        depend on `ask` is cached for all decisions with the same choices up to its pass.
        """
        graphs: list[tuple[str, Graph]] = []
        graph, key, known = self.graph, tuple[Choice, ...](), self._known
        for lowering_pass in self.passes:
            if lowering_pass.asks:
                known = {}
            key += tuple(choice for choice in decisions.choices if choice.kind in lowering_pass.kinds)
            if (lowering_pass.name, key) not in known:
                known[lowering_pass.name, key] = self._after(lowering_pass, graph, decisions, ask or decisions.answer)
            graph = known[lowering_pass.name, key]
            graphs.append((lowering_pass.name, graph))
            if lowering_pass.name == last:
                break
        return graphs

    def _after(self, each: Pass, graph: Graph, decisions: Decisions, ask: Ask) -> Graph:
        """Return the checked graph after a pass."""
        new_graph = each.apply(graph, decisions, ask)
        if new_graph is not graph:
            self._check(new_graph, each)
        return new_graph

    def _check(self, graph: Graph, after: Pass) -> None:
        """Check the invariants that must hold once `after` and the passes before it have run.

        Raise Unsupported if tiles do not match.
        """
        names = [lowering_pass.name for lowering_pass in self.passes]
        previous = names[: names.index(after.name) + 1]
        check_order(graph)
        if "assign_memory" in previous:
            check_tiles(graph)
        if "add_margins" in previous:
            check_margins(graph)

    def lower(self, decisions: Decisions, ask: Ask | None = None) -> WeightLayout:
        """Run all passes and lay out the weights. If the choices are the same as in the previous call, its result is
        reused."""
        if ask is not None:
            return lay_out_weights(self.run(decisions, ask)[-1][1])
        kinds = {kind for lowering_pass in self.passes for kind in lowering_pass.kinds}
        key = tuple(choice for choice in decisions.choices if choice.kind in kinds)
        if key not in self._layouts:
            self._layouts.clear()
            self._layouts[key] = lay_out_weights(self.run(decisions)[-1][1])
        return self._layouts[key]

    def launch(self, decisions: Decisions, pictures: int, layout: WeightLayout | None = None) -> LaunchPlan:
        """Return the launch that the decisions specify, without its cost.

        `layout`: the result of `lower`, if available.
        """
        layout = layout or self.lower(decisions)
        emitted = emit(layout.graph, pictures, Schedule.of(decisions, layout.graph))
        zeros = zeros_by(decisions, emitted, layout.graph)
        if zeros:
            emitted = replace(emitted, program=replace(emitted.program, warmup_matmuls=zeros))
        return LaunchPlan(emitted, layout, decisions)
