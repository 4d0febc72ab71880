"""Published benchmark suites, and trninfer's own kernels timed on the same problems.

`suites.csv` contains the cases: the exercises of public courses (Stanford CS149, Berkeley CS152) and AWS's matrix
multiplication tutorial. Each has a published time of some kind: a threshold to pass, a student's result, or the fastest
published result. The kernels of `trninfer.kernels` are timed on the simulator. If a folder of checkouts is given, the
published kernels are timed instead, if their source is known (published.csv).
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ...models.errors import TrninferError
from ...simulator import TensorSpec, run
from .kernel_cases import kernel_case
from .published import find_published, predict_published

OURS = "trninfer's"
THEIRS = "published"


class UnknownSuite(TrninferError, ValueError):  # noqa: N818 (the name is descriptive)
    """No published suite has this name."""


@dataclass(frozen=True)
class SuiteCase:
    """A case of a suite: a kernel, its parameters and the published time.

    `parameters` are as in the file, with numbers as int ("n", "free", "batch", ...). `published_us` is None if no time
    was published.
    """

    suite: str
    name: str
    kernel: str
    parameters: dict[str, int | str]
    dtype: str
    target: str
    metric: str
    published_us: float | None
    published_kind: str
    note: str

    @property
    def profiled(self) -> bool:
        """True if the published time is the total of a profile that was captured with descriptor generation (DGE)
        off."""
        return self.metric.startswith("profile")


@dataclass(frozen=True)
class SuiteRow:
    """A case with the predicted time of a kernel.

    `ratio` is the predicted time divided by the published time. It is None if no time was published, or if the
    published time belongs to a program other than the predicted one.
    """

    name: str
    predicted_us: float
    published_us: float | None
    published_kind: str
    ratio: float | None
    metric: str  # the kind of the published and of the predicted time, such as "benchmark p99" or "profile total"
    kernel: str = OURS  # the kernel that was predicted, OURS or THEIRS
    source: str = ""  # location of the published kernel, "" if it was not published
    note: str = ""


def suite_names() -> tuple[str, ...]:
    """Return the suites in the order of the file."""
    return tuple(dict.fromkeys(case.suite for case in _cases()))


def load_suite(name: str) -> list[SuiteCase]:
    """Return the cases of a suite. Raises UnknownSuite, whose message lists the suites, for any other name."""
    cases = [case for case in _cases() if case.suite == name]
    if not cases:
        raise UnknownSuite(f"unknown suite {name!r}; allowed: {', '.join(suite_names())}")
    return cases


def predict_case(case: SuiteCase) -> float:
    """Return the predicted microseconds of trninfer's kernel for a case.

    If the published time is the total of a profile, so is the prediction.
    """
    kernel, arguments, parameters = _launch(case)
    launch = run(
        kernel,
        *arguments,
        target=case.target,
        dge=not case.profiled,
        profiled=case.profiled,
        functional=False,
        **parameters,
    )
    return float(launch.latency_us)


def run_suite(
    name: str, progress: Callable[[int, int, str], None] | None = None, sources: Path | None = None
) -> Iterator[SuiteRow]:
    """Time every case of a suite in order. Raises UnknownSuite before anything runs.

    `progress` is called before each case with the number of finished cases, the number of cases, and the case's name.
    If `sources`, a folder of checkouts, is given, the published kernels are predicted from their source. A missing
    source raises SourceError.
    """
    return _rows(load_suite(name), progress, sources)


def _rows(
    cases: list[SuiteCase], progress: Callable[[int, int, str], None] | None, sources: Path | None
) -> Iterator[SuiteRow]:
    for number, case in enumerate(cases):
        if progress is not None:
            progress(number, len(cases), case.name)
        yield _row(case, sources)


def _row(case: SuiteCase, sources: Path | None) -> SuiteRow:
    published = find_published(case.suite, case.name, case.published_us)
    is_theirs = published is not None and sources is not None
    predicted = predict_published(published, sources) if published and sources else predict_case(case)
    is_comparable = case.published_us is not None and (published is None or published.is_comparable)
    return SuiteRow(
        name=case.name,
        predicted_us=predicted,
        published_us=case.published_us,
        published_kind=case.published_kind,
        ratio=predicted / case.published_us if case.published_us is not None and is_comparable else None,
        metric=case.metric,
        kernel=THEIRS if is_theirs else OURS,
        source=published.source if published is not None else "",
        note=published.note if published is not None else "",
    )


@cache
def _cases() -> tuple[SuiteCase, ...]:
    text = resources.files(__package__).joinpath("suites.csv").read_text(encoding="utf-8")
    return tuple(_case(record) for record in csv.DictReader(text.splitlines()))


def _case(record: dict[str, str]) -> SuiteCase:
    published = float(record["published_us"]) if record["published_us"] else None
    return SuiteCase(
        suite=record["suite"],
        name=record["name"],
        kernel=record["kernel"],
        parameters=_parameters(record["parameters"]),
        dtype=record["dtype"],
        target=record["target"],
        metric=record["metric"],
        published_us=published,
        published_kind=record["kind"],
        note=record["note"],
    )


def _parameters(text: str) -> dict[str, int | str]:
    """Parse `n=25600 tiled rows=1` as {"n": 25600, "variant": "tiled", "rows": 1}.

    A word without "=" is the variant.
    """
    parameters: dict[str, int | str] = {}
    for word in text.split():
        key, equals, value = word.partition("=")
        if not equals:
            parameters["variant"] = "direct_allocation" if word == "direct" else word
        else:
            parameters[key] = int(value) if value.isdigit() else value
    return parameters


def _launch(case: SuiteCase) -> tuple[Any, tuple[TensorSpec, ...], dict[str, Any]]:
    """Return the kernel of a case, the shapes of its arguments and its parameters."""
    from ... import kernels

    predicts = case.kernel == "ffnn_predict"  # same operands as ffnn_forward
    kernel = kernel_case(
        "ffnn" if predicts else case.kernel, {key: str(value) for key, value in case.parameters.items()}
    )
    arguments = tuple(
        TensorSpec(shape, "float32" if position in kernel.float32_operands else case.dtype)
        for position, shape in enumerate(kernel.shapes)
    )
    return kernels.kernel(case.kernel if predicts else kernel.kernel), arguments, dict(kernel.parameters)
