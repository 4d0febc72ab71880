"""Residual streams that only layer norms read are centred, others stay unchanged; compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_chain import Chain, assert_imports
from trninfer.models.layers import LayerNorm
from trninfer.models.network import Network


def norm(chain: Chain, channels: int) -> None:
    chain.add("LayerNormalization", chain.weight(channels), chain.weight(channels), axis=-1)


def transformer(channels: int, activation: str = "", has_class_token: bool = True, seed: int = 0) -> Chain:
    """Return a patch embedding with a mean far from zero, positions, two residual blocks and a norm, for 12 or 13
    tokens."""
    chain = Chain(3, 6, 8, seed=seed)
    bias = chain.constant(np.full(channels, 9.0))
    chain.add("Conv", chain.weight(channels, 3, 2, 2), bias, strides=[2, 2], kernel_shape=[2, 2])
    chain.add("Reshape", chain.constant([0, channels, 12]))
    chain.add("Transpose", perm=[0, 2, 1])
    if has_class_token:
        chain.add("Concat", chain.value, first=chain.weight(1, 1, channels), axis=1)
    chain.add("Add", chain.weight(1, 12 + has_class_token, channels))
    for _ in range(2):
        stream = chain.value
        norm(chain, channels)
        for read, written in ((channels, 8), (8, channels)):
            chain.add("MatMul", chain.weight(read, written, scale=read**-0.5))
            chain.add("Add", chain.weight(written))
            chain.add("Tanh" if written == 8 else "Identity")
        chain.add("Add", stream)
        if activation:
            chain.add(activation)
    norm(chain, channels)
    return chain


def ended(chain: Chain, channels: int) -> Chain:
    """Append the mean of the tokens and a dense layer."""
    chain.add("ReduceMean", chain.constant([1]), keepdims=0)
    chain.gemm(channels, 4)
    return chain


def are_centred(network: Network) -> list[bool]:
    return [layer.is_centred for layer in network.layers if isinstance(layer, LayerNorm)]


@pytest.mark.parametrize("channels", [6, 200, 300])
def test_answers_stay(channels: int, tmp_path: Path) -> None:
    imported = assert_imports(ended(transformer(channels, has_class_token=False), channels), tmp_path)
    assert are_centred(imported.network) == [True, True, True]


def test_a_stream_with_a_class_token(tmp_path: Path) -> None:
    imported = assert_imports(ended(transformer(6), 6), tmp_path, batch=1)
    assert are_centred(imported.network) == [True, True, True]


@pytest.mark.parametrize("activation", ["Relu", "Abs"])
def test_streams_with_activations_stay(activation: str, tmp_path: Path) -> None:
    imported = assert_imports(ended(transformer(6, activation, has_class_token=False), 6), tmp_path)
    assert not any(are_centred(imported.network)[1:])


def test_a_stream_that_is_read_by_others_stays(tmp_path: Path) -> None:
    chain = transformer(6, has_class_token=False)
    stream = chain.nodes[-1].input[0]
    chain.add("Add", stream)
    imported = assert_imports(ended(chain, 6), tmp_path)
    assert not any(are_centred(imported.network))
