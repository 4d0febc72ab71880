"""Operators of scikit-learn's models, as written by skl2onnx."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from import_steps import importer_of
from onnx import TensorProto, helper
from onnx_chain import Chain, checked, kinds
from trninfer.models import Dense, Softmax
from trninfer.models.errors import ModelError
from trninfer.models.importing import ImportOptions, import_network
from trninfer.models.importing.onnx_file import Node
from trninfer.models.importing.operators.classic import OPERATORS
from trninfer.models.outputs import Output


def test_skl2onnx_scalers_and_linear_models(tmp_path: Path) -> None:
    chain = Chain(5)
    ml = {"domain": "ai.onnx.ml"}
    chain.add("Scaler", offset=[0.1, 0.2, 0.3, 0.4, 0.5], scale=[2.0, 1.0, 0.5, 0.25, 3.0], **ml)
    coefficients = np.random.default_rng(0).standard_normal(15)
    label = chain.add(
        "LinearClassifier",
        coefficients=coefficients.tolist(),
        intercepts=[0.1, 0.2, 0.3],
        classlabels_ints=[0, 1, 2],
        post_transform="SOFTMAX",
        outputs=2,
        **ml,
    )
    chain.add("Normalizer", first=f"{label}'", norm="L1", **ml)
    model = chain.model()
    model.graph.output.insert(0, helper.make_tensor_value_info(label, TensorProto.INT64, None))
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    imported = import_network(path)
    assert kinds(imported) == [Dense, Softmax] and imported.network.output == Output("classes", "softmax")
    assert imported.comparison.passed and not imported.comparison.skipped


@pytest.mark.parametrize("labels", [["cat", "dog"], ["cat", "dog", "hen"]])
def test_a_selected_score_of_two_classes_becomes_both(labels: list[str], tmp_path: Path) -> None:
    """As skl2onnx writes LinearSVC and RidgeClassifier with two classes; the other output is the label."""
    chain = Chain(4)
    count, ml = len(labels), {"domain": "ai.onnx.ml"}
    label = chain.add(
        "LinearClassifier",
        coefficients=np.random.default_rng(0).standard_normal(4 * count).tolist(),
        intercepts=[0.1] * count,
        classlabels_strings=labels,
        outputs=2,
        **ml,
    )
    selected = chain.add("ArrayFeatureExtractor", chain.constant([1]), first=f"{label}'", **ml)
    model = chain.model(output=selected)
    model.graph.output.insert(0, helper.make_tensor_value_info(label, TensorProto.STRING, None))
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    network = checked(model, tmp_path).network
    assert (network.labels, network.output.kind) == ((tuple(labels), "classes") if count == 2 else ((), "values"))
    options = ImportOptions(output_names=(selected,))
    assert import_network(tmp_path / "model.onnx", options=options).network.output.kind == "values"


def test_two_classes_with_opposite_scores_are_classes(tmp_path: Path) -> None:
    """A logistic regression with two classes: sigmoids of a score and of its negation."""
    chain = Chain(4)
    ml = {"domain": "ai.onnx.ml"}
    half = np.random.default_rng(0).standard_normal(4)
    label = chain.add(
        "LinearClassifier",
        coefficients=[*(-half).tolist(), *half.tolist()],
        intercepts=[-0.3, 0.3],
        classlabels_ints=[0, 1],
        post_transform="LOGISTIC",
        outputs=2,
        **ml,
    )
    model = chain.model(output=f"{label}'")
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    imported = import_network(path)
    assert imported.network.output == Output("classes", "softmax")
    assert imported.comparison.passed and not imported.comparison.skipped


@pytest.mark.parametrize("norm", ["L1", "L2", "MAX"])
def test_features_that_are_chosen_and_normalised(norm: str, tmp_path: Path) -> None:
    chain = Chain(6)
    ml = {"domain": "ai.onnx.ml"}
    chain.add("ArrayFeatureExtractor", chain.constant([4, 0, 0, 3]), **ml)
    chain.add("Normalizer", norm=norm, **ml)
    model = chain.model()
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    comparison = import_network(path).comparison
    assert comparison.passed and not comparison.skipped


@pytest.mark.parametrize("intercepts", [[0.5], []])
def test_a_linear_regression_outputs_values(intercepts: list[float], tmp_path: Path) -> None:
    chain = Chain(4)
    more = {"intercepts": intercepts} if intercepts else {}
    chain.add("LinearRegressor", coefficients=[1.0, -2.0, 0.5, 3.0], domain="ai.onnx.ml", **more)
    model = chain.model()
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    imported = checked(model, tmp_path)
    assert imported.network.output == Output("values")
    np.testing.assert_array_equal(imported.tensors["dense1.weight"].ravel(), [1, -2, 0.5, 3])


@pytest.mark.parametrize(
    ("op", "attributes", "says"),
    [
        ("LinearRegressor", {"coefficients": [1.0] * 5}, "has 5 coefficients, but its input has 4 features"),
        ("LinearRegressor", {"coefficients": [1.0] * 4, "post_transform": "PROBIT"}, "its post_transform is"),
        ("LinearClassifier", {"coefficients": [1.0] * 4, "intercepts": [0.0]}, "classifier with a single score"),
        ("LinearClassifier", {"coefficients": [1.0] * 8, "post_transform": "PROBIT"}, "its post_transform 'PROBIT'"),
    ],
)  # fmt: skip
def test_models_that_are_not_supported(op: str, attributes: dict, says: str) -> None:
    importer = importer_of(4)
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in attributes.items()}
    with pytest.raises(ModelError, match=says):
        OPERATORS[f"ai.onnx.ml.{op}"](importer, Node(op, "n", ("x",), ("label", "scores"), given))


def with_classic(chain: Chain) -> onnx.ModelProto:
    """Return the graph with the operators of scikit-learn."""
    model = chain.model()
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    return model


def test_missing_values_are_not_replaced(tmp_path: Path) -> None:
    ml = {"domain": "ai.onnx.ml"}
    chain = Chain(4)
    chain.add("Imputer", imputed_value_floats=[0.0, 1.0, 2.0, 3.0], replaced_value_float=float("nan"), **ml)
    chain.gemm(4, 3)
    assert any("NaN" in note for note in checked(with_classic(chain), tmp_path).notes)
    chain = Chain(4)
    chain.add("Imputer", imputed_value_floats=[0.0, 1.0, 2.0, 3.0], replaced_value_float=0.0, **ml)
    chain.gemm(4, 3)
    with pytest.raises(ModelError, match="only missing values"):
        checked(with_classic(chain), tmp_path)


def test_features_above_a_threshold(tmp_path: Path) -> None:
    chain = Chain(4)
    chain.add("Binarizer", threshold=0.25, domain="ai.onnx.ml")
    chain.gemm(4, 3)
    checked(with_classic(chain), tmp_path)


def test_numbers_of_a_regressor_are_no_scores(tmp_path: Path) -> None:
    for producer, kind in (("skl2onnx", "values"), ("pytorch", "classes")):
        chain = Chain(4)
        chain.add("LinearRegressor", coefficients=[0.5] * 4, intercepts=[0.5], targets=1, domain="ai.onnx.ml")
        chain.add("Concat", chain.add("Exp"), first="value0", axis=1)
        chain.nodes.append(helper.make_node("Identity", [chain.value], ["variable"]))
        chain.value = "variable"
        model = with_classic(chain)
        model.producer_name = producer
        imported = checked(model, tmp_path)
        assert imported.network.output.kind == kind
        assert any("raw" in note for note in imported.notes) == (kind == "classes")


def test_two_independent_labels_are_not_a_chance_and_the_rest(tmp_path: Path) -> None:
    """As skl2onnx writes an MLPClassifier with several labels."""
    for count, kind in ((1, "classes"), (2, "sigmoid")):
        chain = Chain(5)
        chain.gemm(5, count)
        chance = chain.add("Sigmoid")
        rest = chain.add("Sub", chance, first=chain.constant(np.array(1.0)))
        chain.nodes.append(helper.make_node("Concat", [rest, chance], ["probabilities"], axis=1))
        chain.value = "probabilities"
        assert checked(chain.model(), tmp_path).network.output.kind == kind
