"""Global response norm as written by exporters: fewer large products, and the same answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lowered import assert_right
from onnx_chain import Chain, assert_imports
from trninfer.lowering.decisions import Decisions
from trninfer.models.files import Model
from trninfer.models.layers import Affine, Combine


def response_norm(chain: Chain, channels: int, *, reads_mean: bool = True, is_last: bool = False) -> None:
    """Return x + (scale * (x * g / (mean of g + epsilon)) + shift), where g is the L2 norm of each channel."""
    x = chain.value
    g = chain.add("ReduceL2", chain.constant([2, 3]), keepdims=1)
    if reads_mean:
        mean = chain.add("ReduceMean", chain.constant([1]), keepdims=1)
    else:
        mean = chain.add("ReduceMax", chain.constant([1]), keepdims=1)
    divisor = chain.add("Add", chain.constant([1e-3]), first=mean)
    chain.add("Div", divisor, first=g)
    chain.add("Mul", chain.value, first=x)
    chain.add("Mul", chain.weight(1, channels, 1, 1))
    chain.add("Add", chain.weight(1, channels, 1, 1))
    chain.add("Add", x)
    if is_last:
        chain.add("Add", x)


@pytest.mark.parametrize(("channels", "padding", "reads_mean"), [(12, 0, True), (130, 1, True), (9, 0, False)])
def test_answers_stay(channels: int, padding: int, reads_mean: bool, tmp_path: Path) -> None:
    chain = Chain(3, 6, 7, seed=channels)
    for n, read in enumerate((3, 8)):
        chain.conv((read, channels), (1, 1))
        chain.add("Relu")
        response_norm(chain, channels, reads_mean=reads_mean, is_last=n == 1)
        chain.conv((channels, 8), (3, 3), pads=[padding] * 4)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(8, 4)
    imported = assert_imports(chain, tmp_path)
    model = Model(imported.network, imported.tensors, {})
    for batch in (1, 2, 3, 4, 7, 16):
        dtype = ("float32", "bfloat16", "float16")[(channels + batch) % 3]
        assert_right(model, Decisions(), batch, dtype, tolerance=2e-5 if dtype == "float32" else 4e-2)
    if reads_mean and not padding:
        combined = [each.operation for each in imported.network.layers if isinstance(each, Combine)]
        assert set(combined) == {"multiply"}
        shapes = imported.network.shapes()
        assert all(
            shapes[each.name][1:] in ((), (1, 1)) for each in imported.network.layers if isinstance(each, Affine)
        )


def test_a_gate_that_others_read_stays(tmp_path: Path) -> None:
    chain = Chain(3, 6, 7)
    chain.conv((3, 5), (1, 1))
    x = chain.value
    gate = chain.add("GlobalAveragePool")
    scaled = chain.add("Mul", chain.add("Mul", gate, first=x), first=chain.weight(1, 5, 1, 1))
    chain.add("Add", x, first=scaled)
    chain.add("Mul", scaled)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(5, 4)
    imported = assert_imports(chain, tmp_path)
    assert [each.operation for each in imported.network.layers if isinstance(each, Combine)].count("add") == 1
    assert np.isfinite([tensor.sum() for tensor in imported.tensors.values()]).all()
