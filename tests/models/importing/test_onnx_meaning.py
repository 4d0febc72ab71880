"""Meaning of an output: classes, probabilities or values, from the layer that it ends in."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx_chain import Chain, assert_imports
from trninfer.models.importing import ImportOptions, import_network
from trninfer.models.outputs import Output


@pytest.mark.parametrize("last", ["Softmax", "LogSoftmax", "Softmax and Log", "Sigmoid", "Tanh", "nothing"])
def test_the_last_layer_says_what_the_output_is(last: str, tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 4)
    for op in last.replace("nothing", "Identity").split(" and "):
        chain.add(op)
    imported = assert_imports(chain, tmp_path)
    wanted = {
        "Softmax": Output("classes", "softmax"),
        "Sigmoid": Output("sigmoid"),
        "Tanh": Output("values"),
        "nothing": Output("classes", "raw"),
    }
    assert imported.network.output == wanted.get(last, Output("classes", "log_softmax"))
    assert any("raw scores" in note for note in imported.notes) == (last == "nothing")
    told = import_network(chain.save(tmp_path), options=ImportOptions(output_kind="values"))
    assert told.network.output == Output("values") and told.comparison.passed


@pytest.mark.parametrize("last", ["Sigmoid", "nothing"])
def test_a_table_is_values_and_a_row_of_it_classes(last: str, tmp_path: Path) -> None:
    for rows, kind in ((1, "sigmoid" if last == "Sigmoid" else "classes"), (3, "values")):
        chain = Chain(rows, 6)
        chain.add("MatMul", chain.weight(6, 4))
        if last == "Sigmoid":
            chain.add("Sigmoid")
        assert assert_imports(chain, tmp_path).network.output.kind == kind


def test_one_output_and_as_many_as_inputs_are_values(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 1)
    network = assert_imports(chain, tmp_path).network
    assert network.output == Output("values") and network.labels == ()
    chain = Chain(6)
    chain.gemm(6, 2)
    chain.gemm(2, 6)
    assert assert_imports(chain, tmp_path).network.output == Output("values")


def test_embeddings_of_length_one_are_values(tmp_path: Path) -> None:
    chain = Chain(3, 9, 9)
    chain.conv((3, 8), strides=[2, 2])
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(8, 16)
    embedding = chain.value
    norm = chain.add("ReduceL2", chain.constant([1]), keepdims=1)
    chain.add("Clip", chain.constant(1e-12), first=norm)
    chain.add("Expand", chain.constant([1, 16]))
    chain.add("Div", chain.value, first=embedding)
    assert assert_imports(chain, tmp_path).network.output.kind == "values"
    chain = Chain(12)
    chain.add("LpNormalization", axis=-1, p=2)
    chain.gemm(12, 3)
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 4, 16)])
def test_an_image_of_sigmoids_is_values(shape: tuple[int, int, int], tmp_path: Path) -> None:
    """An autoencoder: an image from an image, as one or as a row of as many numbers."""
    chain = Chain(*shape)
    chain.add("Conv", chain.weight(4, 1, 2, 2), strides=[2, 2])
    chain.add("ConvTranspose", chain.weight(4, 1, 2, 2), strides=[2, 2])
    chain.add("Sigmoid")
    assert assert_imports(chain, tmp_path).network.output.kind == "values"
    chain.add("Flatten")
    assert assert_imports(chain, tmp_path).network.output.kind == "values"


def test_two_classes_of_scikit_learn_are_a_chance_and_the_rest(tmp_path: Path) -> None:
    chain = Chain(5)
    chain.gemm(5, 1)
    chance = chain.add("Sigmoid")
    chain.add("Sub", chance, first=chain.constant([1.0]))
    chain.add("Concat", chance, axis=1)
    assert assert_imports(chain, tmp_path).network.output == Output("classes", "softmax")
