"""Draw `docs/lowering.svg`, which shows how a network becomes a kernel's program: `python -m
trninfer.tools.draw_lowering`.

The text for a pass is the first clause of its docstring in `lowering/passes/`.
"""

from __future__ import annotations

import html
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..lowering.decisions import Kind
from ..lowering.passes import all_passes
from ..lowering.passes.base import Pass

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "lowering.svg"
LAST = (Kind.STAGE, Kind.WARM_UP)  # kinds of choices that no pass implements
WIDTH, LEFT, ROW, STEP = 1000, 20, 30, 36  # pixels
BOX, SIDE = 660, 700  # width of the boxes, and left edge of the column to their right
STYLE = """
.page { fill: #ffffff; stroke: #d0d7de } .text { fill: #1f2328 } .faint { fill: #57606a }
.pass { fill: #dafbe1; stroke: #4ac26b } .data { fill: #ddf4ff; stroke: #54aeff }
.choice { fill: #fff8c5; stroke: #d4a72c }
.arrow { stroke: #57606a; fill: none } .tip { fill: #57606a } .name { font-weight: 600 }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117; stroke: #30363d } .text { fill: #e6edf3 } .faint { fill: #9198a1 }
.pass { fill: #12261e; stroke: #2ea043 } .data { fill: #0c2d4a; stroke: #388bfd }
.choice { fill: #2b2111; stroke: #9e6a03 }
.arrow { stroke: #9198a1 } .tip { fill: #9198a1 } }
"""


@dataclass(frozen=True)
class Box:
    """A row of the picture: a name and a description."""

    name: str
    words: str
    kind: str  # its CSS class in STYLE
    decision: str = ""  # the kinds of choices that control it


def clause_of(described: str) -> str:
    """Return the first clause of a docstring."""
    return re.split(r"[:,.](?:\s|$)", " ".join(described.split()), maxsplit=1)[0]


def words_of(each: Pass) -> str:
    """Return the description of a pass: the docstring of its module, or of the function with its name."""
    module = inspect.getmodule(type(each))
    is_own = module is not None and module.__name__.endswith(f".{each.name}")
    return clause_of(inspect.getdoc(module if is_own else getattr(module, each.name)) or "")


def boxes() -> Iterator[Box]:
    """Yield the rows of the picture from top to bottom."""
    yield Box("layers", "a network as data (models/layers/)", "data")
    yield Box("rules", "one or a few operations for each layer (lowering/rules/)", "pass")
    yield Box("graph", "operations, their operands and the memory of their values (lowering/graph/)", "data")
    for lowering_pass in all_passes(()):
        yield Box(lowering_pass.name, words_of(lowering_pass), "pass", _named(lowering_pass.kinds))
    yield Box("lay_out_weights", "Assign positions in two arrays to weights and biases (lowering/emission/)", "pass")
    yield Box("emit", "Divide operations into stages and bands of rows (lowering/emission/)", "pass", _named(LAST))
    yield Box("program", "hashable operations (kernels/program.py)", "data")
    yield Box("run_network", "one kernel, with a body for each operation (kernels/operations/)", "pass")


def _named(kinds: Sequence[Kind]) -> str:
    return ", ".join(kind.value for kind in kinds)


def draw() -> str:
    """Return the picture as SVG, which adapts to light and dark pages."""
    lines = list(boxes())
    height = 2 * LEFT + STEP * len(lines)
    first, last = (next(n for n, box in enumerate(lines) if box.name == name) for name in ("load_input", "emit"))
    elements = [part for number, box in enumerate(lines) for part in _box(box, LEFT + STEP * number)]
    top = LEFT + STEP * first
    elements += _choice(top, STEP * (last - first) + ROW)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="system-ui, \'DejaVu Sans\', sans-serif" font-size="12">\n<style>{STYLE}</style>\n'
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>\n'
        + "\n".join(elements)
        + "\n</svg>\n"
    )


def _box(box: Box, y: int) -> Iterator[str]:
    yield f'<rect class="{box.kind}" x="{LEFT}" y="{y}" width="{BOX}" height="{ROW}" rx="5"/>'
    yield _text("text name", LEFT + 10, y + 19, box.name)
    yield _text("text", LEFT + 120, y + 19, box.words)
    if y > LEFT:
        yield f'<path class="arrow" d="M{LEFT + 50} {y - STEP + ROW}V{y}"/>'
    if box.decision:
        middle = y + ROW // 2
        yield f'<path class="arrow" d="M{SIDE} {middle}H{LEFT + BOX}"/>'
        yield f'<path class="tip" d="M{LEFT + BOX} {middle}l7 -4v8z"/>'
        yield _text("faint", SIDE + 8, middle + 4, box.decision)


def _choice(y: int, height: int) -> Iterator[str]:
    """Yield the box of decisions, to the right of the passes that they control."""
    left, width = SIDE + 115, WIDTH - SIDE - 115 - LEFT
    costs = "the costs of candidates/that fit are predicted/by the simulator for/the target; the best"
    words = ["decisions", *f"{costs}/are simulated in full,/and the fastest is/cached on disk".split("/")]
    yield f'<rect class="choice" x="{left}" y="{y}" width="{width}" height="{height}" rx="5"/>'
    start = y + height // 2 - 8 * len(words)
    for number, text in enumerate(words):
        yield _text("text" if number else "text name", left + 10, start + 18 * number, text)


def _text(kind: str, x: int, y: int, text: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{html.escape(text, quote=False)}</text>'


def main() -> int:
    """Draw the picture, and return the exit status."""
    PICTURE.write_text(draw(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
