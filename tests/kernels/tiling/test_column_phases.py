"""Phases of columns, with zeros around each."""

import pytest
from trninfer.kernels.tiling.column_phases import ColumnPhases


@pytest.mark.parametrize("columns", [1, 6, 112])
def test_one_phase_is_columns_with_zeros_around_them(columns: int) -> None:
    assert ColumnPhases(1, columns, 2, 1).total == columns + 3


def test_phases_have_zeros_of_their_own() -> None:
    phases = ColumnPhases(3, 12, 1, 4)
    assert (phases.lead, phases.inside, phases.tail, phases.each, phases.total) == (1, 4, 2, 7, 21)
