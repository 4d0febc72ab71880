"""Descriptions of network outputs."""

import pytest
from trninfer.app.network_text import describe_answers
from trninfer.models.outputs import NamedOutput, Output


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((1,), "1 value, printed as they are"),
        ((12,), "12 values, printed as they are"),
        ((3, 4, 5), "60 values of 3x4x5, printed as they are"),
    ],
)
def test_values_have_a_shape(shape: tuple[int, ...], says: str) -> None:
    assert describe_answers(NamedOutput("y", "d", shape, Output("values")), False) == says
