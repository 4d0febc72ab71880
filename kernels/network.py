"""A network, or part of one, in one launch: activations stay in SBUF between operations.

    for stage:
        for pass over some of the images:
            for operation:
                values[operation] = body(operation, values[its sources])      # operations/

A program (program.py) is plain data that `lowering/` generates from a network. If there are few channels, several
images, several filter taps or groups of image rows are packed along the partitions, so that they fill the systolic
array and the lanes of the other engines. One array contains the weights of all operations, and each operation specifies
how its weights are loaded. The name of a tensor refers to its operation (tensor_names.py), so that timelines can
attribute instructions to layers.
"""

from typing import Any

import nki
import nki.language as nl

from .attention_operation import Attention, PixelTranspose, ReshapePixels
from .operations.arrange import pad, place_beside, rearrange, reshape_pixels, shuffle_pixels
from .operations.attention import attend
from .operations.convolve import convolve
from .operations.elementwise import combine, scale_and_shift, slope
from .operations.launch import Launch
from .operations.load import load_plain, load_taps, store
from .operations.normalize import normalize_groups, normalize_pixels, normalize_responses
from .operations.pixel_argmax import find_pixel_classes
from .operations.pixel_transpose import transpose_pixels
from .operations.pool import pool_maxima, pool_means
from .operations.row_fold import pool_row_fold
from .operations.scores import compute_scores, find_answers
from .operations.softmax import soften_channels, soften_rows
from .operations.value import allocate_value
from .program import (
    Affine,
    AveragePool,
    Beside,
    Buffer,
    ChannelSoftmax,
    ClassifierHead,
    Combine,
    Convolution,
    DenseHead,
    GroupNorm,
    LayerNorm,
    Load,
    LocalResponseNorm,
    MaxPool,
    Pad,
    PixelArgmax,
    PixelShuffle,
    Placeholder,
    Rearrange,
    RowFoldPool,
    RowSoftmax,
    Slope,
    Store,
    TapsLoad,
)
from .tiling.tiles import even_tiles


def open_buffer(launch, number, operation: Buffer, operands):
    """Allocate a buffer that later operations write."""
    return launch.open_buffer(number, operation)


def assume_resident(launch, number, operation: Placeholder, operands):
    """Allocate a value with arbitrary contents."""
    return allocate_value(launch, operation, launch.pictures(), operation.heights, is_blank=False)


BODIES: dict[type, Any] = {
    Affine: scale_and_shift,
    ClassifierHead: find_answers,
    Attention: attend,
    AveragePool: pool_means,
    Beside: place_beside,
    ChannelSoftmax: soften_channels,
    Combine: combine,
    Convolution: convolve,
    GroupNorm: normalize_groups,
    PixelShuffle: shuffle_pixels,
    LayerNorm: normalize_pixels,
    Load: load_plain,
    LocalResponseNorm: normalize_responses,
    MaxPool: pool_maxima,
    Pad: pad,
    PixelArgmax: find_pixel_classes,
    PixelTranspose: transpose_pixels,
    Rearrange: rearrange,
    ReshapePixels: reshape_pixels,
    Placeholder: assume_resident,
    Buffer: open_buffer,
    RowFoldPool: pool_row_fold,
    RowSoftmax: soften_rows,
    DenseHead: compute_scores,
    Slope: slope,
    Store: store,
    TapsLoad: load_taps,
}


@nki.jit
def run_network(
    x,
    weights=None,
    channel_constants=None,
    weights_fp8=None,
    more0=None,
    more1=None,
    more2=None,
    more3=None,
    more4=None,
    more5=None,
    more6=None,
    *,
    program,
):
    """Run a program.

    On two cores, each core processes half of the batch; core 0 processes the first half of the inputs and outputs. A
    program that is `alone` runs only on core 0.

    Dimensions:
        B: pictures, padded for each core to a multiple of the number of images packed in the input.
        C, H, W: size of one image.
        B': pictures, padded for each core to a multiple of the number of images packed in the output.

    Pass operands as keyword arguments, because TorchNeuron binds operands by name. Pass only operands that the program
    reads, because the compiler removes tensors that no instruction reads.

    Args:
        x: [B, C, H, W] in HBM, float32, bfloat16 or float16; features are [B, F, 1, 1]. Images beyond B are not read.
        weights: [numbers], with the same dtype as x: all weights that are not stored in 8 bits.
        channel_constants: [128, columns] float32: biases, scales and shifts.
        weights_fp8: [numbers] uint8: the 8-bit weights, which are float8_e4m3 values, a dtype that PyTorch does not
            have.
        more0 to more6: additional inputs, like x (program.py, `input_name`).
        program: a `Program`.

    Returns:
        The program's outputs, in the order of its operations. For `ClassifierHead`: the scores [B', N] in x's dtype,
        and the classes with the largest scores (the first if several are equal), int32 [B']; for `PixelArgmax`: int32
        [B', H', W']; for a `Buffer` in `Memory.OUTPUT`: [B', C', H', W'].
    """
    fp8 = None if weights_fp8 is None else weights_fp8.view(nl.float8_e4m3)
    inputs = [operand for operand in (x, more0, more1, more2, more3, more4, more5, more6) if operand is not None]
    launch = Launch(inputs, (weights, fp8), channel_constants, program)
    first = 0
    for stage in launch.stages:
        for images in even_tiles(launch.images, stage.at_once):
            launch.begin_pass(images.start, images.end, images.index)
            for number, operation in enumerate(stage.operations, first):
                launch.begin_operation(number)
                body = BODIES[type(operation)]
                launch.keep(number, body(launch, number, operation, launch.operands(operation)))
        first += len(stage.operations)
    return launch.outputs[0] if len(launch.outputs) == 1 else tuple(launch.outputs)
