"""Compare the speed of the simulator for the kernels with NumPy and PyTorch on the same cores.

    python benchmarks/benchmark_kernels.py [--repeats 3] [--threads 1] [--only matmul]

Every kernel is covered except the convolution, which has a separate benchmark. Times are from the fastest of
`--repeats` runs, in float32. Ratios are the simulation time divided by the time of the library. `--threads` applies to
PyTorch; NumPy reads OMP_NUM_THREADS.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

try:
    import torch
except ImportError:
    raise SystemExit("this benchmark needs PyTorch: pip install torch") from None
from numpy.typing import NDArray
from trninfer import kernels, simulator

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Case:
    """A kernel at a shape, and the same computation in NumPy and in PyTorch (which receives the arrays as tensors)."""

    name: str
    kernel: Any
    arrays: tuple[Array, ...]
    in_numpy: Callable[..., Any]
    in_torch: Callable[..., Any]
    parameters: dict[str, Any] = field(default_factory=dict)


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)

    def normal(*shape: int) -> Array:
        return random.standard_normal(shape, dtype=np.float32)

    vectors = (normal(256_000), normal(256_000))
    for kernel in (kernels.vector_add_tiled, kernels.vector_add_stream, kernels.vector_add_direct_allocation):
        yield Case(f"{kernel.__name__} 256000", kernel, vectors, np.add, torch.add)
    yield Case(
        "transpose 2048x2048",
        kernels.transpose,
        (normal(2048, 2048),),
        lambda a: np.ascontiguousarray(a.T),
        lambda a: a.T.contiguous(),
    )
    operands = (normal(1024, 1024), normal(1024, 2048))
    for kernel in (
        kernels.matmul_tiled,
        kernels.matmul_hoist_load,
        kernels.matmul_block_free_dimension,
        kernels.matmul_fully_optimized,
    ):
        yield Case(f"{kernel.__name__} 1024x1024x2048", kernel, operands, _matmul, _matmul)
    rows = (normal(2048, 2048), normal(1, 2048))
    yield Case(
        "bias_activation relu 2048x2048",
        kernels.bias_activation,
        rows,
        lambda a, bias: np.maximum(a + bias, 0),
        lambda a, bias: torch.relu(a + bias),
        {"activation": "relu"},
    )
    yield Case(
        "bias_activation softmax 2048x2048",
        kernels.bias_activation,
        rows,
        _softmax,
        lambda a, bias: torch.softmax(a + bias, 1),
        {"activation": "softmax"},
    )
    yield Case(
        "argmax 2048x2048",
        kernels.argmax,
        (normal(2048, 2048),),
        lambda a: a.argmax(axis=1),
        lambda a: a.argmax(dim=1),
    )
    network = (
        normal(1024, 1024),
        normal(1024, 2048) / np.float32(32),
        normal(1, 2048),
        normal(2048, 512) / np.float32(45),
        normal(1, 512),
    )
    yield Case(
        "ffnn_forward 1024-1024-2048-512",
        kernels.ffnn_forward,
        network,
        lambda x, w1, b1, w2, b2: _softmax(np.maximum(x @ w1 + b1, 0) @ w2, b2),
        lambda x, w1, b1, w2, b2: torch.softmax(torch.relu(x @ w1 + b1) @ w2 + b2, 1),
    )


def _matmul(lhsT: Any, rhs: Any) -> Any:
    return lhsT.T @ rhs


def _softmax(a: Array, bias: Array) -> Array:
    total = a + bias
    exponentials = np.exp(total - total.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True), np.float32)


def best_of(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the shortest of `repeats` runs in milliseconds, and its result."""
    best, result = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        result = run()
        best = min(best, (time.perf_counter() - start) * 1e3)
    return best, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="number of runs; the fastest counts (default 3)")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch (default 1)")
    parser.add_argument("--only", default="", help="only kernels whose names contain this text")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    print(f"float32, best of {options.repeats}, times in ms; PyTorch with {options.threads} thread(s)")
    heads = f"{'numpy':>8} {'pytorch':>8} {'simulated':>9} {'/numpy':>7} {'/pytorch':>8} {'error':>8}"
    print(f"{'kernel and shape':<44} {heads}")
    for case in cases():
        if options.only not in case.name:
            continue
        tensors = [torch.from_numpy(array) for array in case.arrays]
        in_numpy, expected = best_of(partial(case.in_numpy, *case.arrays), options.repeats)
        in_torch, _ = best_of(partial(case.in_torch, *tensors), options.repeats)
        simulated, run = best_of(
            partial(simulator.run, case.kernel, *case.arrays, pure=True, **case.parameters), options.repeats
        )
        error = float(np.max(np.abs(run.outputs[0].astype(np.float64) - expected)))
        print(
            f"{case.name:<44} {in_numpy:8.2f} {in_torch:8.2f} {simulated:9.2f} {simulated / in_numpy:7.1f} "
            f"{simulated / in_torch:8.1f} {error:8.1e}"
        )


if __name__ == "__main__":
    main()
