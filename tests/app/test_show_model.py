"""`trninfer models show`."""

import json
import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from trninfer.app.show_model import to_record
from trninfer.models import load_model
from trninfer.models.files import Model


def shown(cli, *arguments: object) -> dict:
    (record,) = json.loads(cli("models", "show", *arguments, "--format", "json").out)["models"]
    return record


@pytest.mark.parametrize("name", ["digits-cnn", "digits-ffnn"])
def test_displayed_facts_match_the_model(cli, name: str) -> None:
    record, model = shown(cli, name), load_model(name)
    network = model.network
    assert record["parameters"] == sum(tensor.size for tensor in model.tensors.values())
    assert [(row["name"], row["kind"]) for row in record["layers"]] == [(row.name, row.kind) for row in network.layers]
    assert [row["output_shape"] for row in record["layers"]] == [list(shape) for shape in network.shapes().values()][1:]
    assert record["outputs"][0]["labels"] == list(network.labels)
    assert record["inputs"][0]["shape"] == list(network.input.shape) and record["assumed"] == []
    table = cli("models", "show", name).out
    assert f"{record['parameters']:,} in {len(network.layers)} layers" in table
    for layer in network.layers:
        assert layer.name in table


def test_an_onnx_file_is_shown_with_how_to_keep_it(cli, tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32), "w")
    read = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
    given = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [read], [given], [weight])
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    outcome = cli("models", "show", path)
    assert outcome.status == 0 and "4 features" in outcome.out and "3 classes, as raw scores, numbered" in outcome.out
    assert "trninfer import" in outcome.out and "--output-kind" in outcome.out
    record = shown(cli, path)
    assert record["imported_from"].endswith("net.onnx") and math.prod(record["inputs"][0]["shape"]) == 4


def test_wrong_uses(cli, tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"no")
    for words, message in (
        (("show",), "requires a model"),
        (("shew", "digits-cnn"), "'shew' is not"),
        (("show", "no-such"), "no such model"),
        (("show", tmp_path / "x.safetensors"), "x.safetensors"),
    ):
        outcome = cli("models", *words)
        assert (outcome.status, outcome.out) == (2, "") and message in outcome.err
        assert len(outcome.err.splitlines()) == 1


def test_notes_that_are_no_list_are_none() -> None:
    model = load_model("digits-ffnn")
    for text in ("no JSON", "3", "[" * 100_000):
        broken = Model(model.network, model.tensors, {"assumed": text, "notes": text})
        assert to_record(broken, "x")["assumed"] == to_record(broken, "x")["notes"] == []
