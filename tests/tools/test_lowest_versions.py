"""Lowest versions that pyproject.toml allows: none has a known vulnerability."""

from __future__ import annotations

import csv
import runpy
from pathlib import Path
from typing import Any

import pytest

CI = Path(__file__).parents[2] / ".ci"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(CI / "lowest.py"))


def test_no_lowest_version_has_a_known_vulnerability(script: dict[str, Any]) -> None:
    with (CI / "advisories.csv").open(encoding="utf-8", newline="") as file:
        assert script["vulnerable"](script["read_project"](), list(csv.DictReader(file))) == []


def test_an_advisory_against_a_version_that_is_allowed_is_reported(script: dict[str, Any]) -> None:
    project = {
        "dependencies": ["numpy>=1.26; python_version < '3.13'"],
        "optional-dependencies": {"serve": ["h11>=0.9"], "chip": ["torch-neuronx>=2.13.0b0,<2.15"]},
    }
    rows = [
        {"package": "h11", "fixed_in": "0.16", "advisory": "CVE-1"},
        {"package": "h11", "fixed_in": "0.9.0", "advisory": "CVE-2"},
        {"package": "torch-neuronx", "fixed_in": "2.13", "advisory": "CVE-4"},
        {"package": "torch-neuronx", "fixed_in": "2.12.9", "advisory": "CVE-5"},
        {"package": "gone", "fixed_in": "1", "advisory": "CVE-3"},
    ]
    assert script["vulnerable"](project, rows) == [
        "h11>=0.9: CVE-1 is fixed in 0.16",
        "torch-neuronx>=2.13.0b0: CVE-4 is fixed in 2.13",
        "gone: CVE-3 is listed, but pyproject.toml has no lowest version of it",
    ]
    assert script["lowest"](project["dependencies"]) == [("numpy", "1.26", ";python_version <'3.13'")]
    assert script["lowest"](["torch-neuronx>=2.13.0b0,<2.15"]) == [("torch-neuronx", "2.13.0b0", "")]
    with pytest.raises(SystemExit, match="has no lowest version"):
        script["lowest"](["numpy"])
