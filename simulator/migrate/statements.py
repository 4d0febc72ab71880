"""Rewrite statements of a function: replace each with equivalent lines in NKI 0.7, or keep it if it is unchanged."""

from __future__ import annotations

import ast
from dataclasses import replace

from . import later
from .calls import call
from .containers import unpacked
from .context import Axis, Container, Context, Result, Tensor, Window, is_index
from .expressions import Expressions
from .indices import Index, Mask
from .layout import enclosed
from .notes import CannotError
from .placing import outputs
from .tiles import OPERATORS, operate
from .uses import named_grid
from .writes import Writes


class Statements:
    """Rewrites simple statements."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.ex = Expressions(ctx, call, operate)
        self.writes = Writes(ctx, self.ex)

    def migrate(self, node: ast.stmt) -> list[str] | None:
        """Return the lines that replace a statement, [] if it must be removed, or None if it is unchanged."""
        self.ctx.lines.clear()
        self.ex.begin()
        last = self._statement(node)
        if last is None and not self.ctx.lines:
            return None
        return [*self.ctx.lines, *([last] if last else [])]

    is_absorbed = False  # True if the statement is removed because it only binds index arrays, or a name to itself

    def _statement(self, node: ast.stmt) -> str | None:
        """Migrate a statement, emit the lines before it, and return its new text (None if dropped or unchanged)."""
        self.is_absorbed = False
        if isinstance(node, ast.Assign):
            if node in self.ctx.products:
                self.is_absorbed = True  # the statement that adds the product handles it
                return ""
            return self._assign(node)
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            return self._annotated(node)
        if isinstance(node, ast.AugAssign):
            return self._augmented(node)
        if isinstance(node, ast.Expr):
            return self._expression(node.value)
        if isinstance(node, ast.Return) and node.value is not None:
            return self._return(node.value)
        return self._assert(node) if isinstance(node, ast.Assert) else None

    def _expression(self, value: ast.expr) -> str | None:
        """Rewrite an expression statement, such as a call that writes to its `dst`."""
        if isinstance(value, ast.Call) and self.ctx.names.is_current(value):
            dotted = self.ctx.names.dotted(value.func)
            result = later.call(self.ex, value, dotted) or self.ex.generic(value)
        else:
            result = self.ex.rewrite(value)
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "append":
                self._note_element(value.func.value, self.ex.rewrite(value.args[0]))
        text = enclosed(result.text) if result.text != "None" else ""
        return self._changed(text, (value, result.text))

    def _return(self, value: ast.expr) -> str | None:
        """Rewrite a return statement, and record what the function returns."""
        result = self.ex.rewrite(value)
        if self.ctx.function is not None and isinstance(result.value, (Tensor, Window, Container)):
            self.ctx.function.returned = result.value
        text = outputs(self.ex, value) if self.ctx.returns_outputs else result.text
        return self._changed(f"return {enclosed(text)}", (value, text))

    def _assert(self, node: ast.Assert) -> str | None:
        parts = [(part, self.ex.rewrite(part).text) for part in (node.test, node.msg) if part is not None]
        return self._changed(f"assert {', '.join(enclosed(text) for _, text in parts if text)}", *parts)

    def _changed(self, text: str, *parts: tuple[ast.expr, str]) -> str | None:
        """Return the new text of a statement, or None if all of its parts are unchanged."""
        if not text:
            return ""
        same = all(self.ctx.source.of(part) == new for part, new in parts)
        return None if same and not self.ctx.lines else text

    # Assignments

    def _annotated(self, node: ast.AnnAssign) -> str | None:
        """Rewrite `a: tensor[128, 512] = ...` without the annotation."""
        assert node.value is not None
        assigned = ast.Assign([node.target], node.value, lineno=node.lineno)
        return self._assign(assigned)

    def _assign(self, node: ast.Assign) -> str | None:
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Name):
            return self._assign_name(node, target.id)
        if len(node.targets) == 1 and isinstance(target, ast.Subscript):
            written = self.writes.destination(target)
            if written is not None:
                self.writes.write(target, written, node.value)
                return ""
        if len(node.targets) == 1 and isinstance(target, (ast.Tuple, ast.List)):
            return self._unpack(node, target)
        if any(isinstance(each, ast.Subscript) and self.writes.destination(each) is not None for each in node.targets):
            raise CannotError(f"{self.ctx.source.of(node)}: one of several targets cannot be part of a tile")
        result = self.ex.rewrite(node.value)
        for each in node.targets:
            if isinstance(each, ast.Name):
                self._learn(each.id, node.value, result)
            self._note_element(getattr(each, "value", each), result)
        shown = [self.ex.rewrite(each).text for each in node.targets]
        text = f"{' = '.join(shown)} = {enclosed(result.text)}"
        return self._changed(text, (node.value, result.text), *zip(node.targets, shown))

    def _assign_name(self, node: ast.Assign, name: str) -> str | None:
        value = node.value
        again = any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(value))
        self.ex.target = "" if again else name
        result = self._axis(value) if name in self.ctx.axes else self.ex.rewrite(value)
        self.ex.target = ""
        self._learn(name, value, result)
        if is_index(result.value) or result.text == name:
            self.is_absorbed = True
            return ""
        return self._changed(f"{name} = {enclosed(result.text)}", (value, result.text))

    def _note_element(self, container: ast.expr, element: Result) -> None:
        """Record that a tensor is added to a container."""
        if isinstance(container, ast.Name) and isinstance(self.ctx.scope.get(container.id), Container):
            self.ctx.scope[container.id] = Container(element.tensor)

    def _axis(self, value: ast.expr) -> Result:
        """Return a range that is only used as an index, as a whole axis."""
        assert isinstance(value, ast.Call)
        given = [*value.args, *(keyword.value for keyword in value.keywords if keyword.arg in ("start", "stop"))]
        bounds = [self.ex.rewrite(bound).text for bound in given]
        if len(bounds) > 2:
            raise CannotError("an axis cannot be indexed by a range with a step")
        return Result("", Axis(bounds[0] if len(bounds) == 2 else "0", bounds[-1]))

    def _learn(self, name: str, value: ast.expr, result: Result) -> None:
        known: object = result.value
        if isinstance(known, Tensor) and result.text != name:
            known = replace(known, dtype=known.dtype or f"{name}.dtype", rank=0)
        if known is None and isinstance(value, (ast.ListComp, ast.DictComp)):
            known = Container()
        self.ctx.scope[name] = known  # type: ignore[assignment]
        if isinstance(known, Tensor) and known.shape is not None:
            self.ctx.ranks[name] = len(known.shape)

    def _unpack(self, node: ast.Assign, target: ast.Tuple | ast.List) -> str | None:
        value = node.value
        match value:
            case ast.Attribute(value=ast.Name(id=tensor), attr="shape"):
                self.ctx.ranks[tensor] = len(target.elts)
        elements = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
        names = [element.id if isinstance(element, ast.Name) else "" for element in target.elts]
        parts = list(zip(names, elements)) if len(elements) == len(names) else []
        results = [self._axis(part) if name in self.ctx.axes else self.ex.rewrite(part) for name, part in parts]
        if any(isinstance(result.value, (Index, Mask, Axis)) for result in results):
            return self._unpack_indices(target, results)
        result = self.ex.rewrite(value)
        if isinstance(result.value, tuple) and len(result.value) == len(names):
            grid = zip(names, named_grid(self.ctx.tree, target, result.value))
            self.ctx.scope.update({name: index for name, index in grid if name})
            self.is_absorbed = True
            return ""
        self.ctx.scope.update({part.id: None for part in ast.walk(target) if isinstance(part, ast.Name)})
        for name, part in parts:
            if name:
                self._learn(name, part, self.ex.rewrite(part))
        if isinstance(result.value, Container) and not parts:
            self.ctx.scope.update(unpacked(target, result.value))
        text = f"{self.ctx.source.of(target)} = {enclosed(result.text)}"
        return self._changed(text, (value, result.text))

    def _unpack_indices(self, target: ast.Tuple | ast.List, results: list[Result]) -> str:
        left = []
        for element, result in zip(target.elts, results):
            if not isinstance(element, ast.Name):
                raise CannotError("index arrays may be unpacked only into names")
            self.ctx.scope[element.id] = result.value
            if not is_index(result.value):
                left.append((element.id, result.text))
        self.is_absorbed = True
        return f"{', '.join(name for name, _ in left)} = {', '.join(text for _, text in left)}" if left else ""

    def _augmented(self, node: ast.AugAssign) -> str | None:
        target = node.target
        base = self.ex.rewrite(target if isinstance(target, ast.Name) else getattr(target, "value", target))
        if is_index(base.value):
            raise CannotError("an index array cannot be changed in place")
        if base.tensor is None and not (isinstance(target, ast.Subscript) and self.ex._takes_indices(target)):
            return self._augment_value(node)
        self.writes.accumulate(node)
        return ""

    def _augment_value(self, node: ast.AugAssign) -> str | None:
        """Rewrite an in-place operation whose target is not known to be a tile."""
        target, result = node.target, self.ex.rewrite(node.value)
        if result.tensor is not None and isinstance(target, ast.Name):
            helper = self.ctx.needs("elementwise")
            return f"{target.id} = {helper}({self.ctx.nl}.{OPERATORS[type(node.op)]}, {target.id}, {result.text})"
        start = ast.unparse(node).removesuffix(ast.unparse(node.value))  # such as "a[i] += "
        return self._changed(f"{start}{enclosed(result.text)}", (node.value, result.text))
