"""Measure the phases of a prediction: tracing a kernel, checking that it fits, and scheduling it.

    python benchmarks/benchmark_walk.py --sources DIR [--repeats 5] [ROW ...]

Prints microseconds of processor time per instruction, the minimum of `--repeats`. ROW is a row of
`runtime/measure/published.csv`; its kernel is read from a checkout in DIR.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from trninfer.runtime.measure.published import PublishedKernel, find_row, load_published
from trninfer.simulator.instructions.core import NeuronCore, running
from trninfer.simulator.machine.chip import find_target
from trninfer.simulator.machine.host import uncollected
from trninfer.simulator.running import kernel
from trninfer.simulator.timing.capacity import check
from trninfer.simulator.timing.schedule import schedule

ROWS = ("o13", "o08", "o01", "k09", "k31", "k24")  # prefill, experts, decode, convolution, product, transposes


def processor_us(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the minimum processor time of `repeats` runs, in microseconds, and the last result."""
    best, result = float("inf"), None
    for _ in range(repeats):
        start = time.process_time()
        with uncollected():
            result = work()
        best = min(best, (time.process_time() - start) * 1e6)
    return best, result


def walk(published: PublishedKernel, source: Any) -> NeuronCore:
    """Run the kernel in shape-only mode as `simulator.run` does, but without checks."""
    core = NeuronCore(find_target(published.target), functional=False, dge=published.dge)
    arguments = [kernel.argument(core, value) for value in published.arguments]
    with running(core):
        source.function(*arguments, **published.parameters)
    return core


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, default=Path("sources"), help="folder of checkouts (default sources)")
    parser.add_argument("--repeats", type=int, default=5, help="number of runs; the fastest counts (default 5)")
    parser.add_argument("rows", nargs="*", default=ROWS, help=f"measured rows (default {' '.join(ROWS)})")
    options = parser.parse_args()
    print(f"{'row':<5} {'kernel':<34} {'instructions':>12} {'walk':>6} {'check':>6} {'schedule':>8} {'us each':>8}")
    for name in options.rows:
        published = find_row(name)
        source = load_published(published, options.sources)
        walking, core = processor_us(partial(walk, published, source), options.repeats)
        checking, _ = processor_us(partial(check, core.program, core.target), options.repeats)
        scheduling, _ = processor_us(partial(schedule, core.program, core.target), options.repeats)
        count = len(core.program)
        walked, checked, scheduled = walking / count, checking / count, scheduling / count
        print(
            f"{name:<5} {published.kernel:<34} {count:>12,} {walked:>6.1f} {checked:>6.1f} {scheduled:>8.1f} "
            f"{walked + checked + scheduled:>8.1f}"
        )


if __name__ == "__main__":
    main()
