"""Random transformers, compared with ONNX Runtime: heads, tokens, channels, batches and dtypes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx_chain import Chain
from trninfer.models import Model
from trninfer.models.importing import ImportOptions, import_network
from trninfer.models.layers import LayerNorm
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend
from trninfer.runtime.tolerances import network_tolerance

pytestmark = pytest.mark.usefixtures("first_plans")

BATCHES = (1, 2, 3, 4, 7, 16)
FLOAT32 = 1e-4
QUICK = ((1, 96, 5, 7), (2, 200, 4, 33))  # heads, channels, rows, columns
SLOW = ((13, 52, 10, 10), (3, 300, 13, 10), (2, 64, 16, 16))
SIZES = (*QUICK, *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in SLOW))


def linear(chain: Chain, channels: int, read: str) -> str:
    chain.add("MatMul", chain.weight(channels, channels, scale=channels**-0.5), first=read)
    return chain.add("Add", chain.weight(channels))


def attention(chain: Chain, heads: int, channels: int, tokens: int) -> None:
    """Return queries, keys and values by head, the softmax of their scores, and a linear layer."""
    read = chain.value
    parts = []
    for _ in range(3):
        linear(chain, channels, read)
        chain.add("Reshape", chain.constant([-1, tokens, heads, channels // heads]))
        parts.append(chain.add("Transpose", perm=[0, 2, 1, 3]))
    queries, keys, values = parts
    turned = chain.add("Transpose", first=keys, perm=[0, 1, 3, 2])
    chain.add("MatMul", turned, first=queries)
    chain.add("Mul", chain.constant(np.float32(2 * (heads / channels) ** 0.5)))
    chain.add("Softmax", axis=-1)
    chain.add("MatMul", values)
    chain.add("Transpose", perm=[0, 2, 1, 3])
    chain.add("Reshape", chain.constant([-1, tokens, channels]))
    linear(chain, channels, chain.value)


def transformer(heads: int, channels: int, rows: int, columns: int) -> Chain:
    """Return a patch embedding with a mean, positions, an attention block, a linear block, and a norm."""
    chain = Chain(3, rows, columns, seed=channels)
    tokens = rows * columns
    chain.add("Conv", chain.weight(channels, 3, 1, 1), chain.constant(np.full(channels, 5.0)))
    chain.add("Reshape", chain.constant([0, channels, tokens]))
    chain.add("Transpose", perm=[0, 2, 1])
    chain.add("Add", chain.weight(1, tokens, channels))
    for has_attention in (True, False):
        stream = chain.value
        chain.add("LayerNormalization", chain.weight(channels), chain.weight(channels), axis=-1)
        if has_attention:
            attention(chain, heads, channels, tokens)
        else:
            linear(chain, channels, chain.value)
        chain.add("Add", stream)
    chain.add("LayerNormalization", chain.weight(channels), chain.weight(channels), axis=-1)
    chain.add("ReduceMean", chain.constant([1]), keepdims=0)
    chain.gemm(channels, 4)
    return chain


@pytest.mark.parametrize(("heads", "channels", "rows", "columns"), SIZES)
def test_each_picture_is_answered_as_onnx_runtime_answers_it(
    heads: int, channels: int, rows: int, columns: int, tmp_path: Path
) -> None:
    path = transformer(heads, channels, rows, columns).save(tmp_path)
    imported = import_network(path, options=ImportOptions(output_kind="values"))
    norms = [layer for layer in imported.network.layers if isinstance(layer, LayerNorm)]
    assert [norm.is_centred for norm in norms] == [True] * 3
    golden = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    model = Model(imported.network, imported.tensors, {})
    random = np.random.default_rng(channels)
    for number, batch in enumerate(BATCHES if channels == 96 else random.permutation(BATCHES)[:2].tolist()):
        dtype, target = ("bfloat16", "float16", "float32")[number % 3], ("trn2", "trn3", "trn1")[channels % 3]
        x = random.standard_normal((batch, 3, rows, columns)).astype(np.float32)
        (expected,) = golden.run(None, {"x": x})
        answers = Session(model, SimulatedBackend(target), dtype, batch).run(x).probabilities
        tolerance = FLOAT32 if dtype == "float32" else network_tolerance(dtype)
        assert np.abs(answers - expected).max() <= tolerance * max(1.0, np.abs(expected).max()), (dtype, batch)
