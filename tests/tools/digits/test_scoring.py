"""Scores: which answers count as correct, and which as refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import Dense
from trninfer.models.network import Network
from trninfer.tools.digits.scoring import Answers, accuracy_metadata, answer, classes_by_kernels

NONE = 2


def answers(classes: list[int], labels: list[int], refused: int) -> Answers:
    return Answers(np.eye(3, dtype=np.float32)[classes], np.array(labels, np.int32), refused)


def test_a_refused_digit_is_wrong_and_a_refused_sign_is_none() -> None:
    given = answers([0, 1, NONE, 1], [0, 0, 1, 1], refused=2)
    assert (given.count_correct(), given.count_none(NONE), given.total) == (2, 3, 6)


@pytest.mark.parametrize("rows", [1, 256, 257, 513])
def test_answers_of_the_golden_model_come_in_order(rows: int) -> None:
    network = Network("identity", FeatureInput(3), (Dense("same", 3, 3),), ("a", "b", "c"))
    tensors = {"same.weight": np.eye(3, dtype=np.float32), "same.bias": np.zeros(3, np.float32)}
    labels = np.arange(rows, dtype=np.int32) % 3
    given = answer(network, tensors, np.eye(3, dtype=np.float32)[labels], labels, refused=1)
    assert (given.count_correct(), given.total) == (rows, rows + 1)


def test_classes_by_kernels_are_those_of_the_golden_model() -> None:
    network = Network("small", FeatureInput(3), (Dense("only", 3, 4),), ("a", "b", "c", "d"))
    rng = np.random.default_rng(0)
    tensors = {"only.weight": rng.standard_normal((3, 4), np.float32), "only.bias": np.zeros(4, np.float32)}
    x = rng.standard_normal((70, 3), np.float32)
    np.testing.assert_array_equal(
        classes_by_kernels(network, tensors, x), answer(network, tensors, x, np.zeros(70, np.int32)).classes
    )


def test_accuracy_is_printed_and_written(capsys: pytest.CaptureFixture[str]) -> None:
    text = accuracy_metadata([("this", 3, 4)])
    assert json.loads(text) == [{"on": "this", "correct": 3, "total": 4}]
    assert capsys.readouterr().out == "this: 3 of 4 right, 75.00 %\n"
