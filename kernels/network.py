"""A whole network in one launch: activations stay in SBUF from layer to layer.

    constants = load(biases of all layers)
    for some images at a time:
        value = load(x)                                          # as the first layer's taps want it
        for layer:
            value = layer(weights[layer], value)                 # in SBUF, with the padding that the next layer reads
        scores, classes = finish(value)                          # softmax and argmax, images on the partitions
        store(scores, classes)

A layer's weights are loaded when it first runs; the compiler starts loads as early as SBUF has room. They stay for all
images.

Several images lie side by side on the partitions where there are few channels: image i of a pass is number i % together
on the partitions and number i // together along the free axis, so that x as it lies in HBM, [images, C, H, W], is
[images / together, together * C, H, W]. A layer is then a convolution whose filters are block-diagonal, and fills the
Tensor Engine's columns and the lanes of the engines that finish its sums. As channels grow from layer to layer, fewer
images fit; the others move to the free axis, which takes no instruction: a tile of outputs is written to every r-th
image. A dense layer is a convolution whose window is its whole input.

The bodies are those of the kernels that run one layer a launch. What each layer gives is named
"layer/<pass>/<name>", by which a simulator's or profiler's timeline tells the layers apart.
"""

from dataclasses import dataclass

import nki
import nki.isa as nisa
import nki.language as nl

from .conv2d import convolve_tile
from .conv2d_plan import plan_resident
from .conv2d_problem import Problem, output_extent
from .conv2d_weights import WeightStream, open_weights, stage_weights
from .network_ends import finish, load, load_plain
from .packing import PARTITIONS, ceil_div, packed_rows
from .pooling import average_pool_tile, lowest, max_pool_tile
from .tiles import even_tiles, itemsize, tiles
from .windows import Span, fill_border, input_span, make_sweep, whole


@dataclass
class Layer(nl.NKIObject):
    """One layer of a program; a plain tuple of these, in this order, describes it outside of the kernel.

    `kind` is "conv2d", "max_pool", "average_pool" or "scores". `source` is the number of the layer that it reads, -1
    for the input. A convolution reads `weights` and the numbers after it in the flat array, and a column of the
    constants for each 128 output channels; `scores`, the last layer, a column for each class.
    """

    kind: str
    name: str
    source: int
    channels: int  # that it gives
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]  # top, left, bottom, right
    pool_size: int
    activation: str
    parameters: tuple[float, ...]
    weights: int
    constants: int
    taps: tuple[int, int, int]  # as packing.taps_in_partitions gives it
    together: int  # images side by side in what it gives
    margin: tuple[int, int, int, int]  # zeros around what it gives, for the layers that read it
    count_include_pad: bool
    ceil_mode: bool
    softmax: bool


@dataclass
class Value(nl.NKIObject):
    """What a layer gave: tiles of up to 128 partitions, (image, channel), as [partitions, images, rows, columns]."""

    tiles: list[nl.NkiTensor]
    images: int  # along the free axis
    channels: int  # of an image
    rows: int
    columns: int
    margin: tuple[int, int, int, int]
    together: int


@dataclass
class Network(nl.NKIObject):
    """The layers and what stays for all passes."""

    layers: list[Layer]
    streams: list[WeightStream]  # one a layer, None where it has no weights
    weights: nl.NkiTensor  # in HBM
    constants: nl.NkiTensor  # in HBM
    biases: list[nl.NkiTensor]  # the constants in SBUF, once they are loaded


