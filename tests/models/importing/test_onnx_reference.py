"""Constants that the reference of the standard works out, and branches that constants choose, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_chain import Chain, assert_imports, ends
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network
from trninfer.models.importing.onnx_file import Node
from trninfer.models.importing.onnx_reference import evaluate_by_reference


def test_grids_and_resized_embeddings(tmp_path: Path) -> None:
    """As edgenext numbers its rows and dinov2 resizes its positions."""
    chain = Chain(4, 6, 6)
    ones = chain.constant(np.ones((1, 4, 3, 3), np.float32))
    grid = chain.add("CumSum", chain.constant(np.asarray(2)), first=ones)
    none = chain.constant(np.zeros(0, np.float32))
    sizes = chain.constant(np.asarray([1, 4, 6, 6]))
    resized = chain.add("Resize", none, none, sizes, first=grid, mode="linear")
    below = chain.add("LessOrEqual", chain.constant(np.float32(2)), first=resized)
    numbers = chain.add("Cast", first=below, to=TensorProto.FLOAT)
    chain.add("Add", numbers, first="x")
    chain.add("Add", resized)
    ends(chain, 144, tmp_path)


@pytest.mark.parametrize("choice", [True, False])
def test_a_branch_that_a_shape_chooses(choice: bool, tmp_path: Path) -> None:
    """As TorchScript writes a squeeze; the branch reads a value of the graph around it."""
    chain = Chain(3, 4, 4)
    rows = chain.add("Gather", chain.constant(np.asarray(2)), first=chain.add("Shape"), axis=0)
    equal = chain.add("Equal", chain.constant(np.asarray(4 if choice else 5)), first=rows)
    value = chain.add("Relu", first="x")
    bodies = {
        name: helper.make_graph(
            [helper.make_node(op, [value], [f"{name}_out"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None)],
        )
        for name, op in (("then_branch", "Exp"), ("else_branch", "Neg"))
    }
    chain.add("If", first=equal, **bodies)
    imported = ends(chain, 48, tmp_path)
    activations = [getattr(layer, "activation", "") for layer in imported.network.layers]
    assert ("exp" in activations) == choice


def test_a_branch_that_data_chooses_is_refused(tmp_path: Path) -> None:
    chain = Chain(3, 4, 4)
    mean = chain.add("ReduceMean", keepdims=0, first="x")
    above = chain.add("Greater", chain.constant(np.float32(0)), first=mean)
    body = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["z"])], "b", [], [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)]
    )
    chain.add("If", first=above, then_branch=body, else_branch=body)
    with pytest.raises(ModelError, match="control flow"):
        import_network(chain.save(tmp_path))


def test_more_numbers_than_are_allowed() -> None:
    x, repeats = np.ones((1, 1, 9, 9), np.float32), np.asarray([1, 1, 900, 900])
    node = Node("Resize", "r", ("x", "", "", "s"), ("y",), {"mode": "nearest"})
    with pytest.raises(ModelError, match="too large to evaluate"):
        evaluate_by_reference(node, [x, None, None, repeats], 18, 10_000)
    (found,) = evaluate_by_reference(node, [x, None, None, np.asarray([1, 1, 18, 27])], 18, 10_000)
    assert found.shape == (1, 1, 18, 27)


def test_batch_normalisation_of_tokens(tmp_path: Path) -> None:
    """levit normalises [tokens, features] of the one example that the file fixes."""
    chain = Chain(1, 9, 8)
    chain.add("MatMul", chain.weight(8, 6))
    chain.add("Reshape", chain.constant([9, 6]))
    chain.batch_norm(6)
    chain.add("Relu")
    chain.add("Reshape", chain.constant([1, 54]))
    chain.gemm(54, 3)
    assert_imports(chain, tmp_path, batch=1)
