"""Normalisation after an activation is folded into the layers that read it, completely and without changing the
answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lowered import assert_right
from onnx_chain import Chain, assert_imports, checked
from trninfer.kernels.program import Affine as AffineOperation
from trninfer.kernels.value_operations import Norm
from trninfer.lowering.decisions import Decisions
from trninfer.models.files import Model
from trninfer.models.layers import Affine, Conv2d

SETTINGS = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def normalize(chain: Chain, channels: int, least: float = 0.3) -> None:
    scale = chain.constant(chain.random.uniform(least, 1.5, channels))
    more = (chain.weight(channels), chain.weight(channels))
    chain.add("BatchNormalization", scale, *more, chain.constant(chain.random.uniform(0.3, 2, channels)))


def keras(seed: int, channels: int, kernel: int, padding: int, pool: str, activation: str, least: float) -> Chain:
    """Return two convolutions in Keras's order, and a dense layer."""
    chain = Chain(3, 13, 12, seed=seed)
    read = 3
    for _ in range(2):
        chain.conv((read, channels), (kernel, kernel), pads=[padding] * 4)
        chain.add(activation)
        normalize(chain, channels, least)
        if pool:
            chain.add(pool, kernel_shape=[2, 2], strides=[2, 2])
        read = channels
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(channels, 4)
    return chain


@SETTINGS
@given(
    seed=st.integers(0, 99),
    channels=st.sampled_from([1, 5, 31, 128]),
    kernel=st.sampled_from([1, 3]),
    padding=st.integers(0, 2),
    pool=st.sampled_from(["", "MaxPool", "AveragePool"]),
    activation=st.sampled_from(["Relu", "Sigmoid", "Tanh", "HardSwish", "Neg"]),
    least=st.sampled_from([0.3, -1.0]),
)
def test_answers_stay(seed, channels, kernel, padding, pool, activation, least, tmp_path: Path) -> None:
    assert_imports(keras(seed, channels, kernel, padding, pool, activation, least), tmp_path)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("pool", ["", "MaxPool", "AveragePool"])
def test_positive_scales_are_absorbed(padding: int, pool: str, tmp_path: Path) -> None:
    imported = assert_imports(keras(0, 8, 3, padding, pool, "Sigmoid", 0.3), tmp_path)
    kept = [layer for layer in imported.network.layers if isinstance(layer, Affine)]
    # an average includes zeros around the channel of ones, so the map stays before the convolution with padding
    assert len(kept) == (1 if padding and pool == "AveragePool" else 0)


def test_zeros_around_an_image_are_not_of_the_map(tmp_path: Path) -> None:
    """An additional channel is one inside the image."""
    imported = assert_imports(keras(3, 8, 3, 1, "", "Sigmoid", 0.3), tmp_path)
    first, second = (layer for layer in imported.network.layers if isinstance(layer, Conv2d))
    assert (first.out_channels, second.in_channels, second.out_channels) == (9, 9, 8)


@pytest.mark.parametrize("pool", ["", "MaxPool", "AveragePool"])
@pytest.mark.parametrize("least", [0.3, -1.0])
def test_a_map_behind_relu_changes_its_bounds(pool: str, least: float, tmp_path: Path) -> None:
    """No channel is added, and the launch contains only the convolution."""
    imported = assert_imports(keras(0, 8, 3, 1, pool, "Relu", least), tmp_path)
    assert {layer.out_channels for layer in imported.network.layers if isinstance(layer, Conv2d)} == {8}
    model = Model(imported.network, imported.tensors, {})
    for batch in (1, 3):
        plan = assert_right(model, Decisions(), batch)
        assert not any(isinstance(node.operation, AffineOperation) for node in plan.graph.nodes)


def test_a_map_that_others_read_stays(tmp_path: Path) -> None:
    chain = Chain(3, 6, 6)
    chain.conv((3, 5))
    chain.add("Relu")
    normalize(chain, 5)
    before = chain.value
    chain.conv((5, 5), pads=[1] * 4)
    chain.add("Add", before)
    imported = checked(chain.model(), tmp_path)
    assert any(isinstance(layer, Affine) for layer in imported.network.layers)


def test_an_affine_of_a_flattened_image_is_absorbed_by_the_dense_layer(tmp_path: Path) -> None:
    chain = Chain(3, 6, 6)
    chain.conv((3, 5), (3, 3))
    chain.add("Relu")
    normalize(chain, 5, -1.0)
    chain.add("Flatten")
    chain.gemm(5 * 16, 4)
    imported = assert_imports(chain, tmp_path)
    assert not any(isinstance(layer, Affine) for layer in imported.network.layers)
    assert all(np.isfinite(tensor).all() for tensor in imported.tensors.values())


@pytest.mark.parametrize(("axis", "padding"), [(0, 0), (1, 0), (1, 1)])
def test_numbers_of_a_norm_go_into_convolutions_without_padding(axis: int, padding: int, tmp_path: Path) -> None:
    """A layer norm of each pixel (axis 0), or a norm of the whole image; two convolutions read it."""
    chain = Chain(3, 6, 7, seed=padding)
    chain.conv((3, 9), (3, 3))
    if axis == 0:
        chain.add("Transpose", perm=[0, 2, 3, 1])
        chain.add("LayerNormalization", chain.weight(9), chain.weight(9), axis=-1)
        chain.add("Transpose", perm=[0, 3, 1, 2])
    else:
        chain.add("GroupNormalization", chain.weight(9), chain.weight(9), num_groups=3)
    norm = chain.value
    chain.conv((9, 130), pads=[padding] * 4)
    wide, chain.value = chain.value, norm
    chain.conv((9, 130), pads=[padding] * 4)
    chain.add("Add", wide)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(130, 4)
    imported = assert_imports(chain, tmp_path, opset=21)
    model = Model(imported.network, imported.tensors, {})
    for batch in (1, 2, 3, 4, 7, 16):
        plan = assert_right(model, Decisions(), batch, ("float32", "bfloat16")[batch % 2])
        norms = [node.operation for node in plan.graph.nodes if isinstance(node.operation, Norm)]
        assert [norm.is_scaled for norm in norms] == [padding > 0]
