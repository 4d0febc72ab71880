"""Infer the values of the local names in a function: tensors with their memory and dtype, and numbers known only on the
device.

Control flow is not analysed: a name is considered a tensor in a given memory only if every assignment to it in the
function agrees.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ...instructions.operators import ACTIVATIONS, ALU
from ...nki import tile_functions
from .api import Api, arguments_of
from .source import External, FunctionNode, Resolved, parameters, stored_names
from .subscripts import view_shape

ON_CHIP = ("sbuf", "psum")
CREATORS = frozenset(f"nki.language.{name}" for name in ("ndarray", "zeros", "ones", "full", "rand", "load"))
LIKE = frozenset({"nki.language.zeros_like", "nki.language.empty_like"})
IN_PSUM = frozenset({"nki.language.transpose", "nki.language.matmul"})
OF_TILES = frozenset(
    f"nki.language.{name}"
    for name in (*ALU, *ACTIVATIONS, *tile_functions.__all__, "sum", "max", "min", "prod", "transpose", "matmul")
    if name not in ("prelu", "random_seed", "rand")
)
"""Functions that return a new tile, which is in SBUF, or in PSUM for the functions in IN_PSUM."""
REGISTERS = frozenset({"nki.isa.register_alloc"})
SCALARS = frozenset({"nki.isa.scalar_load"})
LOOPS = frozenset({"nki.language.fori_loop", "nki.language.while_loop"})
Resolve = Callable[[ast.expr], "Resolved | None"]
_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


@dataclass(frozen=True)
class Tensor:
    """The memory ("sbuf", "psum", "hbm", "private_hbm" or "shared_hbm"), dtype and shape of a tensor.

    Unknown properties are None.
    """

    buffer: str | None
    dtype: str | None
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class DeviceNumber:
    """A register or a scalar, that is, a number that is known only on the device. `shown` is its name in messages."""

    shown: str


Value = Tensor | DeviceNumber


class LocalTensors:
    """The tensors and device numbers of a function."""

    def __init__(
        self, function: FunctionNode, resolve: Resolve, api: Api, number: Callable[[ast.expr], int | None] | None = None
    ) -> None:
        """Collect the assignments of a function.

        `number` returns the value of an integer expression in the module, or None if unknown.
        """
        self._resolve = resolve
        self._outer_number = number or (lambda expression: None)
        self._api = api
        self._assigned: dict[str, list[ast.expr | Value | None]] = {}
        self._known: dict[str, Value | None] = {}  # cached values of names
        self._changing: set[str] = set()  # names of numbers that change, as in n += 1
        self._bodies = _loop_bodies(function, resolve)
        for argument in parameters(function.args):
            self._assigned.setdefault(argument.arg, []).append(None)
        for statement in function.body:
            self._collect(statement)
        for name in self._assigned:  # in source order, since most names depend on preceding names
            self._of_name(name)

    def _collect(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
            self._assign(node.target, node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self._changing.add(node.target.id)  # tensors do not support this; a number remains a number
        elif isinstance(node, (ast.For, ast.AugAssign, ast.AsyncFor, ast.comprehension)):
            self._assign(node.target, None)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if item.optional_vars is not None:
                    self._assign(item.optional_vars, None)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            self._parameters(node)
        for child in ast.iter_child_nodes(node):
            self._collect(child)

    def _parameters(self, node: FunctionNode | ast.Lambda) -> None:
        arguments = self._bodies.get(node if isinstance(node, ast.Lambda) else node.name)
        for position, argument in enumerate(parameters(node.args)):
            known = DeviceNumber(arguments) if arguments is not None and position == 0 else None
            self._assigned.setdefault(argument.arg, []).append(known)

    def _assign(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
            is_plain = not any(isinstance(part, ast.Starred) for part in (*target.elts, *value.elts))
            if is_plain and len(target.elts) == len(value.elts):
                for element, part in zip(target.elts, value.elts):
                    self._assign(element, part)
                return
        for name in stored_names(target):
            self._assigned.setdefault(name, []).append(value if isinstance(target, ast.Name) else None)

    def of(self, expression: ast.expr) -> Tensor | None:
        """Return the tensor that an expression evaluates to or is a view of, or None if unknown."""
        value = self._of(expression)
        return value if isinstance(value, Tensor) else None

    def device_number(self, expression: ast.expr) -> DeviceNumber | None:
        """Return the register or scalar that an expression evaluates to, or None if unknown."""
        value = self._of(expression)
        return value if isinstance(value, DeviceNumber) else None

    def _of(self, expression: ast.expr) -> Value | None:
        if isinstance(expression, ast.Call):
            return self._of_call(expression)
        if isinstance(expression, ast.Subscript):
            value = self._of(expression.value)
            return replace(value, shape=self._view_shape(value, expression)) if isinstance(value, Tensor) else None
        if isinstance(expression, ast.IfExp):
            return self._common([expression.body, expression.orelse])
        if isinstance(expression, ast.BinOp):
            sides = (self._of(side) for side in (expression.left, expression.right))
            return next((side for side in sides if isinstance(side, DeviceNumber)), None)
        if isinstance(expression, ast.Name) and expression.id in self._assigned:
            return self._of_name(expression.id)
        return None

    def _of_name(self, name: str) -> Value | None:
        if name not in self._known:
            self._known[name] = None  # treated as unknown during evaluation, in case of a cycle
            self._known[name] = self._common(self._assigned[name])
        return self._known[name]

    def _common(self, assigned: list[ast.expr | Value | None]) -> Value | None:
        """Return the properties that all values of a name have in common."""
        values = [self._of(value) if isinstance(value, ast.expr) else value for value in assigned]
        if all(isinstance(value, DeviceNumber) for value in values):
            return values[0]
        known = [value for value in values if isinstance(value, Tensor)]
        if len(known) < len(values):
            return None
        buffers = {tensor.buffer for tensor in known}
        dtypes = {tensor.dtype for tensor in known}
        shapes = {tensor.shape for tensor in known}
        return Tensor(
            buffers.pop() if len(buffers) == 1 else None,
            dtypes.pop() if len(dtypes) == 1 else None,
            shapes.pop() if len(shapes) == 1 else None,
        )

    def _of_call(self, call: ast.Call) -> Value | None:
        resolved = self._resolve(call.func)
        if isinstance(resolved, External):
            return self._of_function(resolved.dotted, call)
        if isinstance(call.func, ast.Attribute) and call.func.attr in self._api.views:
            base = self._of(call.func.value)
            changes = call.func.attr in ("view", "ap")  # both may change the dtype
            if isinstance(base, Tensor):
                return replace(base, shape=None, dtype=None if changes else base.dtype)
        return None

    def _of_function(self, function: str, call: ast.Call) -> Value | None:
        if function in REGISTERS:
            return DeviceNumber("a register")
        if function in SCALARS:
            return DeviceNumber("a scalar of the device")
        if function not in self._api.signatures:
            return None
        bound = arguments_of(call, self._api.signatures[function])
        if function in CREATORS:
            return Tensor(
                self._language_name(bound["buffer"]) if "buffer" in bound else "sbuf",
                self._dtype(bound),
                self._shape(bound.get("shape")),
            )
        if function in LIKE or function == "nki.language.expand_dims":
            return self._like(bound)
        if function in OF_TILES:
            return Tensor("psum" if function in IN_PSUM else "sbuf", self._result_dtype(bound))
        return None

    def _like(self, bound: dict[str, ast.expr]) -> Tensor:
        """Return a tensor like the argument `x`, with another memory or dtype if requested."""
        base = self._of(bound["x"]) if "x" in bound else None
        tensor = base if isinstance(base, Tensor) else Tensor(None, None)
        if "buffer" in bound:
            tensor = replace(tensor, buffer=self._language_name(bound["buffer"]))
        return replace(tensor, dtype=self._dtype(bound)) if "dtype" in bound else tensor

    def _result_dtype(self, bound: dict[str, ast.expr]) -> str | None:
        """Return the result dtype of a tile function: the requested dtype or, if there is none, the dtype of its first
        tile."""
        if "dtype" in bound:
            return self._dtype(bound)
        operands = [self._of(bound[name]) for name in ("x", "data", "condition") if name in bound]
        return operands[0].dtype if operands and isinstance(operands[0], Tensor) else None

    def number(self, expression: ast.expr | None) -> int | None:
        """Return the integer that an expression evaluates to, or None if unknown."""
        match expression:
            case None:
                return None
            case ast.Constant(value=value):
                return value if type(value) is int else None
            case ast.Name(id=name) if name in self._assigned:
                return self._assigned_number(name)
            case ast.UnaryOp(op=ast.USub()):
                operand = self.number(expression.operand)
                return -operand if operand is not None else None
            case ast.BinOp(op=operator) if type(operator) in _ARITHMETIC:
                left, right = self.number(expression.left), self.number(expression.right)
                if left is None or right is None or (not right and isinstance(operator, ast.FloorDiv)):
                    return None
                return _ARITHMETIC[type(operator)](left, right)
        return self._outer_number(expression)

    def _assigned_number(self, name: str) -> int | None:
        """Return the integer that a name refers to, or None if it is assigned more than once or from another name."""
        values = self._assigned[name]
        only = values[0] if len(values) == 1 and name not in self._changing else None
        return self.number(only) if isinstance(only, ast.expr) and not isinstance(only, ast.Name) else None

    def _shape(self, expression: ast.expr | None) -> tuple[int, ...] | None:
        """Return a shape, or None if any extent is unknown."""
        if not isinstance(expression, (ast.Tuple, ast.List)):
            return None
        extents = [self.number(element) for element in expression.elts]
        return tuple(extent for extent in extents if extent is not None) if None not in extents else None

    def _view_shape(self, tensor: Tensor, view: ast.Subscript) -> tuple[int, ...] | None:
        """Return the shape of a view whose indices are all known."""
        if tensor.shape is None or tensor.buffer is None:
            return None
        return view_shape(tensor.shape, tensor.buffer in ON_CHIP, view, self.number)

    def _dtype(self, bound: dict[str, ast.expr]) -> str | None:
        return self._language_name(bound["dtype"]) if "dtype" in bound else None

    def _language_name(self, expression: ast.expr) -> str | None:
        resolved = self._resolve(expression)
        if isinstance(resolved, External) and resolved.dotted.startswith("nki.language."):
            return resolved.dotted.removeprefix("nki.language.").removeprefix("MemoryRegion.")
        return None


def _loop_bodies(function: FunctionNode, resolve: Resolve) -> dict[str | ast.Lambda, str]:
    """Return the nested functions that device loops call, with a description of the argument that the loop passes."""
    bodies: dict[str | ast.Lambda, str] = {}
    for loop, call in _loops(function, resolve):
        description = "the index of nl.fori_loop" if loop.endswith("fori_loop") else "the condition of nl.while_loop"
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            if isinstance(argument, ast.Name):
                bodies[argument.id] = description
            elif isinstance(argument, ast.Lambda):
                bodies[argument] = description
    return bodies


def _loops(function: FunctionNode, resolve: Resolve) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(function):
        resolved = resolve(node.func) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and isinstance(resolved, External) and resolved.dotted in LOOPS:
            yield resolved.dotted, node
