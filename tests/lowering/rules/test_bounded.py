"""Scaled ReLUs whose scales become part of the convolution behind them: the same answers, and bounds instead."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import assert_right, graph_of, nodes_of
from random_networks import conv, ending_in_dense, model_of
from trninfer.kernels.program import Affine as AffineOperation
from trninfer.lowering.decisions import Decisions
from trninfer.models.files import Model
from trninfer.models.layers import Affine, ChannelShuffle, Concat, Conv2d, Layer

SCALES = (-3.0, -0.5, -1e-6, 0.0, 1e-6, 0.5, 3.0)
TOLERANCES = {"float32": 2e-5, "bfloat16": 4e-2, "float16": 1e-2}


def dense_block(sizes: tuple[int, ...], groups: int) -> Model:
    """Return convolutions whose concatenation is scaled, limited by a ReLU and mixed, with scales of all kinds."""
    total = sum(sizes)
    layers: list[Layer] = [conv("stem", 3, 8, 3)]
    layers += [Conv2d(f"part{n}", 8, size, (1, 1), inputs=("stem",)) for n, size in enumerate(sizes)]
    layers += [
        Concat("all", inputs=tuple(f"part{n}" for n in range(len(sizes)))),
        ChannelShuffle("turned", groups),
        Affine("scaled", (total,), "relu"),
        Conv2d("mixed", total, 12, (1, 1), stride=(2, 1)),
    ]
    model = model_of(ending_in_dense((3, 5, 4), layers))
    random = np.random.default_rng(total)
    tensors = dict(model.tensors)
    tensors["scaled.scale"] = random.choice(SCALES, total).astype(np.float32)
    tensors["scaled.shift"] = random.choice((-0.7, 0.0, 0.4), total).astype(np.float32)
    return Model(model.network, tensors, {})


@pytest.mark.parametrize(
    ("sizes", "groups", "activations"),
    [
        ((24,), 1, ["within"]),
        ((150,), 5, ["within"]),
        ((16, 32, 24), 1, ["within", "relu"]),
        ((40, 128, 8, 8, 8, 8), 4, ["within", "relu"]),
    ],
)
def test_scales_become_part_of_the_filters(sizes: tuple[int, ...], groups: int, activations: list[str]) -> None:
    model = dense_block(sizes, groups)
    for batch in (1, 2, 3, 4, 7, 16):
        dtype = ("float32", "bfloat16", "float16")[batch % 3]
        assert_right(model, Decisions(), batch, dtype, tolerance=TOLERANCES[dtype])
    operations = [node.operation for node in nodes_of(graph_of(model), "scaled")]
    assert [each.activation.name for each in operations if isinstance(each, AffineOperation)] == activations


def test_a_relu_that_others_read_or_that_is_padded_stays() -> None:
    for padding, others in (((0, 0, 0, 0), True), ((1, 1, 1, 1), False)):
        layers: list[Layer] = [
            conv("stem", 3, 8, 3),
            Affine("scaled", (8,), "relu"),
            Conv2d("mixed", 8, 12, (1, 1), padding),
            *([Conv2d("other", 8, 12, (1, 1), inputs=("scaled",)), Concat("both", inputs=("mixed", "other"))] * others),
        ]
        network = ending_in_dense((3, 5, 4), layers)
        (node,) = nodes_of(graph_of(network), "scaled")
        assert isinstance(node.operation, AffineOperation) and node.operation.activation.name == "relu"
        assert_right(network, Decisions(), 2)


@pytest.mark.parametrize("shift", [-2.0, 2.0])
def test_a_scaled_relu_of_large_values_is_bounded_far_from_zero(shift: float) -> None:
    layers: list[Layer] = [conv("stem", 3, 8, 3), Affine("scaled", (8,), "relu"), Conv2d("mixed", 8, 12, (1, 1))]
    model = model_of(ending_in_dense((3, 5, 4), layers))
    tensors = dict(model.tensors)
    tensors["stem.weight"] = tensors["stem.weight"] * np.float32(1e4)  # values on both sides of the bounds
    tensors["scaled.scale"] = np.resize(np.float32([1e-3, -1e-3, 2e-4, -4e-4]), 8)
    tensors["scaled.shift"] = np.full(8, shift, np.float32)
    model = Model(model.network, tensors, {})
    (node,) = nodes_of(graph_of(model), "scaled")
    assert isinstance(node.operation, AffineOperation) and node.operation.activation.name == "within"
    for dtype in ("float32", "bfloat16"):
        assert_right(model, Decisions(), 2, dtype, tolerance=TOLERANCES[dtype])


def test_a_relu_far_from_zero_is_not_folded_in_float32() -> None:
    """Its bounds would cancel in sums of float32: 64 channels that are never positive add the rounding of 64 bounds."""
    layers: list[Layer] = [conv("stem", 3, 64, 3), Affine("scaled", (64,), "relu"), Conv2d("mixed", 64, 12, (1, 1))]
    model = model_of(ending_in_dense((3, 5, 4), layers))
    tensors = dict(model.tensors)
    tensors["scaled.scale"] = np.ones(64, np.float32)
    tensors["scaled.shift"] = np.where(np.arange(64) < 60, -3e4, 0.0).astype(np.float32)
    assert_right(Model(model.network, tensors, {}), Decisions(), 2, "float32", tolerance=TOLERANCES["float32"])
