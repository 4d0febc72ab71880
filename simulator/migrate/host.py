"""Migrate host code, which launches, simulates and times kernels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import libcst as cst
from libcst import matchers

from .imports import KERNEL_PARAMETERS, OLD_OPTIONS, RUNNERS, TENSOR_TYPES, dotted_of
from .names import NUMBERS, OLD_PACKAGE, REDUCTIONS, Names
from .notes import CANNOT, CHECK, Notes

MAKERS = ("nki.jit", "nki.simulate", "as_kernel")  # functions that return the kernel itself, or a function that runs it
TIMERS = ("nki.benchmark", "nki.profile")


class Host(cst.CSTTransformer):
    """Rewrites calls of earlier entry points, and launches of kernels that now loop over their programs.

    `programs` are the kernels that have a parameter `grid`. If `keep_runners`, entry points that ran kernels are kept.
    `support` collects the helpers that the file needs.
    """

    def __init__(
        self,
        names: Names,
        notes: Notes,
        programs: Collection[str],
        line_of: Callable[[cst.CSTNode], int],
        support: set[str],
        keep_runners: bool = False,
    ) -> None:
        super().__init__()
        self._names = names
        self._notes = notes
        self._programs = set(programs)
        self._line_of = line_of
        self._line = 0
        self._support = support
        self._keep_runners = keep_runners
        self._parameters: list[set[str]] = []  # parameters of the functions that enclose the node
        self._called: set[int] = set()  # callee expressions of calls, by the id of their node

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:  # noqa: N802
        self._line = self._line_of(node) or self._line

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:  # noqa: N802
        self._line = self._line_of(node) or self._line
        self._enter(node.params)

    def leave_FunctionDef(self, original: cst.FunctionDef, updated: cst.FunctionDef) -> cst.FunctionDef:  # noqa: N802
        self._parameters.pop()
        return updated

    def visit_Lambda(self, node: cst.Lambda) -> None:  # noqa: N802
        self._enter(node.params)

    def leave_Lambda(self, original: cst.Lambda, updated: cst.Lambda) -> cst.Lambda:  # noqa: N802
        self._parameters.pop()
        return updated

    def _enter(self, parameters: cst.Parameters) -> None:
        every = (*parameters.params, *parameters.posonly_params, *parameters.kwonly_params)
        self._parameters.append({parameter.name.value for parameter in every})

    def leave_Assign(self, original: cst.Assign, updated: cst.Assign) -> cst.Assign:  # noqa: N802
        value = updated.value  # run = kernel or run = nki.jit(kernel): another name for a kernel with a grid
        while isinstance(value, cst.Call) and len(value.args) == 1 and dotted_of(value.func) in MAKERS:
            value = value.args[0].value
        if dotted_of(value) in self._programs:
            self._programs |= {dotted_of(target.target) for target in updated.targets} - {""}
        return updated

    def visit_Call(self, node: cst.Call) -> None:  # noqa: N802
        self._called.add(id(node.func))

    def visit_Module(self, node: cst.Module) -> None:  # noqa: N802
        calls = matchers.findall(node, matchers.Call(func=matchers.Name()))
        self._functions = {dotted_of(call.func) for call in calls if isinstance(call, cst.Call)}

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:  # noqa: N802
        """Rewrite an operator that is passed by name: `op=nl.max` is nl.maximum, unless a function is called op."""
        keyword = updated.keyword.value if updated.keyword is not None else ""
        module, _, name = self._dotted(updated.value).rpartition(".")
        if "op" not in keyword or keyword in self._functions or module != "nki.language" or name not in REDUCTIONS:
            return updated
        if isinstance(updated.value, cst.Attribute):
            return updated.with_changes(value=updated.value.with_changes(attr=cst.Name(REDUCTIONS[name])))
        return updated

    def _dotted(self, node: cst.BaseExpression) -> str:
        return self._names.meaning(dotted_of(node))

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:  # noqa: N802
        dotted = self._dotted(original.func)
        self._note_tensor_types(original)
        has_grid = bool(updated.args) and isinstance(updated.args[0].value, cst.Subscript)
        if dotted == "nki.simulate_kernel" and (has_grid or not self._keep_runners):
            return self._simulation(updated)
        runner = "" if self._keep_runners else self._runner(dotted, original, updated)
        if runner:
            return self._run(runner, updated)
        is_partial = dotted == "functools.partial" and bool(updated.args)
        if dotted == "nki.jit" or (is_partial and self._dotted(updated.args[0].value) == "nki.jit"):
            return _without_old_options(updated)
        if isinstance(updated.func, cst.Subscript):
            launched = self._launched(updated.func, updated.args)
            return updated if launched.deep_equals(updated) else launched
        return updated

    def _note_tensor_types(self, call: cst.Call) -> None:
        """Add a note for arguments such as `nt.tensor[128, 512]`, which NKI 0.7 does not have."""
        for argument in call.args:
            if isinstance(argument.value, cst.Subscript) and self._dotted(argument.value.value) in TENSOR_TYPES:
                shown = dotted_of(argument.value.value)
                self._notes.add(self._line, CANNOT, f"{shown}[...] as an argument: pass an array, such as np.zeros")

    def _runner(self, dotted: str, original: cst.Call, updated: cst.Call) -> str:
        """Return the entry point that a call uses, as in `nki.benchmark(kernel)` and `nki.benchmark(warmup=5)(kernel)`,
        or "" if it uses none."""
        if dotted in RUNNERS:
            return dotted
        maker = self._dotted(original.func.func) if isinstance(original.func, cst.Call) else ""
        is_made = maker in RUNNERS and _kernel_of(original.func) is None and _kernel_of(updated) is not None
        return maker if is_made else ""

    def _simulation(self, call: cst.Call) -> cst.Call:
        """Rewrite `nki.simulate_kernel(kernel, a)` to `nki.simulate(kernel)(a)`."""
        first = call.args[0] if call.args else None
        if first is None or first.star or first.keyword is not None:
            self._support.add("simulate_kernel")
            return call.with_changes(func=cst.Name("simulate_kernel"))
        if isinstance(first.value, cst.Subscript):
            return self._launched(first.value, call.args[1:], simulated=True)
        return cst.Call(_simulated(first.value), call.args[1:])

    def _run(self, dotted: str, call: cst.Call) -> cst.BaseExpression:
        """Rewrite `nki.baremetal(kernel)` to the kernel itself, and a call with only options to a function that returns
        its argument."""
        kernel = _kernel_of(call)
        options = [argument.keyword.value for argument in call.args if argument.keyword is not None]
        options = [option for option in options if option not in KERNEL_PARAMETERS]
        if dotted in TIMERS:
            message = f"{dotted} was removed: the kernel itself is called instead; trninfer simulate predicts its time"
            self._notes.add(self._line, CHECK, message)
        elif options:
            self._notes.add(self._line, CHECK, f"the arguments {', '.join(options)} of {dotted} are removed with it")
        if kernel is not None:
            return self._kernel(kernel)
        self._support.add("as_kernel")
        if any(argument.star for argument in call.args):
            return call.with_changes(func=cst.Name("as_kernel"))
        return cst.Name("as_kernel")

    def _kernel(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return the current spelling of a kernel. An undecorated function of this file is first passed to nki.jit."""
        shadowed = isinstance(node, cst.Name) and any(node.value in scope for scope in self._parameters)
        known = dotted_of(node) in self._names.undecorated
        if known and not shadowed:
            return cst.Call(cst.Attribute(cst.Name("nki"), cst.Name("jit")), [cst.Arg(node)])
        base = dotted_of(node.value if isinstance(node, cst.Subscript) else node)
        is_name = isinstance(node, (cst.Name, cst.Subscript))
        chosen = is_name and not (self._names.defines(base) or self._names.meaning(base))  # such as kernels["v1"]
        if isinstance(node, cst.Lambda) or ((shadowed or chosen) and self._names.undecorated):
            self._support.add("as_kernel")  # it may be an undecorated function
            return cst.Call(cst.Name("as_kernel"), [cst.Arg(node)])
        return node

    def _launched(self, kernel: cst.Subscript, arguments: Sequence[cst.Arg], simulated: bool = False) -> cst.Call:
        """Rewrite `kernel[a, b](...)`. Kernels that loop over the grid receive it as an argument."""
        if dotted_of(kernel.value) not in self._programs:
            cores = _on_cores(kernel)
            return cst.Call(_simulated(cores) if simulated else cores, arguments)
        extents = [cst.Module([]).code_for_node(_plain(part)) for part in _parts(kernel)]
        grid = f"({', '.join(extents)},)" if len(extents) == 1 else f"({', '.join(extents)})"
        argument = cst.Arg(cst.parse_expression(grid), keyword=cst.Name("grid"), equal=_EQUAL)
        return cst.Call(_simulated(kernel.value) if simulated else kernel.value, [*arguments, argument])

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:  # noqa: N802
        if updated.attr.value == "benchmark_result" and not self._keep_runners:
            message = "kernels no longer have benchmark_result: time the kernel on the chip, or with trninfer simulate"
            self._notes.add(self._line, CANNOT, message)
        if dotted_of(updated) == f"{OLD_PACKAGE}.nki":  # imported by `import neuronxcc.nki`, without an alias
            return updated.attr
        dotted = self._dotted(original)
        if dotted in NUMBERS:
            return cst.parse_expression(NUMBERS[dotted])
        if dotted == "logging.OFF":  # a logging level that the first compiler added to the standard library
            return cst.BinaryOperation(updated.with_changes(attr=cst.Name("CRITICAL")), cst.Add(), cst.Integer("1"))
        if id(original) not in self._called and not self._keep_runners:  # the entry point is used as a value
            if dotted in RUNNERS:
                self._support.add("as_kernel")
                return cst.Name("as_kernel")
            if dotted == "nki.simulate_kernel":
                self._support.add("simulate_kernel")
                return cst.Name("simulate_kernel")
        return updated


