"""Check how a function uses the NKI API: names, calls, operators of engines, and memories."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...instructions.operands import Function, NamedFunction, Operator, Scalar
from ...instructions.tensor_operands import DmaTensor, Tile
from ...instructions.transpose import MOST_ON_VECTOR
from ...machine.instruction import DECLARATIONS, engine
from ...nki.dialect import ENUMS, old_argument, old_name
from .api import arguments_of, misfits, modern, tensor_member, unknown_name
from .operand_limits import check_loop, check_operands, check_tile, declared_operands, local_tensors
from .scope import FunctionScope
from .source import parameters
from .subscripts import check_subscript
from .tensors import CREATORS, ON_CHIP, LocalTensors, Tensor

BYPASS = frozenset({"bypass"})  # op0 and op1; which instructions accept it is not documented
INSTEAD = {"max": "maximum", "min": "minimum", "sum": "add", "prod": "multiply"}  # tile functions -> operators
SIMULATED_ONLY = {  # release notes of NKI, known issues of nki.language
    "nki.language.divide": "multiply by nl.reciprocal(y)",
    "nki.language.fmod": "there is no such instruction",
    "nki.language.mod": "there is no such instruction",
}
INTEGERS = frozenset({"int8", "int16", "int32", "uint8", "uint16", "uint32"})
OUTPUT_BUFFER = "shared_hbm"
RANGES = ("range", "affine_range", "sequential_range", "static_range")
OFFSETS = ("scalar_offset", "vector_offset")  # of an access pattern


def check_calls(scope: FunctionScope) -> None:
    """Check the use of the NKI API in a function."""
    visitor = _Calls(scope)
    arguments = scope.function.args
    for part in (*arguments.defaults, *arguments.kw_defaults):
        if part is not None:
            visitor.visit(part)
    visitor.visit_all(scope.function.body)


def check_outputs(scope: FunctionScope, launched: bool = True) -> None:
    """Check that a kernel returns the outputs that it creates, and that they are in the memory that is required for
    outputs.

    `launched`: whether the file calls the kernel from host code. If not, the kernel may return a tile, since a kernel
    in another file may call it.
    """
    tensors = local_tensors(scope)
    nodes = [node for statement in scope.function.body for node in _own(statement)]
    outputs = [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
    for output in outputs:
        for value in output.elts if isinstance(output, (ast.Tuple, ast.List)) else [output]:
            _check_output(scope, tensors, output, value, launched)
    if not outputs and not _writes_argument(scope, nodes):
        for node in (node for node in nodes if isinstance(node, ast.Assign)):
            tensor = tensors.of(node.value)
            if tensor is not None and tensor.buffer == OUTPUT_BUFFER:
                message = (
                    f"{ast.unparse(node)}: the kernel returns nothing, so the values that it writes there are lost"
                )
                scope.report(node, "lost-output", message)


def _check_output(
    scope: FunctionScope, tensors: LocalTensors, output: ast.expr, value: ast.expr, launched: bool
) -> None:
    """Check `output`, one of the values that a kernel returns."""
    tensor = tensors.of(value)
    if isinstance(value, (ast.Constant, ast.Dict, ast.JoinedStr)) and ast.unparse(value) != "None":
        scope.report(output, "output-buffer", f"the kernel returns {ast.unparse(value)}, which is not a tensor")
    if tensor is None or tensor.buffer is None or tensor.buffer == OUTPUT_BUFFER:
        return
    message = f"the output {ast.unparse(value)} is in nl.{tensor.buffer}: allocate it in nl.shared_hbm"
    if launched or tensor.buffer not in ("sbuf", "psum"):
        scope.report(output, "output-buffer", message)
    else:
        scope.report(output, "tile-output", f"{message}, unless only other kernels call {scope.function.name}")


def _writes_argument(scope: FunctionScope, nodes: list[ast.AST]) -> bool:
    """Return True if an instruction writes to an argument of the kernel."""
    arguments = {argument.arg for argument in parameters(scope.function.args)}
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        function = modern(scope.external(call.func) or "")
        if function == "nki.language.store" or function.startswith("nki.isa."):
            written = [keyword.value for keyword in call.keywords if keyword.arg == "dst"] or call.args[:1]
            if any(_base(argument) in arguments for argument in written):
                return True
    return False


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement and all nodes in it, except for nested functions and classes."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _own(child)


def takes_tiles(scope: FunctionScope) -> bool:
    """Return True if a function passes one of its parameters, or a view of a parameter, to a compute engine.

    Such a parameter must be a tile.
    """
    arguments = {argument.arg for argument in parameters(scope.function.args)}
    for node in ast.walk(scope.function):
        if not isinstance(node, ast.Call):
            continue
        function = modern(scope.external(node.func) or "")
        bound = arguments_of(node, scope.api.signatures.get(function, ()))
        tiles = [
            name
            for name, kind in declared_operands(function).items()
            if isinstance(kind, Tile) and type(kind) is not DmaTensor
        ]
        if any(_base(bound[name]) in arguments for name in tiles if name in bound):
            return True
    return False


def _base(expression: ast.expr) -> str:
    """Return the name of the tensor that an expression is a view of."""
    while isinstance(expression, (ast.Subscript, ast.Attribute, ast.Call)):
        expression = expression.func if isinstance(expression, ast.Call) else expression.value
    return expression.id if isinstance(expression, ast.Name) else ""


def _may_leave(statement: ast.AST, in_loop: bool = False) -> bool:
    """Return True if a compound statement contains a `return`, or a `break` or `continue` of an outer loop."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
        return False
    if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
        return isinstance(statement, ast.Return) or not in_loop
    in_loop = in_loop or isinstance(statement, (ast.For, ast.While))
    return any(_may_leave(part, in_loop) for part in ast.iter_child_nodes(statement))


