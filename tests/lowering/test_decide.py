"""Plans computed by another process: its input, its output, and the messages if it fails."""

from __future__ import annotations

import io
import json
import pickle
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import trninfer
from lowered import graph_of
from random_networks import conv, ending_in_dense
from trninfer.kernels.convolution.forms import Form
from trninfer.lowering.config import LoweringConfig
from trninfer.lowering.decide import PlanRequest, decide_elsewhere, hollow_graph, main
from trninfer.lowering.eight_bits import EightBits
from trninfer.lowering.graph.graph import Unsupported
from trninfer.lowering.launch_plan import LaunchPlanner
from trninfer.lowering.plan_cache import PlanCache, TuningRecord

GRAPH = graph_of(ending_in_dense((3, 6, 6), [conv("a", 3, 8, 3), conv("b", 8, 16, 3)]))
CONFIG = LoweringConfig("trn2", 4, (Form.PAIRS,), PlanCache(None), eight_bits=EightBits(lambda name: 1.0, values=True))
REQUEST = PlanRequest(GRAPH, CONFIG, 3, 50_000)
ON_TWO = replace(REQUEST, config=replace(CONFIG, target="trn3", cores=2), pictures=1)


@dataclass(frozen=True)
class Small(LoweringConfig):
    """Settings of a chip with 1000 bytes of SBUF for a launch."""

    budget_bytes: int = 1000


def planned_here(request: PlanRequest) -> TuningRecord:
    """Return the plan that this process computes."""
    config = replace(request.config, cache=PlanCache(None))
    plan = LaunchPlanner(request.graph, config, request.most).plan(request.pictures)
    return TuningRecord(plan.decisions, plan.nanoseconds, plan.instructions)


def test_another_process_finds_the_same_plan() -> None:
    assert decide_elsewhere(REQUEST) == planned_here(REQUEST)


def test_a_graph_is_sent_without_its_numbers() -> None:
    hollow = hollow_graph(GRAPH)
    for node, own in zip(hollow.nodes, GRAPH.nodes, strict=True):
        assert node.operation == own.operation and node.before == own.before
        assert [numbers.shape for numbers in node.numbers] == [numbers.shape for numbers in own.numbers]
        assert not any(np.any(numbers) for numbers in node.numbers)
        assert (node.filters is None) == (own.filters is None)
        if node.filters is not None and own.filters is not None:
            assert node.filters.shape == own.filters.shape
            with pytest.raises(AssertionError, match="only the shapes of filters"):
                node.filters.make()
    weights = sum(node.filters.size for node in GRAPH.nodes if node.filters is not None)
    assert len(pickle.dumps(hollow)) < 4 * weights  # bytes of float32


def answered(request: PlanRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Return the output of `main` in this process."""
    given = pickle.dumps(request.hollow())
    printed = io.StringIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(given)))
    monkeypatch.setattr(sys, "stdout", printed)
    main()
    monkeypatch.undo()
    return json.loads(printed.getvalue())


@pytest.mark.parametrize("request_", [REQUEST, ON_TWO])
def test_a_plan_is_printed_as_it_is_recorded(request_: PlanRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    assert TuningRecord.from_json(answered(request_, monkeypatch)) == planned_here(request_)


def test_why_there_is_no_plan_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    unfit = replace(REQUEST, config=Small("trn2", 4, cache=PlanCache(None)))
    with pytest.raises(Unsupported) as here:
        planned_here(unfit)
    assert answered(unfit, monkeypatch) == {"reason": str(here.value)}


class Interpreter:
    """A stand-in for Python that prints a given text and ends with a given status."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = folder / "python"
        monkeypatch.setattr(sys, "executable", str(self.path))

    def says(self, out: str, err: str = "", status: int = 0) -> None:
        self.path.write_text(f"#!/bin/sh\ncat > /dev/null\nprintf '{out}'\nprintf '{err}' >&2\nexit {status}\n")
        self.path.chmod(0o755)


def test_what_another_process_answers_is_reported_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = Interpreter(tmp_path, monkeypatch)
    python.says(r'{"reason": "layer \"a\" has no room"}'.replace("\\", "\\\\"))
    with pytest.raises(Unsupported, match=r'^layer "a" has no room$'):
        decide_elsewhere(REQUEST)
    python.says("", r"Traceback\nValueError: of no use\n", 1)
    with pytest.raises(RuntimeError, match=r"^planning in another process failed: ValueError: of no use$"):
        decide_elsewhere(REQUEST)
    python.says("", "", 7)
    with pytest.raises(RuntimeError, match=r"failed: it ended with exit status 7$"):
        decide_elsewhere(REQUEST)


def test_the_other_process_searches_where_this_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """With PYTHONSAFEPATH, the path does not begin with the current folder: its first entry is the folder of the
    package."""
    package = str(Path(trninfer.__file__).resolve().parent.parent)
    monkeypatch.setattr(sys, "path", [package, *sys.path])
    monkeypatch.setenv("PYTHONPATH", package)
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    assert decide_elsewhere(REQUEST) == planned_here(REQUEST)
