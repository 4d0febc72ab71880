"""Rejected imports: one line lists all unsupported parts by node and operator."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_chain import Chain
from trninfer.models import ModelError
from trninfer.models.importing import ImportOptions, import_network, onnx_file


def image_then(build) -> Chain:
    """Return an image of 3x8x8, a 3x3 convolution to 4 channels, and the nodes that `build` adds."""
    chain = Chain(3, 8, 8)
    chain.conv((3, 4), pads=[1] * 4)
    build(chain)
    return chain


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda c: c.conv((4, 4), strides=[0, 1]), r"node 'n1' \(Conv\): its strides and dilations must be at least 1"),
        (lambda c: c.conv((4, 4), dilations=[1, -2]), r"n1' \(Conv\): its strides and dilations must be at least 1"),
        (lambda c: c.conv((3, 4), group=4), r"\[4, 3, 3, 3\] with 4 groups, but its input has 4 channels"),
        (lambda c: c.conv((2, 3), group=2), "4 input and 3 output channels cannot be divided into 2 groups"),
        (lambda c: c.conv((4, 4), pads=[-1, 0, 0, 0]), "negative pads"),
        (lambda c: c.conv((4, 4), pads=[1 << 40] * 4), "pads must be at most 1024"),
        (lambda c: c.conv((5, 4)), r"with 1 groups, but its input has 4 channels; if the channels are last"),
        (lambda c: c.conv((4, 4), (9, 9)), "is too large for an input of"),
        (lambda c: c.add("MaxPool", kernel_shape=[0, 2]), "kernel_shape is not positive"),
        (lambda c: c.add("MaxPool", kernel_shape=[2, 2], pads=[2] * 4), "must be smaller than the window"),
        (lambda c: c.add("MaxPool", kernel_shape=[9, 9]), "pools over 9x9 pixels of an image, but"),
        (lambda c: c.add("FancyOp", domain="com.example"), r"\(com.example.FancyOp\): this operator is not supported"),
        (lambda c: c.add("Gelu", approximate="sines"), "approximation 'sines' is unknown"),
        (lambda c: c.add("Flatten", axis=5), r"axis 5 is out of bounds for an input of shape \[batch, 4, 8, 8\]"),
        (lambda c: c.add("Reshape", c.constant([3, -1])), r"cannot reshape \[batch, 4, 8, 8\] to \[3, 85\]"),
        (lambda c: c.add("Transpose", perm=[0, 2, 2, 3]), r"its perm is \[0, 2, 2, 3\]"),
        (lambda c: c.add("Add", c.weight(1, 5, 8, 8)), r"\[5, 8, 8\] cannot be broadcast to \[batch, 4, 8, 8\]"),
        (lambda c: c.add("Add"), "has 1 inputs"),
        (lambda c: c.add("Gemm", c.weight(4, 2)), r"expects one row of features, but its input is \[batch, 4, 8, 8\]"),
        (lambda c: c.add("MatMul", "x"), r"multiplies \[batch, 4, 8, 8\] by \[batch, 3, 8, 8\]"),
        (lambda c: c.batch_norm(5), r"for 5 channels, but its input is \[batch, 4, 8, 8\]"),
        (lambda c: c.add("BatchNormalization", *(c.constant([-1.0] * 4) for _ in range(4))), "is not positive"),
        (lambda c: c.add("Relu", "x", first="nowhere"), r"reads 'nowhere', which is not the output of any node"),
        (lambda c: [c.add("Add", "value2"), c.add("Relu")], "'value2', which is .* later node .* a cycle"),
        (lambda c: [c.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2], outputs=2), c.add("Add", "value1'")],
         "the indices of the maxima, is not supported"),
        (lambda c: c.add("NonZero"), "it selects entries by their values, which is not supported; export the"),
        (lambda c: c.add("Add", c.add("RandomUniformLike", first=c.weight(4, 8, 8)), first="x"),
         "it draws random numbers; export the network in evaluation mode"),
        (lambda c: c.add("RandomNormalLike"), "it draws random numbers"),
        (lambda c: c.add("GridSample", c.value), "it samples an image at computed positions"),
        (lambda c: c.add("LSTM", c.weight(1, 4, 4), c.weight(1, 4, 4)), "recurrent networks are not supported"),
        (lambda c: c.add("Slice", *(c.constant([n]) for n in (3, 3, 1, -1))), "-1 select none of the 4 entries"),
        (lambda c: c.add("Gather", c.constant([4, 0]), axis=1), "cannot select entries 0 to 4 of 4"),
        (lambda c: c.add("Slice", *(c.constant([n]) for n in (0, 4, 2, 0))), "in steps of 0 from 8 entries"),
        (lambda c: c.add("Expand", c.constant([1, 4, 16, 8])), r"cannot reshape \[batch, 4, 8, 8\] to \[1, 4, 16, 8\]"),
        (lambda c: c.add("Tile", c.constant([2, 1, 1, 1])), r"repeats \[batch, 4, 8, 8\] \[2, 1, 1, 1\] times"),
        (lambda c: c.add("Tile", c.constant([1, 2000, 1, 1])), "at most 1024 per axis"),
        (lambda c: c.add("Pow", c.constant(5.0)), "an exponent of 5 is not supported; -1, 1 to 4 and fractions are"),
    ],
)  # fmt: skip
def test_unsupported_operator_is_refused_by_name(build, says: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=says) as error:
        import_network(image_then(build).save(tmp_path))
    assert "\n" not in str(error.value) and str(error.value).startswith(str(tmp_path))


def says(path: Path, model: onnx.ModelProto) -> str:
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError) as error:
        import_network(path)
    return str(error.value)


def test_all_obstacles_are_reported_together(tmp_path: Path) -> None:
    chain = Chain(3, 8, 8)
    chain.add("Loop")
    chain.add("Relu")
    for _ in range(3):
        chain.add("FancyOp", domain="com.example")
    chain.add("GRU", chain.weight(1, 4, 4))
    text = says(tmp_path / "m.onnx", chain.model())
    assert "3 kinds of nodes cannot be imported: node 'n0' (Loop): control flow is not supported" in text
    assert "node 'n2' (com.example.FancyOp) and 2 more: this operator" in text and "(GRU): recurrent" in text
    assert "\n" not in text and "Relu" not in text


def test_products_of_values_are_reported_first(tmp_path: Path) -> None:
    chain = Chain(3, 8, 8)
    chain.add("FancyOp", domain="com.example")
    chain.add("Attention", domain="com.microsoft", first="x")
    text = says(tmp_path / "m.onnx", chain.model(outputs=["value0", "value1"]))
    assert 0 < text.index("node 'n1' (com.microsoft.Attention): attention is not supported") < text.index("FancyOp")


def test_other_obstacles_are_reported_with_unfixed_sizes(tmp_path: Path) -> None:
    chain = Chain("length", 3)
    chain.add("LSTM", chain.weight(1, 16, 3), chain.weight(1, 16, 4), hidden_size=4)
    text = says(tmp_path / "m.onnx", chain.model())
    assert "its input 'x' has variable sizes; " in text
    assert text.endswith("; besides, node 'n0' (LSTM): recurrent networks are not supported")


def test_the_graph_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    chain = Chain(4)
    chain.gemm(4, 2)
    assert "output 'elsewhere' is not computed by any node" in says(path, chain.model(output="elsewhere"))
    assert "opset is 6; expected 7 or later" in says(path, chain.model(opset=6))
    two = Chain(3, 8, 8)
    two.conv((3, 4))
    two = two.model()
    two.graph.node[0].input[2] = "y"
    two.graph.input.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [4]))
    assert "its input number 3 depends on the network's input; it must be a constant" in says(path, two)
    open_sides = Chain(3, "height", 8)
    open_sides.conv((3, 4))
    assert "variable sizes; set them with --input-size HxW" in says(path, open_sides.model())
    many = Chain(4)
    for _ in range(onnx_file.MAX_NODES + 1):
        many.nodes.append(helper.make_node("Relu", ["x"], ["y"]))
    assert f"{onnx_file.MAX_NODES + 1} nodes; at most" in says(path, many.model())
    twice = Chain(4)
    twice.add("Relu")
    twice.nodes.append(twice.nodes[0])
    assert "'value0' is already the output of another node" in says(path, twice.model())
    circle = Chain(4)
    circle.add("ArgMax", first="value0")
    assert "reads its own output" in says(path, circle.model())
    bare = Chain(4)
    bare.add("Relu")
    bare.nodes.append(helper.make_node("ArgMax", [], ["value1"], name="bare"))
    assert "no output depends on an input" in says(path, bare.model(output="value1"))
    constant = Chain(4)
    constant.add("Mul", constant.constant(0.0), first=constant.constant(1.0))
    assert "no output depends on an input" in says(path, constant.model())


def test_small_files_that_ask_for_much(tmp_path: Path) -> None:
    """The limits on outputs, evaluated constants, memory of layers, and multiply-accumulates."""
    path = tmp_path / "m.onnx"
    wide = Chain(1 << 23)
    wide.add("Relu")
    text = says(path, wide.model())
    assert "has 8388608 numbers; the limit is 4194304" in text and path.stat().st_size < 200
    filled = Chain(4)
    filled.add("ConstantOfShape", first=filled.constant([1 << 20, 1 << 14]))
    filled.add("MatMul", filled.value, first="x")
    assert "too large to evaluate" in says(path, filled.model())
    spread = Chain(4)
    spread.add(
        "Range", spread.constant(np.array(1 << 40)), spread.constant(np.array(1)), first=spread.constant(np.array(0))
    )
    spread.add("Add", spread.value, first="x")
    assert "too large to evaluate" in says(path, spread.model())
    large = Chain(1, 16_000, 16_000)
    large.conv((1, 1), (1, 1))
    assert "is too large" in says(path, large.model())
    slow = Chain(4, 4096, 4096)
    for _ in range(3):
        slow.conv((4, 4), (63, 63), pads=[31] * 4)
    slow.add("GlobalAveragePool")
    assert "one example requires more than the maximum" in says(path, slow.model())


def test_file_that_onnx_runtime_rejects_is_refused_unless_unchecked(tmp_path: Path) -> None:
    chain = Chain(3, 8, 8)
    chain.conv((3, 4))
    chain.add("Relu", limit=6)  # an unknown attribute
    chain.add("GlobalAveragePool")
    path = chain.save(tmp_path)
    with pytest.raises(ModelError, match=r"ONNX Runtime failed: .*; --unchecked skips this check"):
        import_network(path)
    imported = import_network(path, options=ImportOptions(unchecked=True))
    assert imported.comparison.passed and imported.comparison.skipped.startswith("ONNX Runtime failed")


def test_thousands_of_nodes_take_no_time_to_refuse(tmp_path: Path) -> None:
    chain = Chain(3, 8, 8)
    for _ in range(2_000):
        x = chain.value
        chain.add("Div", chain.constant(1.41421356))
        chain.add("Erf")
        plus = chain.add("Add", chain.constant(1.0))
        chain.add("Mul", plus, first=x)
        chain.add("Mul", chain.constant(0.5))
    path = chain.save(tmp_path)
    start = time.process_time()
    with pytest.raises(ModelError, match="layers; 1 to 1600 are allowed"):
        import_network(path)
    assert time.process_time() - start < 5