class _Calls(ast.NodeVisitor):
    def __init__(self, scope: FunctionScope) -> None:
        self._scope = scope
        self.tensors = local_tensors(scope)
        self._conditions = 0  # the number of conditions around the current node

    def _nki_name(self, expression: ast.expr) -> str | None:
        dotted = modern(self._scope.external(expression) or "")
        return dotted if dotted == "nki" or dotted.startswith("nki.") else None

    def _check_name(self, node: ast.expr, dotted: str) -> None:
        old = old_name(dotted)
        if old is not None:
            self._scope.report(node, "old-dialect", old)
            return
        wrong = unknown_name(dotted, self._scope.api)
        if wrong is not None:
            self._scope.report(node, "unknown-name", wrong)
        instead = self._scope.api.deprecated.get(dotted)
        if instead is not None:
            self._scope.report(node, "deprecated", f"{dotted} is deprecated since NKI 0.7: {instead}")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        dotted = self._nki_name(node)
        if dotted is not None:
            self._check_name(node, dotted)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        dotted = self._nki_name(node)
        if dotted is not None:
            self._check_name(node, dotted)
            return  # the attribute chain has already been checked as one name
        if isinstance(node.value, ast.Name) and self.tensors.of(node.value) is not None:
            wrong = tensor_member(node.attr, self._scope.api)
            if wrong is not None:
                self._scope.report(node, "unknown-name", wrong)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._check_operands(node, node.left, node.right)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if not isinstance(node.op, ast.Not):
            self._check_operands(node, node.operand)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._check_operands(node, node.target, node.value)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if any(isinstance(operator, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for operator in node.ops):
            self._check_operands(node, node.left, *node.comparators)
        self.generic_visit(node)

    def _check_operands(self, node: ast.BinOp | ast.UnaryOp | ast.AugAssign | ast.Compare, *operands: ast.expr) -> None:
        if any(self.tensors.of(operand) is not None for operand in operands):
            message = (
                f"{ast.unparse(node)}: tensors have no operators: use a function of nki.language or an instruction"
            )
            self._scope.report(node, "tensor-operator", message)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        tensor = self.tensors.of(node.value)
        if tensor is not None and tensor.shape and not self._conditions:
            on_chip = tensor.buffer in ON_CHIP
            check_subscript(self._scope, tensor.shape, on_chip, node, self.tensors.number)
        self.generic_visit(node)

    def visit_If(self, node: ast.If | ast.IfExp | ast.While | ast.Match) -> None:
        """Visit a statement whose branches may not run because of the shape of a tensor."""
        for name, value in ast.iter_fields(node):
            if name in ("test", "subject"):
                self.visit(value)
            else:
                self.visit_all(value if isinstance(value, list) else [value], conditions=1)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit_If(node)

    def visit_While(self, node: ast.While) -> None:
        self.visit_If(node)

    def visit_Match(self, node: ast.Match) -> None:
        self.visit_If(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        self.visit_all(node.values[1:], conditions=1)

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.target)
        self.visit(node.iter)
        self.visit_all(node.body, conditions=int(self._has_no_turns(node.iter)))
        self.visit_all(node.orelse)

    def _has_no_turns(self, turns: ast.expr) -> bool:
        """Return True for a range that is known to be empty."""
        dotted = self._scope.external(turns.func) if isinstance(turns, ast.Call) else None
        if not isinstance(turns, ast.Call) or (dotted or "").rpartition(".")[2] not in RANGES or not turns.args:
            return False
        bounds = [self.tensors.number(bound) for bound in turns.args]
        start, stop = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
        step = bounds[2] if len(bounds) > 2 else 1
        return None not in (start, stop, step) and step != 0 and not range(start, stop, step)  # type: ignore[arg-type]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for name, value in ast.iter_fields(node):
            parts = value if isinstance(value, list) else [value]
            self.visit_all([part for part in parts if isinstance(part, ast.AST)] if name != "body" else parts)

    def visit_all(self, parts: Sequence[ast.AST], conditions: int = 0) -> None:
        """Visit nodes, or the statements of a block; those after a statement that may leave the block may not run."""
        outer = self._conditions
        self._conditions += conditions
        for part in parts:
            self.visit(part)
            self._conditions += _may_leave(part)
        self._conditions = outer

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        dotted = self._nki_name(node.func)
        if dotted is not None:
            if dotted in self._scope.api.signatures:
                self._check_call(node, dotted)
        elif isinstance(node.func, ast.Attribute) and self.tensors.of(node.func.value) is not None:
            signature = self._scope.api.signatures.get(f"NkiTensor.{node.func.attr}")
            if signature is not None:
                for rule, message in misfits(f"a tensor's {node.func.attr}", node, signature):
                    self._scope.report(node, rule, message)
                if len([name for name in OFFSETS if name in arguments_of(node, signature)]) > 1:
                    message = f"a tensor's {node.func.attr}: {' and '.join(OFFSETS)} cannot be used together"
                    self._scope.report(node, "access-pattern", message)

    def _check_call(self, node: ast.Call, function: str) -> None:
        report = self._scope.report
        signature = self._scope.api.signatures[function]
        known = {parameter.name for parameter in signature}
        unknown = [keyword.arg for keyword in node.keywords if keyword.arg is not None and keyword.arg not in known]
        old = {name: message for name in unknown if (message := old_argument(function, name)) is not None}
        for message in old.values():
            report(node, "old-dialect", message)
        call = ast.Call(node.func, node.args, [keyword for keyword in node.keywords if keyword.arg not in old])
        for rule, message in misfits(function, call, signature):
            report(node, rule, message)
        bound = arguments_of(call, signature)
        self._check_values(bound)
        if function in SIMULATED_ONLY:
            message = f"{function} works only in AWS's simulator: {SIMULATED_ONLY[function]}"
            report(node, "not-on-chip", message)
        if function == "nki.isa.memset":
            self._check_memset(node, bound)
        for name, kind in declared_operands(function).items():
            if name in bound and isinstance(kind, (Operator, NamedFunction)):
                self._check_operator(bound[name], function, name, kind)
            elif name in bound and isinstance(kind, DmaTensor) and not kind.written:
                self._check_dma(node, function, bound[name])
        if function == "nki.language.store" and "value" in bound:
            self._check_dma(node, function, bound["value"])
        self._check_engine(node, function, bound)
        if function in CREATORS:
            check_tile(self._scope, node, self.tensors.of(node))
        check_operands(self._scope, self.tensors, node, bound)
        check_loop(self._scope, self.tensors, node, bound)

    def _check_values(self, bound: dict[str, ast.expr]) -> None:
        for name, value in bound.items():
            if not isinstance(value, ast.Constant):
                continue
            if name == "buffer" and isinstance(value.value, str):
                message = f"memories are no longer specified by strings: use buffer=nl.{value.value}"
                self._scope.report(value, "old-dialect", message)
            elif name in ENUMS and isinstance(value.value, int):
                message = f"integers no longer stand for {ENUMS[name]}: use one of its members for {name}={value.value}"
                self._scope.report(value, "old-dialect", message)

    def _check_operator(self, value: ast.expr, function: str, name: str, kind: Operator | NamedFunction) -> None:
        if isinstance(value, ast.IfExp):
            self._check_operator(value.body, function, name, kind)
            self._check_operator(value.orelse, function, name, kind)
            return
        dotted = modern(self._scope.external(value) or "")
        module, _, operator = dotted.rpartition(".")
        allowed = kind.names | (BYPASS if name in ("op0", "op1") else set())
        replacement = INSTEAD.get(operator, operator)
        listed = f"use nl.{replacement}" if replacement in allowed else f"allowed: {', '.join(sorted(allowed))}"
        if module == "numpy":
            self._scope.report(value, "old-dialect", f"{name}={dotted} is not an operator of nki.language: {listed}")
        elif module == "nki.language" and operator in self._scope.api.names[module] and operator not in allowed:
            rule = "activation-function" if isinstance(kind, Function) else "alu-operator"
            self._scope.report(value, rule, f"{function} takes no {name}=nl.{operator}: {listed}")

    def _check_memset(self, node: ast.Call, bound: dict[str, ast.expr]) -> None:
        value = bound.get("value")
        tensor = self.tensors.of(bound["dst"]) if "dst" in bound else None
        if tensor is None or tensor.dtype not in INTEGERS or not isinstance(value, ast.Constant):
            return
        if isinstance(value.value, float):
            message = f"a memset of {tensor.dtype} takes an integer, got {value.value}"
            self._scope.report(node, "memset-value", message)

    def _check_dma(self, node: ast.Call, function: str, source: ast.expr) -> None:
        for item in source.elts if isinstance(source, (ast.List, ast.Tuple)) else [source]:
            tensor = self.tensors.of(item)
            if tensor is not None and tensor.buffer == "psum":
                message = f"{function} cannot read {ast.unparse(item)} in PSUM: copy it to SBUF first"
                self._scope.report(node, "dma-reads-psum", message)

    def _check_engine(self, node: ast.Call, function: str, bound: dict[str, ast.expr]) -> None:
        """Check that the engine of an instruction can access the memories of its operands."""
        if function in ("nki.isa.nc_matmul", "nki.isa.nc_transpose") and "dst" in bound:
            tensor = self.tensors.of(bound["dst"])
            moved = function == "nki.isa.nc_transpose" and not self._is_tensor_transpose(tensor, bound.get("engine"))
            if tensor is not None and tensor.buffer not in (None, "psum") and not moved:
                location = f"{function}: dst {ast.unparse(bound['dst'])} is in nl.{tensor.buffer}"
                message = f"{location}: the Tensor Engine writes only to nl.psum; copy the result with nisa.tensor_copy"
                self._scope.report(node, "matmul-output", message)
        if not self._runs_on_gpsimd(function, bound):
            return
        in_memory = [
            name for name, kind in declared_operands(function).items() if isinstance(kind, (Tile, Scalar))
        ] or ["x"]
        for name in sorted(bound.keys() & in_memory):
            tensor = self.tensors.of(bound[name])
            if tensor is not None and tensor.buffer == "psum":
                location = ast.unparse(bound[name])
                message = f"{function}: {name} {location} is in PSUM, which GpSimd cannot access: copy it to SBUF first"
                self._scope.report(node, "gpsimd-psum", message)

    def _is_tensor_transpose(self, dst: Tensor | None, chosen: ast.expr | None) -> bool:
        """Return True if a transpose runs on the Tensor Engine, because the call requests it or because the transpose
        is too large for the Vector Engine."""
        large = dst is not None and dst.shape is not None and max(dst.shape) > MOST_ON_VECTOR
        return large if chosen is None else self._is_member(chosen, "engine.tensor")

    def _runs_on_gpsimd(self, function: str, bound: dict[str, ast.expr]) -> bool:
        declaration = DECLARATIONS.get(function.removeprefix("nki.isa."))
        only = function == "nki.language.rsqrt" or (declaration is not None and declaration.engines == (engine.gpsimd,))
        if only or self._is_member(bound.get("engine"), "engine.gpsimd"):
            return True
        operators = [bound.get(name) for name in ("op0", "op1")] if function == "nki.isa.tensor_scalar" else []
        return any(self._is_member(operator, "rsqrt") for operator in operators) and "engine" not in bound

    def _is_member(self, value: ast.expr | None, name: str) -> bool:
        """Return True if an argument is the given name from nki.isa or nki.language."""
        dotted = modern(self._scope.external(value) or "") if value is not None else ""
        return dotted in (f"nki.isa.{name}", f"nki.language.{name}", f"nki.isa.{name.replace('engine.', '')}_engine")
