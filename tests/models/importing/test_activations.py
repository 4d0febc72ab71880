"""Activations, by operators of their own and as exporters spell them out."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx_chain import Chain, assert_imports, ends, kinds
from trninfer.models import Dense

ACTIVATIONS = {
    "Relu": {},
    "LeakyRelu": {"alpha": 0.2},
    "Elu": {"alpha": 0.7},
    "Selu": {},
    "Softplus": {},
    "Softsign": {},
    "Mish": {},
    "HardSwish": {},
    "HardSigmoid": {"alpha": 0.3},
    "Gelu": {"approximate": "tanh"},
    "Sigmoid": {},
    "Tanh": {},
    "Exp": {},
    "Abs": {},
    "ThresholdedRelu": {"alpha": 0.0},
    "Erf": {},
    "Sign": {},
    "Sin": {},
    "Cos": {},
}


@pytest.mark.parametrize("op", list(ACTIVATIONS))
def test_activations(op: str, tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 9)
    chain.add(op, **ACTIVATIONS[op])
    chain.gemm(9, 3)
    assert kinds(assert_imports(chain, tmp_path)) == [Dense, Dense]


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
