"""The state of a running program: its values, its constants, and the weights being loaded into SBUF.

Each load of weights is issued just before the first matmul that uses them. It starts as soon as SBUF has space, so that
weights are loaded while preceding operations run. Resident weights are loaded once per stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import nki.isa as nisa
import nki.language as nl

from ..convolution.forms import matrices
from ..convolution.weights import WeightStream
from ..operation_fields import ZERO_COLUMNS
from ..program import LAUNCH_INPUT, Memory, Program, WeightLoad, WeightRun, WeightsAt
from ..tensor_names import OpId, TensorName
from ..tiling.packing import round_up
from ..tiling.tiles import PARTITIONS, copy_by_hardware, load_early, sbuf_tile
from ..tiling.warm_up import bank_for, is_throttled, make_zeros, multiply_zeros, warm_bank
from .value import Value, allocate_value, join, value_in_hbm


@dataclass
class LoadedWeights:
    """The weights of one operation that have been loaded so far.

    `units`: the weights [partitions, matrices, channels] for each output tile and input tile. `pitches`: the distance,
    in elements of a partition, from a unit to the unit of the next input tile, if one load fetches both.
    `makes_diagonals`: whether one number for each channel is expanded to diagonal matrices. `next_load`: the index of
    the next load. `arrived`: the weights of the pass that are in SBUF.
    """

    w: nl.NkiTensor  # in HBM, flat
    matrices: int
    reads: list[range]
    loads: tuple[WeightLoad, ...]
    units: list[dict[int, nl.NkiTensor]]
    pitches: list[dict[int, int]]
    identity: Callable[[], nl.NkiTensor]
    arrived: ArrivedWeights
    makes_diagonals: bool = True
    next_load: int = 0

    def of_tile(self, tile, early=False):
        """Return the units of an output tile, in the order of the input tiles that it reads.

        `early`: whether they are the first weights of the launch.
        """
        while self.next_load < len(self.loads) and self.loads[self.next_load].out_tile <= tile:
            load = self.loads[self.next_load]
            self._keep(load, self.arrived.take(load, load_early if early else copy_by_hardware))
            self.next_load += 1
        return [self.units[tile][t] for t in self.reads[tile]]

    def _keep(self, load, run):
        """Keep views of the units of a load, [partitions, elements], and their pitches."""
        for unit in load.units:
            elements = run[:, unit.first : unit.first + unit.elements]
            shaped = elements.reshape_dim(1, (self.matrices, unit.elements // self.matrices))
            if unit.is_diagonal and self.makes_diagonals:
                shaped = make_diagonals(shaped, self.identity(), unit.out_tile)
            self.units[unit.out_tile][unit.in_tile] = shaped
        for unit, after in zip(load.units, load.units[1:]):
            if (after.out_tile, after.in_tile) == (unit.out_tile, unit.in_tile + 1):
                self.pitches[unit.out_tile][unit.in_tile] = after.first - unit.first


class ArrivedWeights:
    """The weights of one dtype that a pass has loaded: the flat array `w` in HBM, and its runs that are in SBUF."""

    def __init__(self, w) -> None:
        self.w = w
        self._runs: dict[WeightRun, nl.NkiTensor] = {}

    def take(self, load, copy):
        """Return the weights of a load, [partitions, elements], and copy their run to SBUF unless it is there."""
        run = load.run
        held = self._runs.get(run)
        if held is None:
            held = sbuf_tile((run.rows, run.elements), self.w.dtype)
            copy(dst=held, src=self.w[run.offset : run.end].reshape(held.shape))
        if not load.is_shared:
            return held
        self._runs[run] = held
        return held[0 : load.rows, load.first : load.first + load.elements]

    def discard(self):
        """Discard the runs at the start of a pass."""
        self._runs = {}


def make_diagonals(numbers, identity, turn):
    """Expand numbers [channels, matrices, 1] to diagonal matrices [channels, matrices, channels].

    GpSimd and the Vector Engine alternate, depending on `turn`.
    """
    channels, matrices, _ = numbers.shape
    diagonals = nl.ndarray((channels, matrices, channels), dtype=numbers.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(
        dst=diagonals,
        data1=identity[0:channels, 0:channels].expand_dim(1).broadcast(1, matrices),
        data2=numbers.broadcast(2, channels),
        op=nl.multiply,
        engine=nisa.engine.gpsimd if turn % 2 == 1 else nisa.engine.vector,
    )
    return diagonals


class Launch:
    """The state of a running program: `outputs` in HBM, and the values of the current pass."""

    def __init__(self, inputs, weights, constants, program: Program) -> None:
        self._core = nl.program_id(0)
        self._shares = 1 if program.alone else nl.num_programs(0)  # shares into which the pictures are divided
        self.program = program
        self._operations = program.operations
        self.stages = () if program.alone and self._core > 0 else program.stages
        self.weights = weights[0]
        self._arrived = [ArrivedWeights(w) for w in weights]  # the second for 8-bit weights
        self.dtype = inputs[0].dtype
        self.outputs: list[nl.NkiTensor] = []
        self._constants_in_hbm = constants
        self._constants: Any = None
        self._diagonal: Any = None
        self._shifted: Any = None
        self._zeros: Any = None
        self.loads_early = True  # True if the Scalar Engine triggers the first weight load, in parallel with the input
        self._warmup_matmuls = dict(program.warmup_matmuls)
        self._resident_weights: dict[WeightsAt, LoadedWeights] = {}
        self._kept: dict[int, Value] = {}  # buffers for the whole batch, including outputs
        self._inputs = [self._seen(x) for x in inputs]
        self._answers: dict[int, tuple[nl.NkiTensor, ...]] = {}
        self._values: dict[int, Value] = {}
        self._first = self._end = self._pass = self._named = 0
        self._number = OpId(0)
        for number, operation in enumerate(self._operations):
            self._open_output(number, operation)

    @property
    def _share(self) -> int:
        """The index of this core's share."""
        return self._core if self._shares > 1 else 0

    @property
    def images(self) -> int:
        """The number of images of the input along the free axis."""
        return self._inputs[0].images

    @property
    def is_starting(self) -> bool:
        """True until the constants are requested for the first time."""
        return self._constants is None

    def begin_pass(self, first, end, number):
        """Start pass `number` of a stage on images [first, end) of the input; discard the values of earlier passes."""
        self._first, self._end, self._pass = first, end, number
        self._values = {buffer: self._of_pass(value) for buffer, value in self._kept.items()}
        for position, value in enumerate(self._inputs):
            self._values[LAUNCH_INPUT - position] = value.of_images(first, end)
        if number == 0:
            self._resident_weights = {}
        for arrived in self._arrived:
            arrived.discard()

    def warm_bank(self, number, partitions, columns):
        """Return a PSUM tile of zeros for the first sums of operation `number`, or None if no warm-up is needed.

        The tile has at least `columns` columns. The Tensor Engine multiplies zeros while it waits for its operands, for
        example for the first loads of a launch.
        """
        count, widest = self._warmup_matmuls.get(number, 0), nl.tile_size.psum_bank_fmax
        if not is_throttled() or not (count or self.is_starting):
            return None
        if self._zeros is None:
            self._zeros = make_zeros(widest, "warm_up")
        if self.is_starting:
            return warm_bank(partitions, widest, 2, self._zeros)
        bank = bank_for(partitions, max(columns, ZERO_COLUMNS))
        multiply_zeros(bank, self._zeros, count, ZERO_COLUMNS)
        return bank

    def dtype_of(self, operation):
        """Return the dtype of an operation's value."""
        return nl.float8_e4m3 if operation.is_fp8 else self.dtype

    def begin_operation(self, number):
        """Advance to operation `number` of the program."""
        self._number = number

    def label(self, operation):
        """Return a unique tensor name from which timelines identify the operation that computes the tensor."""
        self._named += 1
        return TensorName(f"{operation.name}.{self._named}", self._number, self._pass)

    def load_constants(self):
        """Load all constants with one DMA, unless they have been loaded.

        The DMA follows the loads that the first matmuls require.
        """
        if self._constants is None:
            assert self._constants_in_hbm is not None, "network: the program reads constants, but none were passed"
            self._constants = nl.ndarray(self._constants_in_hbm.shape, dtype=nl.float32, buffer=nl.sbuf)
            load_early(self._constants, self._constants_in_hbm)

    def constants(self, rows, first, count=1):
        """Return columns of the constants, float32 [rows, count]."""
        self.load_constants()
        return self._constants[0:rows, first : first + count]

    def operands(self, operation):
        """Return the operands of an operation."""
        windows = operation.windows or tuple((None,) * len(parts) for parts in operation.sources)
        return [
            join([self._part(part, window) for part, window in zip(parts, own, strict=True)])
            for parts, own in zip(operation.sources, windows, strict=True)
        ]

    def _part(self, part, window):
        value = self._values[part]
        return value if window is None else value.of_rows(*window)

    def keep(self, number, value):
        """Store the value of operation `number` for later operations."""
        self._values[number] = value

    def pictures(self):
        """Return the number of pictures of the pass."""
        return self._values[LAUNCH_INPUT].pictures

    def open_buffer(self, number, buffer):
        """Return a buffer for the images of the pass: a new buffer, or part of a buffer for the whole batch."""
        if buffer.memory is Memory.OUTPUT:
            return self._of_pass(self._kept[number])
        if not buffer.whole_batch:
            return self._allocate_buffer(buffer, self.pictures())
        if number not in self._kept:
            self._kept[number] = self._allocate_buffer(buffer, self.program.pictures)
        return self._of_pass(self._kept[number])

    def output_of(self, operation, partitions):
        """Return the buffer that an operation writes: its `into`, or a new buffer in SBUF with tiles of
        `partitions`."""
        if operation.into is None:
            return allocate_value(self, operation, self.pictures(), partitions)
        buffer = self._values[operation.into.buffer]
        if operation.convolved is not None:
            return buffer
        first = operation.into.first[0]
        return buffer.of_rows(first, first + operation.rows)

    def numbers_of(self, operation, images):
        """Return the view [images, numbers] of the buffer in HBM that an operation writes, or None if the operation has
        no such buffer."""
        buffer = None if operation.into is None else self._values[operation.into.buffer].hbm
        if buffer is None:
            return None
        _, lanes, rows, columns = buffer.shape
        numbers = operation.channels * operation.rows * operation.columns
        flat = buffer.reshape((images, buffer.shape[0] * lanes * rows * columns // images))
        return flat[:, operation.into.number : operation.into.number + numbers]

    def answers(self, number, operation):
        """Return the outputs of an operation in HBM for the pictures of the pass: (scores, classes) for
        `ClassifierHead`, (classes,) for `PixelArgmax`."""
        answers = self._answers[number]
        first = self._first * self.program.packed
        end = min(answers[0].shape[0], self._end * self.program.packed)
        return tuple(each[first:end] for each in answers)

    def weights_of(self, operation, plan):
        """Return the weights of an operation. Resident weights may have been loaded in an earlier pass."""
        found = self._resident_weights.get(operation.weights)
        if found is not None:
            return found
        arrived = self._arrived[operation.weights.is_fp8]
        assert arrived.w is not None, f"network: {operation.name} reads weights, but none of its dtype were passed"
        is_elementwise = operation.filter_form.is_elementwise
        out_tiles = range(len(plan.weights.out_tiles))
        units = [unit for load in operation.weights.loads for unit in load.units]
        reads = [[unit.in_tile for unit in units if unit.out_tile == tile] for tile in out_tiles]
        opened = LoadedWeights(
            w=arrived.w,
            matrices=units[0].elements if is_elementwise else matrices(plan.form, len(plan.steps)),
            reads=[range(min(own), max(own) + 1) for own in reads],
            loads=operation.weights.loads,
            units=[{} for _ in out_tiles],
            pitches=[{} for _ in out_tiles],
            identity=self.identity,
            arrived=arrived,
            makes_diagonals=not is_elementwise,
        )
        if operation.weights.are_resident:
            self._resident_weights[operation.weights] = opened
        return opened

    def identity(self):
        """Return the identity matrix, which is loaded only once."""
        if self._diagonal is None:
            self._diagonal = nl.shared_identity_matrix(PARTITIONS, dtype=self.dtype)
        return self._diagonal

    def shifted_identity(self):
        """Return an identity matrix between zeros, [128, 3 * 128]; columns starting at 128 - n move rows down by n."""
        if self._shifted is None:
            self._shifted = nl.ndarray((PARTITIONS, 3 * PARTITIONS), dtype=self.dtype, buffer=nl.sbuf)
            nisa.memset(dst=self._shifted, value=0.0, engine=nisa.engine.gpsimd)
            middle = self._shifted[:, PARTITIONS : 2 * PARTITIONS]
            nisa.tensor_copy(dst=middle, src=self.identity(), engine=nisa.engine.gpsimd)
        return self._shifted

    def _seen(self, x):
        """Return this core's images of an input [images, C, H, W] as a value.

        If an earlier launch produced the input, it may contain more images than are read.
        """
        packed, pictures = self.program.packed, self.program.pictures
        given, channels, rows, columns = x.shape
        images, each = round_up(pictures, packed), given // self._shares
        assert each >= images and given % self._shares == 0, (
            f"network: {pictures} pictures, {packed} of them packed, are {images} images for each of {self._shares} "
            f"cores, got {given}"
        )
        first = self._share * each
        return value_in_hbm(
            x[first : first + images].reshape((images // packed, packed * channels, rows, columns)), packed, pictures
        )

    def _open_output(self, number, operation):
        each = round_up(self.program.pictures, operation.packed)
        given, own = self._shares * each, slice(self._share * each, (self._share + 1) * each)
        if operation.has_scores:
            scores = nl.ndarray((given, operation.channels), dtype=self.dtype, buffer=nl.shared_hbm)
            classes = nl.ndarray((given,), dtype=nl.int32, buffer=nl.shared_hbm)
            self._answers[number] = scores[own], classes[own]
            self.outputs += [scores, classes]
        elif operation.has_answers:
            classes = nl.ndarray((given, *operation.shape[1:]), dtype=nl.int32, buffer=nl.shared_hbm)
            self._answers[number] = (classes[own],)
            self.outputs.append(classes)
        elif getattr(operation, "memory", None) is Memory.OUTPUT:
            out = nl.ndarray((given, *operation.shape), dtype=self.dtype, buffer=nl.shared_hbm)
            lanes = (each // operation.packed, operation.packed * operation.channels, *operation.shape[1:])
            self._kept[number] = value_in_hbm(out[own].reshape(lanes), operation.packed, self.program.pictures)
            self.outputs.append(out)

    def _allocate_buffer(self, buffer, pictures):
        if buffer.memory is Memory.SBUF:
            return allocate_value(self, buffer, pictures, buffer.heights)
        lanes = buffer.packed * buffer.channels
        images = round_up(pictures, buffer.packed) // buffer.packed
        hbm = nl.ndarray(
            (images, lanes, buffer.rows, buffer.columns), dtype=self.dtype_of(buffer), buffer=nl.private_hbm
        )
        return value_in_hbm(hbm, buffer.packed, pictures)

    def _of_pass(self, value):
        apart = self.program.packed // value.packed
        return value.of_images(self._first * apart, min(self._end * apart, value.images))


def stream_of(weights, plan, tile, pitches):
    """Return the units of an output tile as a stream for `convolve_tile` that contains only this tile.

    `pitches`: the distances between the input tiles.
    """
    units = weights.of_tile(tile)
    reads = weights.reads[tile]
    pairs = [(pitches[t] if pitches else 0, weights.pitches[tile].get(t, 0)) for t in reads]
    own = replace(plan, channel_tiles=plan.channel_tiles[reads.start : reads.stop], pairs=pairs)
    return WeightStream(weights.w, own, 0, len(units), [], units)
