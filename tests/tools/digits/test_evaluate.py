"""Scoring the answers of `trninfer classify` by the names of the pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from trninfer.tools.digits.evaluate import score_answers


def test_answers_are_scored_by_name_and_missing_ones_are_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = {
        "predictions": [
            {"input": "heldout/digits/7-0001.png", "label": "7"},
            {"input": "heldout/digits/3-0002.png", "label": "5"},
            {"input": "heldout/digits/3-0003.png", "label": "3"},
            {"input": "heldout/none/none-letters-0003.png", "label": "none"},
        ],
        "errors": [{"input": "heldout/digits/1-0004.png", "message": "no ink found"}],
    }
    path = tmp_path / "answers.json"
    path.write_text(json.dumps(report))
    score_answers(path)
    assert capsys.readouterr().out == f"{path}: 3 of 5 right, 60.00 %\n"
