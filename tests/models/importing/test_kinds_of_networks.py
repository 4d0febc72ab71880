"""Random networks of kinds that were once rejected or computed incorrectly, compared with ONNX Runtime and on the
simulator."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_chain import Chain
from trninfer.models.files import Model
from trninfer.models.importing import Imported, import_network
from trninfer.runtime.choose import choose_backend
from trninfer.runtime.session import Session
from trninfer.runtime.verify import Verifier

pytestmark = pytest.mark.usefixtures("first_plans")

VARIANTS, RUN = 6, 2  # for each kind, and the number of them that run on the simulator
Random = np.random.Generator


def pick(random: Random, *choices: object) -> int:
    """Return one of several numbers at random."""
    return int(random.choice(choices))


def runs(imported: Imported, batch: int, dtype: str = "float32") -> None:
    """Run a batch on the simulator and compare it with the golden model."""
    model = Model(imported.network, imported.tensors, {})
    x = np.random.default_rng(batch).standard_normal((batch, *imported.network.input.shape), np.float32)
    result = Session(model, choose_backend("sim", "trn2"), dtype, batch).run(x)
    verifier = Verifier(model, dtype)
    verifier.check(x, result.classes, result.probabilities)
    assert verifier.verdict.passed, verifier.verdict


def star(random: Random) -> Chain:
    """Return StarNet's block: a depthwise layer, two expansions of which one gates the other, and a residual sum."""
    channels, side, wide = pick(random, 3, 8, 24, 40), pick(random, 5, 8, 11), pick(random, 2, 3, 4)
    kernel = pick(random, 3, 5, 7)
    chain = Chain(3, side, side)
    chain.conv((3, channels))
    for _ in range(pick(random, 1, 2)):
        first = chain.value
        for last in (False, True):
            pads = [kernel // 2] * 4
            chain.conv((1, channels), (kernel, kernel), group=channels, pads=pads)
            if last:
                break
            depthwise = chain.value
            gate = chain.add("Conv", chain.weight(channels * wide, channels, 1, 1), first=depthwise)
            gate = chain.add("Clip", chain.constant(0.0), chain.constant(6.0), first=gate)
            other = chain.add("Conv", chain.weight(channels * wide, channels, 1, 1), first=depthwise)
            chain.add("Mul", gate, first=other)
            chain.conv((channels * wide, channels), (1, 1))
        if random.random() < 0.7:
            chain.add("Add", first)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(channels, 5)
    return chain


def selective_kernels(random: Random) -> Chain:
    """Return SKNet's unit: convolutions that are stacked, summed, and gated by a softmax over the stack."""
    channels, side, paths = pick(random, 4, 16, 32), pick(random, 6, 9), pick(random, 2, 3)
    chain = Chain(3, side, side)
    chain.conv((3, channels))
    source = chain.add("Relu")
    stacked = []
    for number in range(paths):
        dilation = 1 + number % 2
        weight = chain.weight(channels, channels, 3, 3)
        chain.add("Conv", weight, first=source, pads=[dilation] * 4, dilations=[dilation] * 2)
        chain.add("Relu")
        stacked.append(chain.add("Unsqueeze", chain.constant([1])))
    stack = chain.add("Concat", *stacked[1:], first=stacked[0], axis=1)
    if random.random() < 0.7:
        chain.add("ReduceSum", chain.constant([1]), keepdims=0)
        chain.add("ReduceMean", chain.constant([2, 3]), keepdims=1)
        chain.conv((channels, 8), (1, 1))
        chain.add("Relu")
        chain.conv((8, paths * channels), (1, 1))
        chain.add("Reshape", chain.constant([-1, paths, channels, 1, 1]))
        gate = chain.add("Softmax", axis=1)
        chain.add("Mul", gate, first=stack)
    chain.add(str(random.choice(["ReduceSum", "ReduceMax", "ReduceMean"])), chain.constant([1]), keepdims=0)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(channels, 4)
    return chain


def table(random: Random) -> Chain:
    """Return concatenated rows of anchors at several levels: an SSD head."""
    side, classes, anchors = pick(random, 16, 33, 48), pick(random, 1, 2, 5), pick(random, 1, 3)
    chain = Chain(3, side, side)
    parts, channels, source = [], 3, "x"
    for _ in range(pick(random, 1, 2, 3)):
        chain.add("Conv", chain.weight(8, channels, 3, 3), first=source, pads=[1] * 4, strides=[2, 2])
        source, channels = chain.add("Relu"), 8
        chain.conv((8, anchors * classes), pads=[1] * 4)
        chain.add("Transpose", perm=[0, 2, 3, 1])
        parts.append(chain.add("Reshape", chain.constant([0, -1, classes])))
    if len(parts) > 1:
        chain.add("Concat", *parts[1:], first=parts[0], axis=1)
    end = pick(random, 0, 1, 2)
    if end == 1 and classes > 1:
        chain.add("Softmax", axis=2)
    if end == 2:
        chain.add("Sigmoid")
    return chain


def saturated(random: Random) -> Chain:
    """Return a classifier whose sigmoid, tanh or softmax is deep in saturation."""
    features, classes = pick(random, 3, 4, 9), pick(random, 1, 2, 5)
    chain = Chain(features)
    bias = chain.constant(random.choice([-30.0, -60.0, 40.0, 0.0]) * np.ones(classes))
    chain.add("Gemm", chain.weight(features, classes, scale=0.1), bias)
    op = str(random.choice(["Sigmoid", "Softmax", "HardSigmoid", "Tanh"]))
    chain.add(op if classes > 1 or op != "Softmax" else "Sigmoid")
    return chain


def heads_before_the_batch(random: Random) -> Chain:
    """Return heads stacked on an axis before the batch axis, as in a multi-task network."""
    features, heads = pick(random, 4, 7, 12), pick(random, 2, 3)
    chain = Chain(features)
    chain.gemm(features, 8)
    source = chain.add("Relu")
    parts = []
    for _ in range(heads):
        chain.add("Gemm", chain.weight(8, 3), first=source)
        parts.append(chain.add("Unsqueeze", chain.constant([0])))
    chain.add("Concat", *parts[1:], first=parts[0], axis=0)
    chain.add(str(random.choice(["ReduceMean", "ReduceSum", "ReduceMax"])), chain.constant([0]), keepdims=0)
    if random.random() < 0.5:
        chain.add("Softmax", axis=1)
    return chain


def normalised_rows(random: Random) -> Chain:
    """Return LpNormalization with p = 1 or 2 over any axis."""
    channels, side = pick(random, 3, 8), pick(random, 4, 6)
    chain = Chain(channels, side, side)
    chain.conv((channels, channels), (1, 1))
    chain.add("LpNormalization", p=pick(random, 1, 2), axis=pick(random, 1, 2, 3, -1))
    chain.add("Flatten")
    chain.gemm(channels * side * side, 4)
    return chain


def upsampled(random: Random) -> Chain:
    """Return ConvTranspose with an output_shape, and Resize in any mode."""
    side, channels = pick(random, 4, 5, 7), pick(random, 2, 3, 6)
    chain = Chain(channels, side, side)
    if random.random() < 0.5:
        kernel, stride = pick(random, 2, 3, 4), pick(random, 2, 3)
        wanted = (side - 1) * stride + kernel - pick(random, 0, 1)
        where = str(random.choice(["NOTSET", "SAME_UPPER", "SAME_LOWER"]))
        chain.add("ConvTranspose", chain.weight(channels, 4, kernel, kernel), kernel_shape=[kernel] * 2,
                  strides=[stride] * 2, output_shape=[wanted] * 2, auto_pad=where)  # fmt: skip
        return chain
    way = str(
        random.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"])
    )
    mode = str(random.choice(["nearest", "linear", "cubic"]))
    more = {"nearest_mode": str(random.choice(["round_prefer_floor", "floor", "ceil"]))} if mode == "nearest" else {}
    target = [side + pick(random, -2, 0, 3, side), side + pick(random, -1, 1, side)]
    sizes = chain.constant([1, channels, *target])
    chain.add("Resize", "", "", sizes, mode=mode, coordinate_transformation_mode=way, **more)
    return chain


def without_a_batch(random: Random) -> Chain:
    """Return a column of features that is multiplied by weights from the left."""
    features = pick(random, 3, 6, 9)
    chain = Chain(1)
    chain.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [features, 1])]
    chain.add("MatMul", "x", first=chain.weight(5, features))
    chain.add("Add", chain.weight(5, 1))
    chain.add(str(random.choice(["Relu", "Tanh", "Sigmoid"])))
    chain.add("MatMul", chain.value, first=chain.weight(4, 5))
    if random.random() < 0.5:
        chain.add("Reshape", chain.constant([1, 4]))
    return chain


