"""The architecture, checked from imports and sources: allowed imports between folders, and sizes of files and
functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from source_trees import nodes_of, tree_of

ROOT = Path(__file__).resolve().parents[1]

# The folders that each folder may import, besides itself: those below it. If files are listed, only those.
CHIP = "simulator/machine/chip.py"
ATOMIC = "simulator/machine/atomic_file.py"
PLAIN = {"kernels/program.py", "kernels/tiling/packing.py"}  # data and arithmetic, which do not import nki
ARROWS = {
    "api": {"app", "inference", "runtime", "models"},
    "app": {"inference", "runtime", "models", "simulator"},
    "inference": {"runtime", "models"},
    "runtime": {"lowering", "models", "kernels", "simulator"},
    "lowering": {"models", "kernels", "simulator"},
    "models": {*PLAIN, CHIP, ATOMIC},  # the geometry of packed weights, and atomic writing
    "kernels": {"simulator"},  # only nki_source.py, which selects the nki for the other files
    "simulator": set(),
}
SHARED = {"version.py", "child_python.py"}
MAX_FILE = 400
MAX_FUNCTION = 60
# For tables of cases, one per line, and for documented arguments of public functions.
LISTS = {
    "tools/digits/make_samples.py make_pictures",
    "benchmarks/benchmark_kernels.py cases",
    "api/functions.py classify",
}


def sources() -> list[Path]:
    """Return the files of the package, without tests, tools and benchmarks."""
    return sorted(path for folder in ARROWS for path in (ROOT / folder).rglob("*.py"))


@cache
def imports_of(path: Path, runtime_only: bool = False) -> frozenset[Path]:
    """Return the files of the package that a file imports; with `runtime_only`, only imports executed when it is itself
    imported."""
    return frozenset(_each_import(path, runtime_only))


def _each_import(path: Path, runtime_only: bool) -> Iterator[Path]:
    nodes = nodes_of(path)
    skipped = {id(node) for node in nodes if runtime_only and _is_deferred(node) for node in ast.walk(node)}
    for node in nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.level:
            base = path.parents[node.level - 1].joinpath(*(node.module or "").split(".") if node.module else ())
            names = [base / alias.name for alias in node.names]
            found = [_file(name) for name in names]
            yield from (file or _file(base) or base for file in found)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            for module in modules:
                if module.split(".")[0] == "trninfer":
                    yield _file(ROOT.joinpath(*module.split(".")[1:])) or ROOT / "__init__.py"


def _is_deferred(node: ast.AST) -> bool:
    """Return True if the contents do not run when the file is imported: functions, and code for type checkers only."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def _file(module: Path) -> Path | None:
    """Return the file of a module, or None if there is none, as for a name within a module."""
    for file in (module.with_suffix(".py"), module / "__init__.py"):
        if file.is_file():
            return file
    return None


def folder_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0]


def is_allowed(importer: Path, imported: Path) -> bool:
    here, there = folder_of(importer), folder_of(imported)
    return here == there or there in SHARED or bool({there, str(imported.relative_to(ROOT))} & ARROWS[here])


def test_arrows_point_down() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {imported.relative_to(ROOT)}"
        for path in sources()
        for imported in imports_of(path)
        if not is_allowed(path, imported)
    ]
    assert wrong == []


def test_contributing_states_the_order_of_imports() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    match = re.search(r"Imports follow one order: ([a-z,\s]+)\.", page)
    assert match
    order = re.split(r",\s+", match[1])
    for importer, imported in ARROWS.items():
        below = {name.split("/")[0] for name in imported - PLAIN - {CHIP, ATOMIC}}
        assert all(order.index(folder) > order.index(importer) for folder in below), importer


def test_kernels_know_the_simulator_in_one_file_only() -> None:
    kernels = [path for path in sources() if folder_of(path) == "kernels"]
    assert {path.name for path in kernels if "simulator" in map(folder_of, imports_of(path))} <= {"nki_source.py"}


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_what_the_host_shares_with_kernels_knows_no_nki(name: str) -> None:
    """This applies to files that the host reads before a backend is chosen, and to the kernel files that they
    import."""
    seen, left = set(), [ROOT / name]
    while left:
        path = left.pop()
        seen.add(path)
        left += [file for file in imports_of(path) if file not in seen and folder_of(file) == "kernels"]
        nodes = [node for node in ast.walk(tree_of(path)) if isinstance(node, (ast.Import, ast.ImportFrom))]
        absolute = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
        absolute += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        assert not any(module.split(".")[0] == "nki" for module in absolute), path


def test_no_circle_between_files() -> None:
    graph = {path: {file for file in imports_of(path, runtime_only=True) if file != path} for path in sources()}
    assert find_circle(graph) is None


@pytest.mark.parametrize("folder", list(ARROWS))
def test_no_circle_between_rooms_of_a_folder(folder: str) -> None:
    """A room is a subfolder; each file at the root of `folder` is a separate room."""

    def room(path: Path) -> Path:
        parts = path.relative_to(ROOT / folder).parts
        return ROOT / folder / parts[0]

    graph: dict[Path, set[Path]] = {}
    for path in (path for path in sources() if folder_of(path) == folder):
        within = {room(file) for file in imports_of(path, runtime_only=True) if folder_of(file) == folder}
        graph.setdefault(room(path), set()).update(within - {room(path)})
    assert find_circle(graph) is None


def test_the_simulators_root_is_its_public_face() -> None:
    root = {path.name for path in (ROOT / "simulator").glob("*.py")}
    assert root == {"__init__.py", "__main__.py", "pytest_plugin.py"}


def find_circle(graph: dict[Path, set[Path]]) -> list[Path] | None:
    """Return nodes that form a circle, or None if there is none."""
    done: set[Path] = set()

    def visit(node: Path, trail: list[Path]) -> list[Path] | None:
        if node in trail:
            return [*trail[trail.index(node) :], node]
        if node in done:
            return None
        for following in sorted(graph.get(node, ())):
            circle = visit(following, [*trail, node])
            if circle:
                return circle
        done.add(node)
        return None

    return next((circle for node in graph if (circle := visit(node, []))), None)


def test_a_circle_is_found() -> None:
    a, b, c = Path("a"), Path("b"), Path("c")
    assert find_circle({a: {b}, b: {c}, c: {b}}) == [b, c, b]
    assert find_circle({a: {b, c}, b: {c}}) is None


def test_files_can_be_read_in_one_go() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines()) for path in all_sources()}
    assert {str(path): length for path, length in lengths.items() if length > MAX_FILE} == {}


def test_functions_fit_a_screen() -> None:
    long = [
        f"{path.relative_to(ROOT)} {node.name}"
        for path in all_sources()
        for node in ast.walk(tree_of(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (node.end_lineno or node.lineno) - node.lineno + 1 > MAX_FUNCTION
    ]
    assert set(long) - LISTS == set()


def all_sources() -> list[Path]:
    """Return the files of the package, the tools and the benchmarks."""
    beside = [path for folder in ("tools", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    return [*sources(), *beside, *ROOT.glob("*.py")]


def test_every_folder_with_code_is_packaged() -> None:
    listed = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    packages = {".".join(("trninfer", *path.relative_to(ROOT).parent.parts)) for path in sources()}
    assert [package for package in sorted(packages) if f'"{package}"' not in listed] == []
