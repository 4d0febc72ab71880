"""Scores by the golden model, and how they are written down."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..models.golden import argmax, run_network
from ..models.network import Network


def count_correct(network: Network, tensors: Mapping[str, np.ndarray], x: np.ndarray, labels: np.ndarray) -> int:
    """How many of a batch the golden model gets right."""
    logits = [run_network(network, tensors, part).logits for part in np.array_split(x, math.ceil(len(x) / 256))]
    return int((argmax(np.concatenate(logits)) == labels).sum())


def accuracy_metadata(rows: Sequence[tuple[str, int, int]]) -> str:
    """(what on, correct, total) rows as the `accuracy` string of a model file; printed as well."""
    for on, correct, total in rows:
        print(f"{on}: {correct} of {total} right, {100 * correct / total:.2f} %")
    return json.dumps([{"on": on, "correct": correct, "total": total} for on, correct, total in rows])
