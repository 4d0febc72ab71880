"""Run a script with different values of its constants, to compare times and the results of the script's checks.

    axes = [read_axis("TILE_N=128,256,512"), read_axis("BUFFERS=1,2")]
    print(sweep(["kernel.py"], axes))      # six variants, with the fastest first

A constant is a name that is assigned at the top level of the script. The time of a variant is the total time of its
launches.
"""

from __future__ import annotations

import ast
import io
import itertools
import os
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from ..machine.chip import TARGET_VARIABLE, find_target
from ..machine.errors import NkiValidationError
from ..machine.syntax import parse
from ..running.run import Run
from ..running.script import DEFAULT_TARGET, Edits, assigned, run_script
from .parallel import each
from .ranking import Ranked, Ranking

MOST_VARIANTS = 10_000
MOST_TEXT = 160  # maximum length of an error message


class Axis(NamedTuple):
    """A constant of a script, and the expressions that are assigned to it."""

    name: str
    values: tuple[ast.expr, ...]


def read_axis(text: str) -> Axis:
    """Parse an axis from the command line, in the form `NAME=VALUE,VALUE,...`, with Python expressions as values.

    Raises:
        NkiValidationError: the text does not have this form.
    """
    name, _, values = text.partition("=")
    try:
        parsed = parse(f"({values},)", mode="eval").body
    except (SyntaxError, ValueError):
        parsed = None
    if not name.isidentifier() or not isinstance(parsed, ast.Tuple) or not parsed.elts or not values.strip():
        raise NkiValidationError(f"{text!r} is not a sweep; expected NAME=VALUE,VALUE,... with Python values")
    return Axis(name, tuple(parsed.elts))


def sweep(
    arguments: Sequence[str],
    axes: Sequence[Axis],
    target: str | None = None,
    processes: int | None = None,
) -> Ranking:
    """Run a script once for every combination of values, in parallel. For `arguments`, see `run_script`.

    The output of the script is discarded. A variant is unusable if the script raises an exception, exits with a
    non-zero status, or launches no kernel.

    Raises:
        NkiValidationError: the script does not assign a name at its top level, or there are too many combinations.
    """
    _check_names(arguments[0], [axis.name for axis in axes])
    variants = list(itertools.product(*(axis.values for axis in axes)))
    if len(variants) > MOST_VARIANTS:
        raise NkiValidationError(f"{len(variants):,} variants; the limit is {MOST_VARIANTS:,}")
    names = [", ".join(f"{axis.name}={ast.unparse(value)}" for axis, value in zip(axes, values)) for values in variants]
    target_name = find_target(target or os.environ.get(TARGET_VARIABLE) or DEFAULT_TARGET).name

    def work(index: int) -> Ranked:
        constants = dict(zip((axis.name for axis in axes), variants[index]))
        return _run_variant(names[index], arguments, target_name, constants)

    def lost(index: int) -> Ranked:
        return Ranked(names[index], "the process that ran it, or another worker process, was killed")

    return Ranking(each(len(variants), work, lost, processes), target_name)


def _check_names(script: str, names: Sequence[str]) -> None:
    try:
        with open(script, "rb") as file:
            tree = parse(file.read(), script)
    except (SyntaxError, ValueError) as error:
        raise NkiValidationError(f"{script}: not Python source: {error}") from None
    known = {name for statement in tree.body for name in assigned(statement)}
    for name in names:
        if name not in known:
            available = f"; it has {', '.join(sorted(known))}" if known else ""
            raise NkiValidationError(f"{script} has no line `{name} = ...` at its top level{available}")
        if names.count(name) > 1:
            raise NkiValidationError(f"{name} is swept twice; specify one list of values per name")


def _run_variant(name: str, arguments: Sequence[str], target: str, constants: dict[str, ast.expr]) -> Ranked:
    runs: list[Run] = []
    printed = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(printed):
        status = run_script(arguments, lambda run, shapes: runs.append(run), target, edits=Edits(constants))
    problem = ""
    if status:
        problem = _last_error(printed.getvalue()) or f"the script ended with status {status}"
    elif not runs:
        problem = "no kernel was launched"
    if not runs:
        return Ranked(name, problem)
    slowest = max(runs, key=lambda run: run.latency_us)
    return Ranked(
        name=name,
        problem=problem,
        latency_us=sum(run.latency_us for run in runs),
        sbuf_bytes=max(run.memory.sbuf_bytes for run in runs),
        psum_banks=max(run.memory.psum_banks for run in runs),
        instructions=sum(len(run.program) for run in runs),
        bound_by=slowest.bound_by,
    )


def _last_error(printed: str) -> str:
    """Return the last error that a script wrote to standard error, in one line, or "" if it wrote nothing."""
    lines = [line.rstrip() for line in printed.rpartition("Traceback (most recent call last)")[2].splitlines()]
    heads = [index for index, line in enumerate(lines) if line and not line[0].isspace() and index > 0]
    if len(lines) < 2 or not heads:
        return lines[-1][:MOST_TEXT] if lines else ""
    message = [line.strip() for line in lines[heads[0] :] if line.strip()]
    # In errors from NumPy comparisons, the message starts on the line after the name of the exception.
    return " ".join(message[:3] if message[0].endswith(":") else message[:1])[:MOST_TEXT]
