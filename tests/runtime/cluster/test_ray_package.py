"""Ray, the package: what is told where it is missing, and the variables of what is started."""

from __future__ import annotations

import os
import sys

import pytest
from trninfer.runtime.backend import BackendUnavailable
from trninfer.runtime.cluster.ray_package import first_line, import_ray, variables


def test_without_ray_it_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BackendUnavailable, match=r"pip install 'trninfer\[cluster\]'"):
        import_ray()


def test_variables_are_for_the_processes_that_start_within(monkeypatch) -> None:
    monkeypatch.setenv("OURS", "before")
    monkeypatch.setenv("NONE", "before")
    monkeypatch.delenv("OTHER", raising=False)
    with variables({"OURS": "within", "OTHER": "too", "NONE": None}):
        assert (os.environ["OURS"], os.environ["OTHER"]) == ("within", "too") and "NONE" not in os.environ
    assert (os.environ["OURS"], os.environ["NONE"]) == ("before", "before") and "OTHER" not in os.environ


def test_errors_of_any_length_are_one_line() -> None:
    assert first_line(ValueError("\n a\nb")) == "a" and first_line(ValueError()) == "ValueError"
