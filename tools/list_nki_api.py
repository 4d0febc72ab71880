"""Write docs/nki-api.md: every function of NKI 0.7, whether it is simulated, timed and checked.

    python -m trninfer.tools.list_nki_api            writes the page
    python -m trninfer.tools.list_nki_api --check    exits with 1 if it is not up to date

Nothing is listed by hand. A function is not simulated if calling it raises NotSimulatedError. It is timed if it issues
an instruction, and checked if it, or a function that it calls, raises NkiValidationError.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from .. import simulator
from ..simulator import nki
from ..simulator.nki.api import table
from ..simulator.tensors.tensor import NkiTensor

PAGE = Path(__file__).resolve().parent.parent / "docs" / "nki-api.md"
HEAD = """# NKI on the simulator

This page lists every function of NKI 0.7. In a clone, `python -m trninfer.tools.list_nki_api` generates it from the
stubs of the API, the pages of SDK 2.33 and the code of the simulator.

- NKI: "0.7" marks functions that are new in NKI 0.7. "0.6" marks functions that NKI 0.7 has removed; the simulator runs
  them with a warning. All others exist in both versions.
- page: the version of the documentation page with which signature, defaults and operand rules were compared. "stubs"
  means that no page of SDK 2.33 could be read; the stubs of SDK 2.32.0 (17 August 2026), from which AWS generates the
  pages of that version, were used instead.
- simulated: the function behaves as documented. A **refused** function raises an error that names it.
- timed: the function issues instructions that take time. Creating views, memory or registers takes none.
- checked: the documented limits of the machine are enforced with an error that names the operand.

"""
PAGES = "https://awsdocs-neuron.readthedocs-hosted.com/en"
_DEPTH = 6  # maximum depth of calls that are followed


class Row(NamedTuple):
    """A function of the API."""

    name: str  # qualified name
    version: str  # the only version that contains it; "" if both do
    page: str  # version of the documentation page with which it was compared; "" for the stubs
    simulated: bool
    timed: bool
    checked: bool


def rows() -> list[Row]:
    """Return a row for every function of the API, in the API's order."""
    modules = {"nki": nki, **{name: module for name, module in nki.MODULES.items() if name.count(".") == 1}}
    found = []
    for entry in (*table()["functions"], *table()["earlier"]):
        owner: Any = modules[entry["module"]]
        if entry["kind"] == "method":
            owner = getattr(owner, entry["class"], None)
        function = getattr(owner, entry["name"], None)
        if isinstance(function, property):
            function = function.fget
        simulated = function is not None and not _refused(entry, owner, function)
        uses = _uses(function, _DEPTH) if simulated else frozenset()
        checked = not uses.isdisjoint(("NkiValidationError", "OperatorError", "ShapeError"))
        timed = not uses.isdisjoint(("issue", "fence")) and entry["module"] != "nki.collectives"  # takes no time
        page = table()["pages"].get(entry["qualname"], "")
        version = "0.6" if "instead" in entry else entry.get("since", "")
        found.append(Row(entry["qualname"], version, page, simulated, timed, checked))
    return found


def _link(row: Row) -> str:
    """Return a link to the documentation page with which a function was compared, or to the stubs if there is none."""
    name = row.name.removesuffix(".__init__")
    return f"[{row.page}]({PAGES}/{row.page}/nki/api/generated/{name}.html)" if row.page else "stubs"


def _refused(entry: dict[str, Any], owner: Any, function: Any) -> bool:
    if entry["kind"] == "method" or entry["name"] in vars(owner):
        return False
    try:
        function()
    except simulator.NotSimulatedError:
        return True
    return False


@cache
def _names(function: Any) -> frozenset[str]:
    """Return the names in the source of a function."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return frozenset()
    identifiers = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return frozenset(identifiers | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)})


@cache
def _uses(function: Any, depth: int) -> frozenset[str]:
    """Return the names that a function, and the simulator's functions and methods that it calls, use."""
    names = set(_names(function))
    module = inspect.getmodule(function)
    space = dict(vars(module)) if module else {}
    space |= inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    for name in list(names) if depth else []:
        called = space.get(name) or vars(NkiTensor).get(name) or getattr(NkiTensor, name, None)
        is_simulator = getattr(called, "__module__", "").startswith(simulator.__name__)
        if inspect.isfunction(called) and called is not function and is_simulator:
            names |= _uses(called, depth - 1)
        elif inspect.isclass(called) and is_simulator and name.startswith("_"):
            names |= frozenset().union(*(_uses(m, depth - 1) for m in vars(called).values() if inspect.isfunction(m)))
    return frozenset(names)


def page() -> str:
    """Return the text of the page."""
    table = rows()
    count, paged = sum(row.simulated for row in table), sum(bool(row.page) for row in table)
    compared = f"{paged} were compared with a page, {len(table) - paged} with the stubs"
    lines = [f"{count} of {len(table)} functions and methods are simulated; {compared}.", ""]
    lines += ["| function | NKI | page | simulated | timed | checked |", "|---|---|---|---|---|---|"]
    for row in table:
        simulated = "yes" if row.simulated else "**refused**"
        marks = [row.version, _link(row), simulated, *("yes" if mark else "" for mark in (row.timed, row.checked))]
        lines.append(f"| `{row.name}` | {' | '.join(marks)} |")
    return HEAD + "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page or, with --check, only compare it. Return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is out of date")
    if parser.parse_args(arguments).check:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        return 0 if current == page() else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
