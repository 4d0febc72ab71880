"""The Python that the NKI compiler accepts inside a kernel.

Source: the open-source front end of the compiler (leanprover/KLR at 7ccd18c: `interop/klr/gather.c`,
`KLR/NKI/Simplify.lean` and, for the builtins, `KLR/Trace/Python.lean`), the NKI language guide, and the migration
guides, which allow nested functions as bodies of `nl.fori_loop` and `nl.while_loop` since 0.6. `is None` is accepted
silently, every other `is` is not.
"""

from __future__ import annotations

import ast
import itertools
import sys

from .scope import FunctionScope
from .source import FunctionNode, blocks_of
from .tracing import NUMPY_DTYPES
from .values import Containers

BUILTINS = frozenset(
    {"range", "len", "min", "max", "abs", "divmod", "print", "isinstance", "type", "slice"}
    | {"str", "bool", "int", "float", "tuple", "list", "dict"}
)
MATH = frozenset(f"math.{name}" for name in ("ceil", "floor", "gcd", "log2", "log10", "pow", "sqrt"))
HOST_LIBRARIES = (
    frozenset({"numpy", "torch", "jax", "ml_dtypes", "scipy", "tensorflow"}) | sys.stdlib_module_names
) - {"builtins"}
HELPER_DECORATORS = frozenset({"nki.jit", "neuronxcc.nki.jit", "builtins.staticmethod", "dataclasses.dataclass"})
LOOP_CALLS = frozenset({"nki.language.fori_loop", "nki.language.while_loop"})

STATEMENTS: dict[str, str] = {
    "Raise": "`raise`: use assert",
    "Try": "`try`: nothing can be caught in a kernel",
    "TryStar": "`try`: nothing can be caught in a kernel",
    "Import": "`import`: move it out of the function",
    "ImportFrom": "`import`: move it out of the function",
    "Global": "`global`: a kernel cannot assign to global variables",
    "Nonlocal": "`nonlocal`: pass a list or a dict instead",
    "Delete": "`del`",
    "Match": "`match`: use if and elif",
    "ClassDef": "`class`: move it out of the function",
    "TypeAlias": "`type`",
    "AsyncFunctionDef": "`async`",
    "AsyncFor": "`async`",
    "AsyncWith": "`async`",
}
EXPRESSIONS: dict[str, str] = {
    "Lambda": "`lambda`: write a function at module level",
    "ListComp": "a list comprehension: append in a for loop",
    "SetComp": "a set comprehension: append to a list in a for loop",
    "DictComp": "a dict comprehension: assign in a for loop",
    "GeneratorExp": "a generator expression: append to a list in a for loop",
    "NamedExpr": "`:=`: assign first",
    "Yield": "`yield`: return a list",
    "YieldFrom": "`yield`: return a list",
    "Await": "`await`",
    "Set": "a set: use a list or a tuple",
    "TemplateStr": "a template string",
}
MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


def check_subset(scope: FunctionScope, entry: bool) -> None:
    """Check that a function is in the subset. `entry`: it is decorated as a kernel."""
    node = scope.function
    if isinstance(node, ast.AsyncFunctionDef):
        scope.report(node, "unsupported-statement", "the NKI compiler does not take `async`")
    _check_signature(scope, node, entry)
    if not entry:
        for decorator in node.decorator_list:
            name = decorator.func if isinstance(decorator, ast.Call) else decorator
            if scope.external(name) not in HELPER_DECORATORS:
                shown = ast.unparse(decorator)
                message = f"the NKI compiler does not take @{shown} on a function that it inlines"
                scope.report(decorator, "decorator", message)
    visitor = _Subset(scope)
    for default in (*node.args.defaults, *node.args.kw_defaults):
        if default is not None:
            visitor.visit(default)
    for statement in node.body:
        visitor.visit(statement)


def _check_signature(scope: FunctionScope, node: FunctionNode, entry: bool) -> None:
    arguments = node.args
    if arguments.vararg is not None:
        scope.report(arguments.vararg, "signature", f"the NKI compiler does not take *{arguments.vararg.arg}")
    elif arguments.kwonlyargs:
        message = "the NKI compiler does not take the bare `*`: move parameters with defaults to the end"
        scope.report(arguments.kwonlyargs[0], "signature", message)
    if arguments.kwarg is not None:
        scope.report(arguments.kwarg, "signature", f"the NKI compiler does not take **{arguments.kwarg.arg}")
    if entry:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if isinstance(default, MUTABLE):
                shown = ast.unparse(default)
                scope.report(default, "signature", f"an argument of a kernel cannot be {shown}: use a tuple")


