"""Nodes with constant inputs are evaluated during the import as in ONNX Runtime; branches with constant conditions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper
from onnx_chain import Chain, assert_imports, ends, kinds
from trninfer.models import Conv2d, Dense, Flatten
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network
from trninfer.models.importing.onnx_constants import MAX_MADE, MAX_WORK, Folder
from trninfer.models.importing.onnx_file import Node


def onnx_values(op: str, inputs: tuple, attributes: dict, outputs: int = 1, opset: int = 18) -> list[np.ndarray]:
    """Return ONNX Runtime's outputs for one node with constant inputs; an input that is None is omitted."""
    names = ["" if value is None else f"c{place}" for place, value in enumerate(inputs)]
    node = helper.make_node(op, names, [f"y{number}" for number in range(outputs)], **attributes)
    weights = [numpy_helper.from_array(value, name) for name, value in zip(names, inputs) if name]
    made = [ValueInfoProto(name=name) for name in node.output]
    model = helper.make_model(
        helper.make_graph([node], "constants", [], made, weights),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=9,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {})


def evaluated(op: str, *inputs: np.ndarray | None, outputs: int = 1, **attributes: object) -> tuple[np.ndarray, ...]:
    names = tuple(f"y{number}" for number in range(outputs))
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in attributes.items()}
    return Folder(0).evaluate(Node(op, "n", ("",) * len(inputs), names, given), inputs)


F = np.array([[1.5, -2.5, 0.5], [-0.5, 3.5, -7.25]], np.float32)
POSITIVE = np.abs(F)
I = np.array([[7, -7, 5], [-3, 2, -9]])  # noqa: E741
B = F > 0
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def i(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


CASES = [  # operators whose inputs or attributes differ between opsets, or that round integers in a special way
    *((op, (I, i(2, -2, 4)), {}) for op in ("Add", "Div", "Mod", "Greater")),
    ("Mod", (F, np.array([2, -2, 4], np.float32)), {"fmod": 1}),
    ("Max", (I, i(1), i(0, 4, 9)), {}),
    ("ConstantOfShape", (i(),), {"value": numpy_helper.from_array(i(7))}),
    ("Squeeze", (CUBE[:1, :, None],), {}),
    ("Flatten", (CUBE,), {"axis": -1}),
    ("Reshape", (CUBE, i(0, -1, 2)), {}),
    ("Reshape", (CUBE[:0], i(5, 0)), {"allowzero": 1}),
    ("Slice", (CUBE, i(1, -2), i(1 << 62, -1), i(-1, 1)), {}),
    ("Slice", (CUBE, i(-1), i(-(1 << 62)), i(2), i(-2)), {}),
    ("Shape", (CUBE,), {"start": -2, "end": -1}),
    ("Gather", (CUBE, np.array(-1)), {}),
    ("Expand", (F, i(1)), {}),
    ("Range", (np.array(7), np.array(-2), np.array(-3)), {}),
    *(("Cast", (F,), {"to": to}) for to in (7, 9, 10)),
    ("DequantizeLinear", (np.arange(6, dtype=np.uint8).reshape(2, 3), F[0], i(1, 2, 3).astype(np.uint8)), {"axis": -1}),
    ("BatchNormalization", (CUBE, F[0], F[1], F[0], POSITIVE[0]), {"epsilon": 0.5}),
    ("ReduceSum", (CUBE,), {"noop_with_empty_axes": 1}),
    ("ReduceMean", (CUBE - 9.5, i(1)), {"keepdims": 0}),
    ("Clip", (F, None, np.float32(2).reshape(())), {}),
    ("Clip", (F,), {}),
]


def test_constants_are_what_onnx_runtime_makes_of_them() -> None:
    for op, inputs, attributes in CASES:
        before = [None if value is None else value.copy() for value in inputs]
        ours = {name: numpy_helper.to_array(v) if isinstance(v, TensorProto) else v for name, v in attributes.items()}
        (made,) = evaluated(op, *(None if value is None else np.asarray(value) for value in inputs), **ours)
        (expected,) = onnx_values(op, inputs, attributes)
        assert made.shape == expected.shape and made.dtype.kind == expected.dtype.kind, op
        np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-6, err_msg=op)
        for value, old in zip(inputs, before):
            np.testing.assert_array_equal(value, old)  # weights stay unchanged


