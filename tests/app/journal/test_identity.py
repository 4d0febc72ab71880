"""The settings that determine the answers of a run, and whether an earlier run had the same settings."""

from dataclasses import replace

import numpy as np
import pytest
from trninfer.app.errors import UsageError
from trninfer.app.journal.identity import check_identity, identify
from trninfer.models import Dense, FeatureInput, Model, Network
from trninfer.runtime.backend import BackendInfo

TENSORS = {"d.weight": np.ones((2, 3), np.float32), "d.bias": np.zeros(3, np.float32)}
MODEL = Model(Network("net", FeatureInput(2), (Dense("d", 2, 3),), ("a", "b", "c")), TENSORS, {})
SIM = BackendInfo("sim", "trn2", "predicted", "predicted")


def weights(model: Model) -> str:
    return str(identify("ffnn", model, SIM, "float32", 5)["weights"])


def test_identity_of_a_run() -> None:
    found = identify("ffnn", MODEL, SIM, "bfloat16", 2)
    assert found.pop("weights") == weights(MODEL) and len(weights(MODEL)) == 8
    assert found == {
        "command": "ffnn", "model": "net", "dtype": "bfloat16", "backend": "sim", "target": "trn2", "top_k": 2,
    }  # fmt: skip


def test_files_of_one_name_are_known_apart() -> None:
    labels = replace(MODEL.network, labels=("a", "b", "x"))
    others = [
        replace(MODEL, tensors={**TENSORS, "d.bias": np.array([0, 0, 1e-7], np.float32)}),
        replace(MODEL, network=labels),
    ]
    assert len({weights(model) for model in (MODEL, *others)}) == 3
    turned = {name: np.asfortranarray(TENSORS[name]) for name in reversed(TENSORS)}
    assert weights(replace(MODEL, tensors=turned)) == weights(MODEL)  # independent of memory layout and order


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"dtype": "float16"}, "dtype float32, not float16"),
        ({"top_k": 3}, "top-k 5, not 3"),
        ({"weights": "0"}, "other weights of the same model"),
        ({"data": ["b"]}, "another --data file, or one that has changed"),
    ],
)
def test_answers_that_were_asked_for_otherwise(changed, told) -> None:
    earlier = {"dtype": "float32", "top_k": 5, "weights": "1", "data": ["a"], "type": "trninfer answers"}
    check_identity("x.csv", earlier, earlier)
    check_identity("x.csv", {}, {**earlier, **changed})  # an older report records fewer settings
    with pytest.raises(UsageError, match=f"^--resume: the answers in x.csv were computed with {told}$"):
        check_identity("x.csv", earlier, {**earlier, **changed})
