"""Rewrite statements of a function: replace each with equivalent lines in NKI 0.7, or keep it if it is unchanged."""

from __future__ import annotations

import ast
from dataclasses import replace

from . import later
from .calls import call
from .compute import instruction, matmul
from .containers import unpacked
from .context import Axis, Container, Context, Result, Tensor, Window, is_index
from .expressions import Expressions
from .indices import Clips, Index, Mask
from .instructions import INSTRUCTIONS, Operands, emit_call, keywords_of
from .instructions import name as named
from .layout import enclosed
from .notes import CannotError
from .placing import copied, note_start, outputs, starts_anywhere
from .tiles import OPERATORS, binary, function, operate
from .uses import named_grid
from .views import View, clip_whole

KEEPING_ROWS = ("bn_stats", "bn_aggr", "max8", "nc_find_index8", "tensor_reduce", "local_gather")
"""Instructions whose result keeps only the partition axis of the operand."""
IN_PLACE_OPERATORS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide"}


class Statements:
    """Rewrites simple statements."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.ex = Expressions(ctx, call, operate)

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
            if isinstance(node.value, ast.Call) and self.ctx.names.is_current(node.value):
                dotted = self.ctx.names.dotted(node.value.func)
                result = later.call(self.ex, node.value, dotted) or self.ex.generic(node.value)
            else:
                result = self.ex.rewrite(node.value)
                called = node.value.func if isinstance(node.value, ast.Call) else None
                if isinstance(node.value, ast.Call) and isinstance(called, ast.Attribute) and called.attr == "append":
                    self._note_element(called.value, self.ex.rewrite(node.value.args[0]))
            text = enclosed(result.text) if result.text != "None" else ""
            return self._changed(text, (node.value, result.text))
        if isinstance(node, ast.Return):
            if node.value is None:
                return None
            result = self.ex.rewrite(node.value)
            if self.ctx.function is not None and isinstance(result.value, (Tensor, Window, Container)):
                self.ctx.function.returned = result.value
            text = outputs(self.ex, node.value) if self.ctx.returns_outputs else result.text
            return self._changed(f"return {enclosed(text)}", (node.value, text))
        if isinstance(node, ast.Assert):
            test = self.ex.rewrite(node.test)
            message_text = self.ex.rewrite(node.msg).text if node.msg is not None else ""
            message = f", {enclosed(message_text)}" if message_text else ""
            parts = [(node.test, test.text), *([(node.msg, message_text)] if node.msg is not None else [])]
            return self._changed(f"assert {enclosed(test.text)}{message}", *parts)
        return None

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
            written = self._destination(target)
            if written is not None:
                self._write(written, node.value, target)
                return ""
        if len(node.targets) == 1 and isinstance(target, (ast.Tuple, ast.List)):
            return self._unpack(node, target)
        if any(isinstance(each, ast.Subscript) and self._destination(each) is not None for each in node.targets):
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
        if isinstance(value, ast.Attribute) and value.attr == "shape" and isinstance(value.value, ast.Name):
            self.ctx.ranks[value.value.id] = len(target.elts)
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
            names = [element.id if isinstance(element, ast.Name) else "" for element in target.elts]
            results = [
                self._axis(element) if name in self.ctx.axes else self.ex.rewrite(element)
                for name, element in zip(names, value.elts)
            ]
            if any(isinstance(result.value, (Index, Mask, Axis)) for result in results):
                return self._unpack_indices(target, results)
        result = self.ex.rewrite(value)
        if isinstance(result.value, tuple) and len(result.value) == len(target.elts):
            for element, index in zip(target.elts, named_grid(self.ctx.tree, target, result.value)):
                if isinstance(element, ast.Name):
                    self.ctx.scope[element.id] = index
            self.is_absorbed = True
            return ""
        self.ctx.scope.update({part.id: None for part in ast.walk(target) if isinstance(part, ast.Name)})
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
            for element, part in zip(target.elts, value.elts):
                if isinstance(element, ast.Name):
                    self._learn(element.id, part, self.ex.rewrite(part))
        elif isinstance(result.value, Container):
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

    # Writing into tiles

    def _destination(self, target: ast.Subscript) -> View | None:
        """Return the part of a tile that a subscript on the left-hand side selects, or None for a container."""
        base = self.ex.rewrite(target.value)
        if isinstance(base.value, Container):
            return None
        if base.tensor is None and not self.ex._takes_indices(target):
            return None
        return self._part(target, {})

    def _part(self, target: ast.expr, clips: Clips) -> View:
        if isinstance(target, ast.Subscript):
            base = self.ex.rewrite(target.value)
            key = target.slice
            if isinstance(key, ast.Constant) and key.value is Ellipsis and not clips:
                tensor = base.tensor or Tensor()
                return View(base.text, tensor, tensor.shape, tensor.shape)
            return self.ex.view(target, clips)
        result = self.ex.rewrite(target)
        tensor = result.tensor or Tensor()
        if clips:
            return clip_whole(result, clips)
        return View(result.text, tensor, tensor.shape, tensor.shape)

    def _write(self, dst: View, value: ast.expr, target: ast.expr | None = None) -> None:
        """Emit lines that write the value of an expression to part of a tile."""
        ctx = self.ctx
        if isinstance(value, ast.Call):
            dotted = ctx.names.dotted(value.func)
            clipped = self._clipped(dst, value, target)
            masked = Operands(self.ex, _mask_of(value))
            if dotted == "nki.language.loop_reduce":
                return self._loop_reduce(clipped, value)
            if dotted == "nki.language.load":
                function(self.ex, value, "load", clipped)
                return None
            op = dotted.removeprefix("nki.isa.")
            if dotted in ("nki.isa.nc_matmul", "nki.isa.nc_transpose") and dst.tensor.region != "psum":
                result = self.ex.rewrite(value)  # through PSUM, to which the Tensor Engine writes
                if clipped is not dst:
                    part = clip_whole(named(self.ctx, result), self._mask_clips(value))
                    result = Result(part.text, part.tensor)
                self._copy(clipped, result, masked.guard)
                return None
            if dotted.startswith("nki.isa.") and op == "nc_matmul":
                given = keywords_of(value, INSTRUCTIONS["nc_matmul"].parameters)
                operands = Operands(self.ex, given.pop("mask", None))
                given.pop("dtype", None)
                matmul(self.ex, operands, given, clipped, ", accumulate=False")
                return None
            if dotted.startswith("nki.isa.") and instruction(self.ex, value, op, clipped) is not None:
                return None
            if dotted.startswith("nki.") and (masked.clips or masked.condition):  # a tile function with a mask
                result = self.ex.rewrite(value)
                if masked.clips:
                    result = Result(clip_whole(named(self.ctx, result), masked.clips).text, result.tensor)
                return self._copy(clipped, result, masked.guard)
        result = self.ex.rewrite(value)
        self._copy(dst, result)
        return None

    _target: ast.expr | None = None

    def _clipped(self, dst: View, value: ast.Call, target: ast.expr | None) -> View:
        """Return the destination, restricted by the mask of the call."""
        clips = self._mask_clips(value)
        node = target or self._target
        return self._part(node, clips) if clips and node is not None else dst

    def _mask_clips(self, value: ast.Call) -> Clips:
        """Return the clips that the mask of a call applies to the axes of its result."""
        clips = Operands(self.ex, _mask_of(value)).clips
        op = self.ctx.names.dotted(value.func).removeprefix("nki.isa.")
        if op == "nc_transpose":  # the mask refers to the axes of the operand
            return {-3 - at: clip for at, clip in clips.items() if at in (-1, -2)}
        if op == "tensor_partition_reduce":
            return {at: clip for at, clip in clips.items() if at == -1}
        if op in KEEPING_ROWS:
            if any(at < -2 for at in clips):
                raise CannotError(f"nisa.{op} with a mask on three or more axes: process one row of tiles at a time")
            return {at: clip for at, clip in clips.items() if at == -2}
        return clips

    def _copy(self, dst: View, result: Result, condition: str = "") -> None:
        ctx = self.ctx
        lines = f"if {condition}:\n    " if condition else ""
        if dst.tensor.region == "psum":
            note_start(ctx, dst.tensor, result.tensor)
        elif dst.tensor.region != "hbm" and any(starts_anywhere(ctx, each) for each in (dst.tensor, result.tensor)):
            ctx.emit(lines + copied(ctx, Result(dst.text, dst.tensor), result))
            return
        if result.tensor is None:
            try:
                number = ast.literal_eval(result.text)
            except (ValueError, SyntaxError):
                number = None
            if isinstance(number, (int, float)):
                ctx.emit(f"{lines}{ctx.nisa}.memset(dst={dst.text}, value={result.text})")
                return
            helper = ctx.needs("assign")
            ctx.emit(f"{lines}{helper}({dst.text}, {result.text})")
            return
        if dst.tensor.region == "hbm" or result.tensor.region == "hbm":
            ctx.emit(f"{lines}{ctx.nisa}.dma_copy(dst={dst.text}, src={result.text})")
            return
        ctx.emit(f"{lines}{ctx.nisa}.tensor_copy(dst={dst.text}, src={result.text})")

    def _loop_reduce(self, dst: View, call: ast.Call) -> None:
        """Rewrite `t = nl.loop_reduce(x, op, loop_indices)`: the first iteration copies, and the rest accumulate."""
        ctx = self.ctx
        given = keywords_of(call, ("x", "op", "loop_indices"))
        operator = ctx.names.operator(given["op"]) or f"{ctx.nl}.add"
        indices = given["loop_indices"]
        names = indices.elts if isinstance(indices, (ast.List, ast.Tuple)) else [indices]
        conditions = []
        for each in names:
            if not isinstance(each, ast.Name) or each.id not in ctx.loops:
                raise CannotError("nl.loop_reduce may reduce only over the variables of enclosing loops")
            conditions.append(f"{each.id} == {ctx.loops[each.id]}")
        operands = Operands(self.ex, given.get("mask"))
        source = operands.view(given["x"]).text
        ctx.emit(
            f"if {' and '.join(conditions)}:\n    {ctx.nisa}.tensor_copy(dst={dst.text}, src={source})\nelse:\n"
            f"    {ctx.nisa}.tensor_tensor(dst={dst.text}, data1={dst.text}, data2={source}, op={operator})"
        )

    def _augmented(self, node: ast.AugAssign) -> str | None:
        target = node.target
        base = self.ex.rewrite(target if isinstance(target, ast.Name) else getattr(target, "value", target))
        if is_index(base.value):
            raise CannotError("an index array cannot be changed in place")
        on_tile = base.tensor is not None or (isinstance(target, ast.Subscript) and self.ex._takes_indices(target))
        if not on_tile:
            result = self.ex.rewrite(node.value)
            if result.tensor is not None and isinstance(target, ast.Name):
                helper = self.ctx.needs("elementwise")
                op = OPERATORS[type(node.op)]
                return f"{target.id} = {helper}({self.ctx.nl}.{op}, {target.id}, {result.text})"
            symbol = (
                ast.unparse(ast.AugAssign(target, node.op, node.value)).split(ast.unparse(target), 1)[1].split("=")[0]
            )
            text = f"{ast.unparse(target)}{symbol}= {enclosed(result.text)}"
            return self._changed(text, (node.value, result.text))
        dst = self._part(target, {})
        self._target = target
        try:
            self._accumulate(node, dst)
        finally:
            self._target = None
        return ""

    def _accumulate(self, node: ast.AugAssign, dst: View) -> None:
        ctx = self.ctx
        value = ctx.products.get(node, node.value)
        dotted = ctx.names.dotted(value.func) if isinstance(value, ast.Call) else ""
        adds = isinstance(node.op, ast.Add) and dst.tensor.region in ("psum", "")
        if adds and dotted == "nki.isa.nc_matmul" and isinstance(value, ast.Call):
            given = keywords_of(value, INSTRUCTIONS["nc_matmul"].parameters)
            operands = Operands(self.ex, given.pop("mask", None))
            given.pop("dtype", None)
            matmul(self.ex, operands, given, self._clipped(dst, value, None), "")
            return
        if adds and dst.tensor.region == "psum" and dotted == "nki.language.matmul" and isinstance(value, ast.Call):
            self._add_matmul(dst, value)
            return
        result = self.ex.rewrite(value)
        if adds and dst.tensor.region == "psum" and result.tensor is not None and result.tensor.region == "psum":
            result = Result(f"{ctx.nl}.copy({result.text})", Tensor("sbuf", result.tensor.dtype, result.tensor.shape))
        op = IN_PLACE_OPERATORS.get(type(node.op))
        if op is None:
            raise CannotError(f"{ast.unparse(node)}: tiles do not support this operator")
        current = Result(dst.text, dst.tensor)
        if result.tensor is not None and op != "divide" and dst.shape is not None and dst.shape == result.tensor.shape:
            call_text = f"dst={dst.text}, data1={dst.text}, data2={result.text}, op={ctx.nl}.{op}"
            ctx.emit(f"{ctx.nisa}.tensor_tensor({call_text})")
            return
        changed = binary(self.ex, op, current, result)
        ctx.emit(f"{ctx.nisa}.tensor_copy(dst={dst.text}, src={changed.text})")

    def _add_matmul(self, dst: View, call: ast.Call) -> None:
        """Rewrite `psum += nl.matmul(x, y, transpose_x)`."""
        ctx = self.ctx
        given = keywords_of(call, ("x", "y", "transpose_x"))
        turned = given.get("transpose_x")
        operands = Operands(self.ex, given.get("mask"))
        if operands.clips:
            raise CannotError("nl.matmul does not accept a mask: slice its operands instead")
        y = operands.view(given["y"])
        if turned is not None and isinstance(turned, ast.Constant) and turned.value is True:
            x = operands.view(given["x"]).text
        elif turned is None or (isinstance(turned, ast.Constant) and not turned.value):
            source = self.ex.rewrite(given["x"])
            x = ctx.fresh("x_t")
            ctx.emit(f"{x} = {ctx.nl}.copy({ctx.nl}.transpose({source.text}))")
        else:
            raise CannotError("transpose_x of nl.matmul must be a constant")
        emit_call(ctx, operands, f"{ctx.nisa}.nc_matmul(dst={dst.text}, stationary={x}, moving={y.text})")


def _mask_of(call: ast.Call) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == "mask"), None)
