"""Compare the simulator's speed on whole networks with PyTorch's, and print the predicted speed on the chip.

    python benchmarks/benchmark_networks.py [--networks resnet18 ...] [--repeats 5] [--threads N] [--profile]

The script requires torchvision. Each network gets random weights and statistics, is exported to ONNX, imported, and run
on one picture of 224 x 224 pixels. The following wall times of the simulator and PyTorch are measured alternately, so
that load affects both alike:

  import    seconds to read the ONNX file and compare it with ONNX Runtime
  shapes    seconds to predict the time from shapes only, for the first time in this process
  first     seconds for the first picture on the simulator, in float32, when every kernel is traced and checked
  again     seconds for a later picture, the best of `--repeats`, when repeated launches are replayed
  ratio     ratio of `again` to the best time of PyTorch
  cpu ratio the same ratio for processor seconds, which other work on the machine affects less

Predicted times are for trn2 in bfloat16 with the default launches, and are printed together with the network's floor
(runtime/floor.py).
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from trninfer.models.files import Model
from trninfer.models.importing import import_network
from trninfer.runtime.floor import floor_of
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import open_simulated_backend
from trninfer.tools.measure_networks import export, random_network

NETWORKS = ("resnet18", "mobilenet_v2", "vgg11")
SIDE = 224
TARGET = "trn2"


def imported(name: str, network: Any) -> tuple[Model, float]:
    """Export a network to ONNX and import it. Return the imported network and the seconds of the import."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / f"{name}.onnx"
        export(network, "script", path)
        start = time.perf_counter()
        read = import_network(path)
        return Model(read.network, read.tensors, {}), time.perf_counter() - start


def seconds_of(run: Any) -> tuple[float, float]:
    """Return the wall time of one call, and the processor time of all threads."""
    start, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - start, time.process_time() - processor


def measure(name: str, repeats: int, profile: bool) -> str:
    """Measure one network and return its table row."""
    network = random_network(name)
    model, import_seconds = imported(name, network)
    backend = open_simulated_backend(TARGET)
    shapes_seconds, _ = seconds_of(lambda: Session(model, backend, "bfloat16", 1).time(1))
    predicted = Session(model, backend, "bfloat16", 1).time(1).total_us
    session = Session(model, backend, "float32", 1)
    x = np.random.default_rng(0).standard_normal((1, 3, SIDE, SIDE)).astype(np.float32)
    first, _ = seconds_of(lambda: session.run(x))
    session.run(x)  # recorded
    ours, theirs = [], []
    with torch.inference_mode():
        tensor = torch.from_numpy(x)
        for _ in range(repeats):
            theirs += [seconds_of(lambda: network(tensor)) for _ in range(2)]
            ours.append(seconds_of(lambda: session.run(x)))
        expected = torch.softmax(network(tensor), dim=1).numpy()
    error = np.abs(session.run(x).probabilities - expected).max()
    if profile:
        with cProfile.Profile() as measured:
            session.run(x)
        pstats.Stats(measured).sort_stats("tottime").print_stats(15)
    floor = floor_of(model.network, "bfloat16", 1, TARGET).latency_us
    (wall, processor), (their_wall, their_processor) = ([min(times) for times in zip(*runs)] for runs in (ours, theirs))
    return (
        f"{name:>16} {import_seconds:8.2f} {shapes_seconds:8.2f} {their_wall:9.3f} {first:8.3f} {wall:8.3f} "
        f"{wall / their_wall:7.2f} {processor / their_processor:9.2f} {error:9.1e} {predicted:13.1f} {floor:9.1f} "
        f"{predicted / floor:8.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, help="names of torchvision")
    parser.add_argument("--repeats", type=int, default=5, help="number of runs; the fastest counts (default 5)")
    parser.add_argument("--profile", action="store_true", help="profile the simulation")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=int, default=cores, help="number of PyTorch threads (default: one per core)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{cores} cores, {options.threads} threads, one picture {SIDE}x{SIDE}, best of {options.repeats}")
    print(
        f"{'network':>16} {'import s':>8} {'shapes s':>8} {'pytorch s':>9} {'first s':>8} {'again s':>8} {'ratio':>7} "
        f"{'cpu ratio':>9} {'max error':>9} {'predicted us':>13} {'floor us':>9} {'x floor':>8}"
    )
    for name in options.networks:
        print(measure(name, options.repeats, options.profile), flush=True)


if __name__ == "__main__":
    main()
