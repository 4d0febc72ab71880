"""The scores of one picture with classes on the partitions (128 per column), and the first class with the largest
score.

A single picture is inefficient as the stationary operand: each matmul would stream up to 512 weights through one row of
the array, and all later instructions would use one partition. In this module, the weights are stationary:

    for tile of up to 128 classes:
        logits[:, tile] = weights[:, tile] @ picture + bias         # a matmul of one column for each tile of inputs
    find the largest score of each partition, and its class
    transpose both to rows; find the first of the classes with the largest score

| tile | shape | bounds |
|---|---|---|
| weights | [inputs, steps, classes] | 128 inputs and 128 classes per matmul |
| logits | [classes, tiles of classes] | float32, 128 classes per column |
"""

import nki.isa as nisa
import nki.language as nl

from ..argmax import SEARCH_WIDTH
from ..program import DenseHead
from ..tiling.tiles import PARTITIONS, copy_by_hardware, evict, sbuf_tile, several_columns, tiles

BEYOND = float(1 << 24)  # larger than any class number, even after rounding


def compute_column_scores(launch, number, operation: DenseHead, value, multiplied):
    """Compute the scores of one picture and the first class with the largest score, and store them to HBM.

    `multiplied` contains the steps of the filter and, for each input tile, the weights [partitions, steps, classes].
    """
    assert value.images == value.packed == 1, (
        f"{operation.name}: scores by columns require one picture, got {value.images} images of {value.packed}"
    )
    parts = tiles(operation.channels, PARTITIONS)
    count = len(parts)
    constants = launch.constants(PARTITIONS, operation.bias, count + 1)  # biases, then the partition numbers
    sums = nl.ndarray((PARTITIONS, count), dtype=nl.float32, buffer=nl.psum)
    logits = nl.ndarray((PARTITIONS, max(SEARCH_WIDTH, count)), dtype=nl.float32, buffer=nl.sbuf)
    for part in parts:
        _multiply_column(sums[:, part.index : part.index + 1], value, multiplied, part, launch.dtype)
        _add_column(logits, sums, constants, part, count)
    scores, classes = launch.answers(number, operation)
    class_index = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf, name=launch.label(operation))
    last = float(operation.channels - 1)
    _find_first_of_largest(class_index, logits, constants[:, count : count + 1], last)
    copy_by_hardware(dst=classes.reshape((1, 1)), src=class_index)
    _store_columns(scores, logits[:, 0:count], sbuf_tile((count, PARTITIONS), launch.dtype, launch.label(operation)))


def _add_column(logits, sums, other, part, count):
    """Compute a column of logits.

    In the last column, partitions without a class contain copies of the first column. If values are equal, the first
    column is preferred, so these copies are never chosen.
    """
    column, rows = slice(part.index, part.index + 1), slice(0, part.size)
    if part.index == count - 1:
        first = logits[:, 0:1].broadcast(1, logits.shape[1] - part.index)
        nisa.tensor_copy(dst=logits[:, part.index :], src=first, engine=nisa.engine.vector)
    nisa.tensor_tensor(dst=logits[rows, column], data1=sums[rows, column], data2=other[rows, column], op=nl.add)


def _multiply_column(sums, value, multiplied, part, dtype):
    """Compute the sums [partitions, 1] of a tile of classes, whose weights are the stationary operand."""
    steps, units = multiplied
    for t, unit in enumerate(units):
        top, left = value.margins[t][0], value.margins[t][1]
        for s, step in enumerate(steps):
            stationary = unit[:, s, part.start : part.end]
            if several_columns(part.size, dtype) > part.size:  # duplicate a single column
                stationary = stationary.broadcast(1, 2)
            nisa.nc_matmul(
                dst=sums[0 : stationary.shape[1]],
                stationary=stationary,
                moving=value.tiles[t][:, 0:1, top + step.down, left + step.right],
                accumulate=t > 0 or s > 0,
            )


def _find_first_of_largest(found, logits, partitions, last):
    """Write the class of the largest logit (the first if several are equal) in [partitions, columns] to `found`, int32
    [1, 1].

    Class c is on partition c % 128, in column c // 128. `partitions` contains the partition numbers in float32,
    [partitions, 1]. `last` is the last class.
    """
    values = nl.ndarray((PARTITIONS, SEARCH_WIDTH), dtype=nl.float32, buffer=nl.sbuf)
    columns = nl.ndarray((PARTITIONS, SEARCH_WIDTH), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.max8(dst=values, src=logits)
    nisa.nc_find_index8(dst=columns, data=logits, vals=values)
    numbers = nl.ndarray((PARTITIONS, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=numbers,
        data=columns[:, 0:1],
        op0=nl.multiply,
        operand0=float(PARTITIONS),
        op1=nl.add,
        operand1=partitions,
    )
    best = nl.ndarray((1, PARTITIONS), dtype=nl.float32, buffer=nl.psum)
    classes = nl.ndarray((1, PARTITIONS), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=best, data=values[:, 0:1], engine=nisa.engine.tensor)
    nisa.nc_transpose(dst=classes, data=numbers, engine=nisa.engine.tensor)
    largest = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=best, axis=1)
    padded = nl.ndarray((1, PARTITIONS), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=padded, data=best, op0=nl.less, operand0=largest, op1=nl.multiply, operand1=BEYOND)
    left = nl.ndarray((1, PARTITIONS), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(  # clamp to the last class, because NaN compares unequal to everything
        dst=left, data=classes, op0=nl.minimum, operand0=last, op1=nl.add, operand1=padded
    )
    nisa.tensor_reduce(dst=found, op=nl.minimum, data=left, axis=1)


def _store_columns(scores, logits, rows):
    """Store logits [partitions, columns] as scores [1, classes] in HBM, through `rows` of 128 classes in SBUF."""
    count, classes = rows.shape[0], scores.shape[1]
    transposed = nl.ndarray((count, PARTITIONS), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=transposed, data=logits, engine=nisa.engine.tensor)
    evict(dst=rows, src=transposed, turn=1)
    full_tiles = classes // PARTITIONS
    if full_tiles > 0:
        first = scores[:, 0 : full_tiles * PARTITIONS].reshape((full_tiles, PARTITIONS))
        copy_by_hardware(dst=first, src=rows[0:full_tiles])
    if full_tiles < count:
        copy_by_hardware(
            dst=scores[:, full_tiles * PARTITIONS :], src=rows[full_tiles:count, 0 : classes - full_tiles * PARTITIONS]
        )
