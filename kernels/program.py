"""The operations of a program that `run_network` executes, one frozen dataclass for each kind of operation.

The module contains plain data and does not import `nki`: `lowering/` builds programs before any backend is chosen, and
kernels read them. Programs are hashable, so that they can be arguments of a jitted kernel: TorchNeuron compiles once
for each distinct program.

A value is the result of an operation: channels x rows x columns for each image. `packed` images share the partitions:
image i of a pass has position i % packed on the partitions and position i // packed along the free axis.
"""

from __future__ import annotations

from dataclasses import dataclass

from .filter_operations import ClassifierHead as ClassifierHead
from .filter_operations import Convolution as Convolution
from .filter_operations import DenseHead as DenseHead
from .filter_operations import FilterOperation as FilterOperation
from .operation import NO_SIDES as NO_SIDES
from .operation import Buffer as Buffer
from .operation import Load as Load
from .operation import Operation as Operation
from .operation import Packing as Packing
from .operation import Parts as Parts
from .operation import Placeholder as Placeholder
from .operation import Rows as Rows
from .operation import Sides as Sides
from .operation import Store as Store
from .operation import Surroundings as Surroundings
from .operation import TapsLoad as TapsLoad
from .operation import Windows as Windows
from .operation_fields import IDENTITY as IDENTITY
from .operation_fields import Activation as Activation
from .operation_fields import Border as Border
from .operation_fields import Copies as Copies
from .operation_fields import Ending as Ending
from .operation_fields import Memory as Memory
from .operation_fields import Pair
from .operation_fields import RowFold as RowFold
from .operation_fields import Unit as Unit
from .operation_fields import WeightLoad as WeightLoad
from .operation_fields import WeightRun as WeightRun
from .operation_fields import WeightsAt as WeightsAt
from .operation_fields import WriteRegion as WriteRegion
from .output_order import OutputOrder as OutputOrder
from .pool_operations import AveragePool as AveragePool
from .pool_operations import MaxPool as MaxPool
from .pool_operations import Pool as Pool
from .pool_operations import RowFoldPool as RowFoldPool
from .tensor_names import OpId as OpId
from .value_operations import Affine as Affine
from .value_operations import Beside as Beside
from .value_operations import ChannelSoftmax as ChannelSoftmax
from .value_operations import Combine as Combine
from .value_operations import GroupNorm as GroupNorm
from .value_operations import LayerNorm as LayerNorm
from .value_operations import LocalResponseNorm as LocalResponseNorm
from .value_operations import Norm as Norm
from .value_operations import Numbered as Numbered
from .value_operations import Pad as Pad
from .value_operations import PixelArgmax as PixelArgmax
from .value_operations import PixelShuffle as PixelShuffle
from .value_operations import Rearrange as Rearrange
from .value_operations import RowSoftmax as RowSoftmax
from .value_operations import Slope as Slope

LAUNCH_INPUT = -1  # the first input of the launch, as a part of an operand; the second input is -2, and so on
MAX_INPUTS = 8  # `run_network` has a parameter for each input, because TorchNeuron binds operands by name


def input_name(number: int) -> str:
    """Return the parameter of `run_network` for input `number` of a launch. Raise ValueError if there is none."""
    if not 0 <= number < MAX_INPUTS:
        raise ValueError(f"the number of an input must be less than {MAX_INPUTS}, got {number}")
    return "x" if number == 0 else f"more{number - 1}"


@dataclass(frozen=True)
class Stage:
    """Operations that are run together, in passes over `at_once` times the images packed in the input."""

    operations: tuple[Operation, ...]
    at_once: int


@dataclass(frozen=True)
class Program:
    """A launch, which consists of sequential stages. Operations are numbered across all stages.

    The input is [images, C, H, W], where `images` is `pictures` rounded up to a multiple of `packed`. If two cores run
    the program, the input contains this number of images for each core. If the program is `alone`, core 0 runs it and
    core 1 is idle. `warmup_matmuls` contains pairs of a convolution and the number of matmuls of zeros that precede it.
    """

    stages: tuple[Stage, ...]
    packed: int
    pictures: int
    alone: bool = False
    warmup_matmuls: tuple[Pair, ...] = ()

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations of all stages, in order: operation n has the `OpId` n."""
        return tuple(operation for stage in self.stages for operation in stage.operations)

    @property
    def layers(self) -> tuple[str, ...]:
        """The layer to which each operation belongs."""
        return tuple(operation.name for operation in self.operations)
