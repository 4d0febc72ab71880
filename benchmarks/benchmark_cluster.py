"""Measure the speedup of workers (pictures per second, compared with one process) and the memory use over many
pictures.

    python -m trninfer.benchmarks.benchmark_cluster [--pictures 96] [--side 224] [--workers 1 2] [--batch-size 4]
    python -m trninfer.benchmarks.benchmark_cluster --memory [--pictures 20000]

The first command runs a residual network with random weights (workloads.py) on the simulator over JPEG photos of
640x480 pixels. Each process and worker has one BLAS thread, as when it is started from the command line, and processes
some pictures before the clock starts. One-time work (the imports of a worker, the tracing of each kernel) is reported
separately, as the seconds until all workers were ready. As in `trninfer classify`, a single process decodes ahead in
threads, and each worker decodes its own pictures. "independent" is the rate of the same number of processes that do not
communicate, which is the upper limit on this machine.

"idle" is the fraction of the time during which the worker processes had no work; "waited" is the fraction during which
they waited for a processor. If "waited" exceeds a few percent, the machine is busy and the rates are too low. In that
case, use the last figure, the ratio of the rates without waiting.

With --memory, the script runs digits-cnn on a Ray cluster of two nodes on this machine, sends pictures as paths, and
prints the resident set of the driver and of each worker (including shared pages) after each tenth of the run. The
script requires Linux, and --memory requires the extra `cluster`.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..inference.pictures import PictureBatches
from ..inference.shipping import PictureSources, decoder
from ..models.files import Model, load_model
from ..models.inputs import ImageInput
from ..runtime.choose import choose_backend
from ..runtime.session import BatchSession, Session
from ..runtime.workers.shared_session import SharedSession, share_out
from .benchmark_stream import TENTHS, draw_pictures, processor_seconds, resident_bytes
from .workloads import draw_photos, residual_network

PHOTO = (640, 480)
DIGIT_SIDE = 28
STORE_BYTES = 100 << 20


class Run(NamedTuple):
    """The times of a run over pictures: the seconds until everything was ready, and the seconds for a number of
    pictures."""

    name: str
    starting: float
    pictures: int
    seconds: float
    processor: float  # processor seconds of all its processes
    running: float  # average seconds that working processes ran on a processor
    waiting: float  # average seconds that they waited for a processor

    @property
    def rate(self) -> float:
        """Return pictures per second, once ready."""
        return self.pictures / self.seconds

    @property
    def free_rate(self) -> float:
        """Return pictures per second if no process had waited for a processor."""
        return self.pictures / (self.seconds - self.waiting)


def main() -> None:
    """Draw the pictures and measure the rates, or the memory use."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, help="number of pictures (default 96; with --memory 20000)")
    parser.add_argument("--batch-size", type=int, default=4, help="pictures per batch (default 4)")
    parser.add_argument("--side", type=int, default=224, help="side of the network's image in pixels (default 224)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="numbers of workers (default 1 2)")
    parser.add_argument("--memory", action="store_true", help="measure the memory use on two nodes instead")
    parser.add_argument("--one", metavar="FOLDER", help=argparse.SUPPRESS)  # an independent process
    options = parser.parse_args()
    if options.one:
        _be_independent(Path(options.one), options)
        return
    count = max(options.batch_size, options.pictures or (20_000 if options.memory else 96))
    with tempfile.TemporaryDirectory() as folder:
        if options.memory:
            draw_pictures(Path(folder), count, DIGIT_SIDE)
            _watch_memory(Path(folder), count, options.batch_size)
        else:
            draw_photos(Path(folder), count, PHOTO)
            _compare_rates(Path(folder), options)


def _compare_rates(folder: Path, options: argparse.Namespace) -> None:
    model = residual_network(options.side)
    paths = sorted(map(str, folder.iterdir()))
    alone = _tell(_run_alone(model, paths, options.batch_size), None)
    for workers in options.workers:
        _tell(_run_shared(model, paths, options.batch_size, workers), alone)
    for workers in options.workers:
        if workers > 1:
            _tell(_run_independent(folder, len(paths), workers, options), alone)


def _tell(run: Run, alone: Run | None) -> Run:
    idle = max(0.0, 1 - (run.running + run.waiting) / run.seconds)
    text = f"{run.name:14} ready after {run.starting:5.1f} s, then {run.rate:6.2f} pictures/s"
    text += f" ({1000 * run.processor / run.pictures:5.1f} ms of processor each)"
    text += f", idle {idle:4.0%}, waited {run.waiting / run.seconds:4.0%}"
    if alone is not None:
        text += f": {run.rate / alone.rate:.2f} times as fast as one process"
        text += f", {run.free_rate / alone.free_rate:.2f} times without waiting"
        saved = 1 / alone.free_rate - 1 / run.free_rate  # seconds per picture
        if saved > 0:
            text += f"; faster in total from {max(0.0, run.starting - alone.starting) / saved:.0f} pictures on"
    print(text, flush=True)
    return run


class Clock:
    """Measures the resources that processes have used since construction: wall time, processor time, and the run and
    wait times of their main threads."""

    def __init__(self, everyone: list[int], answering: list[int]) -> None:
        self._everyone = {process: processor_seconds(process) for process in everyone}
        self._answering = {process: _scheduled(process) for process in answering}
        self._began = time.perf_counter()

    def run(self, name: str, starting: float, pictures: int) -> Run:
        """Return the totals up to now as a `Run`."""
        seconds = time.perf_counter() - self._began
        spent = sum(processor_seconds(process) - earlier for process, earlier in self._everyone.items())
        took = [
            [now - before for now, before in zip(_scheduled(process), earlier)]
            for process, earlier in self._answering.items()
        ]
        running, waiting = (sum(part) / len(took) for part in zip(*took))
        return Run(
            name=name,
            starting=starting,
            pictures=pictures,
            seconds=seconds,
            processor=spent,
            running=running,
            waiting=waiting,
        )


def _scheduled(process: int) -> tuple[float, float]:
    """Return the seconds that the main thread of a process has run, and the seconds that it waited for a processor."""
    running, waiting, _ = Path(f"/proc/{process}/schedstat").read_text().split()
    return int(running) / 1e9, int(waiting) / 1e9


def _spec(model: Model) -> ImageInput:
    assert isinstance(model.network.input, ImageInput)
    return model.network.input


def _run_alone(model: Model, paths: list[str], batch_size: int) -> Run:
    began = time.perf_counter()
    session = Session(model, choose_backend("sim"), "float32", batch_size)
    for _ in range(2):  # in the second iteration, launches are replayed
        list(session.stream(batch for _, batch in PictureBatches(paths[:batch_size], _spec(model), batch_size)))
    starting = time.perf_counter() - began
    clock = Clock([os.getpid()], [os.getpid()])
    batches = (batch for _, batch in PictureBatches(paths, _spec(model), batch_size))
    return clock.run("one process", starting, _count(session, batches))


def _run_shared(model: Model, paths: list[str], batch_size: int, workers: int) -> Run:
    spec = _spec(model)
    began = time.perf_counter()
    with share_out(model, workers=workers, backend="sim", prepare=decoder(spec)) as session:

        def sources(some: list[str]) -> Iterator[Any]:
            return (batch for _, batch in PictureSources(some, spec, batch_size, False))

        answered: dict[int, int] = {}
        while len(answered) < workers or min(answered.values()) < 2:
            for answer in session.stream(sources(paths[: 4 * workers * batch_size])):
                answered[answer.worker] = answered.get(answer.worker, 0) + 1
        starting = time.perf_counter() - began
        clock = Clock([os.getpid(), *session.processes()], list(session.processes()))
        return clock.run(f"{workers} worker{'s' if workers > 1 else ''}", starting, _count(session, sources(paths)))


def _count(session: BatchSession, batches: Iterable[Any]) -> int:
    """Process all batches and return the number of pictures."""
    return sum(answer.size for answer in session.stream(batches))


def _run_independent(folder: Path, count: int, workers: int, options: argparse.Namespace) -> Run:
    """Run processes concurrently, each of which processes all pictures. They start when the last process is ready."""
    command = [sys.executable, "-m", __spec__.name, "--one", str(folder)]
    command += ["--batch-size", str(options.batch_size), "--side", str(options.side)]
    began = time.perf_counter()
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(workers)]
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    starting = time.perf_counter() - began
    everyone = [process.pid for process in running]
    clock = Clock(everyone, everyone)
    for process in running:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    run = clock.run(f"{workers} independent", starting, workers * count)
    for process in running:
        process.communicate()
    return run