def large_picture(random: Random) -> Chain:
    """Return numbers in rows and columns, too many to be classes."""
    side, channels = pick(random, 32, 40, 65), pick(random, 1, 2, 3, 5)
    chain = Chain(3, side, side)
    chain.conv((3, 4), pads=[1] * 4)
    chain.add("Relu")
    chain.conv((4, channels), (1, 1))
    if random.random() < 0.5:
        chain.add("Flatten")
    return chain


def mixed_products(random: Random) -> Chain:
    """Return products of two values whose scores are mixed between heads, biased by data, or read by other steps; heads
    may share the keys."""
    tokens, heads, features = pick(random, 3, 5, 8), pick(random, 2, 3), pick(random, 4, 6)
    chain = Chain(tokens, 12)
    parts = []
    for number in range(3):
        own = heads if not number or random.random() < 0.7 else 1
        chain.add("MatMul", chain.weight(12, own * features), first="x")
        chain.add("Reshape", chain.constant([-1, tokens, own, features]))
        parts.append(chain.add("Transpose", perm=[0, 2, 1, 3]))
    q, k, v = parts
    scores = chain.add("MatMul", chain.add("Transpose", perm=[0, 1, 3, 2], first=k), first=q)
    if random.random() < 0.5:
        chain.add("Add", chain.add("MatMul", chain.weight(heads, features, tokens), first=q), first=scores)
    if random.random() < 0.5:
        chain.conv((heads, heads), (1, 1))
    end = pick(random, 0, 1, 2)
    if end == 1:
        chain.add("Softmax", axis=-1)
    elif end == 2:
        chain.add("Relu")
    if random.random() < 0.4:
        chain.conv((heads, heads), (1, 1))
    chain.add("MatMul", v)
    chain.add("Flatten")
    chain.gemm(heads * tokens * features, 3)
    return chain


