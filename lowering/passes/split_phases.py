"""Convert the input of a strided first convolution to an image of phases.

Pixels at equal distances form phases, which become separate channels: a convolution of C channels with kh x kw filters
and stride (s, t) is equivalent to one of s * t * C channels with kh / s x kw / t filters (rounded up) and stride 1. No
DMA then reads single elements, and more channels fill the rows of the Tensor Engine. The host arranges the phases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...kernels.program import LAUNCH_INPUT
from ...kernels.tiling.packing import ceil_div
from ..decisions import Choice, Decisions, Kind
from ..graph.arrangement import Arrangement
from ..graph.graph import Graph
from .base import SwitchedPass


class SplitPhases(SwitchedPass):
    """Replaces the stride of the first convolution by phases of the input."""

    name = "split_phases"
    needs = ("load_input", "pack_rows")
    kinds = (Kind.SPLIT_PHASES,)

    def offers(self, graph: Graph, decisions: Decisions, pictures: int) -> Sequence[Choice]:
        """See `Pass`."""
        return [Choice(Kind.SPLIT_PHASES)]

    def change(self, graph: Graph, decisions: Decisions) -> Graph | None:
        """See `SwitchedPass`."""
        return split_phases(graph)


def split_phases(graph: Graph) -> Graph | None:
    """Convert the first convolution to stride 1 over an image of phases; return None if this is impossible or if it
    already has stride 1."""
    first = graph.nodes[0]
    operation = first.operation.convolved
    if operation is None or not graph.from_host or graph.readers(LAUNCH_INPUT) != [(0, 0)]:
        return None
    plain = operation.groups == 1 and max(operation.dilation) == 1 and operation.sources[0] == (LAUNCH_INPUT,)
    if not plain or max(operation.stride) == 1:
        return None
    down, across = operation.stride
    channels = graph.image[0] * down * across
    kernel = (ceil_div(operation.kernel[0], down), ceil_div(operation.kernel[1], across))
    size = (operation.rows, operation.columns)
    rows, columns = (side * operation.pool_size - 1 + taps for side, taps in zip(size, kernel))
    top, left = operation.padding[:2]
    zeros = (top, left, rows * down - top - graph.image[1], columns * across - left - graph.image[2])
    assert first.filters is not None
    outputs, inputs = first.filters.shape[:2]

    def split(array: np.ndarray) -> np.ndarray:
        padded = np.zeros((outputs, inputs, kernel[0] * down, kernel[1] * across), array.dtype)
        padded[:, :, : array.shape[2], : array.shape[3]] = array
        apart = padded.reshape(outputs, inputs, kernel[0], down, kernel[1], across).transpose(0, 1, 3, 5, 2, 4)
        return apart.reshape(outputs, channels, *kernel)

    image = (channels, rows, columns)
    convolution = replace(
        first, before=image, filters=first.filters.changed((outputs, channels, *kernel), split)
    ).changed(kernel=kernel, stride=(1, 1), padding=(0, 0, 0, 0))
    return replace(
        graph, nodes=(convolution, *graph.nodes[1:]), image=image, arrangement=Arrangement(zeros, operation.stride)
    )
