"""Generate the table in docs/instructions.md: the declared operands, rules and cost of each instruction."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from ..simulator.instructions.declaration import Declaration
from ..simulator.machine.chip import TARGETS
from ..simulator.machine.instruction import DECLARATIONS
from ..simulator.nki import isa

PAGES = "https://awsdocs-neuron.readthedocs-hosted.com/en/latest/nki/api/generated/nki.isa.{}.html"
_SINCE = {target.generation: target.name for target in TARGETS.values()}
_HEAD = "| instruction | engines | operands | beyond single operands | cost |\n|---|---|---|---|---|"


def instructions_block() -> str:
    """Return one row for each instruction of `nki.isa`, in alphabetical order."""
    return "\n".join([_HEAD, *(_row(DECLARATIONS[name]) for name in isa.__all__ if name in DECLARATIONS)])


def _row(declaration: Declaration) -> str:
    name = f"[`{declaration.name}`]({PAGES.format(declaration.name)})"
    cells = [name, _engines(declaration), "<br>".join(_operands(declaration)), _rules(declaration), _cost(declaration)]
    return f"| {' | '.join(cells)} |"


def _engines(declaration: Declaration) -> str:
    """Return the engines, beginning with the default, each with its first target if that is later than the first target
    of the instruction."""
    later = declaration.engine_generations
    engines = ", ".join(e.name + (f" ({_SINCE[later[e]]})" if e in later else "") for e in declaration.engines)
    return engines if declaration.generation == 2 else f"{engines}; from {_SINCE[declaration.generation]} on"


def _operands(declaration: Declaration) -> Iterator[str]:
    for name, operand in declaration.operands.items():
        if operand.limits:
            marks = [mark for mark in ("written", "optional") if getattr(operand, mark, False)]
            yield f"`{name}`{' (' + ', '.join(marks) + ')' if marks else ''}: {operand.limits}"


def _rules(declaration: Declaration) -> str:
    sentences = [" ".join((inspect.getdoc(rule) or "").split()) for rule in declaration.rules]
    if declaration.together:
        first, second = declaration.together
        sentences.append(f"{first} and {second} must not both be in PSUM.")
    if declaration.source:
        sentences.append(f"({declaration.source})")
    return " ".join(text for text in sentences if text)


def _cost(declaration: Declaration) -> str:
    """Return the method of `Costs` and its operands."""
    if not declaration.cost:
        return "transfer" if declaration.engines[0].name == "dma" else "by engine and size"
    method, *operands = declaration.cost
    by = ", ".join(f"`{name}`" for name in operands if name in declaration.operands)
    return method.replace("_", " ") + (f": {by}" if by else "")
