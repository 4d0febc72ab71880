"""Tracebacks without the simulator's own frames."""

import traceback

import numpy as np
import pytest
from trninfer import simulator
from trninfer.simulator import launch
from trninfer.simulator.nki import isa as nisa
from trninfer.simulator.nki import language as nl
from trninfer.simulator.tracebacks import without_ours


def copy_wrongly(a):
    nisa.tensor_copy(dst=nl.load(a)[:, 0:2], src=nl.load(a))


def divide_by_nothing(a):
    return 1 // 0


def frames_of(kernel):
    with pytest.raises(Exception) as caught:
        simulator.run(kernel, np.ones((8, 4), np.float32))
    return [frame.name for frame in traceback.extract_tb(without_ours(caught.value))]


def test_a_broken_rule_ends_at_the_kernels_line_and_other_errors_where_they_are(monkeypatch):
    assert frames_of(copy_wrongly) == ["frames_of", "copy_wrongly"]
    assert frames_of(divide_by_nothing) == ["frames_of", "divide_by_nothing"]
    monkeypatch.setattr(launch, "predict", lambda core: 1 // 0)  # a fault of the simulator's own
    assert frames_of(lambda a: None)[0] == "frames_of" and len(frames_of(lambda a: None)) > 1


def test_an_error_that_was_never_raised_has_none():
    assert without_ours(ValueError("no luck")) is None
