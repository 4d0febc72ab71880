"""Compare a migrated file with its source, to ensure that no operation of the source is missing.

The audit is independent of how the migration works. For each function, it compares the calls (of kernels, other
functions and NKI) and the statements. A loss is a bug in the migration, and the migrated file is not written.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from .functions import functions_with_nki, is_jit
from .imports import ENTRY_POINTS, KERNEL_PARAMETERS, OLD_OPTIONS, RUNNERS
from .names import Names, is_stored, modern
from .notes import MigrationError
from .uses import compares_none

INDEXING = frozenset(  # calls that are replaced by slices, numbers or Python ranges
    f"nki.language.{name}"
    for name in ("arange", "mgrid", "par_dim", "ds", "dslice", "spmd_dim", "nc", "program_id", "num_programs")
) | frozenset(f"nki.language.{name}_range" for name in ("affine", "sequential", "static", "dynamic"))
STORES = frozenset({"nki.language.store", "nki.isa.dma_copy", "nki.isa.dma_transpose"})
ON_KERNELS = frozenset({"nki.simulate", "nki.jit"}) | RUNNERS  # functions that take a kernel and return a kernel
HELPER = "as_kernel"
LOOPS = (ast.For, ast.While, ast.FunctionDef)  # the body of a device loop becomes a function
CONTROL = (ast.If, ast.With, ast.Try, ast.Return, ast.Raise, ast.Assert, ast.Break, ast.Continue, ast.Delete)


class LossError(MigrationError):
    """Raised if the migrated file lacks a call or a statement of the source."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message, line)


@dataclass
class _Unit:
    """A top-level function, or the code outside of all functions."""

    name: str
    line: int
    nodes: list[ast.AST] = field(default_factory=list)

    def without_options(self, names: Names) -> _Unit:
        """Return the unit without the options of entry points, such as warmup=n in nki.benchmark(kernel, warmup=n).

        The migration removes these options together with the entry points.
        """
        calls = [node for node in self.nodes if isinstance(node, ast.Call)]
        values = [value for call in calls for value in _options_of(call, names.dotted(call.func))]
        options = {id(part) for value in values for part in ast.walk(value)}
        return _Unit(self.name, self.line, [node for node in self.nodes if id(node) not in options])


def refuse_losses(old: ast.Module, new: ast.Module) -> None:
    """Compare a migrated file with its source. Raise LossError if something is missing."""
    names, migrated_names = Names(old), Names(new)
    after = {unit.name: unit for unit in _units(new)}
    kernels = {
        node.name
        for node in ast.walk(old)
        if isinstance(node, ast.FunctionDef) and any(is_jit(decorator, names) for decorator in node.decorator_list)
    }
    on_device = functions_with_nki(old, names) | kernels
    for unit in _units(old):
        migrated_unit = after.get(unit.name)
        if migrated_unit is None:
            raise LossError(unit.line, f"the function {_shown(unit)} is missing")
        if _shown(unit).rpartition(".")[2] not in on_device:
            _compare_hosts(unit, migrated_unit, names, migrated_names)
        _compare(unit, migrated_unit, names, migrated_names, kernels)


def _units(tree: ast.Module) -> list[_Unit]:
    units = [_Unit("", 1)]
    seen: Counter[str] = Counter()

    def gather(nodes: Iterable[ast.AST], prefix: str) -> None:
        for node in nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                name = f"{prefix}{node.name}"
                seen[name] += 1
                units.append(_Unit(f"{name}#{seen[name]}", node.lineno, list(ast.walk(node))))
            elif isinstance(node, ast.ClassDef):
                gather(node.body, f"{prefix}{node.name}.")
            else:
                units[0].nodes.append(node)
                gather(ast.iter_child_nodes(node), prefix)

    gather(tree.body, "")
    return units


def _compare(old: _Unit, new: _Unit, names: Names, migrated_names: Names, kernels: set[str]) -> None:
    called, calls = Counter(dict(_counted(old, names))), Counter(dict(_counted(new, migrated_names)))
    for name in kernels:
        if calls[name] < called[name]:
            raise LossError(_line(old, names, name), f"a call of the kernel {name} is missing")
    for kinds, what in ((LOOPS, "a loop"), *(((kind,), f"a statement `{_word(kind)}`") for kind in CONTROL)):
        ours, theirs = (sum(isinstance(node, kinds) for node in unit.nodes) for unit in (new, old))
        if ours < theirs:
            raise LossError(old.line, f"{what} of {_shown(old)} is missing")
    for which, what in ((None, "a call of NKI"), (STORES, "a store")):
        if _work(new, migrated_names, which) < _work(old, names, which, INDEXING):
            raise LossError(old.line, f"{what} in {_shown(old)} is missing")


def _compare_hosts(old: _Unit, new: _Unit, names: Names, migrated_names: Names) -> None:
    """Compare host code, which must not lose any call or statement."""
    old = old.without_options(names)
    before, after = Counter(dict(_counted(old, names))), Counter(dict(_counted(new, migrated_names)))
    for name, count in before.items():
        if after[name] < count:
            raise LossError(_line(old, names, name), f"a call of {name} is missing")
    loads, kept = _loads(old), _loads(new)
    for name, count in loads.items():
        if kept[name] < count and not names.meaning(name).startswith("nki") and name != "neuronxcc":
            raise LossError(old.line, f"a use of {name} in {_shown(old)} is missing")
    statements, left = _statements(old, names), _statements(new, migrated_names)
    for key, count in statements.items():
        if left[key] < count:
            raise LossError(old.line, f"a statement `{key[0]}` of {_shown(old)} is missing")


