"""The operations of a program that `run_network` executes, a frozen dataclass each.

Plain data without `nki`: `lowering/` builds programs before any backend is chosen, kernels read them. Programs are
hashable, so that they can be arguments of a jitted kernel: TorchNeuron compiles once for each value of them.

A value is what an operation computes: channels x rows x columns for each image. `packed` images lie on the partitions
at a time, image i of a pass as number i % packed on the partitions and i // packed along the free axis.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .convolution.adding import Adding
from .convolution.forms import Form
from .convolution.row_blocks import RowBlocks
from .output_order import OutputOrder as OutputOrder
from .places import IDENTITY as IDENTITY
from .places import NO_ROW_GROUPS, NO_WEIGHTS, ONE_COPY, Pair
from .places import Activation as Activation
from .places import Border as Border
from .places import Copies as Copies
from .places import EarlyLoad as EarlyLoad
from .places import Ending as Ending
from .places import Memory as Memory
from .places import Place as Place
from .places import RowGroups as RowGroups
from .places import Unit as Unit
from .places import WeightLoad as WeightLoad
from .places import WeightsAt as WeightsAt
from .tensor_names import OpId as OpId
from .tiling.column_phases import ColumnPhases
from .tiling.packing import Taps

LAUNCH_INPUT = -1  # as a part: the first input of the launch; the second is one less, and so on
MAX_INPUTS = 8  # of a launch: `run_network` has a parameter for each, because TorchNeuron binds operands by name


def input_name(number: int) -> str:
    """Return the parameter of `run_network` for input `number` of a launch; ValueError where it has none."""
    if not 0 <= number < MAX_INPUTS:
        raise ValueError(f"input {number} of a launch; at most {MAX_INPUTS} inputs are allowed")
    return "x" if number == 0 else f"more{number - 1}"


Sides = tuple[int, int, int, int]  # (top, left, bottom, right)
Parts = tuple[int, ...]  # operations whose channels follow one another; inputs of the launch are below 0
Windows = tuple[Pair | None, ...]  # of each part, rows [first, end), None for all

NO_SIDES: Sides = (0, 0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One step of a program; its value is [channels, rows, columns] for each image.

    `name` is the layer it belongs to. `sources`: the parts of each operand. `windows`: of each part of each operand the
    rows [first, end) that it reads, None for all. `margin`: zeros around its value, for the operations that read it.
    `into`: a room that it writes to, in place of one of its own. `narrow`: its value is in 8 bits, as shares of a scale
    that is in the constants of the operations that compute and read it. `column_phases`: the number of phases that its
    columns are in, one after another (`ColumnPhases`).
    """

    name: str
    channels: int
    rows: int
    columns: int
    sources: tuple[Parts, ...] = ()
    windows: tuple[Windows, ...] = ()
    packed: int = 1
    margin: Sides = NO_SIDES
    into: Place | None = None
    narrow: bool = False
    column_phases: int = 1

    @property
    def columns_held(self) -> int:
        """Columns of a row in SBUF, with the zeros around them."""
        return ColumnPhases(self.column_phases, self.columns, self.margin[1], self.margin[3]).total

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of an image."""
        return self.channels, self.rows, self.columns


@dataclass(frozen=True, kw_only=True)
class Room(Operation):
    """Memory that other operations write to, for the images of a pass or, `whole_batch`, of the launch.

    `heights`: partitions of each tile of one in SBUF, as the operations that write it have them.
    """

    memory: Memory = Memory.SBUF
    whole_batch: bool = False
    heights: tuple[int, ...] = ()
    copies: Copies = ONE_COPY


@dataclass(frozen=True, kw_only=True)
class Resident(Operation):
    """A value whose numbers do not matter and that is in SBUF already: to time the operations that read it.

    `heights`: partitions of each tile.
    """

    heights: tuple[int, ...]
    copies: Copies = ONE_COPY


@dataclass(frozen=True, kw_only=True)
class Load(Operation):
    """A value in HBM, as it is, into SBUF."""


@dataclass(frozen=True, kw_only=True)
class TapsLoad(Operation):
    """A small image that comes with its zeros, once for each filter column: (image, filter column, channel) on the
    partitions, and copies of that for filter rows.

    The filter reads `kernel_columns` columns, `dilation` apart. `fills`: one DMA brings all copies, up to the next.
    """

    kernel_columns: int
    dilation: int = 1
    fills: bool = False
    copies: Copies = ONE_COPY


@dataclass(frozen=True, kw_only=True)
class Store(Operation):
    """A value in SBUF into a room in HBM."""


@dataclass(frozen=True, kw_only=True)
class Convolution(Operation):
    """activation(maxpool(convolution + bias) + addend): the second operand, if there is one, is the addend.

    `rows_at_once`: rows of the output that the filters compute from one row group of the input, each in output tiles of
    its own (`OutputOrder`). `group_bytes`: of a partition, for an input in HBM that comes in groups of rows or images,
    0 as a whole; for one in SBUF what minimal filtering combines of it at a time. `bias`: the column of the constants
    with the biases of its first 128 outputs; behind the biases are the scales of its sums, if it `is_scaled`, and where
    it also has an addend three columns more (`Epilogue` in convolution/sums.py); last, two if it `has_own_bounds`.
    `adding`: the engines that add an addend. `is_gate`: it is read as a number for each channel (operations/gates.py).
    """

    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Sides = NO_SIDES
    groups: int = 1
    pool_size: int = 1
    activation: Activation = IDENTITY
    weights: WeightsAt = NO_WEIGHTS
    bias: int = 0
    taps: Taps = field(default_factory=lambda: Taps(1, 1, 0))
    form: Form = Form.DIRECT
    copies: Copies = ONE_COPY
    row_groups: RowGroups = NO_ROW_GROUPS
    rows_at_once: int = 1
    group_bytes: int = 0
    adding: Adding = Adding.VECTOR
    is_gate: bool = False

    @property
    def is_scaled(self) -> bool:
        """True if its sums are multiplied by scales: its weights or its value are in 8 bits."""
        return self.weights.narrow or self.narrow

    @property
    def columns_of_constants(self) -> int:
        """Columns of the constants for 128 outputs: the bias, scales, and bounds."""
        scales = (1 if len(self.sources) == 1 else 4) if self.is_scaled else 0
        return 1 + scales + (2 if self.has_own_bounds else 0)

    @property
    def has_own_bounds(self) -> bool:
        """True if the bounds of its clip are columns of the constants, as shares of its value's scale."""
        return self.narrow and self.activation.name == "clip"

    def output_order(self, packed_in: int) -> OutputOrder:
        """Return the order of its outputs, `packed_in` images being packed in its input."""
        return OutputOrder(packed_in // self.packed, self.rows_at_once, self.packed, self.channels)

    def row_blocks(self, partitions: int) -> RowBlocks:
        """Return the groups of rows of a depthwise convolution in a form that computes several."""
        return RowBlocks(self.form.rows, self.kernel[0], self.stride[0], self.dilation[0], self.rows, partitions)


@dataclass(frozen=True, kw_only=True)
class Answers(Operation):
    """The numbers of each image as scores, which go by way of HBM, and where the largest of them is."""

    ending: Ending = Ending.RAW


@dataclass(frozen=True, kw_only=True)
class Scores(Answers):
    """The last layer: a dense layer with images on the partitions, and where the largest of its outputs is.

    `by_columns`: of one picture with classes on the partitions; its biases are then columns of 128 classes each, and
    behind them is one of the numbers of the partitions.
    """

    by_columns: bool = False
    kernel: Pair = (1, 1)
    activation: Activation = IDENTITY
    weights: WeightsAt = NO_WEIGHTS
    bias: int = 0  # column of the constants of the first class; scales are behind biases, of weights in 8 bits
    taps: Taps = field(default_factory=lambda: Taps(1, 1, 0))

    def output_order(self, packed_in: int) -> OutputOrder:
        """Return the order of its outputs, `packed_in` images being packed in its input."""
        return OutputOrder(1, 1, packed_in, self.channels)


@dataclass(frozen=True, kw_only=True)
class Pool(Operation):
    """Windows of rows and columns, folded by `MaxPool` or `AveragePool`."""

    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Sides = NO_SIDES
    ceil_mode: bool = False


@dataclass(frozen=True, kw_only=True)
class MaxPool(Pool):
    """Maxima of windows."""


@dataclass(frozen=True, kw_only=True)
class AveragePool(Pool):
    """Means of windows, over their elements in the image, or in the image and its padding; `is_sum`: their sums."""

    count_include_pad: bool = False
    is_sum: bool = False


@dataclass(frozen=True, kw_only=True)
class RowGroupsPool(Operation):
    """Maxima, of numbers that are 0 or more, of windows over rows in groups of two.

    `start`: the row, counted in the groups of the input, of the first tap of the first output. `offset`: rows above the
    image in the first group of the output, -1 for single rows. `image_rows`: rows of the output in the image.
    """

    kernel: Pair
    stride: Pair
    dilation: Pair
    padding: Sides
    start: int
    offset: int
    image_rows: int
    row_groups: RowGroups = NO_ROW_GROUPS


@dataclass(frozen=True, kw_only=True)
class Combine(Operation):
    """activation(first `arithmetic` second); the second may have one number for each channel of each image."""

    arithmetic: str = "add"
    activation: Activation = IDENTITY


@dataclass(frozen=True, kw_only=True)
class Affine(Operation):
    """activation(x * scale + shift): a number for each channel, or for each element of an image.

    Constants from column `constants` on: scale and shift of each tile of channels, one after the other.
    """

    constants: int = 0
    by_element: bool = False
    activation: Activation = IDENTITY


@dataclass(frozen=True, kw_only=True)
class Slope(Operation):
    """x, below 0 x * slope: a slope for each channel, or for each element of an image, from column `constants` on."""

    constants: int = 0
    by_element: bool = False


@dataclass(frozen=True, kw_only=True)
class Norm(Operation):
    """(x - mean) / sqrt(variance + epsilon) * scale + shift, the constants as those of `Affine`."""

    constants: int = 0
    epsilon: float = 1e-5


@dataclass(frozen=True, kw_only=True)
class LayerNorm(Norm):
    """Statistics of each pixel over its channels."""


@dataclass(frozen=True, kw_only=True)
class GroupNorm(Norm):
    """Statistics of groups of channels over an image."""

    groups: int = 1


@dataclass(frozen=True, kw_only=True)
class LocalResponseNorm(Operation):
    """x / (bias + alpha / size * sum of the squares of the `size` channels around it) ** beta."""

    size: int
    alpha: float
    beta: float
    bias: float


@dataclass(frozen=True, kw_only=True)
class Pad(Operation):
    """Rows and columns of `value`, or its own by `border`, around a value; fewer of it where `padding` is below 0."""

    padding: Sides
    value: float = 0.0
    border: Border = Border.NUMBER


@dataclass(frozen=True, kw_only=True)
class Interleave(Operation):
    """Values whose rows and columns take turns: operand n is every `step`-th row and column from (n // step[1],
    n % step[1]) on."""

    step: Pair


@dataclass(frozen=True, kw_only=True)
class Rearrange(Operation):
    """Numbers of each image from number `first` on, in another order: seen as axes of `split`, axis `order[i]` comes
    i-th."""

    split: tuple[int, ...]
    order: tuple[int, ...]
    first: int = 0


@dataclass(frozen=True)
class Stage:
    """Operations that run for some images at a time: in passes of `at_once` times the images packed in the input.

    `early`: the loads that come before each operation, beside its own; empty where there are none in all the stage.
    """

    operations: tuple[Operation, ...]
    at_once: int
    early: tuple[tuple[EarlyLoad, ...], ...] = ()


@dataclass(frozen=True)
class Program:
    """A launch: its stages one after another. Operations are numbered through all stages.

    The input is [images, C, H, W], `images` being `pictures` filled up to a multiple of `packed`. Where two cores run
    it, it has that number of images for each; but if it is `alone`, core 0 runs it and core 1 has nothing to do.
    `warming`: convolutions, and matmuls of zeros before each.
    """

    stages: tuple[Stage, ...]
    packed: int
    pictures: int
    alone: bool = False
    warming: tuple[Pair, ...] = ()

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations of all stages, in their order: operation n has the `OpId` n."""
        return tuple(operation for stage in self.stages for operation in stage.operations)

    @property
    def layers(self) -> tuple[str, ...]:
        """The layer that each operation belongs to."""
        return tuple(operation.name for operation in self.operations)
