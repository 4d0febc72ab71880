"""Kernels of older dialects of NKI in a line: migrated, and run on the simulator to be held against NumPy."""

from __future__ import annotations

import textwrap
from typing import Any

from trninfer import simulator
from trninfer.simulator.migrate import CANNOT, Migration, migrate_source

FIRST = """\
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

"""
LATER = FIRST.replace("neuronxcc.", "").replace("import nki as nki", "import nki")  # of NKI 0.2 to 0.6


def migrate_kernel(body: str, parameters: str = "a", head: str = FIRST) -> Migration:
    """A file with one kernel of this body, migrated."""
    return migrate_source(
        f"{head}@nki.jit\ndef kernel({parameters}):\n{textwrap.indent(textwrap.dedent(body), '    ')}"
    )


def migrated(body: str, parameters: str = "a", head: str = FIRST) -> str:
    """The lines of the body once it is migrated, of which nothing may be left to the author."""
    migration = migrate_kernel(body, parameters, head)
    assert migration.is_whole, migration.notes
    lines = migration.text.split("def kernel(")[1].partition(":\n")[2]
    return textwrap.dedent(lines).strip("\n")


def refusal(body: str, parameters: str = "a", head: str = FIRST) -> str:
    """What the migration says of a body of which it has to leave something to the author."""
    notes = migrate_kernel(body, parameters, head).notes
    return "; ".join(note.message for note in notes if note.kind == CANNOT)


def run_migrated(body: str, *arguments: Any, parameters: str = "a", head: str = FIRST) -> Any:
    """What the migrated kernel returns on the simulator: an array, or a list of them."""
    migration = migrate_kernel(body, parameters, head)
    assert migration.is_whole, migration.notes
    space: dict[str, Any] = {"__name__": "migrated"}
    exec(compile(migration.text, "<migrated>", "exec"), space)
    outputs = simulator.run(space["kernel"], *arguments).outputs
    return outputs[0] if len(outputs) == 1 else outputs
