"""Attention as written by exporters, compared with ONNX Runtime.

The nodes are copied from PyTorch 2.13's scaled_dot_product_attention by both exporters, Ultralytics 8.4's C2PSA
(yolo11n), and timm's swin_tiny, pvt_v2_b0, efficientvit_b0 and gcresnet33ts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_chain import Chain, assert_imports, ends, kinds
from trninfer.models.importing import Imported
from trninfer.models.layers import Affine, Attention, ChannelShuffle, ChannelSlice, Conv2d, Reshape, Transpose


def attentions(imported: Imported) -> list[Attention]:
    return [layer for layer in imported.network.layers if isinstance(layer, Attention)]


def heads_of(chain: Chain, tokens: int, features: int, heads: int, bias: bool = True) -> list[str]:
    """Return queries, keys and values, [batch, heads, tokens, features], as exported from timm's Attention."""
    chain.add("MatMul", chain.weight(features, 3 * features))
    if bias:
        chain.add("Add", chain.weight(3 * features))
    chain.add("Reshape", chain.constant([-1, tokens, 3, heads, features // heads]), allowzero=0)
    turned = chain.add("Transpose", perm=[2, 0, 3, 1, 4])
    found = []
    for number in range(3):
        part = chain.add("Gather", chain.constant(np.asarray(number)), first=turned, axis=0)
        found.append(part)
    return found


def merged(chain: Chain, tokens: int, features: int) -> None:
    """Concatenate the heads, and append a projection."""
    chain.add("Transpose", perm=[0, 2, 1, 3])
    chain.add("Reshape", chain.constant([-1, tokens, features]))
    chain.add("MatMul", chain.weight(features, features))


def scaled_dot_product(chain: Chain, q: str, k: str, v: str, *masks: str) -> None:
    """As torch.onnx decomposes it: queries and keys are each multiplied by the square root of the scale."""
    root = chain.constant(0.6)
    queries = chain.add("Mul", root, first=q)
    keys = chain.add("Mul", root, first=chain.add("Transpose", perm=[0, 1, 3, 2], first=k))
    chain.add("MatMul", keys, first=queries)
    for mask in masks:
        chain.add("Add", mask)
    weights = chain.add("Softmax", axis=-1)
    chain.add("MatMul", v, first=weights)


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_as_torch_decomposes_it(heads: int, tmp_path: Path) -> None:
    """The attention contains the scales, and each operand is a separate convolution."""
    chain = Chain(5, 12)
    scaled_dot_product(chain, *heads_of(chain, 5, 12, heads))
    merged(chain, 5, 12)
    imported = ends(chain, 60, tmp_path)
    (attention,) = attentions(imported)
    assert (attention.heads, attention.by_rows) == (heads, False) and abs(attention.scale - 0.36) < 1e-6
    assert not {Affine, ChannelSlice, Reshape} & set(kinds(imported))
    layers = {layer.name: layer for layer in imported.network.layers}
    assert all(isinstance(layers[name], Conv2d) for name in attention.inputs)


def test_keys_transposed_by_way_of_three_axes(tmp_path: Path) -> None:
    """torch.export reshapes keys to three axes, transposes the last two, and reshapes them back."""
    chain = Chain(5, 12)
    q, k, v = heads_of(chain, 5, 12, 3)
    chain.add("Reshape", chain.constant([-1, 5, 4]), first=k)
    chain.add("Transpose", perm=[0, 2, 1])
    keys = chain.add("Reshape", chain.constant([1, 3, 4, 5]))
    weights = chain.add("Softmax", first=chain.add("MatMul", keys, first=q), axis=-1)
    chain.add("MatMul", v, first=weights)
    merged(chain, 5, 12)
    assert len(attentions(ends(chain, 60, tmp_path, batch=1))) == 1


def test_of_pixels_as_ultralytics_writes_it(tmp_path: Path) -> None:
    """C2PSA's attention: queries, keys and values by head, values on the left, and a parallel depthwise filter."""
    chain = Chain(3, 4, 6)
    chain.conv((3, 32), (1, 1))
    stem = chain.value
    chain.conv((32, 64), (1, 1))
    by_head = chain.add("Reshape", chain.constant([1, 2, 32, 24]))
    chain.add("Split", chain.constant([8, 8, 16]), first=by_head, outputs=3, axis=2)
    q, k, v = (chain.value + "'" * n for n in range(3))
    scaled = chain.add("Mul", chain.constant(0.35), first=q)
    chain.add("MatMul", k, first=chain.add("Transpose", perm=[0, 1, 3, 2], first=scaled))
    weights = chain.add("Softmax", axis=-1)
    turned = chain.add("Transpose", perm=[0, 1, 3, 2], first=weights)
    mixed = chain.add("Reshape", chain.constant([1, 32, 4, 6]), first=chain.add("MatMul", turned, first=v))
    chain.add("Reshape", chain.constant([1, 32, 4, 6]), first=v)
    chain.conv((1, 32), group=32, pads=[1] * 4)
    chain.add("Add", mixed)
    chain.conv((32, 32), (1, 1))
    chain.add("Add", stem)
    imported = ends(chain, 32 * 24, tmp_path, batch=1)
    (attention,) = attentions(imported)
    assert attention.heads == 2 and not {Transpose, Reshape, ChannelShuffle} & set(kinds(imported))


def windows(chain: Chain, masked: bool, shape: tuple[int, ...] = (4, 6, 8)) -> None:
    """Return windows of 2x3 pixels of a channels-last image, as partitioned by timm's Swin transformer."""
    high, wide, features = shape
    chain.add("Reshape", chain.constant([1, high // 2, 2, wide // 3, 3, features]))
    chain.add("Transpose", perm=[0, 1, 3, 2, 4, 5])
    count = high * wide // 6
    chain.add("Reshape", chain.constant([count, 6, features]))
    q, k, v = heads_of(chain, 6, features, 2)
    positions = chain.weight(1, 2, 6, 6, scale=2.0)
    keys = chain.add("Transpose", perm=[0, 1, 3, 2], first=k)
    chain.add("MatMul", keys, first=chain.add("Mul", chain.constant(0.5), first=q))
    chain.add("Add", positions)
    if masked:
        chain.add("Reshape", chain.constant([1, count, 2, 6, 6]))
        mask = -100.0 * (np.random.default_rng(3).random((1, count, 1, 6, 6)) > 0.6)
        chain.add("Add", chain.constant(mask))
        chain.add("Reshape", chain.constant([-1, 2, 6, 6]))
    weights = chain.add("Softmax", axis=-1)
    chain.add("MatMul", v, first=weights)
    merged(chain, 6, features)
    chain.add("Reshape", chain.constant([1, high // 2, wide // 3, 2, 3, features]))
    chain.add("Transpose", perm=[0, 1, 3, 2, 4, 5])
    chain.add("Reshape", chain.constant([1, high, wide, features]))


@pytest.mark.parametrize("masked", [False, True])
def test_windows_with_relative_positions(masked: bool, tmp_path: Path) -> None:
    chain = Chain(3, 4, 6)
    chain.conv((3, 8), (1, 1))
    chain.add("Transpose", perm=[0, 2, 3, 1])
    windows(chain, masked)
    (attention,) = attentions(ends(chain, 4 * 6 * 8, tmp_path, batch=1))
    assert attention.by_rows and attention.bias_shape == (2, 4 if masked else 1, 6, 6)


def test_masks_by_where(tmp_path: Path) -> None:
    chain = Chain(5, 12)
    q, k, v = heads_of(chain, 5, 12, 3)
    keys = chain.add("Transpose", perm=[0, 1, 3, 2], first=k)
    scores = chain.add("MatMul", keys, first=q)
    kept = chain.add("Cast", first=chain.constant(np.tri(5)), to=9)
    chain.add("Where", scores, chain.constant(np.float32(-np.inf)), first=kept)
    weights = chain.add("Softmax", axis=-1)
    chain.add("MatMul", v, first=weights)
    merged(chain, 5, 12)
    (attention,) = attentions(ends(chain, 60, tmp_path))
    assert attention.bias_shape == (1, 1, 5, 5)


def test_fewer_keys_than_queries(tmp_path: Path) -> None:
    """Spatial reduction (PVT, SegFormer): keys and values come from a smaller image."""
    chain = Chain(3, 4, 6)
    chain.conv((3, 8), (1, 1))
    image = chain.value
    chain.add("Reshape", chain.constant([1, 8, 24]))
    chain.add("Transpose", perm=[0, 2, 1])
    chain.add("MatMul", chain.weight(8, 8))
    chain.add("Reshape", chain.constant([1, 24, 2, 4]))
    q = chain.add("Transpose", perm=[0, 2, 1, 3])
    chain.value = image
    chain.conv((8, 8), (2, 2), strides=[2, 2])
    chain.add("Reshape", chain.constant([1, 8, 6]))
    small = chain.add("Transpose", perm=[0, 2, 1])
    both = []
    for _ in range(2):
        chain.add("MatMul", chain.weight(8, 8), first=small)
        chain.add("Reshape", chain.constant([1, 6, 2, 4]))
        both.append(chain.add("Transpose", perm=[0, 2, 1, 3]))
    scaled_dot_product(chain, q, *both)
    merged(chain, 24, 8)
    assert len(attentions(ends(chain, 24 * 8, tmp_path, batch=1))) == 1


def test_einsum_of_two_values(tmp_path: Path) -> None:
    chain = Chain(5, 12)
    q, k, v = heads_of(chain, 5, 12, 3)
    chain.add("Einsum", k, first=q, equation="bhid,bhjd->bhij")
    weights = chain.add("Softmax", axis=-1)
    chain.add("Einsum", v, first=weights, equation="bhij,bhjd->bhid")
    merged(chain, 5, 12)
    assert len(attentions(ends(chain, 60, tmp_path))) == 1


def test_linear_attention(tmp_path: Path) -> None:
    """Keys are multiplied by values first, as in EfficientViT."""
    chain = Chain(5, 12)
    q, k, v = heads_of(chain, 5, 12, 3)
    q, k = chain.add("Relu", first=q), chain.add("Relu", first=k)
    chain.add("MatMul", v, first=chain.add("Transpose", perm=[0, 1, 3, 2], first=k))
    chain.add("MatMul", chain.value, first=q)
    merged(chain, 5, 12)
    (attention,) = attentions(ends(chain, 60, tmp_path))
    assert attention.is_linear


def test_global_context(tmp_path: Path) -> None:
    """The weighted mean of all pixels, as in timm's gcresnet."""
    chain = Chain(6, 3, 4)
    image = chain.value
    chain.conv((6, 1), (1, 1))
    chain.add("Reshape", chain.constant([1, 1, 12]))
    chain.add("Softmax", axis=-1)
    weights = chain.add("Unsqueeze", chain.constant([3]))
    pixels = chain.add("Reshape", chain.constant([1, 1, 6, 12]), first=image)
    chain.add("MatMul", weights, first=pixels)
    chain.add("Reshape", chain.constant([1, 6, 1, 1]))
    chain.add("Add", image)
    ends(chain, 72, tmp_path, batch=1)


@pytest.mark.parametrize("op", ["Relu", "Exp", "Concat"])
def test_products_that_other_steps_read(op: str, tmp_path: Path) -> None:
    """Such a product is a linear attention whose values are the identity."""
    chain = Chain(5, 12)
    q, k, _ = heads_of(chain, 5, 12, 3)
    product = chain.add("MatMul", chain.add("Transpose", perm=[0, 1, 3, 2], first=k), first=q)
    if op == "Concat":
        chain.add("Concat", product, axis=1)
    else:
        chain.add(op)
    chain.add("Flatten")
    chain.gemm(150 if op == "Concat" else 75, 3)
    (attention,) = attentions(assert_imports(chain, tmp_path))
    assert attention.is_linear


def test_a_product_of_few_queries_is_computed_transposed(tmp_path: Path) -> None:
    """The identity then has the size of two tokens instead of six."""
    chain = Chain(6, 12)
    q, k, _ = heads_of(chain, 6, 12, 3)
    few = chain.add("Slice", *(chain.constant([number]) for number in (1, 3, 2)), first=q)
    chain.add("MatMul", chain.add("Transpose", perm=[0, 1, 3, 2], first=k), first=few)
    chain.add("Add", chain.weight(3, 2, 6))
    chain.add("Tanh")
    imported = ends(chain, 36, tmp_path)
    (attention,) = attentions(imported)
    shapes = imported.network.shapes()
    assert shapes[attention.inputs[2]][-1] == 2


@pytest.mark.parametrize("axis", [1, 2])
def test_a_softmax_over_queries_or_heads(axis: int, tmp_path: Path) -> None:
    chain = Chain(5, 12)
    q, k, v = heads_of(chain, 5, 12, 3)
    chain.add("MatMul", chain.add("Transpose", perm=[0, 1, 3, 2], first=k), first=q)
    weights = chain.add("Softmax", axis=axis)
    chain.add("MatMul", v, first=weights)
    merged(chain, 5, 12)
    ends(chain, 60, tmp_path)


@pytest.mark.parametrize("softmax", [False, True])
def test_a_product_that_is_an_output(softmax: bool, tmp_path: Path) -> None:
    chain = Chain(5, 12)
    q, k, _ = heads_of(chain, 5, 12, 3)
    chain.add("MatMul", chain.add("Transpose", perm=[0, 1, 3, 2], first=k), first=q)
    if softmax:
        chain.add("Softmax", axis=-1)
    assert_imports(chain, tmp_path)


def test_talking_heads(tmp_path: Path) -> None:
    """timm's cait: scores and weights of all heads are mixed, tokens first."""
    chain = Chain(5, 12)
    q, k, v = heads_of(chain, 5, 12, 3)
    chain.add("MatMul", chain.add("Transpose", perm=[0, 1, 3, 2], first=k), first=q)
    for softmax in (True, False):
        chain.add("Transpose", perm=[0, 2, 3, 1])
        chain.add("Add", chain.weight(3), first=chain.add("MatMul", chain.weight(3, 3)))
        chain.add("Transpose", perm=[0, 3, 1, 2])
        if softmax:
            chain.add("Softmax", axis=-1)
    chain.add("MatMul", v)
    merged(chain, 5, 12)
    ends(chain, 60, tmp_path)


def test_a_bias_that_depends_on_queries(tmp_path: Path) -> None:
    """Decomposed relative positions, as in Segment Anything: one matrix for each row, and one for each column."""
    chain = Chain(6, 12)
    q, k, v = heads_of(chain, 6, 12, 3)
    by_place = chain.add("Reshape", chain.constant([3, 2, 3, 4]), first=q)
    rows = chain.add("Einsum", chain.weight(2, 2, 4), first=by_place, equation="bhwc,hkc->bhwk")
    columns = chain.add("Einsum", chain.weight(3, 3, 4), first=by_place, equation="bhwc,wkc->bhwk")
    rows = chain.add("Unsqueeze", chain.constant([-1]), first=rows)
    columns = chain.add("Unsqueeze", chain.constant([-2]), first=columns)
    bias = chain.add("Add", columns, first=rows)
    bias = chain.add("Reshape", chain.constant([1, 3, 6, 6]), first=bias)
    chain.add("MatMul", chain.add("Transpose", perm=[0, 1, 3, 2], first=k), first=q)
    weights = chain.add("Softmax", axis=-1, first=chain.add("Add", bias))
    chain.add("MatMul", v, first=weights)
    merged(chain, 6, 12)
    ends(chain, 72, tmp_path, batch=1)


def test_keys_that_all_heads_share(tmp_path: Path) -> None:
    """Multi-query attention, as in MobileNetV4."""
    chain = Chain(5, 12)
    q, _, _ = heads_of(chain, 5, 12, 3)
    k = chain.add("MatMul", chain.weight(12, 4), first="x")
    v = chain.add("MatMul", chain.weight(12, 4), first="x")
    k, v = (chain.add("Unsqueeze", chain.constant([1]), first=each) for each in (k, v))
    chain.add("MatMul", chain.add("Transpose", perm=[0, 1, 3, 2], first=k), first=q)
    weights = chain.add("Softmax", axis=-1)
    chain.add("MatMul", v, first=weights)
    merged(chain, 5, 12)
    assert len(attentions(ends(chain, 60, tmp_path))) == 1


def test_as_torch_export_guards_rows_without_keys(tmp_path: Path) -> None:
    """A Where of IsNaN after the softmax, which has no effect, and a temperature for each head."""
    chain = Chain(5, 12)
    q, k, v = heads_of(chain, 5, 12, 3)
    chain.add("MatMul", chain.add("Transpose", perm=[0, 1, 3, 2], first=k), first=q)
    chain.add("Mul", chain.weight(3, 1, 1))
    weights = chain.add("Softmax", axis=-1)
    is_nan = chain.add("IsNaN", first=weights)
    chain.add("Where", chain.constant(np.float32(0)), weights, first=is_nan)
    chain.add("MatMul", v)
    merged(chain, 5, 12)
    (attention,) = attentions(ends(chain, 60, tmp_path))
    assert not attention.is_linear


def test_a_mean_of_tokens_by_weights(tmp_path: Path) -> None:
    """As in global context: the softmax of a mask over all pixels. No attention remains (test_weighted_means.py)."""
    chain = Chain(6, 4, 5)
    chain.conv((6, 6), (1, 1))
    x = chain.value
    values = chain.add("Reshape", chain.constant([-1, 1, 6, 20]), first=x)
    chain.value = x
    chain.conv((6, 1), (1, 1))
    chain.add("Reshape", chain.constant([-1, 1, 20]))
    weights = chain.add("Unsqueeze", chain.constant([3]), first=chain.add("Softmax", axis=2))
    chain.add("MatMul", weights, first=values)
    assert not attentions(ends(chain, 6, tmp_path))
