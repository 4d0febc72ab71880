"""Functions have at most six parameters, or a record; calls with seven or more arguments use keywords."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path

from source_trees import tree_of

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("api", "app", "inference", "runtime", "lowering", "models", "kernels", "simulator")
MOST = 6
FUNCTIONS = json.loads((ROOT / "simulator/nki/api.json").read_text(encoding="utf-8"))["functions"]
NKI = {  # by folder: their signatures are AWS's
    "simulator/instructions": {entry["name"] for entry in FUNCTIONS if entry["module"] == "nki.isa"}
    | {entry["name"] for entry in FUNCTIONS if entry["module"] == "nki.collectives"},
    "simulator/nki": {entry["name"] for entry in FUNCTIONS if entry["module"] == "nki.language"},
}

# Functions with more parameters, and why.
LONGER = {
    "api/benchmarks.py bench": "the Python interface",
    "api/imports.py import_model": "the Python interface",
    "api/classifiers.py __init__": "of two classifiers of the Python interface",
    "api/functions.py classify": "the Python interface",
    "api/functions.py detect": "the Python interface",
    "api/segmentation.py segment": "the Python interface",
    "api/functions.py predict": "the Python interface",
    "app/reports/columns.py number_column": "the fields of a column, by keyword",
    "app/doctor.py doctor": "options of a command, which Typer reads from its parameters",
    "app/simulate.py simulate": "options of a command, which Typer reads from its parameters",
    "simulator/running/launch.py run": "the simulator's public face; all by keyword",
    "inference/stream.py answer_batches": "callbacks of the command line, by keyword",
    "runtime/workers/shared_session.py share_out": "options of a session, by keyword",
    "runtime/neuron/backend.py open_neuron_backend": "options of the chip, by keyword",
    "simulator/instructions/core.py issue": "called for every instruction: a record takes 1 us of 13",
    "simulator/instructions/scalar_engine.py activate": "operands of a step, as a replay keeps them",
    "simulator/instructions/tensor_engine.py multiply": "operands of a step, as a replay keeps them",
}
# Calls with as many positional arguments as they have operands, items or axes.
VARIADIC = {"element", "core.settle", "core.perform", "partial", "self._pool.submit", "fitted", "reshape", "transpose"}


@cache
def sources() -> list[tuple[str, ast.Module]]:
    """Yield the path and syntax tree of each file of the product."""
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return [(path.relative_to(ROOT).as_posix(), tree_of(path)) for path in paths]


def count_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    named = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len(named) - (named[:1] in (["self"], ["cls"]))


def is_fixed(path: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True for functions of NKI, and for kernels, whose parameters are the arguments of a launch."""
    decorators = {ast.unparse(decorator) for decorator in function.decorator_list}
    return "nki.jit" in decorators or function.name in NKI.get(path.rpartition("/")[0], ())


def test_longer_signatures_are_listed() -> None:
    found = {
        f"{path} {node.name}"
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and count_parameters(node) > MOST
        and not is_fixed(path, node)
    }
    assert found == set(LONGER)


def test_seven_arguments_and_more_are_named() -> None:
    found = set()
    for path, tree in sources():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or any(isinstance(argument, ast.Starred) for argument in node.args):
                continue
            name = ast.unparse(node.func)
            if len(node.args) > MOST and name not in VARIADIC and name.rpartition(".")[2] not in VARIADIC:
                found.add(f"{path} {name}")
    assert not found
