"""A whole network in one launch: activations stay in SBUF from layer to layer.

    for some images at a time, a pass:
        value = load(x)                                 # with the taps of the first filters on the partitions
        for layer:
            weights = load(weights of the layer)        # ahead of their use; they stay for all passes where they fit
            value = layer(weights, value)               # in SBUF, with the zeros that the next layer reads around it
        store(softmax(value), argmax(value))            # images on the partitions

A value is tiles of up to 128 partitions, [(image, channel), images, rows, columns]. What is too large for SBUF goes
through HBM, and the convolution after it reads it in groups of rows. Three things fill the partitions, and so the rows
and columns of the Tensor Engine and the lanes of the others, where channels are few:

- Images side by side: image i of a pass is number i % together on the partitions and i // together along the free axis,
  and filters are block-diagonal. As channels grow, fewer images fit; a tile of outputs is then every r-th image.
- Taps: the same value again on the partitions below, moved up by rows (`copies`), so that a matmul takes several.
- Rows in pairs (networks/fold.py).

A dense layer is a convolution whose window is its whole input. The bodies are those of the kernels that run one layer a
launch. What each layer gives is named "layer/<pass>/<name>", by which timelines tell the layers apart.
"""

import nki
import nki.language as nl

from .networks.convolve import convolve, plan_layer
from .networks.ends import finish, load, load_taps
from .networks.layers import ProgramLayer, Value, joined, store_value, value_in_hbm
from .networks.normalize import normalize
from .networks.one_by_one import one_by_one
from .networks.weights import LayerWeights, LoadedNetwork, constants_of, units_of, weights_of
from .tiling.packing import round_up
from .tiling.tiles import even_tiles, itemsize


@nki.jit
def run_network(x, weights, constants, program, together, images_at_once, pictures):
    """Scores and classes of images, or what a part of a network gives.

    Dimensions:
        B: images, a multiple of `together`. C, H, W: of one image. N: classes. B': pictures, filled up to a multiple
        of those that lie side by side in what is returned.
    Args:
        x: [B, C, H, W] in HBM, float32, bfloat16 or float16; features are [B, F, 1, 1].
        weights: [numbers] of x's dtype: those of all layers, in the order of their loads (weight_loads.py).
        constants: [128, columns] float32, biases, scales and shifts: by partition, of `scores` by column.
        program: a tuple of layers, each a tuple of the fields of `ProgramLayer`. The last one of a network is "scores",
            a dense layer; that of a part of a network is `in_hbm`.
        together: images side by side in x.
        images_at_once: images / together that are in SBUF at a time, 1 or more.
        pictures: images that count; those after them fill x up.
    Returns:
        scores [B', N] of x's dtype, softmax, its logarithms or raw, and classes int32 [B'], the first of the largest;
        of a part of a network [B', C', H', W'], what its last layer gives.
    """
    layers = []
    for fields in program:
        layers.append(ProgramLayer(*fields))
    last = layers[len(layers) - 1]
    batch, channels, height, width = x.shape
    assert batch == round_up(pictures, together), (
        f"network: {pictures} pictures are no {batch} images, {together} of them side by side"
    )
    given = round_up(pictures, last.together)
    side_by_side = x.reshape((batch // together, together * channels, height, width))
    loaded: list[LayerWeights] = []
    columns: list[nl.NkiTensor] = []
    network = LoadedNetwork(layers, loaded, weights, constants, columns)
    if last.kind == "scores":
        out = nl.ndarray((given, last.channels), dtype=x.dtype, buffer=nl.shared_hbm)
        classes = nl.ndarray((given,), dtype=nl.int32, buffer=nl.shared_hbm)
    else:
        out = nl.ndarray((given, last.channels, last.rows, last.columns), dtype=x.dtype, buffer=nl.shared_hbm)
        classes = None
    for images in even_tiles(batch // together, images_at_once):
        first = images.start * together
        end = min(given, images.end * together)
        seen = side_by_side[images.start : images.end]
        value = value_in_hbm(seen, together, min(pictures, images.end * together) - first)
        _run_pass(network, value, (out[first:end], None if classes is None else classes[first:end]), images.index)
    return out if classes is None else (out, classes)


def _run_pass(network, given, out, number):
    """Some images, from the input to scores and classes, or values, all in HBM."""
    values: list[Value] = []
    for n in range(len(network.layers)):
        layer = network.layers[n]
        label = f"layer/{number}/{layer.name}"
        operands = []
        for source in layer.sources:
            parts = []
            for part in source:
                parts.append(given if part < 0 else values[part])
            operands.append(joined(parts))
        if number == 0:
            network.loaded.append(None)
        if layer.kind == "scores":
            _finish(network, n, operands[0], out, label)
        elif layer.kind == "taps":
            values.append(load_taps(layer, operands[0], number == 0))
        elif layer.kind == "conv2d":
            target = out[0] if n == len(network.layers) - 1 else None
            values.append(convolve(network, n, operands, target, label))
        else:
            if layer.kind == "layer_norm" or layer.kind == "group_norm":
                value = normalize(network, layer, operands[0], label)
            else:
                value = one_by_one(network, layer, operands, label)
            if n == len(network.layers) - 1:
                store_value(value, _side_by_side(out[0], value))
            values.append(value)


def _finish(network, n, value, out, label):
    """The last layer."""
    layer = network.layers[n]
    plan = plan_layer(layer, value, itemsize(network.weights.dtype))
    units = units_of(weights_of(network, n, value, plan), 0)
    if value.hbm is not None:
        value = _loaded(value, plan)
    finish(layer, value, plan.steps, units, constants_of(network), out, label)


def _loaded(value, plan):
    """An input that the first layer takes as a whole."""
    loaded = load(value.hbm, plan)
    margins: list[tuple[int, int, int, int]] = []
    for _ in loaded:
        margins.append((0, 0, 0, 0))
    rows, columns = value.rows, value.columns
    return Value(loaded, margins, None, value.images, value.channels, rows, columns, value.together, value.pictures)


def _side_by_side(out, value):
    """[B, C, rows, columns] in HBM as [images, (image, channel), rows, columns], as a value has them."""
    return out.reshape((value.images, value.together * value.channels, value.rows, value.columns))
