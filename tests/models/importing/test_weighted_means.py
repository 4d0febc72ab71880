"""Weighted means of pixels, as in global context blocks: no attention, and the same answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lowered import assert_right
from onnx_chain import Chain, assert_imports
from trninfer.lowering.decisions import Decisions
from trninfer.models.files import Model
from trninfer.models.layers import Attention

TOLERANCES = {"float32": 2e-5, "bfloat16": 4e-2, "float16": 1e-2}


def global_context(chain: Chain, channels: int, pixels: int, squeezed: int, *, by_sum: bool = False) -> None:
    """Add a transformed mean of the pixels, weighted by a softmax, to an image, as timm's GlobalContext does."""
    x = chain.value
    chain.conv((channels, 1), (1, 1))
    chain.add("Reshape", chain.constant([-1, 1, pixels]))
    if not by_sum:
        chain.add("Softmax", axis=2)
    weights = chain.add("Unsqueeze", chain.constant([3]))
    flat = chain.add("Reshape", chain.constant([-1, channels, pixels]), first=x)
    rows = chain.add("Unsqueeze", chain.constant([1]), first=flat)
    chain.add("MatMul", weights, first=rows)
    chain.add("Reshape", chain.constant([-1, channels, 1, 1]))
    chain.conv((channels, squeezed), (1, 1))
    chain.add("Relu")
    chain.conv((squeezed, channels), (1, 1))
    chain.add("Add", chain.value, first=x)


@pytest.mark.parametrize(
    ("channels", "size", "by_sum"), [(5, (5, 6), False), (24, (1, 7), False), (130, (4, 3), False), (9, (3, 3), True)]
)
def test_answers_stay(channels: int, size: tuple[int, int], by_sum: bool, tmp_path: Path) -> None:
    chain = Chain(3, *size, seed=channels)
    chain.conv((3, channels), (3, 3), pads=[1] * 4)
    chain.add("Relu")
    global_context(chain, channels, int(np.prod(size)), 4, by_sum=by_sum)
    chain.conv((channels, 6), (1, 1))
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(6, 4)
    imported = assert_imports(chain, tmp_path)
    assert not any(isinstance(layer, Attention) for layer in imported.network.layers)
    model = Model(imported.network, imported.tensors, {})
    for batch in (1, 2, 3, 4, 7, 16):
        dtype = ("float32", "bfloat16", "float16")[(channels + batch) % 3]
        plan = assert_right(model, Decisions(), batch, dtype, tolerance=TOLERANCES[dtype])
        assert not any(node.operation.moves_numbers for node in plan.graph.nodes)
