"""`trninfer simulate --compare-archive`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SCRIPT = """
import numpy as np
from trninfer.kernels import argmax, transpose

print(argmax(np.ones((4, 10), np.float32))[0])
argmax(np.ones((4, 10), np.float32))
"""
OTHER = """
argmax(np.ones((4, 11), np.float32))
transpose(np.ones((5, 7), np.float16))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    row = {"kernel": "argmax", "variant": "", "size": "small", "shapes": [[4, 10]], "measured_device_us": 12.5}
    row["aws_estimate"] = {"total_us": 30.0, "utilization": {"DVE": 25.0, "SP": 4.0}}
    turned = {"kernel": "transpose", "variant": "", "size": "small", "shapes": [[5, 7]], "measured_device_us": 3.0}
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as opened:
        opened.writestr("selftest.json", json.dumps({"target": "trn2", "dtype": "float32", "kernels": [row, turned]}))
    (tmp_path / "kernel.py").write_text(SCRIPT)
    (tmp_path / "other.py").write_text(SCRIPT + OTHER)
    return tmp_path


def start(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trninfer", "simulate", "--lines", "0", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "NEURON_PLATFORM_TARGET_OVERRIDE"}
    wide = {**environment, "COLUMNS": "200"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=wide, check=False)


def test_launches_and_archive_have_separate_columns(folder: Path) -> None:
    done = start(folder, "--compare-archive", "a.zip", "kernel.py")
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    lines = done.stderr.splitlines()
    (row,) = [line.split() for line in lines if line.startswith("argmax small float32") and line.endswith("launch")]
    predicted = lines[0].partition(" on trn2: ")[2].split()[0]
    assert row[-4:] == [predicted, "30.0", "12.5", "launch"]
    assert any(line.split()[-6:-4] == ["trn2", "vector"] and line.endswith("25.0 %") for line in lines)
    assert any(line.split()[-5:] == ["trn2", "SP", "-", "4.0", "%"] for line in lines)
    (told,) = [line for line in lines if "times the prediction" in line]
    assert told.startswith("argmax small float32 trn2: AWS's estimate is ") and "ours: launch 10.2 us" in told
    assert "vector is busy for" in told and not any("not found by" in line for line in lines)


@pytest.mark.slow
def test_launches_that_the_archive_has_nothing_of_are_counted(folder: Path) -> None:
    done = start(folder, "--compare-archive", "a.zip", "other.py")
    told = "a.zip: 2 launches are not found by name, shapes, dtypes and target; the archive contains argmax, transpose"
    assert done.returncode == 0 and told in done.stderr.splitlines()
    done = start(folder, "--target", "trn3", "--compare-archive", "a.zip", "kernel.py")
    assert done.returncode == 0 and "a.zip: 2 launches" in done.stderr
    assert "measured" not in done.stderr


@pytest.mark.slow
def test_json_has_the_comparison(folder: Path) -> None:
    document = json.loads(start(folder, "--format", "json", "--compare-archive", "a.zip", "other.py").stdout)
    (row,) = document["compare_archive"]
    assert (row["aws_estimate_us"], row["measured_device_us"]) == (30.0, 12.5)
    assert row["predicted_us"] == pytest.approx(document["launches"][0]["latency_us"], abs=1e-3)
    assert "compare_archive" not in json.loads(start(folder, "--format", "json", "kernel.py").stdout)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--compare-archive", "none.zip"), "--compare-archive none.zip: cannot be read: No such file or directory"),
        (
            ("--compare-archive", "a.zip", "--sweep", "N=1,2"),
            "--sweep cannot be combined with --trace, --report, --sanitize and",
        ),
    ],
)
def test_wrong_use_is_one_line_and_nothing_runs(folder: Path, words: tuple[str, ...], told: str) -> None:
    done = start(folder, *words, "kernel.py")
    assert (done.returncode, done.stdout) == (2, "") and told in done.stderr and len(done.stderr.splitlines()) == 1
