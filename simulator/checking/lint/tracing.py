"""Check Python code in a kernel that tracing affects: since NKI 0.7, it runs before any device value is known.

Sources: nki/migration/index.rst and announce-nki-specialization-change.rst of SDK 2.33. The type of a name is inferred
from its assignments in a function; names of unknown type are not reported.
"""

from __future__ import annotations

import ast

from .scope import FunctionScope
from .source import Definition
from .tensors import DeviceNumber, LocalTensors

CONVERSIONS = frozenset({"builtins.int", "builtins.float", "builtins.bool", "builtins.range"})
CHANGING = (  # functions whose result differs between runs
    "time.",
    "random.",
    "secrets.",
    "uuid.uuid1",
    "uuid.uuid4",
    "numpy.random.",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.date.today",
    "os.environ",
    "os.getenv",
    "os.urandom",
)
SEEDED = frozenset({"numpy.random.default_rng", "numpy.random.RandomState", "random.Random"})
NUMPY_DTYPES = frozenset(
    {"numpy.bool_", "numpy.float16", "numpy.float32", "numpy.float64"}
    | {f"numpy.{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)


def check_tracing(scope: FunctionScope) -> None:
    """Check the Python code that runs while a kernel is traced."""
    visitor = _TracingRules(scope)
    for statement in scope.function.body:
        visitor.visit(statement)


def check_parameters(scope: FunctionScope) -> None:
    """Check that a launched kernel has no variadic parameters.

    TorchNeuron (torch_neuronx/nki_hop.py) pairs the names in the signature with the positional arguments, and uses the
    defaults of the remaining parameters. *args therefore raises KeyError or receives a single tensor.
    """
    arguments = scope.function.args
    for starred, mark in ((arguments.vararg, "*"), (arguments.kwarg, "**")):
        if starred is not None:
            instead = f"{starred.arg}0=None, {starred.arg}1=None, ..."
            message = f"TorchNeuron binds arguments by name and cannot pass {mark}{starred.arg}: use {instead} instead"
            scope.report(starred, "named-parameters", message)


class _TracingRules(ast.NodeVisitor):
    def __init__(self, scope: FunctionScope) -> None:
        self._scope = scope
        self._tensors = LocalTensors(scope.function, scope.resolve, scope.api)
        self._classes = _constructed(scope)
        self._reported: set[str] = set()

    # Device values in Python control flow

    def visit_If(self, node: ast.If) -> None:
        self._check_condition(node.test, "if")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._check_condition(node.test, "if")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._check_condition(node.test, "while", "; nl.while_loop runs on the device")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._check_condition(test, "if")
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        if (
            self._tensors.of(node.test) is None
        ):  # an assertion on a tile is useful on a simulator, as in the examples of nki.language
            self._check_condition(node.test, "assert")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for value in node.values[:-1]:
            self._check_condition(value, "and" if isinstance(node.op, ast.And) else "or")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._check_condition(node.operand, "not")
        self.generic_visit(node)

    def _check_condition(self, test: ast.expr, what: str, instead: str = "") -> None:
        """Report a condition on a value of the device. Other parts of a Boolean operation are checked when they are
        visited."""
        if isinstance(test, ast.BoolOp):
            self._check_condition(test.values[-1], what, instead)
        elif isinstance(test, ast.Compare):
            if any(isinstance(operator, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for operator in test.ops):
                return
            numbers = map(self._tensors.device_number, (test.left, *test.comparators))
            number = next((number for number in numbers if number is not None), None)
            if number is not None:
                self._report_condition(test, what, number.shown, instead)
        elif not isinstance(test, ast.UnaryOp):
            number = self._tensors.device_number(test)
            if number is not None:
                self._report_condition(test, what, number.shown, instead)
            elif self._tensors.of(test) is not None:
                self._report_condition(test, what, "a tensor", instead or "; nl.where selects on the device")

    def _report_condition(self, node: ast.expr, what: str, kind: str, instead: str) -> None:
        message = f"`{what} {ast.unparse(node)}`: {kind} has no value while the kernel is traced{instead}"
        self._scope.report(node, "device-condition", message)

    # Calls

    def visit_Call(self, node: ast.Call) -> None:
        dotted = self._scope.external(node.func) or ""
        if dotted in CONVERSIONS:
            self._check_conversion(node, dotted.removeprefix("builtins."))
        is_seeded = dotted in SEEDED and (node.args or node.keywords)
        if dotted.startswith(CHANGING) and not is_seeded:
            self._frozen(node, dotted)
        if dotted.startswith("nki."):
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                self._check_dtype(argument)
        self._check_grid(node)
        self.generic_visit(node)

    def _check_conversion(self, call: ast.Call, name: str) -> None:
        """Report values of the device that are converted to Python values."""
        for argument in call.args:
            number = self._tensors.device_number(argument)
            if number is None and self._tensors.of(argument) is not None:
                number = DeviceNumber("a tensor")
            if number is not None:
                instead = "; nl.fori_loop runs on the device" if name == "range" else ""
                message = f"{ast.unparse(call)}: {number.shown} has no value while the kernel is traced{instead}"
                self._scope.report(call, "device-condition", message)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        dotted = self._scope.external(node.value) or ""
        if dotted == "os.environ":
            self._frozen(node, dotted)
        self.generic_visit(node)

    def _frozen(self, node: ast.expr, dotted: str) -> None:
        message = f"{dotted} is read once, while tracing, and compiled into the kernel: pass the value as an argument"
        self._scope.report(node, "frozen-value", message)

    def _check_grid(self, node: ast.Call) -> None:
        """Check the launch grid in `kernel[2](...)`."""
        if not isinstance(node.func, ast.Subscript):
            return
        called = self._scope.resolve(node.func.value)
        if isinstance(called, Definition) and _is_jitted(called, self._scope):
            message = "launch grids in brackets are deprecated: set the number of cores with NEURON_LOGICAL_NC_CONFIG"
            self._scope.report(node, "deprecated", message)

    # Data types, global variables and objects

    def _check_dtype(self, value: ast.expr) -> None:
        dotted = self._scope.external(value) or ""
        if dotted in NUMPY_DTYPES:
            short = dotted.removeprefix("numpy.")
            instead = "a dtype of nki.language" if short == "float64" else f"nl.{short}"
            self._scope.report(value, "numpy-dtype", f"{dotted} is not a dtype of NKI: use {instead}")

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        if any(isinstance(operator, (ast.Eq, ast.NotEq)) for operator in node.ops):
            for operand in operands:
                self._check_dtype(operand)
            classes = {self._class_of(operand) for operand in operands} - {None}
            for name in sorted(str(name) for name in classes):
                message = (
                    f"{ast.unparse(node)}: {name} has no __eq__, so objects are compared by identity; NKI 0.6 compared "
                    "their fields: make it a dataclass"
                )
                self._scope.report(node, "own-equality", message)
                break
        self.generic_visit(node)

    def _class_of(self, expression: ast.expr) -> str | None:
        """Return the class of an object if the class does not define equality."""
        if isinstance(expression, ast.Name):
            return self._classes.get(expression.id)
        return _plain_class(self._scope, expression)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load) or node.id in self._reported:
            return
        writer = self._scope.changed_global(node.id)
        if writer is not None:
            self._reported.add(node.id)
            message = f"the global variable {node.id!r} changes in line {writer}: pass it as an argument"
            self._scope.report(node, "global-state", message)


def _is_jitted(definition: Definition, scope: FunctionScope) -> bool:
    node = definition.node
    decorators = [] if isinstance(node, ast.ClassDef) else node.decorator_list
    outside = FunctionScope(definition.module, None, definition.enclosing, scope.files, lambda _: None)
    names = [decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in decorators]
    return any(outside.external(name) in ("nki.jit", "neuronxcc.nki.jit") for name in names)


def _constructed(scope: FunctionScope) -> dict[str, str]:
    """Map each local name that refers only to objects of a class without custom equality to the name of the class."""
    assigned = [node for node in ast.walk(scope.function) if isinstance(node, ast.Assign)]
    classes: dict[str, set[str | None]] = {}
    for node in assigned:
        for target in (candidate for candidate in node.targets if isinstance(candidate, ast.Name)):
            classes.setdefault(target.id, set()).add(_plain_class(scope, node.value))
    single = {name: next(iter(kinds)) for name, kinds in classes.items() if len(kinds) == 1}
    return {name: kind for name, kind in single.items() if kind is not None}


def _plain_class(scope: FunctionScope, value: ast.expr) -> str | None:
    """Return the class that a call instantiates if it does not define equality (no dataclass, Enum or __eq__)."""
    resolved = scope.resolve(value.func) if isinstance(value, ast.Call) else None
    if not isinstance(resolved, Definition) or not isinstance(resolved.node, ast.ClassDef):
        return None
    node = resolved.node
    bases = [ast.unparse(base) for base in node.bases]
    plain = all(base == "object" or base.endswith("NKIObject") for base in bases)
    methods = {statement.name for statement in node.body if isinstance(statement, ast.FunctionDef)}
    return node.name if plain and not node.decorator_list and "__eq__" not in methods else None
