"""Time by source line: critical times add up to the latency, busy times to the work of the engines and queues."""

import nki
import numpy as np
import pytest
from trninfer import kernels, simulator
from trninfer.simulator.timing.by_line import describe_critical, describe_line


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
    words = describe_line(run.lines[0])
    assert words.startswith(run.lines[0].place) and " us (" in words and "busy" in words
    assert describe_critical(run).startswith("launch 10.20 us, ")
    assert nki is not None
