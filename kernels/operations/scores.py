"""The last layer of a network: scores with images on the partitions, and the index of the largest score.

    for part of several blocks of 128 images:
        for block:
            sums[image, class] = images^T @ weights             # PSUM; a matmul for each tile of inputs
            logits[image, block, class] = sums + bias           # SBUF
        scores = softmax or log-softmax of logits, if requested
        classes = the first maximum of each row of logits   # max8, nc_find_index8

| tile | shape | bounds |
|---|---|---|
| sums | [images, classes] | 128 images; a PSUM bank of classes |
| logits, scores | [images, blocks, at least 8 classes] | float32 logits; scores in the launch's dtype |
| classes | [images, blocks] | int32 |
"""

import nki.isa as nisa
import nki.language as nl

from ..activation_functions import activate
from ..argmax import SEARCH_WIDTH, fill_up, find_largest
from ..bias_activation import softmax_tile
from ..convolution.problem import Movement, Problem
from ..convolution.resident import plan_resident
from ..normalization import log_softmax_tile
from ..program import NO_SIDES, ClassifierHead, DenseHead, Ending
from ..tiling.tiles import (
    PARTITIONS,
    Tile,
    copy_by_hardware,
    itemsize,
    reshaped,
    sbuf_tile,
    several_columns,
    store_rows,
    tiles,
)
from .column_scores import compute_column_scores
from .load import load
from .problems import filters_of, finish_of, images_of
from .value import Value, stored_value


