"""The engine table and the critical path of a measured run, computed by hand."""

from __future__ import annotations

from pathlib import Path

from made_profiles import PROFILE, instruction, write
from trninfer.simulator.profiles import critical_path, engines, makers, read_profile


def test_the_path_follows_what_instructions_waited_for(tmp_path: Path) -> None:
    """matmul, copy on Vector, copy on Scalar, the trigger, and 3.5 us until the sum, 1.1 us of which move data."""
    run = read_profile(write(tmp_path / "p.json"))
    found = [(step.start_ns, step.end_ns, step.resource) for step in critical_path(run)]
    assert found == [
        (0, 5000, "launch"),
        (5000, 5630, "tensor"),
        (5630, 5660, "semaphore"),
        (5660, 6350, "vector"),
        (6350, 6400, "semaphore"),
        (6400, 6985, "scalar"),
        (6985, 7000, "semaphore"),
        (7000, 7524, "scalar"),
        (7524, 8200, "waiting"),
        (8200, 9300, "dma"),
        (9300, 11_000, "waiting"),
        (11_000, 11_690, "vector"),
    ]


def test_without_predecessors_it_follows_what_ended_last(tmp_path: Path) -> None:
    profile = {"instruction": [{**row, "predecessors": None} for row in PROFILE["instruction"]]}
    run = read_profile(write(tmp_path / "p.json", profile))
    path = [step.opcode for step in critical_path(run) if step.opcode]
    assert path == ["MATMUL", "COPY", "COPY", "DMA_DIRECT2D", "TENSOR_TENSOR"]


def test_dependencies_in_a_circle_end(tmp_path: Path) -> None:
    rows = [instruction(1, "Vector", "COPY", 10, 50, 2), instruction(2, "Vector", "COPY", 10, 60, 1)]
    run = read_profile(write(tmp_path / "p.json", {"instruction": rows}))
    assert [(step.start_ns, step.end_ns) for step in critical_path(run)] == [(0, 10), (10, 70)]


def test_engines_count_work_and_not_waits(tmp_path: Path) -> None:
    run = read_profile(write(tmp_path / "p.json"))
    busy = {engine.engine: (engine.busy_us, engine.instructions) for engine in engines(run)}
    assert busy == {
        "tensor": (0.63, 1),
        "vector": (1.38, 2),
        "scalar": (1.109, 2),
        "gpsimd": (0.0, 0),
        "sync": (0.0, 0),
        "dma": (1.42, 4),
    }
    assert makers(run) == {"prepared": (1, 4), "software": (1, 256), "hardware": (2, 8192)}
