"""What workers bring: pictures a second of one process, one worker and two, and memory over many pictures.

    python -m trninfer.benchmarks.benchmark_cluster [--pictures 2000] [--batch-size 16]
    python -m trninfer.benchmarks.benchmark_cluster --memory [--pictures 20000]

The first runs digits-cnn on the simulator over pictures that it reads, and prints rates from the first answer on, so
that starting Ray is left out, the processor time of a picture in all processes (which other work hardly changes), and
the seconds to the first answer. With --memory a Ray cluster of two nodes on this machine does so, with the
pictures as paths; for each tenth of the run it prints the resident set of the driver and of each worker, shared pages
included. Linux only; both need the extra `cluster`.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ..inference.pictures import PictureBatches
from ..inference.shipping import PictureSources, decoder
from ..models.files import load_model
from ..models.network import ImageInput
from ..runtime.choose import choose_backend
from ..runtime.cluster.shared_session import SharedSession, share_out
from ..runtime.session import BatchSession, Session
from .benchmark_stream import TENTHS, draw_pictures, processor_seconds, resident_bytes

SIDE = 28
STORE_BYTES = 100 << 20


def main() -> None:
    """Draw the pictures and time them, or watch the memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=2000, help="how many (default 2000; at least 100)")
    parser.add_argument("--batch-size", type=int, default=16, help="pictures in a batch (default 16)")
    parser.add_argument("--memory", action="store_true", help="watch the memory over two nodes instead")
    options = parser.parse_args()
    count = max(100, options.pictures)
    with tempfile.TemporaryDirectory() as folder:
        draw_pictures(Path(folder), count, SIDE)
        if options.memory:
            _watch_memory(Path(folder), count, options.batch_size)
        else:
            _compare_rates(Path(folder), count, options.batch_size)


def _compare_rates(folder: Path, count: int, batch_size: int) -> None:
    model = load_model("digits-cnn")
    paths = sorted(map(str, folder.iterdir()))
    session = Session(model, choose_backend("sim"), "float32", batch_size)
    alone = _rate("one process", session, lambda: [os.getpid()], paths, batch_size, time.perf_counter())
    for workers in (1, 2):
        started = time.perf_counter()
        with share_out(model, workers=workers, backend="sim") as shared:
            name = f"{workers} worker{'s' if workers > 1 else ''}"
            rate = _rate(name, shared, partial(_all_processes, shared), paths, batch_size, started)
            print(f"{name} against one process: {rate / alone:.2f}")


def _all_processes(session: SharedSession) -> list[int]:
    return [os.getpid(), *session.processes()]


def _rate(
    name: str,
    session: BatchSession,
    processes: Callable[[], list[int]],
    paths: list[str],
    batch_size: int,
    started: float,
) -> float:
    """Pictures a second from the first answer on, all of them decoded here; told with the processor time of each."""
    spec = session.model.network.input
    assert isinstance(spec, ImageInput)
    before: dict[int, float] = {}
    first = 0.0
    pictures = 0
    for answer in session.stream(batch for _, batch in PictureBatches(paths, spec, batch_size)):
        for process in processes():  # one that came later had not worked yet
            before.setdefault(process, processor_seconds(process))
        if first:
            pictures += answer.size
        else:
            first = time.perf_counter()
    rate = pictures / (time.perf_counter() - first)
    spent = sum(processor_seconds(process) - seconds for process, seconds in before.items())
    print(
        f"{name:12} {rate:8.1f} pictures/s, {1000 * spent / pictures:6.1f} ms of processor each, "
        f"first answer after {first - started:5.1f} s",
        flush=True,
    )
    return rate


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
        with share_out(model, workers=2, backend="sim", prepare=decoder(model.network.input)) as session:
            print(f"{'answered':>9} {'pictures/s':>11} {'driver MB':>10}  workers MB")
            for line in _memory(session, paths, count, batch_size):
                print(line, flush=True)
    finally:
        ray.shutdown()
        nodes.shutdown()  # type: ignore[no-untyped-call, unused-ignore]


def _memory(session: SharedSession, paths: list[str], count: int, batch_size: int) -> Iterator[str]:
    """A line after each tenth of the run."""
    spec = session.model.network.input
    assert isinstance(spec, ImageInput)
    sources = (batch for _, batch in PictureSources(paths, spec, batch_size, False))
    answered, told, since = 0, 0, time.perf_counter()
    for answer in session.stream(sources):
        answered += answer.size + len(answer.failures)
        if answered * TENTHS // count > told:
            told = answered * TENTHS // count
            now = time.perf_counter()
            workers = "  ".join(f"{resident_bytes(process) / 1e6:.1f}" for process in session.processes())
            rate = count / TENTHS / (now - since)
            yield f"{answered:9} {rate:11.1f} {resident_bytes(os.getpid()) / 1e6:10.1f}  {workers}"
            since = now


if __name__ == "__main__":
    main()
