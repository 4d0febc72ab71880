"""Compare the predictions, AWS's estimates and the measured times of a self-test archive, as a table and as records."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import IO, Any

from ...runtime.selftest.archive import ComparedKernel
from .console import render_records

_TIMES = ("kernel", "predicted us", "AWS's estimate us", "measured, device us", "bound by")
_USE = ("kernel", "engine", "busy, predicted", "busy, AWS's estimate")


def render_compared(title: str, compared: Sequence[ComparedKernel], stream: IO[str] | None) -> str:
    """Return a table of times, a table of engines if AWS's utilization is known, and one line per kernel that explains
    the error of the prediction."""
    times = [
        (
            _name(kernel),
            f"{kernel.predicted_us:.1f}",
            *("-" if us is None else f"{us:.1f}" for us in (kernel.aws_estimate_us, kernel.measured_device_us)),
            kernel.bound_by,
        )
        for kernel in compared
    ]
    text = render_records(title, _TIMES, times, stream)
    use = [
        (_name(kernel), engine, *(f"{100 * share:.1f} %" if share is not None else "-" for share in shares))
        for kernel in compared
        if kernel.aws_engines
        for engine, shares in _shares(kernel).items()
    ]
    if use:
        text += render_records("engines: fraction of the time during which each is busy", _USE, use, stream)
    return text + "".join(f"{_name(kernel)}: {kernel.explanation}\n" for kernel in compared)


def rows_of(compared: Sequence[ComparedKernel]) -> list[dict[str, Any]]:
    """Return the comparison as plain records."""
    return [{**dataclasses.asdict(kernel), "explanation": kernel.explanation} for kernel in compared]


def _name(each: ComparedKernel) -> str:
    return " ".join(filter(None, (each.kernel, each.variant, each.size, each.dtype, each.target)))


def _shares(each: ComparedKernel) -> dict[str, tuple[float | None, float | None]]:
    """Return the utilization of each engine, first as predicted and then as estimated by AWS."""
    engines = dict.fromkeys((*each.engines, *each.aws_engines))
    return {engine: (each.engines.get(engine), each.aws_engines.get(engine)) for engine in engines}