def _kernel_of(call: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the kernel that is passed to a runner, or None if only options are passed."""
    assert isinstance(call, cst.Call)
    for position, argument in enumerate(call.args):
        named = argument.keyword.value in KERNEL_PARAMETERS if argument.keyword is not None else position == 0
        if named and not argument.star:
            return argument.value
    return None


def _without_old_options(call: cst.Call) -> cst.Call:
    """Return a call of nki.jit without the options that NKI 0.7 does not have."""
    kept = [a for a in call.args if a.keyword is None or a.keyword.value not in OLD_OPTIONS]
    if len(kept) == len(call.args):
        return call
    last = [argument.with_changes(comma=cst.MaybeSentinel.DEFAULT) for argument in kept[-1:]]
    return call.with_changes(args=[*kept[:-1], *last])


def _simulated(kernel: cst.BaseExpression) -> cst.Call:
    """Return `nki.simulate(kernel)`."""
    return cst.Call(cst.Attribute(cst.Name("nki"), cst.Name("simulate")), [cst.Arg(kernel)])


def _on_cores(kernel: cst.Subscript) -> cst.Subscript:
    """Rewrite `kernel[nl.nc(2)]` as `kernel[2]`."""
    plain = [_plain(element.slice) for element in kernel.slice]
    slices = [element.with_changes(slice=cst.Index(value)) for element, value in zip(kernel.slice, plain)]
    return kernel.with_changes(slice=slices)


_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _parts(kernel: cst.Subscript) -> list[cst.CSTNode]:
    """Return the extents of a grid, which are written in brackets or as a tuple in brackets."""
    first = kernel.slice[0].slice
    if len(kernel.slice) == 1 and isinstance(first, cst.Index) and isinstance(first.value, cst.Tuple):
        return [element.value for element in first.value.elements]
    return [element.slice for element in kernel.slice]


def _plain(part: cst.CSTNode) -> cst.BaseExpression:
    """Return the extent along a grid axis; for example, `nl.spmd_dim(nl.nc(2), 4)` becomes 2 * 4."""
    value = part.value if isinstance(part, cst.Index) else part
    assert isinstance(value, cst.BaseExpression)
    if isinstance(value, cst.Call):
        name = dotted_of(value.func).rpartition(".")[2]
        if name == "nc" and value.args:
            return value.args[0].value
        if name == "spmd_dim" and value.args:
            product = _plain(value.args[0].value)
            for argument in value.args[1:]:
                product = cst.BinaryOperation(_factor(product), cst.Multiply(), _factor(_plain(argument.value)))
            return product
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply):
        return value.with_changes(left=_plain(value.left), right=_plain(value.right))
    return value


def _factor(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an operand of a product, parenthesised if its operator binds less tightly."""
    weaker = isinstance(node, (cst.BinaryOperation, cst.IfExp, cst.BooleanOperation)) and not node.lpar
    if not weaker or (isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply)):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