class _Subset(ast.NodeVisitor):
    def __init__(self, scope: FunctionScope) -> None:
        self._scope = scope
        self._containers = Containers(scope)
        self._loop_bodies = self._find_loop_bodies()
        self._reported: set[str] = set()  # names that a finding has been made of: once a function is enough

    def _find_loop_bodies(self) -> set[str]:
        """Names of nested functions that are handed to a device loop."""
        bodies: set[str] = set()
        for node in ast.walk(self._scope.function):
            if isinstance(node, ast.Call) and self._scope.external(node.func) in LOOP_CALLS:
                arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
                bodies.update(argument.id for argument in arguments if isinstance(argument, ast.Name))
        return bodies

    def visit(self, node: ast.AST) -> None:
        kind = type(node).__name__
        if isinstance(node, ast.stmt) and kind in STATEMENTS:
            self._scope.report(node, "unsupported-statement", f"the NKI compiler does not take {STATEMENTS[kind]}")
            if kind in ("Try", "TryStar", "Match"):
                for statement in itertools.chain.from_iterable(blocks_of(node)):
                    self.visit(statement)
        elif isinstance(node, ast.expr) and kind in EXPRESSIONS:
            self._scope.report(node, "unsupported-expression", f"the NKI compiler does not take {EXPRESSIONS[kind]}")
        else:
            super().visit(node)

    # Statements

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name not in self._loop_bodies:
            message = f"the NKI compiler does not take the nested function {node.name!r}: move it to module level"
            self._scope.report(node, "nested-function", message)
        _check_signature(self._scope, node, entry=False)
        for statement in node.body:
            self.visit(statement)

    def visit_For(self, node: ast.For) -> None:
        if not isinstance(node.target, ast.Name):
            shown = ast.unparse(node.target)
            message = f"the NKI compiler takes one name after `for`, got {shown}: unpack it in the body"
            self._scope.report(node.target, "loop-target", message)
        self._check_else(node)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._check_else(node)
        self.generic_visit(node)

    def _check_else(self, node: ast.For | ast.While) -> None:
        if node.orelse:
            self._scope.report(node.orelse[0], "loop-else", "the NKI compiler does not take `else` after a loop")

    def visit_With(self, node: ast.With) -> None:
        item = node.items[0]
        call = item.context_expr
        bare = isinstance(call, ast.Call) and not call.args and not call.keywords
        if len(node.items) > 1 or item.optional_vars is not None or not bare:
            message = "the NKI compiler takes one call without arguments and without `as`: `with nl.no_reorder():`"
            self._scope.report(node, "with-block", message)
        elif isinstance(call, ast.Call) and self._scope.external(call.func) != "nki.language.no_reorder":
            shown = ast.unparse(call)
            self._scope.report(node, "with-block", f"the NKI compiler has no block {shown}, only nl.no_reorder()")
        for statement in node.body:
            self.visit(statement)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, (ast.Tuple, ast.List)):
                self._check_unpacked(target)
        self.generic_visit(node)

    def _check_unpacked(self, target: ast.Tuple | ast.List) -> None:
        for element in target.elts:
            if isinstance(element, (ast.Tuple, ast.List)):
                self._check_unpacked(element)
            elif not isinstance(element, (ast.Name, ast.Starred)):
                message = f"the NKI compiler unpacks into names, got {ast.unparse(element)}: assign it by itself"
                self._scope.report(element, "assign-target", message)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)  # the annotation is not evaluated
        if node.value is not None:
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._check_operator(node, node.op)
        self.generic_visit(node)

    # Expressions

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._check_operator(node, node.op)
        self.generic_visit(node)

    def _check_operator(self, node: ast.BinOp | ast.AugAssign, operator: ast.operator) -> None:
        if isinstance(operator, ast.MatMult):
            message = "the NKI compiler does not take `@`: use nisa.nc_matmul or nl.matmul"
            self._scope.report(node, "unsupported-expression", message)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for index, operator in enumerate(node.ops):
            if isinstance(operator, (ast.Is, ast.IsNot)):
                other = operands[index + 1]
                if not (isinstance(other, ast.Constant) and other.value is None):
                    shown, instead = ("is", "==") if isinstance(operator, ast.Is) else ("is not", "!=")
                    message = f"the NKI compiler does not take `{shown}` but with None: use {instead}"
                    self._scope.report(node, "identity-comparison", message)
            elif isinstance(operator, (ast.In, ast.NotIn)) and len(node.ops) > 1:
                message = "the NKI compiler does not take `in` in a chained comparison: join two with `and`"
                self._scope.report(node, "membership-chain", message)
                break
            elif isinstance(operator, (ast.In, ast.NotIn)) and self._containers.of(operands[index + 1]) == "dict":
                shown = ast.unparse(node)
                message = f"{shown}: the NKI compiler takes `in` a string, list or tuple: use .get, or a list of keys"
                self._scope.report(node, "dict-membership", message)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, (complex, bytes)):
            message = f"the NKI compiler has no {type(value).__name__} values"
            self._scope.report(node, "unsupported-constant", message)
        elif isinstance(value, int) and value > 2**31 - 1:
            self._scope.report(node, "unsupported-constant", f"{value} is beyond the compiler's 32-bit integers")

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                shown = "**" + ast.unparse(value) if key is None else ast.unparse(key)
                message = f"the NKI compiler takes string literals as keys, got {shown}"
                self._scope.report(key or value, "dict-key", message)
        self.generic_visit(node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> None:
        if node.format_spec is not None:
            message = f"the NKI compiler does not take the format specification in {{{ast.unparse(node.value)}:...}}"
            self._scope.report(node, "format-spec", message)
        self.visit(node.value)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        self._check_starred(node.elts)
        self.generic_visit(node)

    def visit_List(self, node: ast.List) -> None:
        self._check_starred(node.elts)
        self.generic_visit(node)

    def _check_starred(self, elements: list[ast.expr]) -> None:
        for element in elements:
            if isinstance(element, ast.Starred):
                message = f"the NKI compiler does not take *{ast.unparse(element.value)}: it expands no tuples"
                self._scope.report(element, "unsupported-expression", message)

    def visit_Call(self, node: ast.Call) -> None:
        self._check_starred(node.args)
        for keyword in node.keywords:
            if keyword.arg is None:
                message = f"the NKI compiler does not take **{ast.unparse(keyword.value)} in a call"
                self._scope.report(keyword.value, "unsupported-expression", message)
        dotted = self._scope.external(node.func)
        on_host = dotted is not None and "." in dotted and dotted.split(".")[0] in HOST_LIBRARIES
        if on_host and dotted not in MATH:
            message = f"{dotted} runs on the host only: call it outside and pass its result"
            self._scope.report(node, "host-call", message)
            for argument in (*node.args, *node.keywords):
                self.visit(argument)
        else:
            self.generic_visit(node)

    # Names

    def visit_Attribute(self, node: ast.Attribute) -> None:
        dotted = self._scope.external(node)
        if dotted in NUMPY_DTYPES:
            own = dotted.removeprefix("numpy.")
            instead = f"nl.{own}" if not own.endswith("64") else "a dtype of nki.language"
            self._scope.report(node, "numpy-dtype", f"the NKI compiler does not take {dotted}: use {instead}")
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load) or node.id in self._reported:
            return
        scope = self._scope
        dotted = scope.external(node)
        changed = scope.changed_global(node.id)
        if dotted is not None and dotted.startswith("builtins.") and node.id not in BUILTINS:
            scope.report(node, "builtin", f"the NKI compiler has no builtin {node.id!r}")
        elif scope.is_captured(node.id):
            instead = "import it at the top of the module" if scope.is_import(node.id) else "pass it as an argument"
            message = f"{node.id!r} belongs to the function around this one: {instead}"
            scope.report(node, "closure", message)
        elif changed is not None:
            message = f"the global {node.id!r} changes, in line {changed}: pass it as an argument"
            scope.report(node, "global-state", message)
        else:
            return
        self._reported.add(node.id)
