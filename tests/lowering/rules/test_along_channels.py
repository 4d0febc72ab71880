"""Convolutions along channels, as in ECA blocks: band matrices without copies through HBM, and the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from lowered import assert_right, graph_of, nodes_of
from onnx_chain import Chain, assert_imports
from trninfer.kernels.program import Convolution
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.emission.weights import lay_out_weights
from trninfer.models.files import Model
from trninfer.models.layers import Conv2d

TOLERANCES = {"float32": 2e-5, "bfloat16": 4e-2, "float16": 1e-2}


def eca(chain: Chain, channels: int, taps: int, dilation: int = 1, padding: int | None = None) -> None:
    """Multiply an image by sigmoid(a convolution along the channels of its means), as timm's EcaModule does."""
    x = chain.value
    chain.add("ReduceMean", chain.constant([2, 3]), keepdims=0)
    chain.add("Reshape", chain.constant([-1, 1, channels]))
    before = (taps - 1) * dilation // 2 if padding is None else padding
    pads = [before, (taps - 1) * dilation - before]
    chain.add("Conv", chain.weight(1, 1, taps), chain.weight(1), pads=pads, dilations=[dilation])
    chain.add("Sigmoid")
    chain.add("Reshape", chain.constant([-1, channels, 1, 1]))
    chain.add("Mul", chain.value, first=x)


CASES = [(5, 3, 1, None), (24, 5, 1, None), (130, 3, 2, None), (260, 5, 1, 0), (384, 7, 1, None)]


@pytest.mark.parametrize(("channels", "taps", "dilation", "padding"), CASES)
def test_answers_stay(channels: int, taps: int, dilation: int, padding: int | None, tmp_path: Path) -> None:
    chain = Chain(3, 5, 6, seed=channels)
    chain.conv((3, channels), (1, 1))
    eca(chain, channels, taps, dilation, padding)
    chain.conv((channels, 6), (3, 3))
    chain.add("Flatten")
    chain.gemm(6 * 3 * 4, 4)
    imported = assert_imports(chain, tmp_path)
    model = Model(imported.network, imported.tensors, {})
    for batch in (1, 2, 3, 4, 7, 16):
        dtype = ("float32", "bfloat16", "float16")[(channels + batch) % 3]
        plan = assert_right(model, Decisions(), batch, dtype, tolerance=TOLERANCES[dtype])
        assert not any(node.operation.moves_numbers for node in plan.graph.nodes)


def test_only_tiles_near_the_diagonal_are_loaded(tmp_path: Path) -> None:
    chain = Chain(3, 5, 6)
    chain.conv((3, 600), (1, 1))
    eca(chain, 600, 5)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(600, 4)
    imported = assert_imports(chain, tmp_path)
    graph = graph_of(Model(imported.network, imported.tensors, {}))
    (name,) = [layer.name for layer in imported.network.layers if isinstance(layer, Conv2d) and layer.in_channels == 1]
    (node,) = nodes_of(lay_out_weights(graph).graph, name)
    assert isinstance(node.operation, Convolution) and node.operation.kernel == (1, 1)
    units = {(unit.out_tile, unit.in_tile) for load in node.operation.weights.loads for unit in load.units}
    assert units == {(out, read) for out in range(5) for read in range(5) if abs(out - read) <= 1}


def test_a_row_that_others_read_is_copied(tmp_path: Path) -> None:
    """The filtered row becomes pixels of an image, so its shape cannot change."""
    chain = Chain(3, 5, 6)
    chain.conv((3, 12), (1, 1))
    chain.add("GlobalAveragePool")
    chain.add("Reshape", chain.constant([-1, 1, 1, 12]))
    chain.conv((1, 1), (1, 3), pads=[0, 1, 0, 1])
    chain.add("Relu")
    chain.conv((1, 2), (1, 4))
    chain.add("Flatten")
    chain.gemm(18, 4)
    imported = assert_imports(chain, tmp_path)
    plan = assert_right(Model(imported.network, imported.tensors, {}), Decisions(), 3, "float32", tolerance=2e-5)
    assert any(node.operation.moves_numbers for node in plan.graph.nodes)
