"""The two ends of a network in one launch: the input on its way into SBUF, and the answers on their way out."""

import nki.isa as nisa
import nki.language as nl

from ..activation_functions import activate
from ..argmax import SEARCH_WIDTH, fill_up, find_largest
from ..bias_activation import softmax_tile
from ..convolution.input import load_input
from ..normalization import log_softmax_tile
from ..tiling.packing import PARTITIONS, ceil_div
from ..tiling.tiles import Tile, evict, itemsize, load_early, load_rows, store_rows, tiles, transposed_dtype
from .layers import Value, whole_tile

FEW_ROWS = 16  # rows of features up to which a descriptor for each number costs less than transposing them


def load(seen, plan):
    """The input as the first matmuls take it."""
    images, features, rows, columns = seen.shape
    kernel = plan.problem.kernel
    only = rows * columns * kernel[0] * kernel[1] == 1 and max(plan.problem.padding) == 0
    if images > FEW_ROWS and only:
        return _load_features(seen.reshape((images, features)))
    return load_input(seen, plan)


def load_plain(value, seen):
    """The input as it is, into the tiles of a value."""
    first = 0
    for t in range(len(value.tiles)):
        end = first + value.tiles[t].shape[0]
        nisa.dma_copy(dst=whole_tile(value, t), src=seen[:, first:end].permute((1, 0, 2, 3)))
        first = end


