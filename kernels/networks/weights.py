"""The weights of a network's layers on their way into SBUF, in the loads that weight_loads.py lays out.

A load comes just before its first matmul in the program; it starts as early as SBUF has room for it, so that weights
stream in behind the layers before. Where they stay for all passes, later passes find them here.
"""

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from ..convolution.forms import matrices
from ..convolution.plan import Conv2dPlan, rows_of_taps
from ..convolution.weights import WeightStream
from ..tiling.tiles import load_early
from .layers import ProgramLayer, heights
from .weight_loads import tiles_read, weight_loads


@dataclass
class LayerWeights(nl.NKIObject):
    """The weights of one layer: `units` are those that are loaded, by output tile, [partitions, steps, channels]."""

    w: nl.NkiTensor  # in HBM, flat
    offset: int  # of the next load in it
    matrices: int  # of a filter
    reads: list[tuple[int, int]]
    loads: list[tuple[int, int, int, list[tuple[int, int, int, int]]]]
    loaded: int  # loads
    units: list[list[nl.NkiTensor]]


@dataclass
class LoadedNetwork(nl.NKIObject):
    """The layers, and of their weights and constants what stays for all passes."""

    layers: list[ProgramLayer]
    loaded: list[LayerWeights]  # one a layer, None where it has no weights, or they do not stay
    weights: nl.NkiTensor  # in HBM
    constants: nl.NkiTensor  # in HBM
    columns: list[nl.NkiTensor]  # the constants in SBUF, once they are loaded


def constants_of(network):
    """All biases, by one DMA: behind the weights and the input that the first matmuls wait for."""
    if not network.columns:
        constants = nl.ndarray(network.constants.shape, dtype=nl.float32, buffer=nl.sbuf)
        load_early(constants, network.constants)
        network.columns.append(constants)
    return network.columns[0]


def weights_of(network, n, value, plan):
    """The weights of a layer: those of the pass before where they stay."""
    weights = network.loaded[n]
    if weights is None:
        layer = network.layers[n]
        channels = (value.channels, layer.channels)
        taps = layer.taps[0] * layer.taps[1]
        rows = [rows_of_taps(plan, 0, taps)] if taps > 1 else heights(value)
        weights = open_layer(network.weights, layer, rows, plan, channels)
        if layer.stays:
            network.loaded[n] = weights
    return weights


def open_layer(w, layer, rows, plan, channels):
    """The weights of a layer, none of which is loaded. `rows`: partitions of its input tiles; `channels`: Cin, Cout."""
    reads = []
    columns = []
    units: list[list[nl.NkiTensor]] = []
    for tile in plan.weights.out_tiles:
        reads.append(tiles_read(rows, channels, layer.groups, tile.start, tile.end))
        columns.append(tile.size)
        own: list[nl.NkiTensor] = []
        for _ in range(reads[tile.index][0], reads[tile.index][1]):
            own.append(None)
        units.append(own)
    count = matrices(plan.form, len(plan.steps))
    loads = weight_loads(rows, columns, reads, count, plan.problem.item_bytes)
    return LayerWeights(w, layer.weights, count, reads, loads, 0, units)


def units_of(weights, tile, early=False):
    """The units of an output tile, in the order of the input tiles that it reads; `early`: the first of a launch."""
    while weights.loaded < len(weights.loads) and weights.loads[weights.loaded][0] <= tile:
        _first, rows, size, units = weights.loads[weights.loaded]
        run = nl.ndarray((rows, size), dtype=weights.w.dtype, buffer=nl.sbuf)
        source = weights.w[weights.offset : weights.offset + rows * size].reshape((rows, size))
        if early:
            load_early(run, source)
        else:
            nisa.dma_copy(dst=run, src=source)
        for unit in units:
            elements = run[:, unit[2] : unit[2] + unit[3]]
            shaped = elements.reshape_dim(1, (weights.matrices, unit[3] // weights.matrices))
            weights.units[unit[0]][unit[1] - weights.reads[unit[0]][0]] = shaped
        weights.loaded += 1
        weights.offset += rows * size
    return weights.units[tile]


def stream_of(weights, plan, tile):
    """The units of an output tile as `convolve_tile` takes them: a stream of that tile alone."""
    units = units_of(weights, tile)
    first, end = weights.reads[tile]
    staged: list[nl.NkiTensor] = []
    own = Conv2dPlan(
        plan.problem,
        plan.form,
        plan.channel_tiles[first:end],
        plan.steps,
        plan.reach,
        plan.weights,
        plan.psum,
        plan.groups,
    )
    return WeightStream(weights.w, own, 0, len(units), staged, units)
