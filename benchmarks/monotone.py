"""Count predictions that violate monotonicity, over random kernels and shapes.

    python benchmarks/monotone.py [--count 100] [--seed 0]

The script counts the violations of four rules: bfloat16 is not slower than float32; an additional row or column does
not make a kernel faster, and makes it slower by at most the added work. More work is never faster. Doubling the speed
of a resource makes nothing slower. Every violation is printed.
"""

from __future__ import annotations

import argparse
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from trninfer import simulator
from trninfer.benchmarks.kernels.random_chain import STEPS, random_chain
from trninfer.simulator import TensorSpec
from trninfer.simulator.timing.constants import machine
from trninfer.simulator.timing.critical_path import RESOURCES

TARGET = "trn2"
SLOWER_IN_BFLOAT16 = 0.05
FASTER_WITH_MORE = 0.05  # maximum speedup from an additional row or column
SLOWER_WITH_MORE = 0.10  # maximum slowdown beyond the cost of the additional work
FASTER_WITH_MORE_WORK = 0.001  # rounding
SLOWER_WITH_TWICE = 0.02
SIZES = (1, 3, 127, 128, 129, 256, 511, 512, 513, 1024)  # sizes around the boundaries of tiles, PSUM banks and packets
BANDWIDTH = ("dma_peak", "dma_sustained", "hbm_stack_rate")


@dataclass(frozen=True)
class Kernel:
    """The arguments of `random_chain`."""

    rows: int
    columns: int
    steps: tuple[str, ...]
    dtype: str = "float32"
    turned: bool = False
    together: int = 1
    buffers: int = 0
    maker: str = "unknown"

    def run(self, constants: Mapping[str, float] | None = None) -> simulator.Run:
        """Time the kernel. If `constants` are given, they override the constants of the timing model."""
        shape = (self.columns, self.rows) if self.turned else (self.rows, self.columns)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return simulator.run(
                random_chain,
                TensorSpec(shape, self.dtype),
                TensorSpec((128, 128), self.dtype),
                target=TARGET,
                constants=constants,
                functional=False,
                pure=True,
                steps=self.steps,
                turned=self.turned,
                together=self.together,
                buffers=self.buffers,
                maker=self.maker,
            )

    def time(self) -> float:
        """Return the predicted microseconds, excluding the launch."""
        run = self.run()
        return run.latency_us - run.launch_us


class Violation(NamedTuple):
    kernel: Kernel
    what: str
    before_us: float
    after_us: float


def draw(rng: random.Random) -> Kernel:
    """Draw a random kernel of one to twelve tiles."""
    columns = rng.choice([rng.randint(1, 40), rng.randint(100, 600), rng.choice(SIZES)])
    turned = rng.random() < 0.15
    return Kernel(
        rows=rng.choice([128 * rng.randint(1, 12), rng.randint(2, 900), rng.choice(SIZES)]),
        columns=min(columns, 128) if turned else columns,
        steps=tuple(rng.choice(STEPS) for _ in range(rng.randint(0, 6))),
        dtype=rng.choice(["float32", "bfloat16"]),
        turned=turned,
        together=rng.choice([1, 1, 2, 4]),
        buffers=rng.choice([0, 0, 4]) if rng.random() < 0.5 else 0,
        maker=rng.choice(["unknown", "unknown", "hwdge", "swdge", "none"]),
    )


def slower_in_bfloat16(kernel: Kernel) -> Iterator[Violation]:
    wide, narrow = (replace(kernel, dtype=dtype).time() for dtype in ("float32", "bfloat16"))
    if narrow > wide * (1 + SLOWER_IN_BFLOAT16):
        yield Violation(kernel, "bfloat16 for float32", wide, narrow)


def wrong_with_one_more(kernel: Kernel) -> Iterator[Violation]:
    before = kernel.time()
    alone = replace(kernel, together=1)
    for addition, larger, adds in (
        ("a column", replace(kernel, columns=kernel.columns + 1), replace(alone, columns=1)),
        ("a row", replace(kernel, rows=kernel.rows + 1), replace(alone, rows=1)),
    ):
        after, added = larger.time(), adds.time()
        if after < before * (1 - FASTER_WITH_MORE) or after > before * (1 + SLOWER_WITH_MORE) + added:
            yield Violation(kernel, f"{addition} more", before, after)


def faster_with_more_work(kernel: Kernel) -> Iterator[Violation]:
    before = kernel.time()
    longer = replace(kernel, steps=(*kernel.steps, "add"))
    more = replace(kernel, rows=kernel.rows + 128)
    for addition, larger in (("a step", longer), ("a tile", more)):
        after = larger.time()
        if after < before * (1 - FASTER_WITH_MORE_WORK):
            yield Violation(kernel, f"{addition} more", before, after)


def slower_with_twice(kernel: Kernel) -> Iterator[Violation]:
    run = kernel.run()
    before = run.latency_us
    for resource in RESOURCES:
        after = run.what_if(resource)
        if after > before * (1 + SLOWER_WITH_TWICE):
            yield Violation(kernel, f"{resource} twice as fast", before, after)
    rates = machine(TARGET)
    after = kernel.run({name: 2 * getattr(rates, name) for name in BANDWIDTH}).latency_us
    if after > before * (1 + SLOWER_WITH_TWICE):
        yield Violation(kernel, "a machine with twice the bandwidth", before, after)


RULES: Mapping[str, Callable[[Kernel], Iterator[Violation]]] = {
    "bfloat16 is slower than float32 by more than 5 %": slower_in_bfloat16,
    "one more row or column makes it 5 % faster, or slower by more than 10 % and its own time": wrong_with_one_more,
    "more work makes it faster": faster_with_more_work,
    "a resource twice as fast makes it slower by more than 2 %": slower_with_twice,
}


def violations(count: int, seed: int) -> dict[str, list[Violation]]:
    """Return the violations of each rule over `count` random kernels."""
    rng = random.Random(seed)
    kernels = [draw(rng) for _ in range(count)]
    return {rule: [violation for kernel in kernels for violation in check(kernel)] for rule, check in RULES.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="number of random kernels (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default: 0)")
    options = parser.parse_args()
    for rule, kernels in violations(options.count, options.seed).items():
        print(f"{len({violation.kernel for violation in kernels}):4} of {options.count} kernels: {rule}")
        for violation in kernels:
            print(
                f"       {violation.what}: {violation.before_us:.1f} -> {violation.after_us:.1f} us, {violation.kernel}"
            )


if __name__ == "__main__":
    main()
