"""Measure the host time (not the device time) for one picture: starting the command, and preprocessing.

    python benchmarks/benchmark_host.py [--repeats 10]

Commands are started alternately, so that load affects all of them equally. One uncounted run first caches the launch
plan and writes bytecode to a separate folder, because installed packages have bytecode. The figures are the minimum
wall and processor times with one BLAS thread; ratios are relative to a bare `import numpy`. The pictures in samples/
are decoded and preprocessed in this process, and their figure is the minimum processor time. benchmark_networks.py
compares whole networks on the simulator with PyTorch.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from trninfer.models.files import load_model
from trninfer.models.inputs import ImageInput
from trninfer.models.preprocess import FORMATS, open_image, preprocess

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
PICTURE = SAMPLES / "2-colour.png"
NUMPY = "import numpy"
COMMANDS: dict[str, tuple[str, ...]] = {
    "python": ("-c", "pass"),
    NUMPY: ("-c", NUMPY),
    "trninfer --help": ("-m", "trninfer", "--help"),
    "trninfer classify": ("-m", "trninfer", "classify", str(PICTURE)),
}


def started(arguments: Sequence[str], bytecode: str) -> tuple[float, float]:
    """Run Python with arguments and a bytecode folder. Return the wall and the processor seconds."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with exit status {process.returncode}")
    return wall, usage.ru_utime + usage.ru_stime


def print_starts(repeats: int) -> None:
    """Print the minimum times of the commands, and their ratios to the time of importing NumPy."""
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as bytecode:
        for arguments in COMMANDS.values():
            started(arguments, bytecode)
        for _ in range(repeats):
            for name, arguments in COMMANDS.items():
                samples[name].append(started(arguments, bytecode))
    least = {name: np.min(times, axis=0) for name, times in samples.items()}
    print(f"{'command':<20} {'wall s':>8} {'processor s':>12} {'wall ratio':>11} {'processor ratio':>16}")
    for name, (wall, processor) in least.items():
        ratios = least[name] / least[NUMPY]
        print(f"{name:<20} {wall:8.3f} {processor:12.3f} {ratios[0]:11.2f} {ratios[1]:16.2f}")


def print_preprocessing(repeats: int) -> None:
    """Print the minimum processor time for each sample picture."""
    spec = load_model("digits-cnn").network.input
    assert isinstance(spec, ImageInput)
    print(f"\n{'picture':<26} {'decoded, ms':>12} {'preprocessed, ms':>17}")
    for path in sorted(SAMPLES.iterdir()):
        if path.suffix.upper().strip(".").replace("JPG", "JPEG") not in FORMATS:
            continue
        times = []
        for _ in range(repeats):
            start = time.process_time()
            image = open_image(path)
            decoded = time.process_time()
            preprocess(image, spec)
            times.append((decoded - start, time.process_time() - decoded))
        decoding, preparing = 1000 * np.min(times, axis=0)
        print(f"{path.name:<26} {decoding:12.2f} {preparing:17.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10, help="number of runs; the fastest counts (default 10)")
    options = parser.parse_args()
    print_starts(options.repeats)
    print_preprocessing(options.repeats)


if __name__ == "__main__":
    main()
