"""Predict the execution time of candidates with the simulator, which is the only source of times for planning.

A program is timed by running its kernel on shapes only, without data. A single operation is timed by simulating two
passes, each of which loads its weights, with its operands already in SBUF; its time is half of their total. It thus
includes a share of the time to fill the pipeline and to load the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from ... import kernels, simulator
from ...kernels.operation_fields import Pair, with_fields
from ...kernels.program import (
    LAUNCH_INPUT,
    NO_SIDES,
    Convolution,
    Copies,
    Operation,
    Parts,
    Placeholder,
    Program,
    Rows,
    Stage,
    WeightsAt,
    input_name,
)
from ...kernels.tiling.packing import Taps, ceil_div, round_up
from ...models.checks import Shape
from ...simulator.machine.chip import PARTITIONS, PSUM_BANK_FLOATS, find_target
from ...simulator.machine.instruction import engine
from ...simulator.timing.constants import Machine, machine
from ...simulator.timing.pair_schedule import of_two_cores
from ..emission.bands import Reach, banded, can_band, operand_rows, reach_of
from ..emission.owners import owners_of
from ..emission.warmup import is_cold, zeros_of
from ..emission.weight_loads import placed, weight_loads
from ..emission.weights import Sizes, WeightLayout, bias_numbers, columns_of, loads_of, numbers_of
from ..graph.graph import Graph, Unsupported

BANDS = (1, 4, 16, 64)  # numbers of bands to try for a large operation, of which only one band is simulated
ENOUGH_PIXELS = 2048  # beyond this many pixels, the time of an operation is proportional to the number of images
MOST_PIXELS = 16384  # maximum number of pixels of a band that is simulated with all of its rows
MOST_PRICED = 4  # maximum number of images with which an operation is simulated; more hardly change the time per image
PASSES = 2  # number of passes that are simulated to time an operation
MOST_KEPT = 8_000  # maximum number of instructions of a simulated run that is kept
MOST_KNOWN = 20_000  # maximum number of costs that are cached for each target, dtype and number of cores


def dtype_of(itemsize: int) -> np.dtype[Any]:
    """Return the dtype that represents all dtypes of its size: float16 takes as long as bfloat16."""
    return np.dtype(np.float32 if itemsize == 4 else ml_dtypes.bfloat16)


@dataclass(frozen=True)
class Cost:
    """Predicted nanoseconds and instructions."""

    nanoseconds: float
    instructions: int
    multiplying: float = 0.0  # lower bound of the Tensor Engine's busy time in nanoseconds, 0 if not determined


@dataclass(frozen=True)
class _TwoPasses:
    """Two simulated passes of an operation over a `share` of the images: their total cost, and the time at which the
    first pass ends."""

    both: Cost
    first_end: float
    share: float

    def cost(self, multiple: float) -> Cost:
        """Return half the cost of two passes that process `multiple` times as many images.

        Each additional multiple takes as long as the second pass.
        """
        passes = PASSES * multiple / self.share
        nanoseconds = self.both.nanoseconds + (passes - PASSES) * (self.both.nanoseconds - self.first_end)
        instructions = round(self.both.instructions * passes / PASSES) // PASSES
        return Cost(nanoseconds / PASSES, instructions, self.both.multiplying * passes / PASSES**2)


@dataclass
class _CostCache:
    """Operations already simulated for a machine, and the time to load one weight, in nanoseconds."""

    operations: dict[Any, _TwoPasses] = field(default_factory=dict)
    loading: float | None = None


@lru_cache(maxsize=16)
def _known_before(constants: Machine, target: str, dtype: str, cores: int) -> _CostCache:
    """Return the costs that this process has already determined for a machine."""
    return _CostCache()


class CostModel:
    """The cost model for a target and an element size. Each distinct operation is simulated once per process.

    With two `cores`, costs are for one core that shares its HBM stack with the other.
    """

    def __init__(self, target: str, itemsize: int, cores: int = 1) -> None:
        self.target, self.cores = target, cores
        self._constants = of_two_cores(machine(target)) if cores > 1 else None
        self._dtype = dtype_of(itemsize)
        self._walked: simulator.Run | None = None  # the launch that was simulated last
        self._known = _known_before(machine(target), target, self._dtype.name, cores)

    def walk(self, program: Program, layout: WeightLayout) -> Cost:
        """Simulate a launch and return its cost.

        Raises Unsupported if the launch requires more memory than the target has, or if elements are farther apart than
        the maximum stride of an instruction.
        """
        graph = layout.graph
        images = round_up(program.pictures, program.packed)
        inputs = [(images, *image) for image in graph.inputs]
        self._walked = None
        self._walked = run = self._run(program, inputs, layout.sizes)
        return self._cost_of(run)

    def walked(self) -> simulator.Run | None:
        """Return the run of the last `walk`, or None if it was too large to keep, and drop the cost model's reference
        to it."""
        run, self._walked = self._walked, None
        return run if run is not None and len(run.program) <= MOST_KEPT else None

    def zeros(self, program: Program, run: simulator.Run) -> tuple[tuple[Pair, ...], float]:
        """Return the matmuls of zeros to add to a simulated program (see `warmup.zeros_of`), and the predicted time
        with these matmuls as a fraction of the current time. If zeros would save no time, return no matmuls and a
        fraction of 1.
        """
        if not is_cold(run):
            return (), 1.0
        matmuls, nanoseconds = zeros_of(program, run)
        return matmuls, nanoseconds / run.prediction.makespan

    def least(self, graph: Graph, images: int) -> Cost:
        """Return a lower bound for the time of a launch whose operations each run once for `images`, and its
        approximate number of instructions.

        The bound is the sum of the Tensor Engine's busy times, since its instructions run one at a time. An operation
        contributes nothing if its cost is unknown, or is known only for fewer images, which take longer per image.
        """
        multiplying, instructions = 0.0, 0
        for number in range(len(graph.nodes)):
            mini = _SingleOperation(graph, number)
            free_images = images * graph.free_images(graph.nodes[number])
            enough = mini.enough(min(free_images, MOST_PRICED))
            known = self._known.operations.get((*mini.key, enough))
            if known is not None and enough == mini.enough(free_images):
                cost = known.cost(free_images / enough)
                instructions += cost.instructions
                multiplying += cost.multiplying
            elif known is not None:  # an instruction may process more images than were simulated
                instructions += known.cost(
                    mini.instructions_of(free_images) / mini.instructions_of(enough)
                ).instructions
        return Cost(multiplying, instructions)

    def cost(self, graph: Graph, number: int, images: int) -> Cost:
        """Return the cost of one operation for `images` along the free axis of its input."""
        mini = _SingleOperation(graph, number)
        enough = mini.enough(images)
        key = (*mini.key, enough)
        known = self._known.operations
        if key not in known:
            simulated = self._two_passes(mini, enough)
            if len(known) >= MOST_KNOWN:
                known.clear()
            known[key] = simulated
        return known[key].cost(images / enough)

    def _two_passes(self, mini: _SingleOperation, images: int) -> _TwoPasses:
        """Simulate one operation, or one band of its rows if it is large or does not fit in SBUF."""
        for bands in mini.bands:
            try:
                mini.check_fits(images, bands, find_target(self.target).usable_sbuf_bytes)
                run = self._run(*mini.launch(images, PASSES, bands))
            except Unsupported as why:
                reason = why
            else:
                both = replace(self._cost_of(run), multiplying=_multiplying(run))
                return _TwoPasses(both, _first_end(run), mini.share(bands))
        raise reason

    def loading(self, numbers: float) -> float:
        """Return the time in nanoseconds to load this many weights while many loads are in flight."""
        if self._known.loading is None:
            channels = 16 * PARTITIONS
            alone: dict[str, Any] = {"channels": channels, "rows": 1, "columns": 1, "name": ""}
            heights = (PARTITIONS,) * (channels // PARTITIONS)
            every = range(len(heights))
            loads = weight_loads(heights, heights, [every] * len(heights), 1, self._dtype.itemsize)
            weights = WeightsAt(placed(loads, 0))
            operations = (
                Placeholder(heights=heights, **alone),
                Convolution(sources=((0,),), taps=Taps(1, 1, PARTITIONS), weights=weights, **alone),
            )
            program = Program((Stage(operations, 1),), 1, 1)
            run = self._run(program, [(1, channels, 1, 1)], Sizes(channels**2, channels // PARTITIONS))
            self._known.loading = self._cost_of(run).nanoseconds / channels**2
        return numbers * self._known.loading

    def _run(self, program: Program, inputs: Sequence[Shape], sizes: Sizes) -> simulator.Run:
        given = {input_name(number): (shape, self._dtype) for number, shape in enumerate(inputs)}
        given |= sizes.specs(self._dtype)
        operands: dict[str, Any] = {n: simulator.TensorSpec(shape, dtype.name) for n, (shape, dtype) in given.items()}
        kernel = kernels.kernel("run_network")
        try:
            return simulator.run(
                kernel,
                target=self.target,
                functional=False,
                constants=self._constants,
                lnc=1,  # overrides the environment's setting; each of two cores has half of the images
                program=program,
                **operands,
            )
        except (simulator.CapacityError, simulator.AccessPatternError) as error:
            raise Unsupported(str(error)) from None

    @staticmethod
    def _cost_of(run: simulator.Run) -> Cost:
        instructions = max(len(program) for program in run.prediction.programs)
        return Cost((run.latency_us - run.launch_us) * 1000, instructions)


def _multiplying(run: simulator.Run) -> float:
    """Return how many nanoseconds the Tensor Engine is busy at its full clock rate."""
    return sum(instruction.cost.interval for instruction in run.program if instruction.engine is engine.tensor)


def _first_end(run: simulator.Run) -> float:
    """Return the time in nanoseconds at which the first pass of a program ends."""
    ends = zip(owners_of(run.program), run.prediction.schedules[0].done)
    return max((end for owner, end in ends if owner is not None and owner.pass_number == 0), default=0.0)


class _SingleOperation:
    """A single operation of a graph, with its operands resident in SBUF, or in HBM."""

    def __init__(self, graph: Graph, number: int) -> None:
        self._graph, self._number, self._node = graph, number, graph.nodes[number]
        operation = self._node.operation
        self._operation = with_fields(operation, name="", margin=NO_SIDES, **operation.fields_unplaced())
        self._packed = graph.packed_in(self._node)

    @property
    def bands(self) -> list[int]:
        """The numbers of bands to try. Only one band is simulated."""
        if not can_band(self._node):
            return [1]
        return [bands for bands in BANDS if bands == BANDS[-1] or self._pixels <= MOST_PIXELS * bands]

    def share(self, bands: int) -> float:
        """Return the fraction of the operation's rows that the first band contains."""
        first, end = self._operation.whole_rows((0, ceil_div(self._operation.rows, bands)))
        return (end - first) / self._operation.rows

    def enough(self, images: int) -> int:
        """Return a number of images, at most `images`, beyond which the time of the operation grows in proportion.

        For DMAs this number is large, because they move many images together.
        """
        reads_hbm = any(self._reads_hbm(0, part) for part in self._node.sources[0])
        return images if reads_hbm else min(images, ceil_div(ENOUGH_PIXELS, self._pixels))

    def instructions_of(self, images: int) -> float:
        """Return a number that is proportional to the operation's instruction count."""
        return max(1.0, images * self._operation.rows * self._operation.columns / PSUM_BANK_FLOATS)

    @property
    def _pixels(self) -> int:
        """The number of pixels per image of the operation's value or its first operand, whichever is larger."""
        return max(self._operation.rows * self._operation.columns, math.prod(self._node.before[1:]))

    def check_fits(self, images: int, bands: int, usable: int) -> None:
        """Raise Unsupported if the operation's value, or a band of it, exceeds `usable` bytes of an SBUF partition.

        Without this check, the error would occur only at the end of a simulation.
        """
        operation = self._operation
        if operation.has_answers:
            return
        itemsize = 1 if operation.is_fp8 else self._graph.itemsize
        elements = len(self._graph.heights((self._number,))) * operation.rows * operation.columns
        needed = elements * itemsize * images // bands
        if needed > usable:
            raise Unsupported(f"a value needs {needed} bytes of an SBUF partition; {usable} are available")

    @property
    def _sizes(self) -> Sizes:
        numbers = numbers_of(loads_of(self._graph, self._node)) + bias_numbers(self._node)
        by_size = (0, numbers) if self._node.has_fp8_weights else (numbers, 0)
        return Sizes(by_size[0], columns_of(self._graph, self._node), by_size[1])

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that contains everything that the cost depends on."""
        operands, sources = self._operands(None)
        return with_fields(self._operation, sources=sources), tuple(operands), self._packed, self._node.before

    def launch(self, images: int, passes: int, bands: int) -> tuple[Program, list[Shape], Sizes]:
        """Return a program that runs `passes` passes over `images` images for one band of rows, the shapes of its
        inputs, and the sizes of its weights."""
        operation, rows = self._operation, None
        channels, high, wide = self._node.before
        if bands > 1:
            own = operation.whole_rows((0, ceil_div(operation.rows, bands)))
            reach = reach_of(self._node, own)
            rows = (own, reach)
            operation = with_fields(banded(with_fields(self._node, operation=operation), own, reach), margin=NO_SIDES)
            high = reach.inside[1]
        operands, sources = self._operands(rows)
        pictures = images * passes * self._packed
        if operation.filtered is not None:
            loads = placed(loads_of(self._graph, self._node), 0)
            operation = with_fields(operation.filtered, weights=with_fields(operation.filtered.weights, loads=loads))
        operations = (*operands, with_fields(operation, sources=sources))
        program = Program((Stage(operations, images),), self._packed, pictures)
        inputs: list[Shape] = [(pictures, channels, high, wide)] * len(self._graph.inputs)
        return program, inputs, self._sizes

    def _operands(self, rows: tuple[Rows, Reach] | None) -> tuple[list[Placeholder], tuple[Parts, ...]]:
        """Return the operands in SBUF, and the sources of the operation.

        `rows`: the rows that the operation computes and the rows that it reads, or None for all rows.
        """
        operands: dict[int, Placeholder] = {}
        sources: list[Parts] = []
        for number, parts in enumerate(self._node.sources):
            high = None if rows is None else operand_rows(self._node, number, *rows)[1]
            for part in (part for part in parts if not self._reads_hbm(number, part)):
                operands.setdefault(part, _operand(self._graph, part, high))
            places = dict(zip(operands, range(len(operands))))
            sources.append(
                tuple(min(part, LAUNCH_INPUT) if self._reads_hbm(number, part) else places[part] for part in parts)
            )
        return list(operands.values()), tuple(sources)

    def _reads_hbm(self, operand: int, part: int) -> bool:
        """True if the operation itself reads a part of an operand from HBM; other parts are loaded separately."""
        return part < 0 or (operand == 0 and self._graph.is_from_hbm(self._node))


def _operand(graph: Graph, part: int, rows: int | None) -> Placeholder:
    """Return a placeholder for an operand, or for its first `rows` rows."""
    operation: Operation = graph.nodes[part].operation
    is_whole = rows is None or operation.rows == 1
    return Placeholder(
        name="",
        channels=operation.channels,
        rows=operation.rows if is_whole else rows or 1,
        columns=operation.columns,
        packed=operation.packed,
        is_fp8=operation.is_fp8,
        margin=operation.margin,
        column_phases=operation.column_phases,
        heights=tuple(graph.heights((part,))),
        copies=getattr(operation, "copies", Copies()),
    )