def _be_independent(folder: Path, options: argparse.Namespace) -> None:
    model, paths = residual_network(options.side), sorted(map(str, folder.iterdir()))
    prepare = decoder(_spec(model))
    session = Session(model, choose_backend("sim"), "float32", options.batch_size)
    split = [paths[first : first + options.batch_size] for first in range(0, len(paths), options.batch_size)]
    for _ in range(2):
        list(session.stream([prepare(split[0])[0]]))
    print("ready", flush=True)
    sys.stdin.readline()
    list(session.stream(prepare(part)[0] for part in split))
    print("done", flush=True)
    sys.stdin.readline()


def _watch_memory(folder: Path, count: int, batch_size: int) -> None:
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"})
    import ray
    from ray.cluster_utils import Cluster

    node = {"object_store_memory": STORE_BYTES, "include_dashboard": False}
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **node})
    for _ in range(2):
        nodes.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
    ray.init(address=nodes.address, log_to_driver=False, logging_level=logging.ERROR)
    try:
        model = load_model("digits-cnn")
        assert isinstance(model.network.input, ImageInput)
        paths = sorted(map(str, folder.iterdir()))
        with share_out(
            model, workers=2, backend="sim", address=nodes.address, prepare=decoder(model.network.input)
        ) as session:
            print(f"{'answered':>9} {'pictures/s':>11} {'driver MB':>10}  workers MB")
            for line in _memory(session, paths, count, batch_size):
                print(line, flush=True)
    finally:
        ray.shutdown()
        nodes.shutdown()  # type: ignore[no-untyped-call, unused-ignore]


def _memory(session: SharedSession, paths: list[str], count: int, batch_size: int) -> Iterator[str]:
    """Print a line after each tenth of the run."""
    spec = session.model.network.input
    assert isinstance(spec, ImageInput)
    sources = (batch for _, batch in PictureSources(paths, spec, batch_size, False))
    answered, reported, since = 0, 0, time.perf_counter()
    for answer in session.stream(sources):
        answered += answer.size + len(answer.failures)
        if answered * TENTHS // count > reported:
            reported = answered * TENTHS // count
            now = time.perf_counter()
            workers = "  ".join(f"{resident_bytes(process) / 1e6:.1f}" for process in session.processes())
            rate = count / TENTHS / (now - since)
            yield f"{answered:9} {rate:11.1f} {resident_bytes(os.getpid()) / 1e6:10.1f}  {workers}"
            since = now


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # NumPy reads the variable on import, which has already happened
        again = [sys.executable, "-m", __spec__.name, *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    main()
