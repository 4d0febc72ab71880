"""`trninfer bench --compare-archive`."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    row = {"kernel": "argmax", "variant": "", "size": "small", "shapes": [[4, 10]]}
    row["aws_estimate"] = {"total_us": 30.0, "utilization": {"DVE": 0.25}}
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as opened:
        opened.writestr("selftest.json", json.dumps({"target": "trn2", "dtype": "float32", "kernels": [row]}))
    return tmp_path / "a.zip"


def test_estimates_have_a_separate_column(cli, archive) -> None:
    outcome = cli("bench", "--compare-archive", archive)
    assert outcome.status == 0, outcome.err
    for text in ("predicted us", "AWS's", "measured,", "30.0", "times the prediction; ours: launch 10.2 us"):
        assert text in outcome.out
    (row,) = json.loads(cli("bench", "--compare-archive", archive, "--format", "json").out)["compare_archive"]
    assert row["aws_estimate_us"] == 30.0 and row["measured_device_us"] is None and row["predicted_us"] > 10
    assert row["aws_engines"] == {"vector": 0.25} and row["bound_by"] == "launch"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--compare-archive", "none.zip"), "--compare-archive none.zip: cannot be read: No such file or directory"),
        (("--compare-archive", "none.zip", "--model", "digits-cnn"), "--compare-archive cannot be combined with"),
    ],
)
def test_wrong_use_is_one_line(cli, words, told) -> None:
    outcome = cli("bench", *words)
    assert (outcome.status, outcome.out) == (2, "") and told in outcome.err and len(outcome.err.splitlines()) == 1
