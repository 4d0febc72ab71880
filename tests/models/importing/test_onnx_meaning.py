"""The kind of an output (classes, probabilities or values), derived from the last layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from import_steps import importer_of
from onnx_chain import Chain, assert_imports, checked
from trninfer.models.importing import ImportOptions, import_network
from trninfer.models.importing.importer import Importer
from trninfer.models.importing.onnx_meaning import FoundOutput, build_outputs, in_order, meaning_of
from trninfer.models.importing.view import View
from trninfer.models.layers import Activation, Affine, Dense
from trninfer.models.outputs import Output


@pytest.mark.parametrize("last", ["Softmax", "LogSoftmax", "Softmax and Log", "Sigmoid", "Tanh", "nothing"])
def test_the_last_layer_determines_the_meaning_of_the_output(last: str, tmp_path: Path) -> None:
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


def test_a_flattened_image_is_values_and_the_note_names_the_option(tmp_path: Path) -> None:
    chain = Chain(3, 8, 8)
    chain.conv((3, 5))
    chain.add("Flatten")
    imported = assert_imports(chain, tmp_path)
    assert imported.network.output == Output("values")
    (note,) = [note for note in imported.notes if "--output-kind classes" in note]
    assert note.startswith("its 180 numbers are a flattened image or table, so they are reported as values")
    told = import_network(chain.save(tmp_path), options=ImportOptions(output_kind="classes"))
    assert told.network.output == Output("classes", "raw")


def test_one_output_and_as_many_as_inputs_are_values(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 1)
    network = assert_imports(chain, tmp_path).network
    assert network.output == Output("values") and network.labels == ()
    chain = Chain(6)
    chain.gemm(6, 2)
    chain.gemm(2, 6)
    assert assert_imports(chain, tmp_path).network.output == Output("values")


@pytest.mark.parametrize("name", ["pooler_output", "image_embeds", "features"])
def test_rows_named_like_embeddings_are_values(name: str, tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 8)
    chain.nodes[-1].output[0] = chain.value = name
    imported = checked(chain.model(), tmp_path)
    assert imported.network.output == Output("values")
    (note,) = imported.notes
    assert f"{name!r} is read as features because of its name, so its 8 numbers are values (--output-kind " in note
    asked = checked(chain.model(), tmp_path, options=ImportOptions(output_kind="classes"))
    assert asked.network.output == RAW


def test_embeddings_that_end_in_a_norm_are_values(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 8)
    chain.add("LayerNormalization", chain.weight(8), chain.weight(8))
    assert checked(chain.model(), tmp_path).network.output == Output("values")


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
    """An autoencoder: the output is an image, or a row with as many numbers."""
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


def found(importer: Importer, name: str, layer: str, output: Output) -> FoundOutput:
    return FoundOutput(name, View.of(layer, importer.builder.shapes[layer]), output)


RAW, CHANCE, PROBABILITIES, VALUES = (
    Output("classes", "raw"), Output("sigmoid"), Output("classes", "softmax"), Output("values"),
)  # fmt: skip


@pytest.fixture
def importer() -> Importer:
    """Return an importer with two heads, of 4 and 5 numbers, on a shared trunk."""
    importer = importer_of(6)
    for name, source, size in (("trunk", "input", 3), ("head", "trunk", 4), ("other", "trunk", 5)):
        weight = np.ones((importer.builder.shapes[source][0], size))
        importer.add(Dense(name, len(weight), size, inputs=(source,)), {"weight": weight, "bias": np.ones(size)})
    return importer


@pytest.mark.parametrize(
    ("outputs", "order"),
    [
        ((("a", "head", VALUES), ("b", "other", RAW)), "ba"),  # scores before values
        ((("a", "head", RAW), ("b", "other", CHANCE)), "ba"),
        ((("a", "head", CHANCE), ("b", "other", PROBABILITIES)), "ba"),
        ((("a", "head", RAW), ("b", "other", RAW)), "ab"),  # as in the file
        ((("a", "head", RAW), ("logits", "other", RAW)), ("logits", "a")),  # preferred because of its name
        ((("BoxLoc", "head", RAW), ("b", "other", RAW)), ("b", "BoxLoc")),
        ((("a", "trunk", RAW), ("b", "other", RAW)), "ba"),  # the other output is computed from it
        ((("a", "trunk", PROBABILITIES), ("b", "other", RAW)), "ab"),
    ],
)
def test_the_output_that_looks_like_scores_is_first(importer: Importer, outputs: tuple, order: str) -> None:
    made = in_order(importer, [found(importer, *each) for each in outputs])
    assert [each.name for each in made] == list(order)


def test_beside_an_answer_unnamed_rows_and_what_leads_to_it_are_values(importer: Importer) -> None:
    for name, layer, expected in (
        ("a", "head", VALUES), ("class_b", "head", RAW), ("class_features", "head", VALUES),
        ("class_c", "trunk", VALUES),
    ):  # fmt: skip
        leading = found(importer, "softmax", "other", PROBABILITIES)
        made = in_order(importer, [leading, found(importer, name, layer, RAW)])
        assert [each.output for each in made] == [PROBABILITIES, expected], name
    alone = [found(importer, "a", "head", RAW)]
    assert in_order(importer, alone) == alone


def test_the_scores_of_a_table_of_boxes_are_values(importer: Importer) -> None:
    (rows,), (columns,) = View.of("other", (5,)).axes, View.of("head", (4,)).axes
    boxes = FoundOutput("boxes", View("other", (rows, columns)), VALUES)
    scores = found(importer, "p", "other", CHANCE)
    assert [each.output for each in in_order(importer, [scores, boxes])] == [VALUES, VALUES]
    assert in_order(importer, [found(importer, "p", "head", CHANCE), boxes])[0].output == CHANCE  # 4 for 5 boxes


def test_outputs_are_built_as_rows_in_the_order_of_their_axes(importer: Importer) -> None:
    turned = View.of("head", (2, 2)).permuted((1, 0))
    (built,) = build_outputs(importer, [FoundOutput("y", turned, VALUES)])
    assert (built.name, built.shape, built.output) == ("y", (2, 2), VALUES)
    assert importer.builder.layers[built.layer].kind == "transpose" and importer.builder.shapes[built.layer] == (4,)
    (single,) = build_outputs(importer, [FoundOutput("y", View("head", ()), VALUES)])
    assert single.shape == (1,)


@pytest.mark.parametrize(
    ("activation", "view", "expected"),
    [
        ("sigmoid", (4,), CHANCE),
        ("hardsigmoid", (4,), CHANCE),
        ("sigmoid", (2, 2), VALUES),  # a table
        ("sigmoid", (1, 4), CHANCE),
        ("sigmoid", (1, 2, 2), VALUES),  # an image
        ("tanh", (4,), VALUES),
        ("exp", (4,), VALUES),
        ("softplus", (4,), VALUES),
        ("relu", (4,), RAW),
        ("relu", (2, 2), VALUES),
    ],
)
def test_meaning_of_outputs_by_their_last_activation(
    importer: Importer, activation: str, view: tuple[int, ...], expected: Output
) -> None:
    parameters = (0.2, 0.5) if activation == "hardsigmoid" else ()
    importer.add(Activation("end", activation, parameters, inputs=("head",)))
    shaped = View.of("end", (4,)).reshaped(view, True)
    assert meaning_of(importer, shaped) == expected
    if activation == "tanh":  # an action from -2 to 2
        made = importer.add(Affine("wider", (4,), inputs=("end",)), {"scale": np.full(4, 2.0), "shift": np.zeros(4)})
        assert meaning_of(importer, made) == VALUES


def test_numbers_that_operators_know_to_be_values(importer: Importer) -> None:
    head = View.of("head", (4,))
    assert meaning_of(importer, head) == RAW
    importer.values.add("head")
    assert meaning_of(importer, head) == VALUES
