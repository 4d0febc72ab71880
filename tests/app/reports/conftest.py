"""Tables as wide as they like, unless a test asks for another width."""

import pytest


@pytest.fixture(autouse=True)
def no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the width of the window, which processes of pytest-xdist have too."""
    monkeypatch.delenv("COLUMNS", raising=False)
