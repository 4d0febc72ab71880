"""Activations with dedicated operators, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from import_steps import importer_of, numbers, value_of
from onnx import helper
from onnx_chain import Chain, assert_imports, ends, kinds
from trninfer.models import Dense
from trninfer.models.errors import ModelError
from trninfer.models.importing.onnx_file import Node
from trninfer.models.importing.operators.activations import BOOL, OPERATORS

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


def test_slopes_by_channel_and_normalisation_by_neighbours(tmp_path: Path) -> None:
    chain = Chain(5, 4, 4)
    chain.add("PRelu", chain.weight(5, 1, 1))
    chain.add("LRN", size=3, alpha=0.01, beta=0.6, bias=1.5)
    chain.add("PRelu", chain.constant([[[0.3]]]))
    ends(chain, 80, tmp_path)


def test_slopes_for_every_element(tmp_path: Path) -> None:
    chain = Chain(6, 5, 3)
    chain.add("PRelu", chain.weight(6, 5, 3))
    ends(chain, 90, tmp_path)


@pytest.mark.parametrize("like", ["data", "float", "bool", "integer"])
def test_casts_to_the_type_of_another_value(like: str, tmp_path: Path) -> None:
    """For convolutions without a bias, PyTorch's newer exporter casts a bias to the type of the input."""
    chain = Chain(3, 6, 6)
    if like == "data":
        bias = chain.add("CastLike", "x", first=chain.constant(np.arange(4)))
        chain.add("Conv", chain.weight(4, 3, 3, 3), bias, first="x")
        ends(chain, 64, tmp_path)
        return
    sample = chain.constant(np.zeros(1, np.int64 if like == "integer" else np.float32))
    if like == "bool":
        sample = chain.add("Cast", first=sample, to=BOOL)
    chain.add("CastLike", sample, first="x")
    if like == "integer":
        with pytest.raises(ModelError, match="casting data to integers is not supported"):
            assert_imports(chain, tmp_path)
        return
    if like == "bool":
        chain.add("Not")
        chain.add("Cast", to=1)
    ends(chain, 108, tmp_path)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5])
def test_celu(alpha: float, tmp_path: Path) -> None:
    chain = Chain(3, 5, 4)
    chain.add("Celu", alpha=alpha)
    chain.add("Flatten")
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("biased", [False, True])
def test_onnx_runtimes_fast_gelu(biased: bool, tmp_path: Path) -> None:
    chain = Chain(5)
    chain.add("FastGelu", *([chain.weight(5)] if biased else []), domain="com.microsoft")
    chain.gemm(5, 3)
    model = chain.model()
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    chain.model = lambda opset=20: model  # type: ignore[method-assign]
    imported = assert_imports(chain, tmp_path)
    first = imported.network.layers[0]
    assert first.activation == "gelu_tanh" and first.kind == ("affine" if biased else "activation")


@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_a_swish_of_opset_24(alpha: float) -> None:
    """Not every version of ONNX Runtime has it."""
    importer, x = importer_of(6), numbers(6)
    node = Node("Swish", "n", ("x",), ("y",), {"alpha": alpha})
    if alpha != 1:
        with pytest.raises(ModelError, match=r"^its alpha is not 1$"):
            OPERATORS["Swish"](importer, node)
        return
    OPERATORS["Swish"](importer, node)
    np.testing.assert_allclose(value_of(importer, importer.views["y"], x), x / (1 + np.exp(-x)), rtol=1e-5)
