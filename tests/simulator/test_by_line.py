"""Time by source line: critical times add up to the latency, busy times to what the engines and queues did."""

import nki
import numpy as np
import pytest
from trninfer import kernels, simulator
from trninfer.simulator.by_line import told, told_critical


@pytest.mark.parametrize(("name", "shapes"), [("matmul_tiled", [(256, 128), (256, 512)]), ("argmax", [(129, 1000)])])
def test_lines_add_up(name: str, shapes: list) -> None:
    run = simulator.run(
        kernels.kernel(name), *[simulator.TensorSpec(shape, "bfloat16") for shape in shapes], functional=False
    )
    assert round(sum(line.critical_us for line in run.lines) + run.launch_us, 6) == run.latency_us
    assert sum(line.instructions for line in run.lines) == len(run.program)
    events = [event for event in run.timeline if event.position >= 0]
    assert sum(line.busy_us for line in run.lines) == pytest.approx(sum(e.end_ns - e.start_ns for e in events) / 1000)
    times = [line.critical_us for line in run.lines]
    assert times == sorted(times, reverse=True)
    for line in run.lines:
        assert line.critical_us == pytest.approx(sum(line.critical.values()))
        assert line.file.endswith(".py") and line.text


def test_a_line_in_words() -> None:
    run = simulator.run(kernels.transpose, np.ones((4, 4), np.float32))
    words = told(run.lines[0])
    assert words.startswith(run.lines[0].place) and " us (" in words and "busy" in words
    assert told_critical(run).startswith("launch 10.20 us, ")
    assert nki is not None


def test_memory_over_time_ends_empty_and_its_peak_has_owners() -> None:
    run = simulator.run(
        kernels.matmul_fully_optimized, *[simulator.TensorSpec((512, 512), "float32")] * 2, functional=False
    )
    for region, peak in (("sbuf", run.prediction.schedule.sbuf_peak), ("psum", run.prediction.schedule.psum_peak)):
        use = run.memory_use(region)
        assert use.points[-1][1] == 0 and all(size >= 0 for _, size in use.points)
        assert use.peak_bytes == max(size for _, size in use.points) == sum(tile.bytes for tile in use.owners)
        assert 0 < use.peak_bytes <= max(peak, use.capacity)
        assert all(tile.start_ns <= use.peak_ns < tile.end_ns and tile.idle_ns >= 0 for tile in use.owners)
    with pytest.raises(simulator.NkiValidationError, match="allowed: sbuf, psum"):
        run.memory_use("hbm")
