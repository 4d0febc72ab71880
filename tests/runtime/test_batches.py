"""Each picture of a batch gets its own answer: random networks, compared with ONNX Runtime.

`pytest tests/runtime/test_batches.py --networks 500 --all-combinations` tests more networks, in every dtype, on every
target, on one core and on two, with every batch size.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from batched_networks import RandomNetwork
from trninfer.lowering.decisions import Choice, Decisions, Kind
from trninfer.lowering.graph.graph import Unsupported
from trninfer.lowering.passes.pack_taps import strides_of_filled
from trninfer.lowering.pipeline import LaunchPlan
from trninfer.lowering.search.search import Search
from trninfer.models import Model
from trninfer.models.importing import ImportOptions, import_network
from trninfer.runtime.backend import NETWORK_DTYPES
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend
from trninfer.runtime.tolerances import network_tolerance

BATCHES = (1, 2, 3, 4, 7, 16)
# target, and number of cores in a logical core
MACHINES = (("trn1", 1), ("trn2", 1), ("trn3", 1), ("trn2", 2), ("trn3", 2))
QUICK = range(1, 3)  # networks of a default run of pytest
COMBINATIONS = tuple(itertools.product(NETWORK_DTYPES, MACHINES))
FLOAT32 = 1e-4  # tolerance of a score: the error of a probability is then below the allowed 2e-3


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Generate one test per network, `--networks` in total; all but two are slow."""
    count = metafunc.config.getoption("--networks")
    seeds = [pytest.param(seed, marks=() if seed in QUICK else pytest.mark.slow) for seed in range(count)]
    metafunc.parametrize("seed", seeds)


def forced(monkeypatch: pytest.MonkeyPatch, name: str, choices: Callable[[LaunchPlan], list[Choice]]) -> None:
    """Make all applicable choices, whether or not they are faster, instead of those of the search."""

    def offer(search: Search, best: LaunchPlan) -> Iterator[Decisions]:
        for choice in choices(best):
            with contextlib.suppress(Unsupported):
                decisions = best.decisions.having(choice)
                search.best = search._walk(search._pipeline.launch(decisions, search._pictures))
                search._run = None
        yield from ()

    monkeypatch.setattr(Search, name, offer)


def test_each_picture_of_a_batch_is_answered_as_onnx_runtime_answers_it(
    seed: int, tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2 == 1:
        forced(
            monkeypatch,
            "_near",
            lambda best: [Choice(Kind.FILL_TAPS, value=stride) for stride in strides_of_filled(best.graph)[-1:]],
        )
    network = RandomNetwork(seed)
    path = network.saved(tmp_path)
    golden = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    imported = import_network(path, options=ImportOptions(output_kind="values"))
    model = Model(imported.network, imported.tensors, {})
    random = np.random.default_rng(seed)
    combinations, batches = list(COMBINATIONS), len(BATCHES)
    if not pytestconfig.getoption("--all-combinations"):
        combinations, batches = [COMBINATIONS[7 * seed % len(COMBINATIONS)]], 2  # all dtypes and targets in turn
    wrong = []
    for dtype, (target, lnc) in combinations:
        sizes = random.permutation(BATCHES)[:batches].tolist()
        session = Session(model, SimulatedBackend(target, lnc=lnc), dtype, max(sizes))
        for batch in sizes:
            x = random.standard_normal((batch, *network.shape)).astype(np.float32)
            (expected,) = golden.run(None, {"x": x})
            error = np.abs(session.run(x).probabilities - expected).max()
            tolerance = FLOAT32 if dtype == "float32" else network_tolerance(dtype)
            if not error <= tolerance * max(1.0, np.abs(expected).max()):
                wrong.append(f"{dtype} on {target} with LNC {lnc}, {batch} pictures: off by {error:.3g}")
    assert not wrong, "\n".join([*network.words, *wrong])