def compute_scores(launch, number, operation: DenseHead, operands):
    """Compute scores [images, classes] and the first class with the largest score, and store both to HBM.

    If requested, a softmax or log-softmax is applied to the scores.
    """
    (value,) = operands
    outputs = operation.channels * value.packed
    problem = Problem(
        images_of(value, itemsize(value.dtype)),
        filters_of(operation, value, outputs),
        Movement((1, 1), (1, 1), NO_SIDES),
        finish_of(operation),
        output=(1, 1),
    )
    plan = plan_resident(problem, outputs, value.heights, keeps_rows=value.hbm is None, combined_bytes=0)
    units = launch.weights_of(operation, plan).of_tile(0)
    if value.hbm is not None:
        value = _loaded(value, plan)
    launch.load_constants()
    if operation.by_columns:
        compute_column_scores(launch, number, operation, value, (plan.steps, units))
        return
    at_once = max(1, nl.tile_size.psum_bank_fmax // outputs)
    for part in _full_blocks(value.images, at_once):
        _compute_part(launch, number, operation, value, (plan.steps, units), part)


def _loaded(value, plan):
    """Return an operand in SBUF. If it is in HBM, load all of it."""
    loaded = load(value.hbm, plan)
    return Value(
        tiles=tuple(loaded),
        margins=(NO_SIDES,) * len(loaded),
        hbm=None,
        images=value.images,
        channels=value.channels,
        rows=value.rows,
        columns=value.columns,
        packed=value.packed,
        pictures=value.pictures,
    )


def _full_blocks(images, at_once):
    """Return parts of up to `at_once` blocks of 128 images, and one part with the remaining images.

    All blocks of a part have the same size, so that instructions on a part do not read uninitialized memory.
    """
    full = images // PARTITIONS * PARTITIONS
    parts = tiles(full, PARTITIONS * at_once)
    rest = [Tile(len(parts), full, images - full, images)] if full < images else []
    return [*parts, *rest]


def _compute_part(launch, number, operation, value, multiplied, part):
    """Compute the scores and classes of one part of the images."""
    images_packed = value.packed
    outputs = images_packed * operation.channels
    blocks = tiles(part.size, PARTITIONS)
    count = min(PARTITIONS, part.size)
    sums = nl.ndarray((several_columns(count, launch.dtype), len(blocks), outputs), dtype=nl.float32, buffer=nl.psum)
    for block in blocks:
        images = Tile(block.index, part.start + block.start, block.size, part.start + block.end)
        _multiply_rows(sums[:, block.index], value, multiplied, images)
    sums = sums[0:count]
    rows = len(blocks) * images_packed
    width = max(SEARCH_WIDTH, operation.channels)
    logits = nl.ndarray((sums.shape[0], rows, width), dtype=nl.float32, buffer=nl.sbuf)
    bias = launch.constants(sums.shape[0], operation.bias, operation.channels)
    answers = logits[:, :, 0 : operation.channels]
    data = reshaped(sums, (sums.shape[0], rows, operation.channels))
    if operation.weights.is_fp8:
        scale = launch.constants(sums.shape[0], operation.bias + operation.channels, operation.channels)
        nisa.tensor_tensor(dst=answers, data1=data, data2=scale.expand_dim(1).broadcast(1, rows), op=nl.multiply)
        data = answers
    nisa.tensor_tensor(dst=answers, data1=data, data2=bias.expand_dim(1).broadcast(1, rows), op=nl.add)
    if not operation.activation.is_identity:
        activate(answers, answers, operation.activation.name, operation.activation.parameters)
    result, indices = _answered(launch, operation, logits)
    scores, classes = launch.answers(number, operation)
    first, end = part.start * images_packed, part.end * images_packed
    _store(scores[first:end].reshape((part.size, outputs)), reshaped(result, (sums.shape[0], len(blocks), outputs)))
    _store(
        classes[first:end].reshape((part.size, images_packed)),
        reshaped(indices, (sums.shape[0], len(blocks), images_packed)),
    )


def find_answers(launch, number, operation: ClassifierHead, operands):
    """Find the class of each image. The values are moved through HBM to put images on the partitions."""
    (value,) = operands
    pictures = value.images * value.packed
    numbers = stored_value(launch, value).reshape((pictures, operation.channels))
    scores, classes = launch.answers(number, operation)
    for part in tiles(pictures, PARTITIONS):
        data = sbuf_tile((part.size, 1, operation.channels), launch.dtype, name=launch.label(operation))
        copy_by_hardware(dst=data[:, 0], src=numbers[part.start : part.end])
        width = max(SEARCH_WIDTH, operation.channels)
        logits = nl.ndarray((part.size, 1, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=logits[:, :, 0 : operation.channels], src=data, engine=nisa.engine.gpsimd)
        result, indices = _answered(launch, operation, logits)
        copy_by_hardware(dst=scores[part.start : part.end], src=result[:, 0])
        copy_by_hardware(dst=classes[part.start : part.end].reshape((part.size, 1)), src=indices)


def _answered(launch, operation, logits):
    """Return the scores for logits and the first class with the largest score of each row.

    logits: float32 [partitions, rows, max(8, classes)]. The classes are int32 [partitions, rows].
    """
    answers = logits[:, :, 0 : operation.channels]
    fill_up(logits, operation.channels)
    classes = nl.ndarray(logits.shape[0:2], dtype=nl.int32, buffer=nl.sbuf, name=launch.label(operation))
    largest = find_largest(classes, logits)  # found before the softmax, which preserves the order
    result = sbuf_tile(answers.shape, launch.dtype, name=launch.label(operation))
    if operation.ending is Ending.SOFTMAX:
        softmax_tile(result, answers, largest[:, :, 0:1])
    elif operation.ending is Ending.LOG_SOFTMAX:
        log_softmax_tile(result, answers, largest[:, :, 0:1])
    else:
        nisa.tensor_copy(dst=result, src=answers, engine=nisa.engine.gpsimd)
    return result, classes


def _multiply_rows(sums, value, multiplied, images):
    """Compute the sums [images, outputs] of a tile of images with matmuls whose stationary operand is the images.

    A single 16-bit image is duplicated, so that `sums` has two rows.
    """
    steps, units = multiplied
    for part in tiles(sums.shape[1], nl.tile_size.gemm_moving_fmax):
        for t, unit in enumerate(units):
            top, left = value.margins[t][0], value.margins[t][1]
            for s, step in enumerate(steps):
                pixel = value.tiles[t][:, images.start : images.end, top + step.down, left + step.right]
                if sums.shape[0] > images.size == 1:
                    pixel = pixel.broadcast(1, 2)
                nisa.nc_matmul(
                    dst=sums[0 : pixel.shape[1], part.start : part.end],
                    stationary=pixel,
                    moving=unit[:, s, part.start : part.end],
                    accumulate=t > 0 or s > 0,
                )


def _store(dst, src):
    """Store [partitions, blocks of 128 images, numbers] to rows [images, numbers] of HBM."""
    if src.shape[1] > 1:
        store_rows(dst, src)
    else:
        copy_by_hardware(dst=dst, src=src[:, 0, :])
