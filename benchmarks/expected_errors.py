"""Compute the expected errors of predictions from rows whose family was excluded from the fits.

    python benchmarks/latency_accuracy.py --sources DIR --save
    python benchmarks/expected_errors.py

The first command saves the errors in data/left-out.csv. The second command prints the contents of
simulator/timing/expected_error.py. For each target and kind of bound, the error is the smallest whole percentage that
contains two thirds of the rows of each repository. For other kernels, it is the percentage that contains two thirds of
the families, each represented by its worst row. This percentage is also the minimum for kinds with fewer than FEWEST
rows, either in total or if one repository is excluded. A target with fewer than FEW_FAMILIES families is assigned
errors at least as large as those of the least certain target.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from trninfer.benchmarks.measurements import family, load_all_kernel_rows, repository
from trninfer.benchmarks.predictions import PredictedRow
from trninfer.simulator.timing.expected_error import KINDS, REST

FILE = Path(__file__).resolve().parent / "data" / "left-out.csv"
FEWEST = 5
FEW_FAMILIES = 3
INSIDE = 2 / 3


class Record(NamedTuple):
    """A predicted row, and its percentage error if its family is excluded from the fits."""

    id: str
    device: str
    kind: str
    predicted_us: float
    error: float


def records_of(predictions: Sequence[PredictedRow], errors: Sequence[float]) -> list[Record]:
    """Return the records of predictions and their errors."""
    return [Record(p.row.id, p.row.device, p.kind, p.predicted_us, error) for p, error in zip(predictions, errors)]


def save(records: Sequence[Record]) -> None:
    with FILE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Record._fields)
        writer.writerows((*r[:3], f"{r.predicted_us:.6g}", f"{r.error:.2f}") for r in records)


def load() -> list[Record]:
    with FILE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [Record(r["id"], r["device"], r["kind"], float(r["predicted_us"]), float(r["error"])) for r in rows]


def expected_errors(records: Sequence[Record]) -> dict[str, dict[str, float]]:
    """Return the errors in whole percent, keyed by target and then by kind or REST."""
    devices = sorted({record.device for record in records})
    worst = {device: _worst_of_families([r for r in records if r.device == device]) for device in devices}
    rests = {device: _share(rows) for device, rows in worst.items()}
    least_sure = max(rests.values(), default=0.0)
    rests = {device: rest if len(worst[device]) >= FEW_FAMILIES else least_sure for device, rest in rests.items()}
    errors: dict[str, dict[str, float]] = {}
    for device in devices:
        errors[device] = {}
        for kind in KINDS:
            members = [record for record in records if record.device == device and record.kind == kind]
            if members:
                errors[device][kind] = _whoever_measured(members, rests[device])
        errors[device][REST] = rests[device]
    return errors


def differences(records: Sequence[Record]) -> dict[str, float]:
    """For each target, return the relative error of ratios between two kernels of one family.

    Targets with few families are omitted.
    """
    families = {row.id: family(row) for row in load_all_kernel_rows()}
    limits: dict[str, float] = {}
    for device in sorted({record.device for record in records}):
        ratios: dict[tuple[str, str, str], list[float]] = {}
        for first, second in itertools.combinations([r for r in records if r.device == device], 2):
            if families[first.id] == families[second.id]:
                ratio = (1 + first.error / 100) / (1 + second.error / 100)
                ratios.setdefault(families[first.id], []).append(max(ratio, 1 / ratio) - 1)
        if len(ratios) >= FEWEST:
            counted = [
                [e for other, errors in ratios.items() if other != one for e in errors] for one in (None, *ratios)
            ]
            limits[device] = max(_two_thirds(errors) for errors in counted)
    return limits


def _two_thirds(errors: Sequence[float]) -> float:
    return math.ceil(100 * sorted(errors)[math.ceil(INSIDE * len(errors)) - 1]) / 100


def _share(records: Sequence[Record]) -> float:
    """Return the smallest whole percentage that contains two thirds of the rows."""
    errors = sorted(abs(record.error) for record in records)
    return math.ceil(errors[math.ceil(INSIDE * len(errors)) - 1]) / 100


def _worst_of_families(records: Sequence[Record]) -> list[Record]:
    """Return the row with the largest error in each family."""
    families = {row.id: family(row) for row in load_all_kernel_rows()}
    worst: dict[tuple[str, str, str], Record] = {}
    for record in sorted(records, key=lambda record: abs(record.error)):
        worst[families[record.id]] = record
    return list(worst.values())


def _whoever_measured(records: Sequence[Record], rest: float) -> float:
    """Return the error of a kind that contains two thirds of the rows of each repository, so that it applies to a new
    repository too. It is at least `rest` if too few rows remain when one repository is excluded."""
    authors: dict[str, list[Record]] = {}
    repositories = {row.id: repository(row) for row in load_all_kernel_rows()}
    for record in records:
        authors.setdefault(repositories[record.id], []).append(record)
    few = any(len(records) - len(rows) < FEWEST for rows in authors.values())
    return max([*map(_next_share, authors.values()), *([rest] if few else [])])


def _next_share(records: Sequence[Record]) -> float:
    """Return the smallest whole percentage that contains another row of the same kind with probability two thirds."""
    errors = sorted(abs(record.error) for record in records)
    return math.ceil(errors[min(len(errors), math.ceil(INSIDE * (len(errors) + 1))) - 1]) / 100


def inside(record: Record, errors: dict[str, dict[str, float]]) -> bool:
    of_target = errors[record.device]
    return abs(record.error) <= 100 * of_target.get(record.kind, of_target[REST])


def coverage_by_kind(records: Sequence[Record]) -> dict[str, tuple[int, int]]:
    """Return, for each kind of a target ("trn2 tensor"), the number of rows that are within the error derived from all
    other repositories, and the total number of rows."""
    counts: dict[str, tuple[int, int]] = {}
    for record, is_inside in zip(records, _unseen(records)):
        within, count = counts.get(f"{record.device} {record.kind}", (0, 0))
        counts[f"{record.device} {record.kind}"] = within + is_inside, count + 1
    return counts


def coverage(records: Sequence[Record]) -> tuple[int, int]:
    """Return the number of rows that are within their expected error, and the number that are within the error derived
    from all other repositories."""
    everything = expected_errors(records)
    return sum(inside(record, everything) for record in records), sum(_unseen(records))


def _unseen(records: Sequence[Record]) -> list[bool]:
    """Return, for each row, whether it is within the error derived from all other repositories."""
    repositories = {row.id: repository(row) for row in load_all_kernel_rows()}
    without = {
        one: expected_errors([r for r in records if repositories[r.id] != one]) for one in set(repositories.values())
    }
    rows = []
    for record in records:
        errors = without[repositories[record.id]]
        # If a target has no measurements from other repositories, the errors of the least certain target are used.
        least_sure = {REST: max((by_kind[REST] for by_kind in errors.values()), default=0.0)}
        rows.append(inside(record, {record.device: errors.get(record.device, least_sure)}))
    return rows


def coverage_line(records: Sequence[Record]) -> str:
    known, unseen = coverage(records)
    return (
        f"kernels within the expected error with their family left out: {known} of {len(records)}; "
        f"{unseen} with the whole repository left out of the expectation"
    )


def main() -> None:
    records = load()
    for device, errors in expected_errors(records).items():
        print(f'    "{device}": {{' + ", ".join(f'"{kind}": {share}' for kind, share in errors.items()) + "},")
    print(f"DIFFERENCES = {differences(records)}")
    for kind, (within, count) in sorted(coverage_by_kind(records).items()):
        print(f"{kind}: {within} of {count} rows within the error derived from other repositories")
    print(coverage_line(records))


if __name__ == "__main__":
    main()
