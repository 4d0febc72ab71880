"""Migrate a whole file: its imports, the functions that use NKI, and the code around them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from ..machine.syntax import parse
from . import device_loops, grids, imports
from .additions import with_support
from .audit import LossError, refuse_losses, unbound
from .containers import elements_of
from .context import Ambiguous, Context, Function, Source, Tensor, Value, is_index, joined, with_dtype
from .functions import assumptions, called, called_by, functions_with_nki
from .host import Host
from .layout import enclosed, in_place_of
from .limits import Deadline
from .named import named_products, whole_axes
from .names import Names, stored
from .notes import CANNOT, CHECK, MARK, CannotError, Migration, Notes, reason_of
from .pairing import paired
from .renaming import made_in_loops
from .statements import Statements
from .uses import accumulators_of, ranks_of, registers_of, tensor_uses

PASSES = 3  # maximum number of passes; each pass uses the arguments and results of functions found by earlier ones


class Migrator:
    """The migration of a single file."""

    def __init__(self, text: str, tree: ast.Module, keep_runners: bool = False) -> None:
        self._tree = tree
        self._deadline = Deadline()
        self._source = Source(text)
        self._keep_runners = keep_runners
        try:
            wrapper = MetadataWrapper(cst.parse_module(text))
        except cst.ParserSyntaxError as error:  # a Python version that libcst does not support yet
            raise SyntaxError(error.message, ("<source>", error.raw_line, error.raw_column, None)) from None
        self._module = wrapper.module
        self._positions = wrapper.resolve(PositionProvider)
        self._pairs = paired(self._module, self._tree)
        self._names = Names(self._tree)
        self._functions: dict[str, Function] = {}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.FunctionDef):
                parameters = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                self._functions[node.name] = Function(node.name, parameters)
        self._called = sorted(called(self._tree))
        self._with_nki = functions_with_nki(self._tree, self._names)
        self._called_by_nki = called_by(self._tree, self._with_nki)
        self._needed: set[str] = set()  # names that would be unbound without an import of a removed name
        self._failed: set[str] = set()  # functions with parts that must be rewritten by hand

    def migrate(self) -> Migration:
        """Migrate the file to NKI 0.7."""
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
        new = parse(module.code)
        refuse_losses(self._tree, new)
        lost = unbound(new).keys() - unbound(self._tree).keys()
        if lost - self._needed:
            self._needed |= lost
            return self.migrate()
        if lost:
            raise LossError(1, f"{', '.join(sorted(lost))} would no longer be defined")
        return Migration(module.code, tuple(sorted(self._notes.notes)))

    def _known(self) -> object:
        """Return the input of the next pass: the arguments and results of functions, and the functions that were not
        fully migrated."""
        called = [self._functions[name] for name in self._called if name in self._functions]
        return [(dict(function.arguments), function.returned) for function in called], set(self._failed)

    def _begin(self) -> None:
        self._notes = Notes(assumptions(self._names))
        self._taken = {node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name)}
        self._support: set[str] = set()
        self._left: list[cst.EmptyLine] = []  # comments of removed statements
        self._programs: set[str] = set()
        self._waiting: list[cst.SimpleStatementLine] = []  # statements that will be moved into a loop
        self._decorators = imports.Decorators(self._names, self._notes, self._keep_runners)

    # Statements

    def _line(self, node: cst.CSTNode) -> int:
        position: Any = self._positions.get(node)
        return int(position.start.line) if position is not None else 0

    def _statements(self, body: Sequence[cst.CSTNode], ctx: Context | None) -> list[Any]:
        statements: list[Any] = []
        for statement in body:
            self._left, left = [], self._left
            new = self._statement(statement, ctx)
            if new and left:
                new[0] = new[0].with_changes(leading_lines=[*left, *new[0].leading_lines])
            elif left:
                self._left = [*left, *self._left]
            statements.extend(new)
        return statements

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
        if isinstance(node, cst.Match):
            changes["cases"] = self._cases(node, ctx)
        if hasattr(node, "handlers"):
            changes["handlers"] = [
                handler.with_changes(body=self._suite(handler.body, ctx)) for handler in node.handlers
            ]
        return [node.with_changes(**changes)]

    def _cases(self, node: cst.Match, ctx: Context | None) -> list[cst.MatchCase]:
        """Rewrite the cases of a match statement, each starting from the state before the statement."""
        if ctx is None:
            return [case.with_changes(body=self._suite(case.body, None)) for case in node.cases]
        cases, before, after = [], ctx.scope, ctx.scope
        for case in node.cases:
            ctx.scope = dict(before)
            cases.append(case.with_changes(body=self._suite(case.body, ctx)))
            after = joined(after, ctx.scope)
        ctx.scope = after
        return cases

    def _suite(self, node: Any, ctx: Context | None) -> Any:
        if isinstance(node, cst.IndentedBlock):
            body = self._statements(node.body, ctx)
            return node.with_changes(body=body or [cst.parse_statement("pass")])
        if isinstance(node, (cst.Else, cst.Finally)):
            return node.with_changes(body=self._suite(node.body, ctx))
        if isinstance(node, cst.If):
            parts = self._statement(node, ctx)
            return parts[-1]
        if isinstance(node, cst.SimpleStatementSuite) and ctx is not None:
            line = cst.SimpleStatementLine(body=node.body)
            changed = self._simple(line, ctx)
            return node if changed == [line] else cst.IndentedBlock(body=changed or [cst.parse_statement("pass")])
        return node

    def _simple(self, node: cst.SimpleStatementLine, ctx: Context | None) -> list[Any]:
        if any(imports.is_old(small, self._keep_runners) for small in node.body):
            return self._replaced(node, [new for small in node.body for new in self._import_lines(small)])
        if ctx is None:
            return self._replaced(node, self._alias_lines(node.body[0])) if self._is_alias(node) else [node]
        if len(node.body) == 1 and self._pairs[node.body[0]] in ctx.moved:
            self._waiting.append(node)
            return []
        lines: list[str | cst.BaseSmallStatement] = []
        changed = False
        for small in node.body:
            rewritten = self._migrated(small, ctx)
            changed |= rewritten is not None
            lines += rewritten if rewritten is not None else [small]
        return self._replaced(node, lines) if changed else [node]

    def _migrated(self, small: cst.BaseSmallStatement, ctx: Context) -> Sequence[str | cst.BaseSmallStatement] | None:
        """Return the replacement of a statement in a function, or None if it is unchanged.

        If the migration fails in any way, the statement is kept, with a note that it must be rewritten by hand.
        """
        tree = self._pairs[small]
        ctx.line = tree.lineno
        try:
            lines = ctx.statements.migrate(tree)
            used = stored([tree]) & self._needed if lines == [] else set()
            if used:
                raise CannotError(f"{', '.join(sorted(used))} is used other than as an index")
            parse("\n".join(lines or ()))  # raises SyntaxError if the migration produced invalid Python
        except Exception as error:
            reason = reason_of(error)
            self._failed.add(ctx.function.name if ctx.function else "")
            ctx.add(CANNOT, reason)
            return [f"{MARK}{reason}", small]
        if lines == [] and ctx.keeps:
            return None
        if lines == [] and not ctx.statements.is_absorbed:
            raise LossError(tree.lineno, f"nothing remains of `{ctx.source.of(tree)}`")
        return lines

    def _is_alias(self, node: cst.SimpleStatementLine) -> bool:
        """Return True for a top-level alias of a removed name, such as `nki_jit = nki.trace`."""
        tree = self._pairs[node.body[0]]
        if len(node.body) > 1 or tree not in self._names.aliases or not isinstance(tree, ast.Assign):
            return False
        dotted = self._names.dotted(tree.value)
        if self._keep_runners and dotted in imports.ENTRY_POINTS:
            return False
        return dotted in imports.GONE or dotted.startswith(imports.DROPPED)

    def _alias_lines(self, small: cst.BaseSmallStatement) -> list[str | cst.BaseSmallStatement]:
        """Return an empty list or, if the alias has a use without an equivalent, the alias with a note."""
        if not stored([self._pairs[small]]) & self._needed:
            return []
        message = "the name is used, but NKI 0.7 has no counterpart"
        self._notes.add(self._pairs[small].lineno, CANNOT, message)
        return [f"{MARK}{message}", small]

    def _import_lines(self, small: cst.BaseSmallStatement) -> list[str | cst.BaseSmallStatement]:
        """Return the replacement of an import or, if a removed name is still needed, the import itself with a note."""
        if not imports.is_old(small, self._keep_runners):
            return [small]
        lines: list[str | cst.BaseSmallStatement] = []
        line = self._pairs[small].lineno
        for imported in imports.imported(small, self._keep_runners):
            if imported.line:
                lines.append(imported.line)
            elif imported.bound in self._needed:
                message = f"{imported.dotted or imported.bound} does not exist in NKI 0.7, and {imported.bound} is used"
                self._notes.add(line, CANNOT, message)
                return [f"{MARK}{message}", small]
            elif imported.dotted and imported.dotted not in imports.GONE:
                self._notes.add(
                    line, CHECK, f"the import of {imported.dotted}, which NKI 0.7 does not have, is removed"
                )
        return list(dict.fromkeys(lines))

    def _replaced(self, node: cst.SimpleStatementLine, lines: Sequence[str | cst.BaseSmallStatement]) -> list[Any]:
        """Return the statements that replace a statement. Comments of a removed statement move to the next
        statement."""
        body = in_place_of(node, lines)
        self._left += () if body or all(line.comment is None for line in node.leading_lines) else node.leading_lines
        return body

    # Compound statements

    def _expression(self, node: cst.BaseExpression, tree: ast.expr, ctx: Context) -> cst.BaseExpression:
        """Rewrite an expression in a statement header, leaving the lines that must precede it in `ctx.lines`."""
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
        """Return the lines that must precede a statement header, and the statement with its remaining comments."""
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
        ctx.scope.update(elements_of(tree.target, iterated, ctx))
        self._forget_changed(ctx, tree)
        outer, ctx.in_loop = ctx.in_loop, True
        body = self._suite(self._with_moved(node.body, tree, ctx), ctx)
        ctx.in_loop = outer
        changed = node.with_changes(iter=iterator, body=body, orelse=self._suite(node.orelse, ctx))
        if called == "nki.language.dynamic_range":
            return [*before, *self._device_loop(device_loops.counted, changed, tree, ctx)]
        return [*before, changed]

    def _with_moved(self, body: cst.BaseSuite, loop: ast.For, ctx: Context) -> cst.BaseSuite:
        """Return the body of a loop, including the statements that create its tiles in each iteration."""
        arrived = [node for node in self._waiting if ctx.moved.get(self._pairs[node.body[0]]) is loop]
        for node in arrived:
            tree = self._pairs[node.body[0]]
            del ctx.moved[tree]
            self._waiting.remove(node)
            message = f"is allocated in the loop of line {loop.lineno}: before it, iterations would wait for each other"
            self._notes.add(tree.lineno, CHECK, f"{stored([tree]).pop()} {message}")
        return body.with_changes(body=[*arrived, *body.body]) if arrived else body

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
        """Discard the known values of index arrays that the loop reassigns."""
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
            ctx.line = self._line(node)
            node = grids.over_programs_or_note(node, ctx)
        return node

    def _context(self, tree: ast.FunctionDef, outer: Context | None, is_kernel: bool) -> Context:
        ctx = Context(self._names, self._notes, self._functions, self._functions[tree.name], taken=self._taken)
        ctx.source = self._source
        ctx.support, ctx.tree = self._support, tree
        ctx.statements = Statements(ctx)
        ctx.returns_outputs = is_kernel and self._names.is_first_dialect and tree.name not in self._called_by_nki
        ctx.keeps = tree.name in self._failed
        scope: dict[str, Value] = dict(outer.scope) if outer is not None else {}
        known_arguments = self._functions[tree.name].arguments
        tensors, ranks = tensor_uses(tree, self._names), ranks_of(tree)
        for name in self._functions[tree.name].parameters:
            known = known_arguments.get(name)
            if known is None and name in tensors and self._names.is_first_dialect:
                known = Tensor("hbm" if is_kernel or name in tensors["hbm of"] else "")
            scope[name] = with_dtype(known, name, ranks.get(name, 0))
        ctx.scope = scope
        ctx.ranks = ranks
        ctx.registers = registers_of(tree, self._names)
        if self._names.is_first_dialect:
            ctx.moved = made_in_loops(tree, self._names)
        ctx.products, ctx.axes = named_products(tree, self._names), whole_axes(tree, self._names)
        ctx.accumulators = accumulators_of(tree, self._names, ctx.products)
        return ctx
