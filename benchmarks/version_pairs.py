"""Compare predicted and measured ratios between versions of one kernel, to see whether the model can choose between
them.

The versions of a kernel are rows by one author, measured on one chip with the same method, shapes and dtype. `CHANGES`
contains pairs of versions that differ in one respect, grouped by the kind of difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import mean
from typing import NamedTuple

from trninfer.benchmarks.error_statistics import percentage_error, summarize
from trninfer.benchmarks.measurements import family, kernel_name
from trninfer.benchmarks.predictions import PredictedRow

FEWEST = 3  # minimum number of versions to rank
NOTICEABLE = 0.03  # smallest relevant difference of two measured times; runs of one version differ by 1 to 3 %

# A first version, which takes thirty times as long as the tuned ones. It is excluded because any order of the tuned
# versions would look good next to it.
FIRST = ("o01",)

CHANGES: Mapping[str, Mapping[tuple[str, str], str]] = {
    "fewer, larger DMAs": {
        ("k02", "k03"): "one load of two columns replaces two loads",
        ("k03", "k04"): "a load has 200 columns instead of two",
        ("k12", "k13"): "one load of two columns replaces two loads",
        ("k13", "k16"): "a load has 40 columns instead of two",
        ("k34", "k35"): "one operand is loaded once per row of tiles",
        ("o02", "o03"): "one DMA loads the gate and up rows",
        ("o02", "o04"): "one DMA loads four tiles of the down projection",
        ("o03", "o06"): "one DMA loads four tiles of the down projection",
        ("o06", "o09"): "the down projection is loaded in whole rows",
        ("o08", "o06"): "the gate and up rows are the stationary operand",
    },
    "smaller DMAs that overlap": {
        ("k20", "k21"): "a load has 1,000 columns instead of 2,000",
        ("k22", "k23"): "a load has 1,000 columns instead of 2,000",
        ("k05", "k06"): "a load has 1,000 columns instead of 2,000",
    },
    "another method of descriptor generation": {
        ("o20", "o21"): "hardware generates the descriptors of all DMAs",
        ("o38", "o39"): "hardware generates the descriptors for the scales",
        ("o39", "o40"): "hardware also generates the descriptors for the weights",
    },
    "a DMA instead of compute engines": {
        ("o21", "o22"): "DMAs transpose the cached keys",
        ("o21", "o23"): "DMAs broadcast by reading an element several times",
        ("o31", "o32"): "DMAs perform two transposes of the token",
    },
    "another order or other buffers": {
        ("o27", "o30"): "PSUM is zeroed after the loads",
        ("o29", "o28"): "the kernel has two buffers instead of four",
        ("o36", "o37"): "all padding is done before the first expert",
        ("o12", "o13"): "the keys are transposed once",
        ("o31", "o33"): "eight experts are loaded at once",
    },
    "fused phases": {
        ("p01", "p05"): "512 keys, bfloat16",
        ("p02", "p06"): "1,024 keys, bfloat16",
        ("p03", "p07"): "512 keys, float32",
        ("p04", "p08"): "1,024 keys, float32",
    },
    "fewer instructions": {
        ("o34", "o35"): "two scales are combined",
        ("o35", "o36"): "one instruction scales all columns",
        ("o14", "o16"): "softmax is computed over whole rows",
        ("o26", "o24"): "the masks are omitted",
        ("o25", "o26"): "the computation takes two passes instead of one",
    },
}


class Ranked(NamedTuple):
    """The versions of one kernel: their number, the mean error (in percent) of their times and of the ratios between
    any two of them, and Spearman's rank correlation."""

    name: str
    rows: int
    error: float
    ratio_error: float
    rank_correlation: float


class VersionChange(NamedTuple):
    """A change between two versions: the measured and the predicted change of the time, in percent."""

    kind: str
    before: str
    after: str
    what: str
    measured: float
    predicted: float

    @property
    def noticeable(self) -> bool:
        """True if the measured times differ by more than the spread between runs."""
        return abs(self.measured) >= 100 * NOTICEABLE

    @property
    def right(self) -> bool:
        """True if the predicted change has the sign of the measured one, or if both are too small to be noticeable."""
        if not self.noticeable:
            return abs(self.predicted) < 100 * NOTICEABLE
        return self.measured * self.predicted > 0


def ranked_families(predictions: Sequence[PredictedRow]) -> list[Ranked]:
    """Return every kernel with at least three versions."""
    groups: dict[tuple[str, ...], list[PredictedRow]] = {}
    for prediction in predictions:
        row = prediction.row
        if row.id in FIRST:
            continue
        key = (*family(row), row.shapes, row.dtype, row.metric.split()[0])
        groups.setdefault(key, []).append(prediction)
    families = []
    for members in groups.values():
        if len(members) >= FEWEST:
            row = members[0].row
            name = f"{kernel_name(row)}, {row.device} ({row.id} to {members[-1].row.id})"
            summary = summarize([p.predicted_us for p in members], [p.row.latency_us for p in members])
            ratios = mean(ratio_errors(members))
            families.append(Ranked(name, len(members), summary.mean, ratios, summary.rank_correlation))
    return families


def ratio_errors(members: Sequence[PredictedRow]) -> Iterator[float]:
    """Yield, for any two versions, the error of the predicted ratio of their times (slower to faster), in percent of
    the measured ratio."""
    for one, other in combinations(members, 2):
        fast, slow = sorted((one, other), key=lambda p: p.row.latency_us)
        measured = slow.row.latency_us / fast.row.latency_us
        yield abs(percentage_error(slow.predicted_us / fast.predicted_us, measured))


def changes(predictions: Sequence[PredictedRow]) -> list[VersionChange]:
    """Return the pairs of `CHANGES` for which both rows were predicted."""
    rows = {prediction.row.id: prediction for prediction in predictions}
    return [
        VersionChange(
            kind,
            before,
            after,
            description,
            percentage_error(rows[after].row.latency_us, rows[before].row.latency_us),
            percentage_error(rows[after].predicted_us, rows[before].predicted_us),
        )
        for kind, pairs in CHANGES.items()
        for (before, after), description in pairs.items()
        if before in rows and after in rows
    ]


def families_table(predictions: Sequence[PredictedRow]) -> tuple[Sequence[str], list[Sequence[str]]]:
    header = ("versions of one kernel", "number", "mean error %", "mean error of ratios %", "rank correlation")
    return header, [
        (f.name, str(f.rows), f"{f.error:.1f}", f"{f.ratio_error:.1f}", f"{f.rank_correlation:.2f}")
        for f in ranked_families(predictions)
    ]


def changes_table(predictions: Sequence[PredictedRow]) -> tuple[Sequence[str], list[Sequence[str]]]:
    header = ("kind of change", "from", "to", "what changed", "measured", "predicted", "order predicted correctly")
    return header, [
        (
            c.kind,
            c.before,
            c.after,
            c.what,
            f"{c.measured:+.1f} %",
            f"{c.predicted:+.1f} %",
            "yes" if c.right else "no",
        )
        for c in changes(predictions)
    ]
