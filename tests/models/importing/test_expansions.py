"""Operators that are replaced by simpler ones, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto
from onnx_chain import Chain, assert_imports, ends
from trninfer.models.errors import ModelError
from trninfer.models.files import Model
from trninfer.models.importing import ImportOptions, import_network
from trninfer.models.layers import Attention
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

BATCHES = (1, 2, 3, 4, 7, 16)
CASES: dict[str, dict[str, Any]] = {
    "heads apart": {},
    "heads together": {"flat": True},
    "one head": {"heads": 1, "shared": 1, "flat": True},
    "shared keys": {"shared": 2},
    "shared keys, together": {"shared": 1, "flat": True},
    "scale": {"scale": 0.3, "flat": True},
    "causal": {"is_causal": 1},
    "causal, few queries": {"is_causal": 1, "queries": 3},
    "condition": {"mask": "bool", "queries": 5},
    "numbers": {"mask": "float", "flat": True},
    "causal and numbers": {"mask": "float", "is_causal": 1},
    "infinite": {"mask": "infinite", "flat": True},
    "numbers by head": {"mask": "by head"},
    "other values": {"values": 6},
}
BY_DATA: dict[str, dict[str, Any]] = {
    "numbers": {"mask": "numbers by data"},
    "numbers, together": {"mask": "numbers by data", "flat": True},
    "condition": {"mask": "condition by data"},
}


def attention(
    heads: int = 4,
    shared: int = 4,
    flat: bool = False,
    queries: int = 7,
    mask: str = "",
    values: int = 4,
    **attributes: Any,
) -> Chain:
    """Return attention over seven tokens in a random network, with one dense layer for queries, keys and values."""
    chain = Chain(7, 5)
    tokens, random = chain.value, chain.random
    parts = []
    for count, length, each in ((heads, queries, 4), (shared, 7, 4), (shared, 7, values)):
        chain.add("MatMul", chain.weight(5, count * each, scale=1.0), first=tokens)
        if length < 7:
            chain.add("Slice", *(chain.constant([n]) for n in (0, length, 1)))
        if not flat:
            chain.add("Reshape", chain.constant([0, 0, count, each]))
            chain.add("Transpose", perm=[0, 2, 1, 3])
        parts.append(chain.value)
    if mask == "bool":
        ones = chain.constant((random.random((queries, 7)) < 0.6) | (np.arange(7) == 0))
        parts.append(chain.add("Cast", first=ones, to=TensorProto.BOOL))
    elif mask and not mask.endswith("by data"):
        bias = random.standard_normal((1, heads, queries, 7) if mask == "by head" else (queries, 7))
        parts.append(chain.constant(np.where(np.arange(7) == 3, -np.inf, bias) if mask == "infinite" else bias))
    if mask.endswith("by data"):
        chain.add("MatMul", chain.weight(5, heads * 7), first=tokens)
        chain.add("Reshape", chain.constant([0, 0, heads, 7]))
        parts.append(chain.add("Transpose", perm=[0, 2, 1, 3]))
    if mask == "condition by data":
        parts[-1] = chain.add("Greater", chain.constant(-2.0))
    if flat:
        attributes |= {"q_num_heads": heads, "kv_num_heads": shared}
    chain.add("Attention", *parts[1:], first=parts[0], **attributes)
    if not flat:
        chain.add("Transpose", perm=[0, 2, 1, 3])
    chain.add("Flatten")
    chain.gemm(queries * heads * values, 9)
    return chain


@pytest.mark.parametrize(("case", "opset"), [*((case, 23) for case in CASES), ("numbers", 24)])
def test_attention_of_newer_opsets(case: str, opset: int, tmp_path: Path) -> None:
    imported = assert_imports(attention(**CASES[case]), tmp_path, opset)
    assert sum(isinstance(layer, Attention) for layer in imported.network.layers) == 1


@pytest.mark.parametrize("case", list(BY_DATA))
def test_masks_that_depend_on_the_input(case: str, tmp_path: Path) -> None:
    """Relative positions that depend on the queries, as in SAM and ViTDet."""
    assert_imports(attention(**BY_DATA[case]), tmp_path, 23)


@pytest.mark.parametrize("case", ["heads together", "shared keys", "causal and numbers"])
def test_attention_in_batches(case: str, tmp_path: Path) -> None:
    path = attention(**CASES[case]).save(tmp_path, 23)
    imported = import_network(path, None, None, ImportOptions(output_kind="values"))
    reference = onnxruntime.InferenceSession(str(path))
    for batch in BATCHES:
        x = np.random.default_rng(batch).standard_normal((batch, *imported.network.input.shape)).astype(np.float32)
        expected = reference.run(None, {"x": x.reshape(batch, 7, 5)})[0]
        session = Session(Model(imported.network, imported.tensors, {}), SimulatedBackend("trn2"), "float32", batch)
        np.testing.assert_allclose(session.run(x).probabilities, expected, atol=1e-5 * np.abs(expected).max())


def test_refused_attention(tmp_path: Path) -> None:
    chain = attention(softcap=2.0)
    with pytest.raises(ModelError, match=r"\(Attention\): attention with a softcap is not supported"):
        assert_imports(chain, tmp_path, 23)
    chain = attention(shared=2)
    next(node for node in chain.nodes if node.op_type == "Attention").input.extend(
        ["", chain.weight(1, 2, 3, 4), chain.weight(1, 2, 3, 4)]
    )
    with pytest.raises(ModelError, match="cached keys and values"):
        assert_imports(chain, tmp_path, 23)


@pytest.mark.parametrize("axis", [-1, 2, 1])
def test_rms_normalization(axis: int, tmp_path: Path) -> None:
    chain = Chain(7, 5)
    chain.add("RMSNormalization", chain.weight(*(7, 5)[axis - 1 if axis > 0 else 1 :]), axis=axis, epsilon=1e-3)
    ends(chain, 35, tmp_path, opset=23)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("split", ["single", "whole", 2, 4, (3, 1, 2)])
def test_lists_of_tensors(axis: int, split: Any, tmp_path: Path) -> None:
    """The entries of a list are read by index and concatenated in another order."""
    chain = Chain(6, 6)
    if not axis:
        chain.add("Transpose", perm=[1, 0, 2])
    given = [] if isinstance(split, str) else [chain.constant(np.asarray(split))]
    pieces = chain.add("SplitToSequence", *given, axis=axis, **({"keepdims": 0} if split == "single" else {}))
    count = {"single": 6, "whole": 6, 2: 3, 4: 2, (3, 1, 2): 3}[split]
    order = [-1, *range(count - 1)]
    names = [chain.add("SequenceAt", chain.constant(index), first=pieces) for index in order]
    collected = chain.add("SequenceConstruct", *names[1:], first=names[0])
    chain.add("ConcatFromSequence", first=collected, axis=axis, new_axis=int(split == "single"))
    if not axis:
        chain.add("Transpose", perm=[1, 0, 2])
    ends(chain, 36, tmp_path)


def test_an_entry_that_a_list_lacks(tmp_path: Path) -> None:
    chain = Chain(6)
    pieces = chain.add("SplitToSequence", chain.constant(2), axis=1)
    chain.add("SequenceAt", chain.constant(3), first=pieces)
    with pytest.raises(ModelError, match="it selects entry 3 of 3"):
        assert_imports(chain, tmp_path)
    chain = Chain(6)
    chain.add("SequenceAt", chain.constant(0), first="x")
    with pytest.raises(ModelError, match="not a list of tensors"):
        assert_imports(chain, tmp_path)
