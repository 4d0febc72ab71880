"""Layers are merged where that keeps the answer, and left alone where it would not."""

from __future__ import annotations

from pathlib import Path

from onnx_chain import Chain, assert_imports, ends, kinds, vgg
from trninfer.models import Conv2d, Dense, Flatten
from trninfer.models.layers import Combine, Pool


def test_a_residual_block_with_squeeze_and_excite(tmp_path: Path) -> None:
    chain = Chain(3, 10, 10)
    chain.conv((3, 8), strides=[2, 2], pads=[1] * 4)
    chain.batch_norm(8)
    x = chain.add("Clip", chain.constant(0.0), chain.constant(6.0))
    chain.conv((1, 8), group=8, pads=[1] * 4)
    y = chain.add("HardSwish")
    chain.add("GlobalAveragePool")
    chain.conv((8, 2), (1, 1))
    chain.add("Relu")
    chain.conv((2, 8), (1, 1))
    gate = chain.add("HardSigmoid", alpha=1 / 6)
    scaled = chain.add("Mul", y, first=gate)
    chain.add("Add", scaled, first=x)
    chain.add("Relu")
    chain.add("GlobalMaxPool")
    imported = ends(chain, 8, tmp_path)
    combined = [layer for layer in imported.network.layers if isinstance(layer, Combine)]
    assert [(layer.operation, layer.activation) for layer in combined] == [("multiply", "identity"), ("add", "relu")]


def test_zeros_around_an_image_go_into_the_layer_that_reads_it(tmp_path: Path) -> None:
    chain = Chain(3, 8, 8)
    chain.add("Pad", chain.constant([0, 0, 1, 1, 0, 0, 0, 2]))
    chain.conv((3, 4))
    chain.add("Relu")
    chain.add("Pad", chain.constant([0, 0, 1, 1, 0, 0, 1, 1]))
    chain.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2])
    chain.add("Pad", chain.constant([0, 0, 0, 1, 0, 0, 0, 0]))
    chain.add("AveragePool", kernel_shape=[2, 2])
    imported = ends(chain, 4 * 3 * 5, tmp_path)
    assert kinds(imported) == [Conv2d, Pool, Pool, Flatten, Dense]
    assert imported.network.layers[0].padding == (1, 1, 0, 2)


def test_activations_that_exporters_spell_out(tmp_path: Path) -> None:
    chain = Chain(4, 6, 6)
    wanted = []
    for spelled in ("silu", "hardswish", "hardswish too", "mish"):
        chain.conv((4, 4), (1, 1))
        x = chain.value
        if spelled == "silu":
            chain.add("Sigmoid")
            chain.add("Mul", x)
        elif spelled == "mish":
            chain.add("Softplus")
            chain.add("Tanh")
            chain.add("Mul", chain.value, first=x)
        else:
            chain.add("Add", chain.constant(3.0))
            chain.add("Clip", chain.constant(0.0), chain.constant(6.0))
            if spelled == "hardswish":
                chain.add("Div", chain.constant(6.0))
                chain.add("Mul", x)
            else:
                chain.add("Mul", x)
                chain.add("Div", chain.constant(6.0))
        wanted.append(spelled.removesuffix(" too"))
    imported = ends(chain, 144, tmp_path)
    assert [layer.activation for layer in imported.network.layers[:4]] == wanted


def test_a_vgg_becomes_fused_layers(tmp_path: Path) -> None:
    imported = assert_imports(vgg(), tmp_path)
    layers = imported.network.layers
    assert kinds(imported) == [*[Conv2d] * 10, Flatten, Dense, Dense]
    assert [layer.pool_size for layer in layers[:10]] == [1, 2] * 5
    assert {layer.activation for layer in layers[:11] if isinstance(layer, Conv2d)} == {"relu"}
    assert [layer.activation for layer in layers[-2:]] == ["relu", "identity"]
