"""Resolve names in a file to NKI and NumPy modules, through the aliases that the file defines."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Container, Iterable

from ..checking.lint.api import api, misfits
from ..machine.chip import PARTITIONS
from ..nki.dialect import OLD_NAMES

OLD_PACKAGE = "neuronxcc"
NUMPY_OPERATORS = {  # NumPy functions that are used as operators of instructions -> the equivalent NKI functions
    **{name: name for name in ("add", "subtract", "multiply", "maximum", "minimum", "power", "exp", "log", "sqrt")},
    **{name: name for name in ("tanh", "sin", "square", "abs", "sign", "equal", "not_equal", "greater", "less")},
    **{name: name for name in ("greater_equal", "less_equal", "logical_and", "logical_or", "logical_xor", "invert")},
    **{name: name for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "reciprocal")},
    "max": "maximum",
    "amax": "maximum",
    "min": "minimum",
    "amin": "minimum",
    "sum": "add",
    "prod": "multiply",
    "absolute": "abs",
    "copy": "copy",
    "divide": "divide",
}
REDUCTIONS = {"max": "maximum", "min": "minimum", "sum": "add", "prod": "multiply"}  # tile functions -> operators
NUMPY_DTYPES = {
    **{name: name for name in ("float16", "float32", "int8", "int16", "int32", "uint8", "uint16", "uint32")},
    "bool_": "bool_",
    "int64": "int64",
}


MOVES = ("nki.language.load", "nki.language.store")
USUAL = {"nki": "nki", "nl": "nki.language", "nisa": "nki.isa", "np": "numpy", "par_dim": "nki.language.par_dim"}
NUMBERS = {"nki.language.fp32.min": "-3.4028235e38", "nki.language.fp32.max": "3.4028235e38"}
RENAMED = {
    **NUMBERS,
    "nki.language.dslice": "nl.ds",
    **{f"nki.isa.{name}_engine": f"nisa.engine.{name}" for name in ("tensor", "vector", "scalar", "gpsimd", "unknown")},
    "nki.isa.pool_engine": "nisa.engine.gpsimd",
}
FIRST_DIALECT = frozenset(f"nki.language.{name}" for name in ("arange", "mgrid", "par_dim", "loop_reduce"))


class Names:
    """The aliases of a file. `nl` and `nisa` are the names under which it imports nki.language and nki.isa."""

    def __init__(self, tree: ast.Module) -> None:
        self._meaning: dict[str, str] = {}
        self.imported: set[str] = set()  # dotted names that the file imports
        self._bind_imports(tree)
        self.assumed = self._bind_usual(tree)  # names of NKI that the file uses without any import
        self.aliases: set[ast.stmt] = set()  # statements such as simulate_kernel = nki.simulate_kernel
        self.undecorated: set[str] = set()  # functions that use NKI, are not kernels, and are passed as values
        self._bind_aliases(tree)
        self._numbers: dict[str, int] = {}
        self._numbers = self._constants(tree)
        self._definitions: dict[str, list[ast.FunctionDef]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                self._definitions.setdefault(node.name, []).append(node)
        self._has_index_arrays = any(
            self.dotted(node) in FIRST_DIALECT for node in ast.walk(tree) if isinstance(node, (ast.Attribute, ast.Name))
        )
        self._calls_for_values = self._finds_calls_for_values(tree)
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if self.assumed else []
        self._is_old_excerpt = any(self.dotted(call.func) in MOVES for call in calls) and not any(
            keyword.arg == "dst" for call in calls for keyword in call.keywords
        )
        self.nl = self._alias("nki.language", "nl")
        self.nisa = self._alias("nki.isa", "nisa")

    def _bind_imports(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._bind(alias.asname or alias.name.split(".")[0], alias.name if alias.asname else "", alias.name)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                self._bind_names(str(node.module), node.names)

    def _bind_usual(self, tree: ast.Module) -> list[str]:
        """Bind the usual names of NKI and NumPy if a file without imports of NKI, such as an excerpt, reads them."""
        if any(name.startswith((OLD_PACKAGE, "nki")) for name in self.imported):
            return []
        nodes = list(ast.walk(tree))
        read = {node.id for node in nodes if isinstance(node, ast.Name)}
        bound = stored([tree]) | {node.arg for node in nodes if isinstance(node, ast.arg)} | self._meaning.keys()
        found = [name for name in USUAL if name in read - bound]
        self._meaning.update({name: USUAL[name] for name in found})
        return [name for name in found if name != "np"]

    def _bind_names(self, module: str, names: list[ast.alias]) -> None:
        """Bind the names of `from module import ...`."""
        for alias in names:
            if alias.name == "*":
                self._bind_all(modern(module))
            else:
                dotted = f"{module}.{alias.name}"
                self._bind(alias.asname or alias.name, dotted, dotted)

    def _bind_aliases(self, tree: ast.Module) -> None:
        """Bind names that the module assigns exactly once, from an attribute of NKI."""
        bound = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and is_stored(node))
        for statement in tree.body:
            if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Attribute):
                continue
            target = statement.targets[0]
            if len(statement.targets) > 1 or not isinstance(target, ast.Name) or bound[target.id] > 1:
                continue
            dotted = self.dotted(statement.value)
            if dotted.startswith("nki."):
                self._meaning[target.id] = dotted
                self.aliases.add(statement)

    def _constants(self, tree: ast.Module) -> dict[str, int]:
        """Return the names that the file assigns exactly once, to an integer or to the number of partitions."""
        bound = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and is_stored(node))
        found: dict[str, int] = {}
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and bound[node.targets[0].id] == 1
            ):
                factor = self.factor(node.value)
                if factor != 1:
                    found[node.targets[0].id] = factor
        return found

    def factor(self, node: ast.expr) -> int:
        """Return the product of the known factors of an expression; it divides the expression."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            return self.factor(node.left) * self.factor(node.right)
        if isinstance(node, ast.Constant):
            return node.value if type(node.value) is int else 1
        if isinstance(node, ast.Name):
            return self._numbers.get(node.id, 1)
        return PARTITIONS if self.dotted(node) == "nki.language.tile_size.pmax" else 1

    def _bind(self, name: str, dotted: str, imported: str) -> None:
        self.imported.add(imported)
        self._meaning[name] = modern(dotted or name) or OLD_PACKAGE  # `import neuronxcc.nki` binds neuronxcc

    def _bind_all(self, module: str) -> None:
        """Bind the names of `from module import *` for NKI modules of any version."""
        old = {name.rpartition(".")[2] for name in OLD_NAMES if name.rpartition(".")[0] == module}
        for name in api().names.get(module, frozenset()) | old:
            self.imported.add(module)
            self._meaning.setdefault(name, f"{module}.{name}")

    def _alias(self, module: str, usual: str) -> str:
        found = [name for name, dotted in self._meaning.items() if dotted == module]
        return usual if usual in found or not found else found[0]

    @property
    def is_first_dialect(self) -> bool:
        """Return True if the file imports the package of the first NKI, or uses a feature that is exclusive to it."""
        return any(name.split(".")[0] == OLD_PACKAGE for name in self.imported) or (
            self._has_index_arrays or self._calls_for_values or self._is_old_excerpt
        )

    def is_current(self, call: ast.Call) -> bool:
        """Return True for an instruction in the current form, with the destination as the first argument."""
        dotted = self.dotted(call.func)
        parameters = api().signatures.get(dotted, ()) if dotted.startswith("nki.isa.") else ()
        if not call.args or not parameters or parameters[0].name != "dst":
            return False
        return not any(rule for rule, _ in misfits(dotted, call, parameters)) and self.operator(call.args[0]) is None

    def _finds_calls_for_values(self, tree: ast.Module) -> bool:
        """Return True if the file uses the return value of an instruction that now takes a `dst`."""
        statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or id(node) in statements:
                continue
            dotted = self.dotted(node.func)
            parameters = api().signatures.get(dotted, ()) if dotted.startswith("nki.isa.") else ()
            given = {keyword.arg for keyword in node.keywords}
            if parameters and parameters[0].name == "dst" and not given & {"dst", None}:
                rules = [rule for rule, _ in misfits(dotted, node, parameters)]
                if "missing-argument" in rules:
                    return True
        return False

    def dotted(self, node: ast.expr | None) -> str:
        """Return the dotted name of a chain of attributes, or "" if it does not belong to a known module."""
        if isinstance(node, ast.Name):
            return self._meaning.get(node.id, "")
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return modern(f"{base}.{node.attr}") if base else ""
        return ""

    def meaning(self, text: str) -> str:
        """Return the dotted name for a chain of attributes given as text; see `dotted`."""
        first, *rest = text.split(".")
        found = self._meaning.get(first, "")
        for attribute in rest:
            found = modern(f"{found}.{attribute}") if found else ""
        return found

    def bound_to(self, dotted: Container[str]) -> dict[str, str]:
        """Return the names that imports and aliases of the file bind to the given dotted names."""
        return {name: meaning for name, meaning in self._meaning.items() if meaning in dotted}

    def defines(self, function: str) -> bool:
        """Return True if the file defines a function or method with this name."""
        return function in self._definitions

    def returns_slices(self, function: str) -> bool:
        """Return True if the file defines a function with this name that returns slices."""
        returned = [
            node.value
            for definition in self._definitions.get(function, ())
            for node in ast.walk(definition)
            if isinstance(node, ast.Return)
        ]
        return any(isinstance(value, ast.Call) and ast.unparse(value.func) == "slice" for value in returned)

    def mentioned_by(self, function: str) -> set[str]:
        """Return the dotted names in known modules that functions or methods with this name use."""
        return {
            self.dotted(node)
            for definition in self._definitions.get(function, ())
            for node in ast.walk(definition)
            if isinstance(node, (ast.Name, ast.Attribute))
        }

    def operator(self, node: ast.expr) -> str | None:
        """Return the NKI 0.7 name of an operator ("nl.add" for np.add or nl.add), or None for anything else."""
        dotted = self.dotted(node)
        module, _, name = dotted.rpartition(".")
        if module == "numpy" and name in NUMPY_OPERATORS:
            return f"{self.nl}.{NUMPY_OPERATORS[name]}"
        if module == "nki.language":
            return f"{self.nl}.{REDUCTIONS.get(name, name)}"
        return None

    def dtype(self, node: ast.expr) -> str | None:
        """Return the NKI 0.7 name of a NumPy dtype, or None for anything else."""
        module, _, name = self.dotted(node).rpartition(".")
        return f"{self.nl}.{NUMPY_DTYPES[name]}" if module == "numpy" and name in NUMPY_DTYPES else None


def modern(dotted: str) -> str:
    """Return a dotted name without the package name of the first NKI."""
    if dotted == OLD_PACKAGE:
        return ""
    return dotted.removeprefix(f"{OLD_PACKAGE}.") if dotted.startswith(f"{OLD_PACKAGE}.nki") else dotted


def is_stored(node: ast.Name) -> bool:
    """Return True if a name is assigned."""
    return isinstance(node.ctx, ast.Store)


def stored(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that are assigned in the given nodes."""
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name) and is_stored(n)}