@pytest.mark.parametrize("opset", [9, 13, 14])
def test_batch_normalisation_uses_the_given_statistics_in_every_opset(opset: int) -> None:
    inputs = (CUBE, F[0], F[1], F[0], POSITIVE[0])
    (made,) = Folder(0, opset).evaluate(Node("BatchNormalization", "n", ("",) * 5, ("y",), {}), inputs)
    (expected,) = onnx_values("BatchNormalization", inputs, {}, opset=opset)
    np.testing.assert_allclose(made, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "attributes", "opset"),
    [((CUBE, i(1, 3)), {"axis": -1}, 18), ((CUBE,), {"axis": 2, "split": [3, 1]}, 11), ((CUBE,), {"axis": 0}, 13)],
)
def test_splits_are_those_of_onnx_runtime(inputs: tuple, attributes: dict, opset: int) -> None:
    made, expected = (
        evaluated("Split", *inputs, outputs=2, **attributes),
        onnx_values("Split", inputs, attributes, 2, opset),
    )
    assert len(made) == 2
    for ours, theirs in zip(made, expected):
        np.testing.assert_array_equal(ours, theirs)


def test_an_uneven_split_ends_in_a_smaller_part() -> None:
    parts = evaluated("Split", np.arange(7), outputs=3, num_outputs=3)
    assert [part.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5], [6]]


def test_constants_in_attributes() -> None:
    for name, value in (("value", F), ("value_int", 3), ("value_floats", (1.5, 2.0))):
        np.testing.assert_array_equal(evaluated("Constant", **{name: value})[0], value)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "says"),
    [
        ("LSTM", (F,), {}, "trninfer import cannot evaluate this operator"),
        ("Add", (F, F[:, :2]), {}, "its inputs have incompatible shapes or types"),
        ("Gather", (F, i(3)), {"axis": 1}, "its inputs have incompatible shapes or types"),
        ("Add", (F, None), {}, "its inputs have incompatible shapes or types"),
        ("Squeeze", (F, i(0)), {}, "its inputs have incompatible shapes or types"),
        ("Slice", (F, i(0), i(1), i(2)), {}, "its starts, ends, axes and steps are inconsistent"),
        ("Slice", (F, i(0, 0), i(1), i(1)), {}, "its starts, ends, axes and steps are inconsistent"),
        ("Split", (F,), {"axis": 1, "split": [1, 1]}, r"3 entries cannot be split into parts of \[1, 1\]"),
        ("Split", (F,), {"axis": 1, "num_outputs": 4}, "3 entries cannot be split into 4 parts"),
        ("Cast", (F,), {"to": 8}, "its result has the type .*, which is not supported"),
        ("ConstantOfShape", (i(2, -1),), {}, "its shape has negative sizes"),
        ("Constant", (), {"value_string": "x"}, "a value from value_string is not supported"),
        ("Constant", (), {}, "a value from no attribute"),
        ("DequantizeLinear", (i(1), None), {}, "its inputs have incompatible shapes or types"),
    ],
)
def test_nodes_that_cannot_be_evaluated(op: str, inputs: tuple, attributes: dict, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        evaluated(op, *inputs, outputs=2 if op == "Split" else 1, **attributes)


def test_memory_is_bounded_before_anything_is_made_and_given_back() -> None:
    folder, half = Folder(0), MAX_MADE // 2 + 1
    fill = Node("ConstantOfShape", "n", ("shape",), ("filled",), {"value": np.zeros(1, np.int8)})
    for _ in range(3):  # one at a time
        assert folder.evaluate(fill, (i(half),))[0].size == half
        folder.release("filled")
    folder.evaluate(fill, (i(half),))
    with pytest.raises(ModelError, match="the file's constants are too large to evaluate"):
        folder.evaluate(Node("ConstantOfShape", "n", ("shape",), ("more",), {}), (i(half),))


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("ConstantOfShape", (i(1 << 20, 1 << 20),)),
        ("Expand", (np.zeros(1), i(1 << 40))),
        ("Range", (np.array(0), np.array(1 << 40), np.array(1))),
        ("Range", (np.array(0), np.array(1), np.array(0))),
        ("Tile", (np.zeros(2), i(1 << 40))),
        ("Gather", (np.broadcast_to(np.float32(0), (1, 1 << 20)), np.zeros(1 << 10, np.int64))),
        ("Max", (np.broadcast_to(np.float32(0), (1 << 20, 1)), np.broadcast_to(np.float32(0), 1 << 20))),
    ],
)
def test_small_nodes_that_ask_for_much(op: str, inputs: tuple) -> None:
    with pytest.raises(ModelError, match="too large to evaluate"):
        evaluated(op, *inputs)