def load_taps(layer, value, early):
    """A small image, which comes with its zeros, as the first convolution takes it: (image, filter column, channel) on
    the partitions, and below them the same further down by rows, for the filter's rows. A DMA a row of the filter: each
    partition reads a run for each image. `early`: the first of a launch, whose matmuls wait for one image alone.
    """
    seen = value.hbm
    images, channels, rows, columns = seen.shape
    width = layer.kernel[1]
    copies, shift, stride = layer.copies
    together = layer.together
    given = layer.channels * together
    tile = nl.ndarray(((copies - 1) * stride + given, images, rows * columns), dtype=seen.dtype, buffer=nl.sbuf)
    if copies > 1 and stride > given:
        half = rows * columns // 2
        nisa.memset(dst=tile[:, :, 0:half], value=0.0, engine=nisa.engine.gpsimd)
        nisa.memset(dst=tile[:, :, half : rows * columns], value=0.0, engine=nisa.engine.vector)
    for part in tiles(images, 1 if early else images):
        for copy in range(copies):
            run = (rows - copy * shift) * columns - (width - 1) * layer.dilation[1]
            pattern = [
                [channels // together * rows * columns, together],
                [layer.dilation[1], width],
                [rows * columns, channels // together],
                [channels * rows * columns, part.size],
                [1, run],
            ]
            target = tile[copy * stride : copy * stride + given, part.start : part.end, 0:run]
            source = seen[part.start : part.end, :, copy * shift : rows].ap(pattern)
            if early and part.index == 0 and copy % 2 == 1:
                load_early(target, source)
            else:
                nisa.dma_copy(dst=target, src=source)
    margins = [(0, 0, 0, 0)]
    shaped = [tile.reshape((tile.shape[0], images, rows, columns))]
    return Value(shaped, margins, None, images, layer.channels, rows, columns, together, value.pictures)


def _load_features(seen):
    """Rows of features [images, F], transposed on the Tensor Engine: tiles [up to 128 features, images, 1, 1].

    A DMA that put each number on its partition would take a descriptor for every one.
    """
    images, features = seen.shape
    rows = nl.ndarray((PARTITIONS, ceil_div(images, PARTITIONS), features), dtype=seen.dtype, buffer=nl.sbuf)
    load_rows(rows, seen)
    dtype = transposed_dtype(seen.dtype)
    turned = []
    for part in tiles(features, PARTITIONS):
        tile = nl.ndarray((part.size, images, 1, 1), dtype=seen.dtype, buffer=nl.sbuf)
        for filling in tiles(images, nl.tile_size.psum_bank_fmax_bytes // itemsize(dtype)):
            bank = nl.ndarray((part.size, filling.size), dtype=dtype, buffer=nl.psum)
            for block in tiles(filling.size, PARTITIONS):
                data = rows[0 : block.size, filling.start // PARTITIONS + block.index, part.start : part.end]
                nisa.nc_transpose(dst=bank[:, block.start : block.end], data=data, engine=nisa.engine.tensor)
            evict(dst=tile[:, filling.start : filling.end, 0, 0], src=bank, turn=filling.index)
        turned.append(tile)
    return turned


def finish(layer, value, steps, units, biases, out, label):
    """The last layer, with images on the partitions: [images, classes], softmax or its logarithms where asked for, and
    where the largest stands."""
    scores, classes = out
    together = value.together
    outputs = together * layer.channels
    at_once = max(1, nl.tile_size.psum_bank_fmax // outputs)
    for part in _full_blocks(value.images, at_once):
        blocks = tiles(part.size, PARTITIONS)
        sums = nl.ndarray((min(PARTITIONS, part.size), len(blocks), outputs), dtype=nl.float32, buffer=nl.psum)
        for block in blocks:
            images = Tile(block.index, part.start + block.start, block.size, part.start + block.end)
            _multiply_rows(sums[0 : block.size, block.index], value, steps, units, images)
        rows = len(blocks) * together
        width = max(SEARCH_WIDTH, layer.channels)
        logits = nl.ndarray((sums.shape[0], rows, width), dtype=nl.float32, buffer=nl.sbuf)
        bias = biases[0 : sums.shape[0], layer.constants : layer.constants + layer.channels]
        nisa.tensor_tensor(
            dst=logits[:, :, 0 : layer.channels],
            data1=sums.reshape((sums.shape[0], rows, layer.channels)),
            data2=bias.expand_dim(1).broadcast(1, rows),
            op=nl.add,
        )
        answers = logits[:, :, 0 : layer.channels]
        if layer.activation != "identity":
            activate(answers, answers, layer.activation, layer.parameters)
        fill_up(logits, layer.channels)
        found = nl.ndarray((sums.shape[0], rows), dtype=nl.int32, buffer=nl.sbuf, name=label)
        largest = find_largest(found, logits)  # before the softmax, which keeps the order
        result = nl.ndarray(answers.shape, dtype=scores.dtype, buffer=nl.sbuf, name=label)
        if layer.softmax == "softmax":
            softmax_tile(result, answers, largest[:, :, 0:1])
        elif layer.softmax == "log_softmax":
            log_softmax_tile(result, answers, largest[:, :, 0:1])
        else:
            nisa.tensor_copy(dst=result, src=answers, engine=nisa.engine.gpsimd)
        first = part.start * together
        end = part.end * together
        shape = (sums.shape[0], len(blocks), outputs)
        _store(scores[first:end].reshape((part.size, outputs)), result.reshape(shape))
        shape = (sums.shape[0], len(blocks), together)
        _store(classes[first:end].reshape((part.size, together)), found.reshape(shape))


def _full_blocks(images, at_once):
    """Parts of up to `at_once` blocks of 128 images, and one of the images that are left: no block has room to spare,
    so that instructions which take all blocks of a part read nothing that was never written."""
    whole = images // PARTITIONS * PARTITIONS
    parts = tiles(whole, PARTITIONS * at_once)
    if whole < images:
        parts.append(Tile(len(parts), whole, images - whole, images))
    return parts


def _multiply_rows(sums, value, steps, units, images):
    """sums [images, outputs] of a tile of images, by matmuls whose stationary operand is the images."""
    for part in tiles(sums.shape[1], nl.tile_size.gemm_moving_fmax):
        for t in range(len(value.tiles)):
            unit = units[t]
            top, left = value.margins[t][0], value.margins[t][1]
            for s in range(len(steps)):
                pixel = value.tiles[t][:, images.start : images.end, top + steps[s].down, left + steps[s].right]
                nisa.nc_matmul(
                    dst=sums[:, part.start : part.end],
                    stationary=pixel,
                    moving=unit[:, s, part.start : part.end],
                    accumulate=t > 0 or s > 0,
                )


def _store(dst, src):
    """Rows [images, numbers] of HBM from [partitions, blocks of 128 images, numbers]."""
    if src.shape[1] > 1:
        store_rows(dst, src)
    else:
        nisa.dma_copy(dst=dst, src=src[:, 0, :])
