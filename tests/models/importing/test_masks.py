"""Masks of attention and of softmaxes: large negative numbers and infinity, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from onnx_chain import Chain, ends
from trninfer.models.errors import ModelError
from trninfer.models.files import Model
from trninfer.models.golden import run_network
from trninfer.models.importing import import_network
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

TOKENS, FEATURES = 5, 8
LOWEST = float(np.finfo(np.float32).min)
ROWS, COLUMNS = ([1, 3], slice(None)), (slice(None), [0, 4])


def attention(axis: int, how: str, number: float, masked: np.ndarray) -> Chain:
    """Attention of two heads whose scores are masked with a number where `masked` is True."""
    chain = Chain(TOKENS, FEATURES)
    chain.add("MatMul", chain.weight(FEATURES, 3 * FEATURES))
    chain.add("Reshape", chain.constant([-1, TOKENS, 3, 2, FEATURES // 2]))
    parts = chain.add("Transpose", perm=[2, 0, 3, 1, 4])
    q, k, v = (chain.add("Gather", chain.constant(np.asarray(n)), first=parts, axis=0) for n in range(3))
    scores = chain.add("MatMul", chain.add("Transpose", perm=[0, 1, 3, 2], first=k), first=q)
    if how == "Add":
        chain.add("Add", chain.constant(np.where(masked, np.float32(number), np.float32(0))))
    else:
        condition = chain.add("Cast", first=chain.constant(masked.astype(np.int64)), to=TensorProto.BOOL)
        chain.add("Where", chain.constant(np.float32(number)), scores, first=condition)
    chain.add("MatMul", v, first=chain.add("Softmax", axis=axis))
    return chain


@pytest.mark.parametrize(
    ("axis", "number", "place", "batch"),
    [
        (-1, -1e9, ROWS, 1),
        (-1, LOWEST, ROWS, 3),
        (-1, -1e4, ROWS, 2),
        (-1, -5.0, ROWS, 4),
        (-2, -1e9, COLUMNS, 7),
        (-2, LOWEST, COLUMNS, 16),
        (-2, -1e4, COLUMNS, 1),
        (-2, -5.0, COLUMNS, 3),
    ],
)
@pytest.mark.parametrize("how", ["Add", "Where"])
def test_masks_of_whole_softmaxes(axis: int, number: float, place: tuple, batch: int, how: str, tmp_path: Path) -> None:
    """All keys of a query, or all queries of a key, have the same number: their weights are equal if it is large."""
    masked = np.random.default_rng(0).random((2, TOKENS, TOKENS)) < 0.3
    masked[0][place] = True
    ends(attention(axis, how, number, masked), TOKENS * FEATURES, tmp_path, batch=batch)


@pytest.mark.parametrize(("axis", "place"), [(-1, ROWS), (-2, COLUMNS)])
@pytest.mark.parametrize("how", ["Add", "Where"])
def test_softmaxes_of_infinity_alone_are_refused(axis: int, place: tuple, how: str, tmp_path: Path) -> None:
    masked = np.zeros((TOKENS, TOKENS), bool)
    masked[place] = True
    with pytest.raises(ModelError, match=r"ONNX Runtime computes NaN for the output '\w+' on random inputs"):
        ends(attention(axis, how, -np.inf, masked), TOKENS * FEATURES, tmp_path)
    masked = np.triu(np.ones((TOKENS, TOKENS), bool), 1)
    ends(attention(axis, how, -np.inf, masked), TOKENS * FEATURES, tmp_path)


def images(kind: str, number: float) -> Chain:
    """Scores of pixels that are masked twice before a softmax over each row or over the channels."""
    chain = Chain(3, 6, 6)
    chain.conv((3, 8), (1, 1))
    random = np.random.default_rng(0)

    def mask(condition: str) -> None:
        chain.add("Where", chain.constant(np.float32(number)), chain.value, first=condition)

    def constant() -> str:
        chosen = (random.random((8, 6, 6)) < 0.3).astype(np.int64)
        chosen[:, :, 0] = 0  # no row is masked completely
        chosen[0] = 0
        value = chain.value
        condition = chain.add("Cast", first=chain.constant(chosen), to=TensorProto.BOOL)
        chain.value = value
        return condition

    if kind == "pad":
        pads, value = chain.constant([0, 0, 0, 0, 0, 0, 0, 2]), chain.constant(np.float32(number))
        mask(constant())
        chain.add("Pad", pads, value)
    else:
        value = chain.value
        condition = chain.add("Greater", chain.constant(0.5))
        chain.value = value
        mask(condition)
        mask(constant())
        if kind == "add":
            chosen = np.zeros((8, 6, 6), np.float32)
            chosen[3, :, 4] = number
            chain.add("Add", chain.constant(chosen))
    return chain


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    ("kind", "number", "axis"),
    [("where", -np.inf, -1), ("where", LOWEST, 1), ("pad", LOWEST, 1), ("pad", -np.inf, -1), ("add", -np.inf, -1)],
)
def test_masks_do_not_overflow_in_16_bits(kind: str, number: float, axis: int, dtype: str, tmp_path: Path) -> None:
    chain = images(kind, number)
    chain.add("Softmax", axis=axis)
    chain.add("Flatten")
    path = chain.save(tmp_path)
    imported = import_network(path)
    assert imported.comparison.passed and not imported.comparison.skipped
    model = Model(imported.network, imported.tensors, {})
    x = np.random.default_rng(3).standard_normal((2, 3, 6, 6)).astype(np.float32)
    x = x.astype(np.float16).astype(np.float32)
    expected = run_network(imported.network, imported.tensors, x).probabilities
    result = Session(model, SimulatedBackend("trn2"), dtype, 2).run(x).probabilities
    assert np.isfinite(result).all()
    close = np.abs(result - expected) < (1e-4 if dtype == "float32" else 2e-2)
    assert close.mean() > 0.9  # a comparison of rounded scores may choose differently
