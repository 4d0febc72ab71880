"""The nodes and outputs of a graph that are imported, and their order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from onnx import TensorProto, helper
from onnx_chain import Chain, checked, ends
from trninfer.models.errors import ModelError
from trninfer.models.importing import ImportOptions, import_network
from trninfer.models.importing.onnx_cut import cut_graph
from trninfer.models.importing.onnx_file import Graph, GraphInput, Node


def test_nodes_in_any_order(tmp_path: Path) -> None:
    chain = Chain(3, 8, 8)
    chain.conv((3, 4))
    x = chain.add("Relu")
    chain.conv((4, 4), pads=[1] * 4)
    chain.add("Add", x)
    for seed in range(4):
        random.Random(seed).shuffle(chain.nodes)
        chain.value = next(node.output[0] for node in chain.nodes if node.op_type == "Add")
        names = [node.output[0] for node in chain.nodes]
        imported = checked(chain.model(), tmp_path)
        assert sorted(names) == sorted(set(names)) and len(imported.network.layers) == 4


def graph(nodes: list[Node], outputs: tuple[str, ...]) -> Graph:
    return Graph("g", tuple(nodes), {}, (GraphInput("x", (1,), None),), outputs, frozenset(outputs), 20)


def test_a_sorted_graph_keeps_its_order_and_a_cycle_is_reported() -> None:
    nodes = [Node("Relu", str(n), (f"v{n - 1}" if n else "x",), (f"v{n}",), {}) for n in range(5000)]
    assert [node.name for node in cut_graph(graph(nodes, ("v4999",))).nodes] == [str(n) for n in range(5000)]
    turned = cut_graph(graph(nodes[::-1], ("v4999",)))
    assert [node.name for node in turned.nodes] == [str(n) for n in range(5000)]
    circle = [Node("Add", "a", ("x", "w"), ("v",), {}), Node("Relu", "b", ("v",), ("w",), {})]
    assert {node.name for node in cut_graph(graph(circle, ("w",))).nodes} == {"a", "b"}


def test_a_cycle_is_refused(tmp_path: Path) -> None:
    chain = Chain(4)
    chain.add("Add", "later", first="x")
    chain.nodes.append(helper.make_node("Relu", [chain.value], ["later"], name="back"))
    path = chain.save(tmp_path)
    with pytest.raises(ModelError, match=r"reads 'later', which is the output of a later node \(the graph"):
        import_network(path)


def two_heads() -> tuple[Chain, str, str, str]:
    chain = Chain(3, 8, 8)
    chain.conv((3, 4))
    chain.add("Relu")
    flat = chain.add("Flatten")
    chain.gemm(144, 5)
    scores = chain.add("Softmax", axis=1)
    chain.value = flat
    chain.gemm(144, 1)
    return chain, scores, chain.add("Tanh"), flat


def test_all_outputs_are_imported_and_the_one_of_scores_leads(tmp_path: Path) -> None:
    chain, scores, value, flat = two_heads()
    network = checked(chain.model(outputs=[value, flat, scores]), tmp_path).network
    assert [(named.name, named.output.kind) for named in network.named_outputs] == [
        (scores, "classes"), (value, "values"), (flat, "values"),
    ]  # fmt: skip
    assert network.labels == tuple("01234") and network.row_size == 5 + 1 + 144


def test_names_choose_outputs_and_the_first_leads(tmp_path: Path) -> None:
    chain, scores, value, flat = two_heads()
    model = chain.model(outputs=[value, scores])
    chosen = checked(model, tmp_path, options=ImportOptions((flat, value))).network
    assert {named.name for named in chosen.named_outputs} == {flat, value}
    alone = checked(model, tmp_path, options=ImportOptions((value,))).network
    assert not alone.others and alone.outputs == 1


def test_an_output_that_others_are_computed_from_is_copied_where_it_leads(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 4)
    logits = chain.value
    chain.gemm(4, 2)
    boxes = chain.add("Exp")
    network = checked(chain.model(outputs=[boxes, logits]), tmp_path).network
    assert network.named_outputs[0].name in (boxes, logits)
    chain.nodes[0].output[0] = chain.nodes[1].input[0] = "logits"
    network = checked(chain.model(outputs=[boxes, "logits"]), tmp_path).network
    assert [named.name for named in network.named_outputs] == ["logits", boxes]


def test_a_softmax_that_is_an_output_and_a_gate_too(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 4)
    x = chain.value
    gate = chain.add("Softmax", axis=1)
    product = chain.add("Mul", x)
    network = checked(chain.model(outputs=[product, gate]), tmp_path).network
    assert {named.name for named in network.named_outputs} == {product, gate}


def test_an_output_of_a_value_within_a_pattern(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 4)
    x = chain.value
    chain.add("Div", chain.constant(2**0.5))
    erf = chain.add("Erf")
    chain.add("Add", chain.constant(1.0))
    chain.add("Mul", x)
    gelu = chain.add("Mul", chain.constant(0.5))
    assert len(checked(chain.model(outputs=[gelu]), tmp_path).network.layers) == 1
    assert len(checked(chain.model(outputs=[gelu, erf]), tmp_path).network.named_outputs) == 2


def test_an_unsupported_output_can_be_omitted(tmp_path: Path) -> None:
    chain, scores, value, _ = two_heads()
    boxes = chain.add("FancyOp", domain="com.example")
    path = tmp_path / "m.onnx"
    path.write_bytes(chain.model(outputs=[boxes, scores, value]).SerializeToString())
    with pytest.raises(ModelError, match=f"FancyOp.*; --output-name {scores} --output-name {value} excludes it"):
        import_network(path)


def test_an_output_without_an_input_is_left_out(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 4)
    scores = chain.value
    anchors = chain.add("Neg", first=chain.constant([[1.0, 2.0]]))
    imported = checked(chain.model(outputs=[anchors, scores]), tmp_path)
    assert not imported.network.others
    assert any(f"'{anchors}' is ignored because it does not depend on the input" in note for note in imported.notes)


def test_an_input_that_is_handed_on_is_no_output(tmp_path: Path) -> None:
    """As Godot's agents return the state of a network that has none."""
    chain = Chain(6)
    chain.input("state_ins", "batch")
    chain.gemm(6, 4)
    scores = chain.value
    state = chain.add("Identity", first="state_ins")
    imported = checked(chain.model(outputs=[scores, state]), tmp_path)
    assert imported.network.input.shape == (6,) and not imported.network.others
    assert any(f"the output {state!r} is ignored because it is an unchanged input" in note for note in imported.notes)


