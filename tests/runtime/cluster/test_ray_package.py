"""The package Ray, and the messages if it is missing."""

from __future__ import annotations

import sys

import pytest
from trninfer.runtime.backend import BackendUnavailable
from trninfer.runtime.cluster.ray_package import first_line, import_ray


def test_missing_ray_is_reported_with_the_extra_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BackendUnavailable, match=r"pip install 'trninfer\[cluster\]'"):
        import_ray()


def test_errors_of_any_length_are_one_line() -> None:
    assert first_line(ValueError("\n a\nb")) == "a" and first_line(ValueError()) == "ValueError"
