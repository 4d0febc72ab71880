"""Fixtures of the tests of both ways to the chip."""

from __future__ import annotations

import pytest


@pytest.fixture
def notes() -> list[str]:
    """Return the list to which `neuron_stand_ins.noting_options` appends messages."""
    return []