@nki.jit
def run_network(x, weights, constants, program, together, images_at_once):
    """Scores and classes of images.

    Dimensions:
        B: images, a multiple of `together`. C, H, W: of one image. N: classes.
    Args:
        x: [B, C, H, W] in HBM, float32, bfloat16 or float16; features are [B, F, 1, 1].
        weights: [numbers] of x's dtype: those of all layers, each as `pack_side_by_side` lays it out.
        constants: [128, columns] float32, the biases: of a convolution by partition, of the last layer by column.
        program: a tuple of layers, each a tuple of the fields of `Layer`. The last one is "scores", a dense layer.
        together: images side by side in x.
        images_at_once: images / together that are in SBUF at a time, 1 or more.
    Returns:
        scores [B, N] of x's dtype, softmax or raw, and classes int32 [B], the first of the largest.
    """
    layers = []
    for fields in program:
        layers.append(Layer(*fields))
    last = layers[len(layers) - 1]
    batch, channels, height, width = x.shape
    assert batch % together == 0, f"network: {batch} images are no multiple of the {together} side by side"
    side_by_side = x.reshape((batch // together, together * channels, height, width))
    scores = nl.ndarray((batch, last.channels), dtype=x.dtype, buffer=nl.shared_hbm)
    classes = nl.ndarray((batch,), dtype=nl.int32, buffer=nl.shared_hbm)
    streams: list[WeightStream] = []
    biases: list[nl.NkiTensor] = []
    network = Network(layers, streams, weights, constants, biases)
    for images in even_tiles(batch // together, images_at_once):
        first = images.start * together
        end = images.end * together
        seen = side_by_side[images.start : images.end]
        _run_pass(network, seen, scores[first:end], classes[first:end], images.index)
    return scores, classes


def _run_pass(network, seen, scores, classes, number):
    """Some images, from the input [images, together * C, H, W] to scores and classes, all in HBM."""
    together = scores.shape[0] // seen.shape[0]
    values: list[Value] = []
    for n in range(len(network.layers)):
        layer = network.layers[n]
        label = f"layer/{number}/{layer.name}"
        value = _source(layer, values, seen, together)
        if layer.kind == "max_pool" or layer.kind == "average_pool":
            if number == 0:
                network.streams.append(None)
            if not value.tiles:
                value.tiles = load_plain(seen)
            values.append(_pool(layer, value, label))
        else:
            stream = _open(network, n, value)
            if not value.tiles:
                value.tiles = load(seen, stream.plan)
            if not network.biases:
                network.biases.append(_biases(network.constants))
            if layer.kind == "conv2d":
                values.append(_convolve(layer, value, stream, network.biases[0], label))
            else:
                finish(layer, value, stream, network.biases[0], scores, classes, label)


def _biases(constants):
    """All biases, by one DMA: behind the weights and the input that the first matmuls wait for."""
    biases = nl.ndarray(constants.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=biases, src=constants)
    return biases


def _source(layer, values, seen, together):
    """What a layer reads; the input has no tiles before the layer's plan tells how they lie."""
    if layer.source >= 0:
        return values[layer.source]
    images, channels, rows, columns = seen.shape
    tiles: list[nl.NkiTensor] = []
    return Value(tiles, images, channels // together, rows, columns, (0, 0, 0, 0), together)


def _open(network, number, value):
    """The weights of a layer, loaded in the first pass; the plan is that of this pass, whose images may be fewer."""
    layer = network.layers[number]
    kernel = layer.kernel
    padding = layer.padding
    rows = output_extent(value.rows, kernel[0], layer.stride[0], layer.dilation[0], padding[0], padding[2])
    columns = output_extent(value.columns, kernel[1], layer.stride[1], layer.dilation[1], padding[1], padding[3])
    in_channels = value.channels * value.together
    outputs = layer.channels * value.together
    problem = Problem(
        value.images,
        in_channels,
        value.rows,
        value.columns,
        outputs,
        kernel,
        layer.stride,
        layer.dilation,
        padding,
        layer.taps,
        layer.pool_size,
        layer.activation,
        layer.parameters,
        rows // layer.pool_size * layer.pool_size,
        columns // layer.pool_size * layer.pool_size,
        itemsize(network.weights.dtype),
        True,
    )
    block = outputs if layer.kind == "scores" else min(PARTITIONS, layer.channels * layer.together)
    plan = plan_resident(problem, block, layer.source >= 0)
    if number < len(network.streams):
        before = network.streams[number]
        return WeightStream(before.w, plan, 0, before.units, before.staged, before.ready)
    height = packed_rows(in_channels, layer.taps[0], layer.taps[1], layer.taps[2])
    width = len(plan.steps) * outputs
    laid_out = network.weights[layer.weights : layer.weights + height * width].reshape((height, width))
    stream = open_weights(laid_out, plan, 0, len(plan.weights.out_tiles))
    stage_weights(stream, stream.units)
    network.streams.append(stream)
    return stream


def _room(layer, value, rows, columns, label, dtype):
    """Where a layer puts what it gives, with zeros around it."""
    top, left, bottom, right = layer.margin
    images = value.images * (value.together // layer.together)
    rooms = []
    for part in tiles(layer.channels * layer.together, PARTITIONS):
        shape = (part.size, images, rows + top + bottom, columns + left + right)
        room = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, name=label)
        fill_border(room, Span(0, shape[2], top, bottom), Span(0, shape[3], left, right), 0.0)
        rooms.append(room)
    return Value(rooms, images, layer.channels, rows, columns, layer.margin, layer.together)


def _inside(value, t, padding):
    """Tile `t` of a value with just that much of the zeros around it."""
    top = value.margin[0] - padding[0]
    left = value.margin[1] - padding[1]
    bottom = value.margin[0] + value.rows + padding[2]
    right = value.margin[1] + value.columns + padding[3]
    return value.tiles[t][:, :, top:bottom, left:right]


def _convolve(layer, value, stream, biases, label):
    """A convolution from SBUF to SBUF."""
    plan = stream.plan
    problem = plan.problem
    sources = []
    for t in range(len(value.tiles)):
        sources.append(_inside(value, t, layer.padding) if layer.source >= 0 else value.tiles[t])
    rows = problem.out_rows // layer.pool_size
    columns = problem.out_columns // layer.pool_size
    given = _room(layer, value, rows, columns, label, stream.w.dtype)
    apart = value.together // layer.together  # of the images side by side, so many groups no longer are
    of_image = ceil_div(layer.channels, PARTITIONS)
    for out_tile in plan.weights.out_tiles:
        place = out_tile.index % of_image
        group = out_tile.index // of_image
        result = _inside(given, place, (0, 0, 0, 0))[:, group : given.images : apart]
        bias = biases[0 : out_tile.size, layer.constants + place : layer.constants + place + 1]
        convolve_tile(result, sources, stream, out_tile.index, bias, plan.groups[0])
    return given


def _pool(layer, value, label):
    """Maxima or means of windows, from SBUF to SBUF."""
    padding = layer.padding
    dtype = value.tiles[0].dtype
    ceil_mode = layer.ceil_mode
    rows = make_sweep("rows", value.rows, layer.kernel[0], layer.stride[0], 1, padding[0], padding[2], ceil_mode)
    columns = make_sweep(
        "columns", value.columns, layer.kernel[1], layer.stride[1], 1, padding[1], padding[3], ceil_mode
    )
    given = _room(layer, value, rows.outputs, columns.outputs, label, dtype)
    down = input_span(rows, whole(rows.outputs), whole(rows.size))
    across = input_span(columns, whole(columns.outputs), whole(columns.size))
    for t in range(len(value.tiles)):
        data = _inside(value, t, (0, 0, 0, 0))
        if down.head + down.tail + across.head + across.tail > 0:
            data = _padded(data, down, across, lowest(dtype) if layer.kind == "max_pool" else 0.0)
        else:
            data = data[:, :, 0 : down.size, 0 : across.size]
        result = _inside(given, t, (0, 0, 0, 0))
        if layer.kind == "max_pool":
            max_pool_tile(result, data, rows, columns)
        else:
            average_pool_tile(result, data, rows, columns, layer.count_include_pad)
    return given


def _padded(data, rows, columns, fill):
    """A copy of [partitions, images, rows, columns] with its padding."""
    copy = nl.ndarray((data.shape[0], data.shape[1], rows.size, columns.size), dtype=data.dtype, buffer=nl.sbuf)
    fill_border(copy, rows, columns, fill)
    bottom = rows.size - rows.tail
    right = columns.size - columns.tail
    nisa.tensor_copy(
        dst=copy[:, :, rows.head : bottom, columns.head : right],
        src=data[:, :, 0 : bottom - rows.head, 0 : right - columns.head],
        engine=nisa.engine.gpsimd,
    )
    return copy
