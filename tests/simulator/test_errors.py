"""Errors that are also those of Python that a caller may catch, and the check that raises one."""

import pytest
from trninfer.simulator import errors


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
