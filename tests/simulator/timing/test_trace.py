"""Traces, runs and the command `python -m trninfer.simulator`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from trninfer import simulator
from trninfer.kernels import matmul_tiled, vector_add_stream
from trninfer.simulator import TensorSpec
from trninfer.simulator.timing.trace import chrome_trace, place

SCRIPT = """
import sys
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def copied(a):
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out

print(copied(np.ones((128, 4), np.float32)).sum(), sys.argv[1:])
"""


def product(functional: bool = False) -> simulator.Run:
    spec = TensorSpec((256, 256), "bfloat16")
    return simulator.run(matmul_tiled, spec, spec, functional=functional)


def spans(trace: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def test_layers_are_within_their_launch() -> None:
    parts = [("conv1", 500.0, 2500.0), ("conv2", 2500.0, 3000.0)]
    trace = chrome_trace([("first", 10.0, [], [], []), ("second", 10.0, [], parts, [])])
    layers = {span["name"]: (span["ts"], span["dur"]) for span in spans(trace) if span["name"].startswith("conv")}
    assert layers == {"conv1": (20.5, 2.0), "conv2": (22.5, 0.5)}


def test_a_trace_has_a_track_for_each_engine_and_queue(tmp_path: Path) -> None:
    run = product()
    path = tmp_path / "trace.json"
    simulator.write_trace(path, [run, run])
    trace = json.loads(path.read_text(encoding="utf-8"))
    names = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert {"Launch", "Tensor Engine", "Vector Engine", "DMA load 0", "DMA store 0"} <= set(names.values())
    assert len(spans(trace)) == 2 * (len(run.timeline) + 1 + len(run.critical_path))
    critical = [e for e in spans(trace) if names[e["tid"]] == "Critical path"]
    assert sum(e["dur"] for e in critical) == pytest.approx(2 * (run.latency_us - run.launch_us), rel=1e-3)
    assert all({"instruction", "waited for"} <= set(e["args"]) for e in critical)
    assert max(e["ts"] + e["dur"] for e in spans(trace)) == pytest.approx(2 * run.latency_us, rel=1e-3)
    assert [file.name for file in tmp_path.iterdir()] == ["trace.json"]


def test_events_of_a_track_do_not_overlap() -> None:
    ends: dict[int, float] = {}
    for event in sorted(spans(product().trace()), key=lambda e: e["ts"]):
        if event["name"] != "matmul_tiled":
            assert event["ts"] >= ends.get(event["tid"], 0) - 2e-4  # rounded to a tenth of a nanosecond
            ends[event["tid"]] = event["ts"] + event["dur"]


def test_rounding_makes_no_overlap() -> None:
    """Events that begin when the previous one ends, at times that may round either way."""
    times = [0.0, 0.04, 0.16, 0.23, 0.35, 0.4, 100.05, 100.15, 100.26]
    events = [event(start, end) for start, end in pairwise(times)]
    told = chrome_trace([("k", 0.00005, events, (), ())])["traceEvents"]
    track = [span for span in told if span.get("name") == "x"]
    assert len(track) == len(events)
    for one, other in pairwise(track):
        assert round(one["ts"] + one["dur"], 6) <= other["ts"]


def event(start: float, end: float) -> SimpleNamespace:
    """Return the fields of an event that a trace contains."""
    return SimpleNamespace(
        engine="vector",
        op="x",
        name="",
        start_ns=start,
        end_ns=end,
        done_ns=end,
        issued_ns=start,
        line=("", 0),
        bytes=0,
        flops=0,
    )


def test_a_trace_respects_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        simulator.write_trace(tmp_path / "trace.json", [product()])
    finally:
        os.umask(before)
    assert (tmp_path / "trace.json").stat().st_mode & 0o777 == 0o640
    (tmp_path / "trace.json").chmod(0o604)
    simulator.write_trace(tmp_path / "trace.json", [product()])
    assert (tmp_path / "trace.json").stat().st_mode & 0o777 == 0o604


def test_events_report_the_line_of_the_kernel() -> None:
    events = [e for e in spans(product().trace()) if e["name"] == "nc_matmul"]
    assert events
    assert all("matmul.py:" in e["args"]["line"] and e["args"]["flops"] > 0 for e in events)


def test_an_unwritable_trace_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        simulator.write_trace(tmp_path / "no" / "trace.json", [product()])
    assert not list(tmp_path.iterdir())


def test_figures_of_a_run() -> None:
    run = product()
    matmul_flops = run.prediction.matmul_flops
    assert matmul_flops == 2 * 256**3 <= run.flops
    assert run.hbm_bytes == (1 + 2 + 1) * 256 * 256 * 2  # the right operand is loaded for each of two rows of tiles
    assert run.mfu == pytest.approx(matmul_flops / (2 * 128**2 * 2.4e3 * run.latency_us))
    assert run.mbu == pytest.approx(run.hbm_bytes / (716e3 * run.latency_us))
    assert run.latency_us == pytest.approx(run.launch_us + max(e.done_ns for e in run.timeline) / 1000)
    for name, use in run.engines.items():
        assert 0 <= use.share <= 1, name
    made = sum(e.op == "descriptors" for e in run.timeline)
    assert made == len(run.timeline) - len(run.program) == 0  # the kernel requests hardware-generated descriptors


def test_shape_only_runs_are_remembered_by_what_they_depend_on() -> None:
    def walk(**changes: Any) -> simulator.Run:
        spec = TensorSpec((2560,), changes.pop("dtype", "float32"))
        return simulator.run(vector_add_stream, spec, spec, functional=False, pure=True, **{"free": 10, **changes})

    first = walk()
    assert walk().prediction is first.prediction
    assert walk(profiled=True).prediction is first.prediction
    assert walk(profiled=True).latency_us > first.latency_us
    for changes in ({"free": 20}, {"dge": False}, {"target": "trn1"}, {"dtype": "bfloat16"}):
        assert walk(**changes).prediction is not first.prediction
    assert first.outputs == (None,)


def start(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trninfer.simulator", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        check=False,
    )


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "script.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_script_runs_on_the_simulator(tmp_path: Path) -> None:
    done = start(script(tmp_path, SCRIPT), "one", "--two", NEURON_PLATFORM_TARGET_OVERRIDE="trn2")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "512.0 ['one', '--two']\n"
    assert done.stderr.startswith("copied([128, 4] float32) on trn2: ")
    assert "us predicted, bound by launch" in done.stderr
    assert "scaled" in start(script(tmp_path, SCRIPT), NEURON_PLATFORM_TARGET_OVERRIDE="trn3").stderr


def test_a_script_that_fails(tmp_path: Path) -> None:
    done = start(script(tmp_path, "def f():\n    raise KeyError('here')\nf()\n"))
    assert done.returncode == 1
    assert "KeyError: 'here'" in done.stderr and "runpy" not in done.stderr
    assert start(script(tmp_path, "import sys\nsys.exit(7)\n")).returncode == 7
    stopped = start(script(tmp_path, "import sys\nsys.exit('no data')\n"))
    assert (stopped.returncode, stopped.stderr) == (1, "no data\n")
    assert start(script(tmp_path, "raise KeyboardInterrupt\n")).returncode == 130


def test_wrong_use_of_the_command(tmp_path: Path) -> None:
    missing = start(str(tmp_path / "missing.py"))
    assert missing.returncode == 2 and missing.stderr.startswith("no such script: ")
    assert start().returncode == 2
    assert start("--help").stdout.startswith("usage: ")
    target = start(script(tmp_path, SCRIPT), NEURON_PLATFORM_TARGET_OVERRIDE="trn9")
    assert target.returncode == 2 and "trn9" in target.stderr and "Traceback" not in target.stderr


def test_queues_follow_the_engines_in_the_order_of_their_numbers() -> None:
    tracks = ["core 0 dma 2", "core 0 dma 10", "core 0 vector", "core 1 launch", "core 0 tensor"]
    expected = ["core 0 tensor", "core 0 vector", "core 0 dma 2", "core 0 dma 10", "core 1 launch"]
    assert sorted(tracks, key=place) == expected
