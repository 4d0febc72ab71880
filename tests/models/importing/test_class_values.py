"""Scores are classified as probabilities based on their values, whatever the last layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_chain import Chain, checked
from trninfer.models.importing.class_values import fit_to_scores
from trninfer.models.outputs import Output

RAW, SHARES = Output("classes", "raw"), Output("classes", "softmax")


def test_of_values() -> None:
    logits = np.random.default_rng(0).standard_normal((3, 5))
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    chances = 1 / (1 + np.exp(-logits))
    assert fit_to_scores(RAW, "y", logits) == RAW
    assert fit_to_scores(RAW, "y", None) == RAW
    assert fit_to_scores(RAW, "y", shares) == SHARES
    assert fit_to_scores(RAW, "y", chances) == RAW
    assert fit_to_scores(RAW, "probabilities", chances) == Output("sigmoid")
    assert fit_to_scores(Output("values"), "probabilities", chances) == Output("values")


@pytest.mark.parametrize(
    "row",
    [
        [1.0],  # a single score that is always 1
        [1.0, 0.0, 0.0],  # clipped scores
        [0.5, 0.5],  # bounds of both scores
    ],
)
def test_constant_scores_are_not_probabilities(row: list[float]) -> None:
    assert fit_to_scores(RAW, "y", np.tile(np.float32(row), (3, 1))) == RAW


def test_one_example_that_adds_up_to_1() -> None:
    assert fit_to_scores(RAW, "y", np.float32([[0.2, 0.5, 0.3]])) == SHARES
    assert fit_to_scores(RAW, "y", np.float32([[0.0, 1.0, 0.0]])) == RAW


@pytest.mark.parametrize("count", [2, 5])
def test_a_mean_of_softmaxes(count: int, tmp_path: Path) -> None:
    """As ensembles are exported."""
    chain = Chain(6)
    found = []
    for _ in range(3):
        chain.value = "x"
        chain.gemm(6, count)
        found.append(chain.add("Softmax", axis=1))
    chain.add("Mean", *found[1:], first=found[0])
    imported = checked(chain.model(), tmp_path)
    assert imported.network.output == SHARES
    assert not any("raw" in note for note in imported.notes)


def test_a_mean_of_stacked_softmaxes(tmp_path: Path) -> None:
    """Stacked before the batch axis, they look like a flattened table until their values are known."""
    chain = Chain(6)
    parts = []
    for _ in range(3):
        chain.value = "x"
        chain.gemm(6, 4)
        parts.append(chain.add("Unsqueeze", chain.constant([0])))
    chain.add("Concat", *parts[1:], first=parts[0], axis=0)
    chain.add("Softmax", axis=-1)
    chain.add("ReduceMean", chain.constant([0]), keepdims=0)
    imported = checked(chain.model(), tmp_path)
    assert imported.network.output == SHARES and len(imported.network.labels) == 4
    assert not any("values" in note or "raw" in note for note in imported.notes)
