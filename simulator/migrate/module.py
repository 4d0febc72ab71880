"""A whole file: its imports, every function that uses NKI, and the code around them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from . import device_loops, grids, imports
from .additions import with_support
from .audit import LossError, refuse_losses
from .context import Ambiguous, Context, Function, Source, Tensor, Value, is_index, joined
from .host import Host
from .layout import wrapped
from .limits import Deadline
from .names import Names, stored
from .notes import CANNOT, MARK, CannotError, Note, Notes
from .pairing import paired
from .statements import Statements, enclosed
from .uses import accumulators_of, ranks_of, registers_of, tensor_uses

_CODE = cst.Module([])
PASSES = 3  # at most: arguments and results of functions are known from the ones before the last


@dataclass(frozen=True)
class Migration:
    """A migrated file: its text, and what was done and could not be done, by line of the old one."""

    text: str
    notes: tuple[Note, ...]

    @property
    def is_whole(self) -> bool:
        """True if nothing is left to be done by hand."""
        return not any(note.kind == CANNOT for note in self.notes)


def code_of(node: cst.CSTNode) -> str:
    return _CODE.code_for_node(node)


class Migrator:
    """The migration of one file."""

    def __init__(self, text: str, tree: ast.Module, keep_runners: bool = False) -> None:
        self._tree = tree
        self._deadline = Deadline()
        self._source = Source(text)
        self._keep_runners = keep_runners
        try:
            wrapper = MetadataWrapper(cst.parse_module(text))
        except cst.ParserSyntaxError as error:  # of a Python that libcst does not know yet
            raise SyntaxError(error.message, ("<source>", error.raw_line, error.raw_column, None)) from None
        self._module = wrapper.module
        self._positions = wrapper.resolve(PositionProvider)
        self._pairs = paired(self._module, self._tree)
        self._names = Names(self._tree)
        self._functions: dict[str, Function] = {}
        self._trees: list[ast.FunctionDef] = []
        for node in ast.walk(self._tree):
            if isinstance(node, ast.FunctionDef):
                parameters = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                self._functions[node.name] = Function(node.name, parameters)
                self._trees.append(node)
        self._called = sorted(_called(self._tree))
        self._with_nki = self._find_functions_with_nki()
        self._failed: set[str] = set()  # functions in which something is left to be done

    def migrate(self) -> Migration:
        """The file in NKI 0.7."""
        for _ in range(PASSES):
            known = self._known()
            self._begin()
            body = self._statements(self._module.body, None)
            if self._known() == known:
                break
        module = self._module.with_changes(body=body)
        host = Host(self._names, self._notes, self._programs, self._line, self._support, self._keep_runners)
        module = module.visit(host)
        module = with_support(module, self._names, self._support, self._keep_runners)
        new = ast.parse(module.code)
        refuse_losses(self._tree, new)
        return Migration(module.code, tuple(sorted(self._notes.notes)))

    def _known(self) -> object:
        """Return the input of the next pass: the arguments and results of functions, and the places that are left to
        do."""
        called = [self._functions[name] for name in self._called if name in self._functions]
        return [(dict(each.given), each.returned) for each in called], set(self._failed)

    def _begin(self) -> None:
        self._notes = Notes()
        self._taken = {node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name)}
        self._support: set[str] = set()
        self._left: list[cst.EmptyLine] = []  # comments of statements that nothing is left of
        self._programs: set[str] = set()
        self._decorators = imports.Decorators(self._names, self._notes, self._keep_runners)

    # Statements

    def _line(self, node: cst.CSTNode) -> int:
        found: Any = self._positions.get(node)
        return int(found.start.line) if found is not None else 0

    def _statements(self, body: Sequence[cst.CSTNode], ctx: Context | None) -> list[Any]:
        found: list[Any] = []
        for statement in body:
            self._left, left = [], self._left
            new = self._statement(statement, ctx)
            if new and left:
                new[0] = new[0].with_changes(leading_lines=[*left, *new[0].leading_lines])
            elif left:
                self._left = [*left, *self._left]
            found.extend(new)
        return found

    def _statement(self, node: Any, ctx: Context | None) -> list[Any]:
        self._deadline.check()
        if isinstance(node, cst.SimpleStatementLine):
            return self._simple(node, ctx)
        if isinstance(node, cst.FunctionDef):
            return [self._function(node, ctx)]
        if isinstance(node, cst.For) and ctx is not None:
            return self._for(node, ctx)
        if isinstance(node, cst.While) and ctx is not None:
            return self._while(node, ctx)
        if isinstance(node, cst.If) and ctx is not None:
            return self._if(node, ctx)
        changes = {
            name: self._suite(part, ctx)
            for name in ("body", "orelse", "finalbody")
            if (part := getattr(node, name, None)) is not None
        }
        if hasattr(node, "handlers"):
            changes["handlers"] = [each.with_changes(body=self._suite(each.body, ctx)) for each in node.handlers]
        return [node.with_changes(**changes)]

    def _suite(self, node: Any, ctx: Context | None) -> Any:
        if isinstance(node, cst.IndentedBlock):
            body = self._statements(node.body, ctx)
            return node.with_changes(body=body or [cst.parse_statement("pass")])
        if isinstance(node, (cst.Else, cst.Finally)):
            return node.with_changes(body=self._suite(node.body, ctx))
        if isinstance(node, cst.If):
            found = self._statement(node, ctx)
            return found[-1]
        if isinstance(node, cst.SimpleStatementSuite) and ctx is not None:
            line = cst.SimpleStatementLine(body=node.body)
            changed = self._simple(line, ctx)
            return node if changed == [line] else cst.IndentedBlock(body=changed or [cst.parse_statement("pass")])
        return node

    def _simple(self, node: cst.SimpleStatementLine, ctx: Context | None) -> list[Any]:
        if any(imports.is_old(small, self._keep_runners) for small in node.body):
            lines = [new for small in node.body for new in self._import_lines(small)]
            return self._replaced(node, lines)
        if ctx is None:
            return [] if self._is_alias(node) else [node]
        lines, changed = [], False
        for small in node.body:
            tree = self._pairs[small]
            ctx.line = tree.lineno
            try:
                found = ctx.statements.migrate(tree)
                cst.parse_module("".join(f"{line}\n" for line in found or ()))  # a strange construct may give no Python
            except Exception as error:  # whatever a strange construct trips over is left to the author
                if not isinstance(error, CannotError):
                    error = CannotError("a construct that the migration does not know")
                self._failed.add(ctx.function.name if ctx.function else "")
                ctx.add(CANNOT, str(error))
                found = [f"{MARK}{error}", code_of(small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT))]
            if found == [] and ctx.keeps:
                found = None
            if found == [] and not ctx.statements.is_absorbed:
                raise LossError(tree.lineno, f"nothing is left of `{ctx.source.of(tree)}`")
            changed |= found is not None
            lines += found if found is not None else [code_of(small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT))]
        return self._replaced(node, lines) if changed else [node]

    def _is_alias(self, node: cst.SimpleStatementLine) -> bool:
        """True of `nki_jit = nki.trace` at the top of a file, a name for what is gone."""
        tree = self._pairs[node.body[0]]
        if len(node.body) > 1 or tree not in self._names.aliases or not isinstance(tree, ast.Assign):
            return False
        dotted = self._names.dotted(tree.value)
        if self._keep_runners and dotted in imports.ENTRY_POINTS:
            return False
        return dotted in imports.GONE or dotted.startswith(imports.DROPPED)

    def _import_lines(self, small: cst.BaseSmallStatement) -> list[str]:
        return (
            imports.lines_of(small, self._keep_runners)
            if imports.is_old(small, self._keep_runners)
            else [code_of(small)]
        )

    def _replaced(self, node: cst.SimpleStatementLine, lines: list[str]) -> list[Any]:
        """Lines in place of a statement, with its comments."""
        unique = (
            list(dict.fromkeys(lines))
            if lines and all(line.startswith(("import", "from")) for line in lines)
            else lines
        )
        parsed = cst.parse_module("".join(f"{wrapped(line)}\n" for line in unique))
        body: list[Any] = list(parsed.body)
        comments = [line for line in node.leading_lines if line.comment is not None]
        if not body:
            self._left += node.leading_lines if comments else []
            return []
        first = body[0]
        body[0] = first.with_changes(leading_lines=[*node.leading_lines, *parsed.header, *first.leading_lines])
        trailing = node.trailing_whitespace
        if trailing.comment is not None and isinstance(body[-1], cst.SimpleStatementLine):
            body[-1] = body[-1].with_changes(trailing_whitespace=trailing)
        return body

    # Compound statements

    def _expression(self, node: cst.BaseExpression, tree: ast.expr, ctx: Context) -> cst.BaseExpression:
        """An expression of a header; the lines before it are left in ctx.lines."""
        ctx.lines.clear()
        ctx.statements.ex.begin()
        try:
            text = ctx.statements.ex.rewrite(tree).text
        except CannotError as error:
            ctx.lines.clear()
            ctx.add(CANNOT, str(error))
            self._failed.add(ctx.function.name if ctx.function else "")
            return node
        return node if text in ("", ctx.source.of(tree)) else cst.parse_expression(enclosed(text))

    def _before(self, ctx: Context, node: Any) -> tuple[list[Any], Any]:
        """The lines that a header needs before it, and the statement with the comments that are left for it."""
        if not ctx.lines:
            return [], node
        line = cst.SimpleStatementLine(body=[cst.Pass()], leading_lines=node.leading_lines)
        lines = self._replaced(line, list(ctx.lines))
        ctx.lines.clear()
        return lines, node.with_changes(leading_lines=[])

    def _for(self, node: cst.For, ctx: Context) -> list[Any]:
        tree = self._pairs[node]
        assert isinstance(tree, ast.For)
        line, iterated = tree.lineno, tree.iter
        ctx.line = line
        for name in ast.walk(tree.target):
            if isinstance(name, ast.Name):
                ctx.scope[name.id] = None
        called = ctx.names.dotted(iterated.func) if isinstance(iterated, ast.Call) else ""
        iterator = self._expression(node.iter, iterated, ctx)
        before, node = self._before(ctx, node)
        if isinstance(iterated, ast.Call) and isinstance(iterated.func, (ast.Name, ast.Attribute)):
            ctx.loops[ctx.source.of(tree.target)] = ast.unparse(iterated.args[0]) if len(iterated.args) > 1 else "0"
        self._forget_changed(ctx, tree)
        outer, ctx.in_loop = ctx.in_loop, True
        body = self._suite(node.body, ctx)
        ctx.in_loop = outer
        changed = node.with_changes(iter=iterator, body=body, orelse=self._suite(node.orelse, ctx))
        if called == "nki.language.dynamic_range":
            return [*before, *self._device_loop(device_loops.counted, changed, tree, ctx)]
        return [*before, changed]

    def _while(self, node: cst.While, ctx: Context) -> list[Any]:
        tree = self._pairs[node]
        assert isinstance(tree, ast.While)
        ctx.line = tree.lineno
        test = self._expression(node.test, tree.test, ctx)
        before, node = self._before(ctx, node)
        self._forget_changed(ctx, tree)
        changed = node.with_changes(test=test, body=self._suite(node.body, ctx))
        if isinstance(tree.test, ast.Name) and tree.test.id in ctx.registers:
            return [*before, *self._device_loop(device_loops.conditional, changed, tree, ctx)]
        return [*before, changed]

    def _forget_changed(self, ctx: Context, loop: ast.For | ast.While) -> None:
        """Index arrays that the turns of a loop assign anew are not known until they do."""
        changed = stored(loop.body)
        ctx.scope.update({n: Ambiguous() for n in changed if is_index(ctx.scope.get(n))})

    def _device_loop(self, rewrite: Any, node: Any, loop: Any, ctx: Context) -> list[Any]:
        ctx.line = loop.lineno
        try:
            device_loops.refuse_carried(ctx.tree, loop, ctx)
            lines, body = rewrite(node, loop, ctx)
        except CannotError as error:
            ctx.add(CANNOT, str(error))
            comment = cst.EmptyLine(comment=cst.Comment(f"{MARK}{error}"))
            return [node.with_changes(leading_lines=[*node.leading_lines, comment])]
        function = cst.parse_statement(lines[0] + "\n    pass")
        assert isinstance(function, cst.FunctionDef)
        function = function.with_changes(body=body, leading_lines=node.leading_lines)
        return [function, cst.parse_statement(lines[1])]

    def _if(self, node: cst.If, ctx: Context) -> list[Any]:
        tree = self._pairs[node]
        assert isinstance(tree, ast.If)
        ctx.line = tree.lineno
        test = self._expression(node.test, tree.test, ctx)
        before, node = self._before(ctx, node)
        scope = dict(ctx.scope)
        body = self._suite(node.body, ctx)
        after, ctx.scope = ctx.scope, scope
        orelse = self._suite(node.orelse, ctx) if node.orelse is not None else None
        ctx.scope = joined(after, ctx.scope)
        return [*before, node.with_changes(test=test, body=body, orelse=orelse)]

    # Functions

    def _function(self, node: cst.FunctionDef, outer: Context | None) -> cst.FunctionDef:
        line = self._line(node)
        tree = self._pairs.get(node)
        node = node.with_changes(params=imports.without_old_annotations(node.params, self._names))
        if node.returns is not None:
            node = node.with_changes(returns=imports.without_old_annotations(node.returns, self._names))
        is_kernel = self._decorators.is_kernel(node)
        if not isinstance(tree, ast.FunctionDef) or not (outer is not None or is_kernel or tree.name in self._with_nki):
            return node.with_changes(body=self._suite(node.body, None))
        ctx = self._context(tree, outer, is_kernel)
        node = self._decorators.migrate(node, line) if is_kernel else node
        body = self._suite(node.body, ctx)
        self._support |= ctx.support
        node = node.with_changes(body=body)
        if ctx.programs:
            self._programs.add(tree.name)
            node = self._over_grid(node, ctx)
        return node

    def _over_grid(self, node: cst.FunctionDef, ctx: Context) -> cst.FunctionDef:
        try:
            return grids.over_programs(node, ctx)
        except CannotError as error:
            ctx.line = self._line(node)
            ctx.add(CANNOT, str(error))
            comment = cst.EmptyLine(comment=cst.Comment(f"{MARK}{error}"))
            return node.with_changes(leading_lines=[*node.leading_lines, comment])

    def _find_functions_with_nki(self) -> set[str]:
        """Functions that use NKI, and those that call them; what calls a kernel is the host."""
        used = {tree.name: self._names.mentioned_by(tree.name) for tree in self._trees}
        kernels = {t.name for t in self._trees if any(map(self._is_jit, t.decorator_list))}
        own = ("nki.language.", "nki.isa.")
        found = {name for name, dotted in used.items() if any(each.startswith(own) for each in dotted)}
        self._names.undecorated = (found - kernels) & _values(self._tree)
        while True:
            callers = {t.name for t in self._trees if _called(t) & (found - kernels)} - found
            if not callers:
                return found
            found |= callers

    def _is_jit(self, decorator: ast.expr) -> bool:
        return self._names.dotted(decorator.func if isinstance(decorator, ast.Call) else decorator) in imports.JITS

    def _context(self, tree: ast.FunctionDef, outer: Context | None, is_kernel: bool) -> Context:
        ctx = Context(self._names, self._notes, self._functions, self._functions[tree.name], taken=self._taken)
        ctx.source = self._source
        ctx.support, ctx.tree = self._support, tree
        ctx.statements = Statements(ctx)
        ctx.keeps = tree.name in self._failed
        scope: dict[str, Value] = dict(outer.scope) if outer is not None else {}
        given = self._functions[tree.name].given
        tensors, ranks = tensor_uses(tree, self._names), ranks_of(tree)
        for name in self._functions[tree.name].parameters:
            known = given.get(name)
            if known is None and name in tensors and self._names.is_first_dialect:
                known = Tensor("hbm" if is_kernel or name in tensors["hbm of"] else "")
            scope[name] = _with_dtype(known, name, ranks.get(name, 0))
        ctx.scope = scope
        ctx.ranks = ranks
        ctx.registers = registers_of(tree, self._names)
        ctx.accumulators = accumulators_of(tree, self._names)
        return ctx


def _called(tree: ast.AST) -> set[str]:
    """Names that are called."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {function.id for function in calls if isinstance(function, ast.Name)}


def _values(tree: ast.AST) -> set[str]:
    """Names that are passed on rather than called."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    loads = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    return {name.id for name in loads if id(name) not in called}


def _with_dtype(value: Value, name: str, rank: int) -> Value:
    if isinstance(value, Tensor) and not value.dtype:
        return Tensor(value.region, f"{name}.dtype", value.shape, value.blocks, rank)
    return value
