import ast
import re
from pathlib import Path

import pytest
from trninfer.simulator.machine.syntax import parse

ROOM = Path(__file__).parents[3] / "simulator"


def test_a_fault_of_pythons_parser_is_passed_over_once(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = [SystemError("AST constructor recursion depth mismatch (before=153, after=206)")]
    parse_once = ast.parse

    def parse_or_fail(*args: str) -> ast.AST:
        if faults:
            raise faults.pop()
        return parse_once(*args)

    monkeypatch.setattr(ast, "parse", parse_or_fail)
    assert ast.unparse(parse("a + b", mode="eval")) == "a + b"
    faults = [SystemError("the first"), SystemError("the second")]
    with pytest.raises(SystemError, match="the first"):
        parse("a = 1")


def test_no_other_module_of_the_simulator_calls_pythons_parser() -> None:
    callers = {path.name for path in ROOM.rglob("*.py") if re.search(r"\bast\.parse\(", path.read_text())}
    assert callers == {"syntax.py"}