def test_work_is_bounded_even_if_memory_is_freed() -> None:
    folder, times = Folder(0), 0
    zeros = np.broadcast_to(np.int8(0), (MAX_MADE,))
    reduce = Node("ReduceMax", "n", ("x",), ("y",), {})
    with pytest.raises(ModelError, match="too large to evaluate"):
        while times <= MAX_WORK:
            folder.evaluate(reduce, (zeros,))
            folder.release("y")
            times += 1
    assert times == MAX_WORK


def test_a_view_by_the_batch_size_is_a_flatten(tmp_path: Path) -> None:
    """x.view(x.size(0), -1), as exported by PyTorch."""
    chain = Chain(3, 4, 4)
    chain.conv((3, 2))
    x = chain.value
    chain.add("Shape")
    chain.add("Gather", chain.constant(np.array(0)), axis=0)
    chain.add("Unsqueeze", chain.constant([0]))
    target = chain.add("Concat", chain.constant([-1]), axis=0)
    chain.add("Reshape", target, first=x)
    chain.gemm(8, 2)
    assert kinds(assert_imports(chain, tmp_path)) == [Conv2d, Flatten, Dense]


def test_weights_as_constants_and_transposed(tmp_path: Path) -> None:
    chain = Chain(4)
    value = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4) / 12)
    chain.nodes.append(helper.make_node("Constant", [], ["w"], value=value))
    chain.nodes.append(helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]))
    chain.nodes.append(helper.make_node("Identity", ["wt"], ["shared"]))
    chain.add("MatMul", "shared")
    assert_imports(chain, tmp_path)


def test_weights_that_are_standardised_in_the_graph(tmp_path: Path) -> None:
    chain = Chain(3, 6, 6)
    filters = chain.weight(4, 3, 3, 3)
    chain.add("Reshape", chain.constant([1, 4, -1]), first=filters)
    numbers = [chain.constant(np.full(4, value)) for value in (1.5, 0.0, 0.0, 1.0)]
    chain.add("BatchNormalization", *numbers, outputs=3, training_mode=1, epsilon=1e-6)
    weight = chain.add("Reshape", chain.constant([4, 3, 3, 3]), first=f"value{len(chain.nodes) - 1}")
    chain.add("Conv", weight, first="x")
    chain.add("Flatten")
    assert_imports(chain, tmp_path)


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
    """As TorchScript writes a squeeze; the branch reads a value of the enclosing graph."""
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
    x = np.ones((1, 1, 9, 9), np.float32)
    node = Node("Resize", "r", ("x", "", "", "s"), ("y",), {"mode": "nearest"})
    with pytest.raises(ModelError, match="too large to evaluate"):
        Folder(0).evaluate(node, [x, None, None, np.asarray([1, 1, 9_000, 9_000])])
    (found,) = Folder(0).evaluate(node, [x, None, None, np.asarray([1, 1, 18, 27])])
    assert found.shape == (1, 1, 18, 27)


def test_batch_normalisation_of_tokens(tmp_path: Path) -> None:
    """levit normalises [tokens, features] of the single example that the file fixes."""
    chain = Chain(1, 9, 8)
    chain.add("MatMul", chain.weight(8, 6))
    chain.add("Reshape", chain.constant([9, 6]))
    chain.batch_norm(6)
    chain.add("Relu")
    chain.add("Reshape", chain.constant([1, 54]))
    chain.gemm(54, 3)
    assert_imports(chain, tmp_path, batch=1)
