"""Docstrings are plain English: those of functions begin with a verb, of predicates with "True if", of types with a
noun."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from source_trees import nodes_of

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("api", "app", "inference", "runtime", "lowering", "models", "kernels", "simulator", "tools", "benchmarks")
INDIRECT = re.compile(r"(What|Whether|How|Of|Where|Which|Who|Whose|When|Why)\b")  # a clause instead of a noun or verb
STILTED = re.compile(r"\b(so many|told apart|what is there|(is|are|was|were|be) told|no more than|stands in)\b")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def sources() -> list[Path]:
    """Return the code of the product, the tools and the benchmarks."""
    return sorted([*ROOT.glob("*.py"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))])


def indirect(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Return the first lines of docstrings that begin with an indirect question."""
    for node in nodes:
        text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
        if text and INDIRECT.match(text):
            yield f"{getattr(node, 'name', 'module')}: {text.splitlines()[0]}"


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    found = {str(path.relative_to(ROOT)): list(indirect(nodes_of(path))) for path in sources()}
    assert len(found) > 500
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_neither_code_nor_docs_read_as_translated() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in (*sources(), *pages)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if STILTED.search(line)
    ]
    assert found == []


def test_an_indirect_docstring_is_found() -> None:
    source = '"""What it is."""\ndef f():\n    """Of each core."""\ndef g():\n    """Office."""\n'
    assert list(indirect(ast.walk(ast.parse(source)))) == ["module: What it is.", "f: Of each core."]
