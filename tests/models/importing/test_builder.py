"""A network under construction: names, limits, views made real, outputs and labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_chain import Chain, assert_imports, run_onnx
from trninfer.models import run_network
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network
from trninfer.models.layers import MAX_AXES, Transpose
from trninfer.models.outputs import Output


def test_a_single_chance_with_two_labels(tmp_path: Path) -> None:
    chain = Chain(4)
    chain.gemm(4, 1)
    chain.add("Sigmoid")
    path = chain.save(tmp_path)
    assert import_network(path).network.output == Output("sigmoid")
    named = import_network(path, labels=("healthy",)).network
    assert named.output == Output("sigmoid") and named.labels == ("healthy",)
    imported = import_network(path, labels=("ill", "healthy"))
    network = imported.network
    assert network.output == Output("classes", "softmax") and network.outputs == 2
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    chance = run_onnx(path, x)
    given = run_network(network, imported.tensors, x).probabilities
    np.testing.assert_allclose(given, np.concatenate([1 - chance, chance], axis=1), atol=1e-6)
    with pytest.raises(ModelError, match="3 labels"):
        import_network(path, labels=("a", "b", "c"))


def test_more_axes_than_a_dma_takes_move_in_several_steps(tmp_path: Path) -> None:
    chain = Chain(8, 4, 8)
    chain.add("DepthToSpace", blocksize=2, mode="CRD")
    chain.add("SpaceToDepth", blocksize=4)
    chain.add("Flatten")
    network = assert_imports(chain, tmp_path).network
    splits = [len(layer.split) for layer in network.layers if isinstance(layer, Transpose)]
    assert len(splits) > 1 and max(splits) <= MAX_AXES
