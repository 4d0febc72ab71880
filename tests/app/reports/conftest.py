"""Tables of unlimited width, unless a test sets a width."""

import pytest


@pytest.fixture(autouse=True)
def no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the window width, which pytest-xdist also sets in its processes."""
    monkeypatch.delenv("COLUMNS", raising=False)
