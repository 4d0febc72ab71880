"""Rank the variants of a kernel by predicted time, to find the fastest.

    found = simulator.rank({"v1": softmax, "v3": (softmax, {"tile": 512})}, TensorSpec((4096, 512), "float32"))
    print(found)                              # a table, with the fastest variant first
    found.best.latency_us
    found.difference("v3", "v1").text         # "-4.0 %, not distinguishable"

Variants run in parallel. Without a reference, they run in shape-only mode; otherwise, values are computed and compared
with the reference.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..machine.chip import find_target
from ..machine.errors import NkiValidationError
from ..running.launch import launch_key, run
from ..timing.expected_error import DIFFERENCES
from .parallel import each

MOST_REMEMBERED = 10_000  # maximum number of cached variants
_known: OrderedDict[Any, Ranked] = OrderedDict()  # cache of variants that ran in shape-only mode


@dataclass(frozen=True)
class Ranked:
    """A variant, with its predicted time, peak memory per partition, and error.

    `problem` is the reason why the variant is unusable (an error reported by the simulator, an exception raised by the
    kernel, or a difference from the reference), or "" if it is usable. `error` is the largest difference from the
    reference relative to the largest reference value, or None without a comparison. Unknown fields are None.
    """

    name: str
    problem: str = ""
    latency_us: float | None = None
    sbuf_bytes: int | None = None
    psum_banks: int | None = None
    instructions: int | None = None
    bound_by: str | None = None
    error: float | None = None


@dataclass(frozen=True)
class Difference:
    """The relative difference between the times of two variants, and its uncertainty (None for a target without
    measurements)."""

    share: float
    uncertainty: float | None

    @property
    def is_distinguishable(self) -> bool:
        """Return True if the difference exceeds its uncertainty, within which two out of three such differences lie."""
        return self.uncertainty is not None and max(self.share, 1 / (1 + self.share) - 1) > self.uncertainty

    @property
    def text(self) -> str:
        """Return a description such as "-4.0 %, not distinguishable"."""
        if self.share == 0:
            return "the same"
        if self.uncertainty is None:
            return f"{self.share:+.1%}, of unknown uncertainty".replace("%", " %")
        return f"{self.share:+.1%}".replace("%", " %") + ("" if self.is_distinguishable else ", not distinguishable")


class Ranking(Sequence[Ranked]):
    """A sequence of variants, sorted from fastest to slowest, with unusable variants at the end."""

    def __init__(self, variants: Iterable[Ranked], target: str) -> None:
        order = sorted(variants, key=lambda each: (bool(each.problem), each.latency_us or 0.0))
        self._variants = order
        self.target = target

    def __getitem__(self, index: Any) -> Any:
        return self._variants[index]

    def __len__(self) -> int:
        return len(self._variants)

    def __iter__(self) -> Iterator[Ranked]:
        return iter(self._variants)

    @property
    def best(self) -> Ranked | None:
        """Return the fastest usable variant, or None."""
        return next((variant for variant in self if not variant.problem), None)

    def difference(self, name: str, other: str) -> Difference:
        """Return the relative difference between the times of the variants `name` and `other`.

        Raises KeyError if either variant is unknown or has no predicted time.
        """
        times = {variant.name: variant.latency_us for variant in self if variant.latency_us is not None}
        return Difference(times[name] / times[other] - 1, DIFFERENCES.get(self.target))

    def __str__(self) -> str:
        best = self.best
        against = best.name if best is not None else ""
        rows = [
            ("variant", f"us predicted ({self.target})", f"against {against or 'the best'}", "SBUF KiB", "PSUM", "")
        ]
        for variant in self:
            is_compared = variant.latency_us is not None and best is not None and variant is not best
            compared = self.difference(variant.name, against).text if is_compared else ""
            note = variant.problem or _shown("off by {:.1e}", variant.error)
            sbuf_kib = None if variant.sbuf_bytes is None else variant.sbuf_bytes / 1024
            figures = _shown("{:.1f}", sbuf_kib), _shown("{}", variant.psum_banks)
            rows.append((variant.name, _shown("{:.2f}", variant.latency_us), compared, *figures, note))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


Variants = Mapping[str, Any] | Iterable[Callable[..., Any]]


def rank(
    variants: Variants,
    *arrays: Any,
    reference: Any = None,
    tolerance: float = 1e-3,
    target: str = "trn2",
    processes: int | None = None,
) -> Ranking:
    """Rank variants of a kernel by predicted time, in parallel on `processes` processor cores (default: all cores).

    `variants` maps names to kernels or to pairs (kernel, {parameter: value}), or is a sequence of kernels, which are
    identified by their function names. `arrays` are the arguments of all variants; without a reference, they can be
    TensorSpecs. `reference` is the expected output, as an array or a tuple of arrays, or a function that computes it
    from the arrays. The error of a variant must not exceed `tolerance` relative to the largest reference value. For
    `target`, see `simulator.run`.

    Raises:
        NkiValidationError: there are no variants, two variants have the same name, or the target is not simulated.
    """
    pairs = _named(variants)
    target_name = find_target(target).name
    expected = reference(*arrays) if callable(reference) else reference
    keys = [
        None if expected is not None else _key(kernel, arrays, target_name, options) for _, kernel, options in pairs
    ]
    missing = [index for index, key in enumerate(keys) if key is None or key not in _known]

    def work(at: int) -> Ranked:
        return _try(pairs[missing[at]], arrays, target_name, expected, tolerance)

    def lost(at: int) -> Ranked:
        return Ranked(pairs[missing[at]][0], "the process that ran it, or another worker process, was killed")

    computed = dict(zip(missing, each(len(missing), work, lost, processes)))
    ranked = []
    for index, key in enumerate(keys):
        timing = computed[index] if index in computed else _known[key]
        if key is not None and timing.latency_us is not None:
            _known[key] = timing
        ranked.append(Ranked(**{**vars(timing), "name": pairs[index][0]}))
    while len(_known) > MOST_REMEMBERED:
        _known.popitem(last=False)
    return Ranking(ranked, target_name)


def _named(variants: Variants) -> list[tuple[str, Any, dict[str, Any]]]:
    """Return (name, kernel, parameters) of each variant."""
    pairs: Any = variants.items() if isinstance(variants, Mapping) else [(_name(kernel), kernel) for kernel in variants]
    variants_by_name = [(str(name), *(value if isinstance(value, tuple) else (value, {}))) for name, value in pairs]
    names = [pair[0] for pair in variants_by_name]
    twice = {name for name in names if names.count(name) > 1}
    if not variants_by_name or twice:
        problem = (
            f"two variants have the name {min(twice)!r}: give them as {{name: kernel}}" if twice else "no variants"
        )
        raise NkiValidationError(f"rank: {problem}")
    return variants_by_name


def _name(kernel: Any) -> str:
    return getattr(kernel, "__name__", "kernel")


def _key(kernel: Any, arrays: tuple[Any, ...], target: str, options: dict[str, Any]) -> Any:
    return launch_key(kernel, arrays, find_target(target), True, options)


def _try(
    variant: tuple[str, Any, dict[str, Any]], arrays: tuple[Any, ...], target: str, wanted: Any, tolerance: float
) -> Ranked:
    """Run a variant (name, kernel, parameters). If it raises an exception, the result states the problem."""
    name, kernel, options = variant
    try:
        launch = run(kernel, *arrays, target=target, functional=wanted is not None, **options)
    except Exception as error:
        kind = "" if isinstance(error, NkiValidationError) else f"{type(error).__name__}: "
        return Ranked(name, kind + (str(error) or "no message").splitlines()[0])
    off, problem = _compared(launch.outputs, wanted, tolerance) if wanted is not None else (None, "")
    return Ranked(
        name=name,
        problem=problem,
        latency_us=launch.latency_us,
        sbuf_bytes=launch.memory.sbuf_bytes,
        psum_banks=launch.memory.psum_banks,
        instructions=len(launch.program),
        bound_by=launch.bound_by,
        error=off,
    )


def _compared(outputs: Sequence[Any], wanted: Any, tolerance: float) -> tuple[float | None, str]:
    """Return the largest error of the outputs, and a description of the problem if the outputs are wrong."""
    references = [np.asarray(array) for array in (wanted if isinstance(wanted, (tuple, list)) else (wanted,))]
    if len(outputs) != len(references):
        return None, f"{len(outputs)} outputs, but {len(references)} in the reference"
    worst = 0.0
    for output, reference in zip(outputs, references):
        if output.shape != reference.shape:
            return None, f"an output of shape {output.shape}, but {reference.shape} in the reference"
        exact, actual = reference.astype(np.float64), output.astype(np.float64)
        finite = np.isfinite(exact)
        if not np.array_equal(actual[~finite], exact[~finite], equal_nan=True) or not np.isfinite(actual[finite]).all():
            return None, "NaN or infinities that the reference does not contain, or vice versa"
        largest = float(np.abs(exact[finite]).max(initial=0.0))
        difference = float(np.abs(actual[finite] - exact[finite]).max(initial=0.0))
        worst = max(worst, difference / largest if largest else (0.0 if difference == 0 else np.inf))
    return (
        worst,
        "" if worst <= tolerance else f"differs from the reference by {worst:.1e}; the tolerance is {tolerance:g}",
    )


def _shown(form: str, value: float | None) -> str:
    """Format a figure, or return "" if there is none."""
    return "" if value is None else form.format(value)
