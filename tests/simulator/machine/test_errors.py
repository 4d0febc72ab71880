"""Errors that are also Python's built-in errors, so that callers can catch them, and the check that raises one."""

import traceback

import numpy as np
import pytest
from trninfer import simulator
from trninfer.simulator.machine import errors
from trninfer.simulator.machine.errors import without_ours
from trninfer.simulator.nki import isa as nisa
from trninfer.simulator.nki import language as nl
from trninfer.simulator.running import launch


@pytest.mark.parametrize(
    "kind, base",
    [
        (errors.OutOfBoundsError, IndexError),
        (errors.UnknownNameError, AttributeError),
        (errors.OperatorError, TypeError),
        (errors.ShapeError, ValueError),
        (errors.CapacityError, MemoryError),
        (errors.NotSimulatedError, NotImplementedError),
        (errors.AccessPatternError, errors.NkiValidationError),
    ],
)
def test_a_rule_broken_is_an_error_of_either_kind(kind, base):
    for caught in (base, errors.NkiValidationError):
        with pytest.raises(caught, match="what came"):
            raise kind("what came")


def test_only_a_condition_that_does_not_hold_raises():
    errors.require(1, "never")
    with pytest.raises(errors.NkiValidationError, match=r"^dst has 3 rows, 4 are allowed$"):
        errors.require([], "dst has 3 rows, 4 are allowed")


def copy_wrongly(a):
    nisa.tensor_copy(dst=nl.load(a)[:, 0:2], src=nl.load(a))


def divide_by_nothing(a):
    return 1 // 0


def frames_of(kernel):
    with pytest.raises(Exception) as caught:
        simulator.run(kernel, np.ones((8, 4), np.float32))
    return [frame.name for frame in traceback.extract_tb(without_ours(caught.value))]


def test_traceback_of_a_broken_rule_ends_at_the_line_of_the_kernel(monkeypatch):
    assert frames_of(copy_wrongly) == ["frames_of", "copy_wrongly"]
    assert frames_of(divide_by_nothing) == ["frames_of", "divide_by_nothing"]
    monkeypatch.setattr(launch, "predict", lambda core: 1 // 0)  # a bug in the simulator
    assert frames_of(lambda a: None)[0] == "frames_of" and len(frames_of(lambda a: None)) > 1


def test_an_error_that_was_never_raised_has_none():
    assert without_ours(ValueError("no luck")) is None