def _counted(unit: _Unit, names: Names) -> dict[str, int]:
    """Count the calls of each callee: functions, methods, and kernels, including calls through NKI's entry points."""
    return Counter(root for node in unit.nodes if isinstance(node, ast.Call) if (root := _root(node, names)))


def _root(call: ast.Call, names: Names) -> str:
    """Return the name of the function that is ultimately called, or "" for calls of NKI itself.

    For example, the name is "kernel" for nki.baremetal(kernel)(x), kernel[2](x) and nki.simulate_kernel(kernel, x).
    """
    dotted = names.dotted(call.func)
    if dotted == "nki.simulate_kernel":
        return _called(call.args[0], names) if call.args else ""
    if dotted.startswith("nki.") or dotted in ENTRY_POINTS:
        return ""
    return _called(call.func, names)


def _called(node: ast.expr, names: Names) -> str:
    if isinstance(node, ast.Subscript):
        return _called(node.value, names)
    if isinstance(node, ast.Name):
        return "" if names.meaning(node.id).startswith("nki") or node.id == HELPER else node.id
    if isinstance(node, ast.Attribute):
        base = _called(node.value, names)
        return f"{base}.{node.attr}" if base else ""
    kernels = _kernels_given(node, names) if isinstance(node, ast.Call) else []
    return _called(kernels[0], names) if kernels else ""


def _kernels_given(node: ast.Call, names: Names) -> list[ast.expr]:
    """Return the arguments of a call of an entry point that may be kernels."""
    helper = isinstance(node.func, ast.Name) and node.func.id == HELPER
    if helper or names.dotted(node.func) in ON_KERNELS:
        return [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in KERNEL_PARAMETERS)]
    return node.args if isinstance(node.func, ast.Call) else []  # nki.benchmark(warmup=5)(kernel)


def _options_of(call: ast.Call, dotted: str) -> list[ast.expr]:
    """Return the arguments of a call of an entry point that the migration removes: all but the kernel, or the old
    options of nki.jit."""
    if dotted == "nki.jit":
        return [keyword.value for keyword in call.keywords if keyword.arg in OLD_OPTIONS]
    if dotted not in RUNNERS:
        return []
    return [*(keyword.value for keyword in call.keywords if keyword.arg not in KERNEL_PARAMETERS), *call.args[1:]]


def _loads(unit: _Unit) -> Counter[str]:
    return Counter(node.id for node in unit.nodes if isinstance(node, ast.Name) and not is_stored(node))


def _statements(unit: _Unit, names: Names) -> Counter[tuple[str, str]]:
    """Count the statements by kind and assigned name, excluding imports and aliases of NKI names."""
    counts: Counter[tuple[str, str]] = Counter()
    for node in unit.nodes:
        if not isinstance(node, ast.stmt) or isinstance(node, (ast.Import, ast.ImportFrom)) or node in names.aliases:
            continue
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        assigned = [n.id for t in filter(None, targets) for n in ast.walk(t) if isinstance(n, ast.Name)]
        counts[_word(type(node)), " ".join(assigned)] += 1
    return counts


def _work(unit: _Unit, names: Names, which: frozenset[str] | None, but: frozenset[str] = frozenset()) -> int:
    """Count the calls of NKI functions, including, in a migrated file, the calls of helpers."""
    count = 0
    for node in unit.nodes:
        if isinstance(node, ast.Call):
            dotted = names.dotted(node.func)
            is_nki = dotted.startswith(("nki.language.", "nki.isa.")) and not compares_none(node, dotted)
            if which is not None:
                count += dotted in which
            else:
                count += (is_nki and dotted not in but) or (not but and isinstance(node.func, ast.Name) and not dotted)
    return count


def _line(unit: _Unit, names: Names, name: str) -> int:
    lines = [node.lineno for node in unit.nodes if isinstance(node, ast.Call) and _root(node, names) == name]
    return min(lines, default=unit.line)


def _shown(unit: _Unit) -> str:
    return unit.name.partition("#")[0] or "the file"


def _word(kind: type[ast.AST]) -> str:
    return {"Expr": "call", "FunctionDef": "def", "AugAssign": "assign", "AnnAssign": "assign"}.get(
        kind.__name__, kind.__name__.lower()
    )


def unbound(tree: ast.Module) -> dict[str, list[int]]:
    """Return the names that a file reads but does not bind in an enclosing scope, with the lines that read them."""
    shared = _bound([node for unit in _units(tree)[:1] for node in unit.nodes])
    shared |= {
        node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))
    }
    shared |= {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    stars = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"]
    names = Names(tree) if stars else None  # resolves `from nki.language import *`
    if any(not modern(str(node.module)).startswith("nki.") for node in stars):
        return {}
    unbound: dict[str, list[int]] = {}
    for unit in _units(tree):
        bound = shared | _bound(unit.nodes)
        for node in unit.nodes:
            if (
                not isinstance(node, ast.Name)
                or is_stored(node)
                or node.id in bound
                or (names is not None and names.meaning(node.id))
            ):
                continue
            if not hasattr(builtins, node.id) and node.id not in ("__file__", "__class__"):
                unbound.setdefault(node.id, []).append(node.lineno)
    return unbound


def _bound(nodes: list[ast.AST]) -> set[str]:
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and is_stored(node):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
    return names
