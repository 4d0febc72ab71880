"""Single-line kernels in older dialects of NKI, migrated and run on the simulator for comparison with NumPy.

A migration takes 20 ms, so each table of cases is migrated as one kernel.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from typing import Any

import pytest
from trninfer import simulator

pytest.importorskip("libcst")  # before the tests that import this module do so
from trninfer.simulator.migrate import CANNOT, Migration, migrate_source

FIRST = """\
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

"""
LATER = FIRST.replace("neuronxcc.", "").replace("import nki as nki", "import nki")  # of NKI 0.2 to 0.6
CASE = "# the next case"


def migrate_kernel(body: str, parameters: str = "a", head: str = FIRST) -> Migration:
    """Return the migrated file with a kernel of the given body."""
    return migrate_source(
        f"{head}@nki.jit\ndef kernel({parameters}):\n{textwrap.indent(textwrap.dedent(body), '    ')}"
    )


def migrated(body: str, parameters: str = "a", head: str = FIRST) -> str:
    """Return the lines of the migrated body, checking that nothing is left to the author."""
    migration = migrate_kernel(body, parameters, head)
    assert migration.is_whole, migration.notes
    lines = migration.text.split("def kernel(")[1].partition(":\n")[2]
    return textwrap.dedent(lines).strip("\n")


def migrated_each(cases: Sequence[str], before: str = "", parameters: str = "a", head: str = FIRST) -> list[str]:
    """Return the lines that each of several parts of a kernel becomes."""
    body = before + "".join(f"{CASE}\n{case}\n" for case in cases) + f"{CASE}\nreturn"
    return [case.strip("\n") for case in migrated(body, parameters, head).split(CASE + "\n")][1:-1]


def refused_each(cases: Sequence[str], before: str = "", parameters: str = "a", head: str = FIRST) -> list[str]:
    """Return the migration's note on each of several parts of a kernel, or "" for a part that is removed completely."""
    body, ends = before, []
    for case in cases:
        body += f"{case}\n"
        ends.append(head.count("\n") + 2 + body.count("\n"))
    notes = [note for note in migrate_kernel(body, parameters, head).notes if note.kind == CANNOT]
    starts = [head.count("\n") + 2 + before.count("\n"), *ends]
    return ["; ".join(note.message for note in notes if first < note.line <= last) for first, last in zip(starts, ends)]


def run_migrated(body: str, *arguments: Any, parameters: str = "a", head: str = FIRST) -> Any:
    """Return the results of the migrated kernel on the simulator: an array or a list of arrays."""
    migration = migrate_kernel(body, parameters, head)
    assert migration.is_whole, migration.notes
    space: dict[str, Any] = {"__name__": "migrated"}
    exec(compile(migration.text, "<migrated>", "exec"), space)
    outputs = simulator.run(space["kernel"], *arguments).outputs
    return outputs[0] if len(outputs) == 1 else outputs


def computed_each(
    cases: Sequence[tuple[str, tuple[int, ...]]], before: str, *arguments: Any, parameters: str = "a"
) -> list[Any]:
    """Return the values of tiles that a kernel computes: each an expression, or statements that assign `y`, and a
    shape."""
    body = before + "\n"
    for number, (lines, shape) in enumerate(cases):
        body += f"out_{number} = nl.ndarray({shape}, dtype=nl.float32, buffer=nl.shared_hbm)\n"
        body += f"{_assigned(lines)}\nnl.store(out_{number}, y)\n"
    body += f"return {', '.join(f'out_{number}' for number in range(len(cases)))}\n"
    found = run_migrated(body, *arguments, parameters=parameters)
    return [found] if len(cases) == 1 else list(found)


def _assigned(lines: str) -> str:
    try:
        ast.parse(lines, mode="eval")
    except SyntaxError:
        return lines
    return f"y = {lines}"
