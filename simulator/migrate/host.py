"""Code around kernels: how they were launched, simulated and timed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence

import libcst as cst

from .imports import RUNNERS, dotted_of
from .names import OLD_PACKAGE, Names
from .notes import CANNOT, CHECK, Notes

OLD = ("mode", "platform_target")


class Host(cst.CSTTransformer):
    """Rewrites calls of earlier entry points, and launch grids of kernels that loop over their programs now."""

    def __init__(
        self, names: Names, notes: Notes, programs: Collection[str], line_of: Callable[[cst.CSTNode], int]
    ) -> None:
        super().__init__()
        self._names = names
        self._notes = notes
        self._programs = programs  # kernels with a parameter `grid`
        self._line_of = line_of
        self._line = 0

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:  # noqa: N802
        self._line = self._line_of(node) or self._line

    def _dotted(self, node: cst.BaseExpression) -> str:
        text = dotted_of(node)
        return self._names.dotted(ast.parse(text, mode="eval").body) if text else ""

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:  # noqa: N802
        dotted = self._dotted(original.func)
        if dotted == "nki.simulate_kernel" and updated.args:
            kernel = updated.args[0].value
            if isinstance(kernel, cst.Subscript):
                return self._launched(kernel, updated.args[1:], simulated=True)
            return cst.Call(_simulated(kernel), updated.args[1:])
        if (
            isinstance(original.func, cst.Call)
            and self._dotted(original.func.func) in RUNNERS
            and len(updated.args) == 1
        ):
            return self._runner(original.func, updated.args[0].value)  # nki.benchmark(warmup=5)(kernel)
        if dotted in RUNNERS and len(updated.args) == 1 and updated.args[0].keyword is None:
            return self._runner(original, updated.args[0].value)  # nki.baremetal(kernel)
        if dotted == "nki.jit" and any(a.keyword is not None and a.keyword.value in OLD for a in updated.args):
            kept = [a for a in updated.args if a.keyword is None or a.keyword.value not in OLD]
            last = [kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)] if kept else []
            return updated.with_changes(args=[*kept[:-1], *last])
        if isinstance(updated.func, cst.Subscript):
            launched = self._launched(updated.func, updated.args)
            return updated if launched.deep_equals(updated) else launched
        return updated

    def _runner(self, call: cst.Call, kernel: cst.BaseExpression) -> cst.BaseExpression:
        dotted = self._dotted(call.func)
        if dotted in ("nki.benchmark", "nki.profile"):
            message = f"{dotted} is gone: the kernel itself is called; trninfer simulate predicts its time"
            self._notes.add(self._line, CHECK, message)
        return kernel

    def _launched(self, kernel: cst.Subscript, arguments: Sequence[cst.Arg], simulated: bool = False) -> cst.Call:
        """`kernel[a, b](...)`: the grid is an argument of kernels that loop over it."""
        if dotted_of(kernel.value) not in self._programs:
            cores = _on_cores(kernel)
            return cst.Call(_simulated(cores) if simulated else cores, arguments)
        extents = [cst.Module([]).code_for_node(_plain(part)) for part in _parts(kernel)]
        grid = f"({', '.join(extents)},)" if len(extents) == 1 else f"({', '.join(extents)})"
        argument = cst.Arg(cst.parse_expression(grid), keyword=cst.Name("grid"), equal=_EQUAL)
        return cst.Call(_simulated(kernel.value) if simulated else kernel.value, [*arguments, argument])

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:  # noqa: N802
        if updated.attr.value == "benchmark_result":
            message = "a kernel has no benchmark_result any more: time it on the chip, or with trninfer simulate"
            self._notes.add(self._line, CANNOT, message)
        if dotted_of(updated) == f"{OLD_PACKAGE}.nki":  # after `import neuronxcc.nki`, without an alias
            return updated.attr
        return updated


def _simulated(kernel: cst.BaseExpression) -> cst.Call:
    """`nki.simulate(kernel)`."""
    return cst.Call(cst.Attribute(cst.Name("nki"), cst.Name("simulate")), [cst.Arg(kernel)])


def _on_cores(kernel: cst.Subscript) -> cst.Subscript:
    """`kernel[nl.nc(2)]`: the number of cores is a plain one."""
    plain = [_plain(element.slice) for element in kernel.slice]
    slices = [element.with_changes(slice=cst.Index(value)) for element, value in zip(kernel.slice, plain)]  # type: ignore[arg-type]
    return kernel.with_changes(slice=slices)


_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _parts(kernel: cst.Subscript) -> list[cst.CSTNode]:
    """The extents of a grid, in brackets or in a tuple in brackets."""
    first = kernel.slice[0].slice
    if len(kernel.slice) == 1 and isinstance(first, cst.Index) and isinstance(first.value, cst.Tuple):
        return [element.value for element in first.value.elements]
    return [element.slice for element in kernel.slice]


def _plain(part: cst.CSTNode) -> cst.CSTNode:
    """The extent in an axis of a grid: `nl.spmd_dim(nl.nc(2), 4)` is 2 * 4."""
    value = part.value if isinstance(part, cst.Index) else part
    node = ast.parse(cst.Module([]).code_for_node(value), mode="eval").body
    plain = _count(node)
    return value if plain is None else cst.parse_expression(plain)


def _count(node: ast.expr) -> str | None:
    """The number of programs that nl.nc and nl.spmd_dim stand for; None of what has none of them."""
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func).split(".")[-1]
        if name == "nc":
            return ast.unparse(node.args[0])
        if name == "spmd_dim":
            return " * ".join(_count(argument) or ast.unparse(argument) for argument in node.args)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = [_count(side) for side in (node.left, node.right)]
        if any(side is not None for side in sides):
            return " * ".join(s or ast.unparse(n) for s, n in zip(sides, (node.left, node.right)))
    return None
