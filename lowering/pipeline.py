"""The passes in their order: from the graph of some layers to a launch, by decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..kernels.convolution.forms import Form
from ..kernels.program import Combine, Convolution, Memory, Program, Room
from ..kernels.tiling.packing import ceil_div, round_up, tile_sizes
from ..models.checks import Shape
from ..simulator.machine.chip import PARTITIONS
from .arrangement import AS_GIVEN, Arrangement
from .decisions import Advisor, Decisions
from .early_loads import with_early_loads
from .emit import Emitted, emit
from .graph import DoesNotFit, Graph
from .passes.add_margins import add_margins
from .passes.choose_forms import choose_forms
from .passes.group_input import group_input
from .passes.load_taps import load_input, load_taps
from .passes.narrow_values import narrow_values
from .passes.pack_images import pack_images
from .passes.pack_rows import pack_rows
from .passes.pack_taps import pack_taps
from .passes.pad_channels import pad_channels
from .passes.place import place
from .passes.share_sums import share_sums
from .passes.split_columns import split_columns
from .passes.split_means import split_means
from .passes.split_phases import split_phases
from .passes.split_tails import split_tails
from .passes.turn_scores import turn_scores
from .weights import WeightLayout, lay_out


@dataclass(frozen=True)
class LaunchPlan:
    """A launch: its program, its weights, and how the host arranges its input.

    `nanoseconds`, those in which it waits for DMAs (`waiting`), and `instructions` are predicted for all of it, 0
    where nobody has asked. `cores`: that run it, each with `program.pictures` of the batch.
    """

    emitted: Emitted
    layout: WeightLayout
    decisions: Decisions
    nanoseconds: float = 0.0
    instructions: int = 0
    cores: int = 1
    waiting: float = 0.0

    def on_one_core(self) -> LaunchPlan:
        """Return the launch for two cores of which one has nothing to do."""
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
        """Images of the input: the pictures of all parts, each filled up to a multiple of those that are packed."""
        return self._shares * self._images

    @property
    def _shares(self) -> int:
        """Parts of the batch: one for each core that has work."""
        return 1 if self.program.alone else self.cores

    @property
    def _images(self) -> int:
        """Images of the input that a core reads."""
        return round_up(self.program.pictures, self.program.packed)

    @property
    def passes(self) -> tuple[int, ...]:
        """Passes of each stage."""
        free = self._images // self.program.packed
        return tuple(ceil_div(free, stage.at_once) for stage in self.program.stages)

    def outputs(self, returned: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Return (values, classes) of each output of the launch, in their order, of what its kernel returned; classes
        are None where it has none."""
        left = iter(returned)
        found: dict[int, tuple[Any, Any]] = {}
        for operation, number in zip(self.program.operations, self.emitted.nodes, strict=True):
            position = self.graph.nodes[number].output
            if operation.has_answers:
                found[position or 0] = next(left), next(left) if operation.has_scores else None
            elif isinstance(operation, Room) and operation.memory is Memory.OUTPUT:
                assert position is not None
                found[position] = next(left), None
        return [found[position] for position in sorted(found)]

    def arrange(self, value: Any, came: Shape, dtype: np.dtype[Any]) -> Any:
        """Return inputs [pictures, ...] as the kernel takes them; what is on the device already stays there."""
        if not self.graph.from_host:
            return self.arrange_input(0, value, dtype)
        pictures = np.asarray(value).reshape(-1, *came)
        each = self.program.pictures
        return self._arranged(self.graph.arrangement, [pictures[n * each :][:each] for n in range(self._shares)], dtype)

    def arrange_input(self, number: int, value: Any, dtype: np.dtype[Any]) -> Any:
        """Return an input [pictures, ...] that the host does not arrange, filled up to its images; more stay. It has as
        many pictures for each core, as a launch leaves them."""
        image = self.graph.inputs[number]
        if len(value) >= self.images:
            return value.reshape((len(value), *image))
        return self._arranged(AS_GIVEN, list(np.asarray(value).reshape(self._shares, -1, *image)), dtype)

    def _arranged(self, arrangement: Arrangement, shares: Sequence[np.ndarray], dtype: np.dtype[Any]) -> np.ndarray:
        """Return the pictures of each core, one core's after the other's."""
        parts = [arrangement.arrange(pictures, self._images, dtype) for pictures in shares]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def pictures_of(self, output: Any) -> np.ndarray:
        """Return an output of the launch, or its classes, without what fills it up: [pictures, ...]."""
        whole = np.asarray(output)
        shares = whole.reshape(self._shares, -1, *whole.shape[1:])[:, : self.program.pictures]
        return shares.reshape(-1, *whole.shape[1:])