def test_scores_of_boxes_are_values_and_lead(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 12)
    boxes = chain.add("Reshape", chain.constant([-1, 3, 4]))
    chain.value = "x"
    chain.gemm(6, 3)
    conf = chain.add("Reshape", chain.constant([-1, 3, 1]))
    chain.nodes[-1].output[0] = conf = "conf"
    network = checked(chain.model(outputs=[boxes, conf]), tmp_path).network
    assert [(named.name, named.output.kind, named.shape) for named in network.named_outputs] == [
        ("conf", "values", (3, 1)), (boxes, "values", (3, 4)),
    ]  # fmt: skip


def test_too_many_outputs(tmp_path: Path) -> None:
    chain = Chain(4)
    names = [chain.add("Relu", first="x") for _ in range(65)]
    path = tmp_path / "m.onnx"
    path.write_bytes(chain.model(outputs=names).SerializeToString())
    with pytest.raises(ModelError, match="the network has 65 outputs; select at most 64 of them with --output-name"):
        import_network(path)


def test_one_value_under_two_names(tmp_path: Path) -> None:
    chain = Chain(4)
    chain.gemm(4, 3)
    one, two = chain.add("Relu"), chain.add("Identity")
    network = checked(chain.model(outputs=[one, two]), tmp_path).network
    assert [named.layer for named in network.named_outputs][1] in [layer.name for layer in network.layers]


def test_indices_are_left_out(tmp_path: Path) -> None:
    chain = Chain(4)
    chain.gemm(4, 3)
    scores, index = chain.value, chain.add("ArgMax", axis=1)
    model = chain.model(outputs=[scores, index])
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.INT64
    assert not checked(model, tmp_path).network.others
    assert ends(Chain(4), 4, tmp_path).network.outputs == 4
