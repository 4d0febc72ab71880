"""Baselines for comparing launches, and invalid files."""

import json

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer import simulator
from trninfer.simulator.search import baseline
from trninfer.simulator.search.baseline import BaselineError

A = np.ones((128, 64), np.float32)


@nki.jit
def scaled(a, times=1):
    tile = nl.load(a)
    for _ in range(times):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_a_launch_is_as_fast_as_its_own_entry_and_slower_than_that_of_a_shorter_one():
    short, long = simulator.run(scaled, A), simulator.run(scaled, A, times=9)
    entry = json.loads(json.dumps(baseline.entry_of(short)))
    assert baseline.slower(entry, short, 0.0) == ""
    assert baseline.slower(baseline.entry_of(long), short, 0.0) == ""
    assert baseline.slower(entry, long, 10.0) == ""
    told = baseline.slower(entry, long, 0.01)
    assert "us in the baseline" in told and "vector +" in told and "tensor_scalar" in told


def test_a_file_keeps_the_entries_of_other_names(tmp_path):
    path = tmp_path / "times.json"
    assert baseline.read(path) == {}
    entry = baseline.entry_of(simulator.run(scaled, A))
    baseline.write(path, {"b": entry})
    baseline.write(path, {"a": entry})
    assert list(baseline.read(path)) == ["a", "b"] and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "cannot be read"),
        ("[]", "not a file of baselines"),
        ('{"schema_version": 2}', "not a file of baselines"),
        ('{"schema_version": 1, "launches": {"a": {"latency_us": "fast"}}}', "damaged"),
        ('{"schema_version": 1, "launches": []}', "damaged"),
    ],
)
def test_a_file_that_is_not_a_baseline_is_not_changed(tmp_path, text, message):
    path = tmp_path / "times.json"
    path.write_text(text, encoding="utf-8")
    for use in (lambda: baseline.read(path), lambda: baseline.write(path, {})):
        with pytest.raises(BaselineError, match=message):
            use()
    assert path.read_text(encoding="utf-8") == text


def test_a_folder_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(BaselineError, match="cannot be written: No such file"):
        baseline.write(tmp_path / "none" / "times.json", {})