@dataclass(frozen=True)
class Pipeline:
    """Some nodes on their way to a launch: what is the same for every candidate.

    `forms`: of convolutions, beside the direct one. `room`: bytes of a partition of SBUF.
    """

    graph: Graph
    forms: tuple[Form, ...]
    room: int
    _shapes: dict[tuple[bool, ...], list[tuple[str, Graph]]] = field(default_factory=dict, compare=False, repr=False)

    def run(self, decisions: Decisions, advisor: Advisor | None = None) -> list[tuple[str, Graph]]:
        """Return the graph after each pass, by the pass's name; DoesNotFit where a pass does not apply."""
        advisor = advisor or decisions
        done = list(self._shape(decisions))

        def run(name: str, graph: Graph) -> None:
            done.append((name, graph))

        run("pack_images", pack_images(done[-1][1], decisions.packed))
        run("place", place(done[-1][1], decisions.in_hbm, decisions.regions))
        _check_tiles(done[-1][1])
        run("group_input", group_input(done[-1][1]))
        run("split_columns", split_columns(done[-1][1]))
        run("add_margins", add_margins(done[-1][1], any(form.is_minimal for form in self.forms)))
        run("choose_forms", choose_forms(done[-1][1], self.forms, advisor.pick_form))
        run("narrow_values", narrow_values(done[-1][1], done[-2][1], advisor.is_quicker_narrow))
        run("pack_taps", pack_taps(done[-1][1], advisor.are_worth_copies, decisions.filled_taps))
        run("turn_scores", turn_scores(done[-1][1], advisor.are_quicker_turned))
        run("share_sums", share_sums(done[-1][1], advisor.is_quicker_shared))
        return done

    def _shape(self, decisions: Decisions) -> list[tuple[str, Graph]]:
        """Return the graph after each pass before images are packed, made once for the decisions that they need."""
        key = (
            decisions.packs_rows,
            decisions.packs_expansions,
            decisions.pads_channels,
            decisions.splits_phases,
            decisions.splits_means,
        )
        if key in self._shapes:
            return self._shapes[key]
        done = [("split_tails", self.graph if decisions.packs_expansions else split_tails(self.graph))]

        def run(name: str, graph: Graph | None) -> None:
            if graph is None:
                raise DoesNotFit(f"{name} does not apply")
            done.append((name, graph))

        run("load_input", load_input(done[-1][1]))
        if decisions.pads_channels:
            run("pad_channels", pad_channels(done[-1][1]))
        if decisions.packs_rows:
            run("pack_rows", pack_rows(done[-1][1], decisions.packs_expansions))
        if decisions.splits_phases:
            run("split_phases", split_phases(done[-1][1]))
        if decisions.splits_means:
            run("split_means", split_means(done[-1][1]))
        run("load_taps", load_taps(done[-1][1]))
        self._shapes[key] = done
        return done

    def lower(self, decisions: Decisions, advisor: Advisor | None = None) -> WeightLayout:
        """Return the graph with all passes run, laid out."""
        return lay_out(self.run(decisions, advisor)[-1][1])

    def launch(self, decisions: Decisions, pictures: int, layout: WeightLayout | None = None) -> LaunchPlan:
        """Return the launch of some decisions, without its price; `layout` is that of `lower` if it is known."""
        layout = layout or self.lower(decisions)
        schedule = decisions.schedule(len(layout.graph.nodes))
        emitted = emit(layout.graph, pictures, schedule)
        if decisions.ahead:
            emitted = with_early_loads(emitted, layout, self.room * decisions.ahead // 8)
        if decisions.warming:
            emitted = replace(emitted, program=replace(emitted.program, warming=decisions.warming))
        return LaunchPlan(emitted, layout, decisions)


def _check_tiles(graph: Graph) -> None:
    """DoesNotFit where an operation combines values whose channels are cut into other tiles."""
    for node in graph.nodes:
        operation = node.operation
        is_sum = isinstance(operation, Convolution) and len(operation.sources) > 1
        if not is_sum and not isinstance(operation, Combine):
            continue
        channels = operation.channels * operation.packed
        own = tile_sizes(channels, PARTITIONS) if is_sum else graph.heights(operation.sources[0])
        if own != graph.heights(operation.sources[1]):
            raise DoesNotFit(f"the channels that layer {node.name!r} ({node.kind}) combines are in other tiles")