def windows(random: Random) -> Chain:
    """Return windows of an image that are convolved or pooled as separate images."""
    count, side, channels = pick(random, 2, 3), pick(random, 3, 4, 5), pick(random, 2, 4)
    chain = Chain(channels, count * side, count * side)
    chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = 1
    chain.add("Reshape", chain.constant([channels, count, side, count, side]))
    chain.add("Transpose", perm=[1, 3, 0, 2, 4])
    chain.add("Reshape", chain.constant([count * count, channels, side, side]))
    if random.random() < 0.6:
        chain.conv((channels, channels), (3, 3), pads=[1] * 4, strides=[pick(random, 1, 2)] * 2)
    else:
        chain.add(str(random.choice(["MaxPool", "AveragePool"])), kernel_shape=[2, 2], strides=[1, 1])
    chain.add("Relu")
    chain.add("Reshape", chain.constant([1, -1]))
    return chain


KINDS: dict[str, Callable[[Random], Chain]] = {
    build.__name__: build
    for build in (
        star, selective_kernels, table, saturated, heads_before_the_batch, normalised_rows, upsampled, without_a_batch,
        large_picture, mixed_products, windows,
    )
}  # fmt: skip


@pytest.mark.parametrize("seed", range(VARIANTS))
@pytest.mark.parametrize("kind", KINDS)
def test_variants(kind: str, seed: int, tmp_path: Path) -> None:
    imported = import_network(KINDS[kind](np.random.default_rng(seed)).save(tmp_path))
    assert imported.comparison.passed and not imported.comparison.skipped, imported.comparison
    if seed < RUN:
        runs(imported, 1 + 2 * (seed % 2))


@pytest.mark.parametrize("seed", range(VARIANTS))
def test_a_flattened_image_beside_features(seed: int, tmp_path: Path) -> None:
    """Two inputs of any size and order: an image whose features are flattened, and a row of features."""
    random = np.random.default_rng(seed)
    side, channels, features = pick(random, 6, 9, 16), pick(random, 3, 8), pick(random, 2, 5, 9)
    chain = Chain(3, side, side)
    row = chain.input("row", "batch", features)
    chain.conv((3, channels), pads=[1] * 4)
    chain.add("Relu")
    if random.random() < 0.5:
        chain.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
        side //= 2
    if random.random() < 0.3:
        chain.add("Transpose", perm=[0, 2, 3, 1])
    image = chain.add("Flatten")
    if random.random() < 0.5:
        row = chain.add("Gemm", chain.weight(features, features), first=row)
    parts = [image, row] if random.random() < 0.5 else [row, image]
    chain.add("Concat", parts[1], first=parts[0], axis=1)
    chain.gemm(channels * side * side + features, 8)
    chain.add("Relu")
    chain.gemm(8, 3)
    path = chain.save(tmp_path)
    imported = import_network(path)
    assert imported.comparison.passed and not imported.comparison.skipped
    if seed < RUN:
        runs(imported, 1 + 2 * (seed % 2))


def test_a_compressed_file(tmp_path: Path) -> None:
    chain = Chain(4)
    chain.gemm(4, 3)
    plain = chain.save(tmp_path)
    packed = tmp_path / "net.onnx.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    found = import_network(packed)
    assert found.comparison.passed and found.network.layers == import_network(plain).network.layers
    assert onnx.load(str(plain)).graph.name == "chain"
