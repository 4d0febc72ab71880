"""Compare the speed of the simulator for a convolution with PyTorch on the same cores.

    python benchmarks/benchmark_conv2d.py [--image 224] [--repeats 3] [--profile]

The kernel is `fused_conv2d_maxpool` with 256 input channels and 256 filters of 3x3. The figures are from the fastest of
`--repeats` runs (PyTorch in float16 runs once, because it is slow on many CPUs). The functional simulation is compared
with torch.nn.functional.conv2d in float32 and, for reference, in the same dtype.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import time
from collections.abc import Callable

import numpy as np

try:
    import torch
except ImportError:
    raise SystemExit("this benchmark needs PyTorch: pip install torch") from None
from trninfer import simulator
from trninfer.kernels import fused_conv2d_maxpool

CHANNELS, FILTERS, KERNEL_SIZE = 256, 256, 3


def best_seconds(run: Callable[[], object], repeats: int) -> float:
    """Return the seconds of the shortest of `repeats` runs, which other work on the machine affects least."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", type=int, default=224, help="height and width of the image (default 224)")
    parser.add_argument("--repeats", type=int, default=3, help="number of runs; the fastest counts (default 3)")
    parser.add_argument("--profile", action="store_true", help="profile the simulation")
    options = parser.parse_args()

    rng = np.random.default_rng(0)
    x32 = rng.random((1, CHANNELS, options.image, options.image)).astype(np.float32)
    w32 = rng.random((FILTERS, CHANNELS, KERNEL_SIZE, KERNEL_SIZE)).astype(np.float32)
    bias32 = rng.random(FILTERS).astype(np.float32)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    print(
        f"conv 1x{CHANNELS}x{options.image}x{options.image}, {FILTERS} filters {KERNEL_SIZE}x{KERNEL_SIZE}, "
        f"{len(os.sched_getaffinity(0))} cores, best of {options.repeats}"
    )

    def pytorch(dtype: torch.dtype, repeats: int) -> float:
        x, w, bias = (torch.from_numpy(a).to(dtype) for a in (x32, w32, bias32))
        with torch.inference_mode():
            return best_seconds(lambda: torch.nn.functional.conv2d(x, w, bias), repeats)

    reference = pytorch(torch.float32, options.repeats)
    print(f"{'dtype':>8} {'pytorch s':>10} {'simulated s':>12} {'ratio':>6} {'ratio to float32':>17} {'max error':>10}")
    for name in ("float32", "float16"):
        x, w, bias = (a.astype(name) for a in (x32, w32, bias32))
        torch_seconds = reference if name == "float32" else pytorch(torch.float16, 1)  # slow on most CPUs
        outputs: list[np.ndarray] = []
        seconds = best_seconds(
            lambda x=x, w=w, bias=bias, outputs=outputs: outputs.append(  # type: ignore[misc]
                simulator.run(fused_conv2d_maxpool, x, w, bias, pure=True).outputs[0]
            ),
            options.repeats,
        )
        exact = [torch.from_numpy(a.astype(np.float32)) for a in (x, w, bias)]
        expected = torch.nn.functional.conv2d(exact[0], exact[1], exact[2]).numpy()
        error = float(np.max(np.abs(outputs[-1].astype(np.float32) - expected)) / np.max(np.abs(expected)))
        print(
            f"{name:>8} {torch_seconds:10.3f} {seconds:12.3f} {seconds / torch_seconds:6.2f} "
            f"{seconds / reference:17.2f} {error:10.1e}"
        )
        if options.profile:
            with cProfile.Profile() as profile:
                simulator.run(fused_conv2d_maxpool, x, w, bias, pure=True)
            pstats.Stats(profile).sort_stats("tottime").print_stats(15)


if __name__ == "__main__":
    main()
