"""Rewrite statements that write to part of a tile: `t[...] = value`, which becomes the `dst` of an instruction, and
`t[...] += value`."""

from __future__ import annotations

import ast

from .compute import instruction, matmul
from .context import Container, Context, Result, Tensor
from .expressions import Expressions
from .indices import Clips
from .instructions import INSTRUCTIONS, Operands, emit_call, keywords_of, name
from .notes import CannotError
from .placing import copied, note_start, starts_anywhere
from .tiles import binary, function
from .views import View, clip_whole

KEEPING_ROWS = ("bn_stats", "bn_aggr", "max8", "nc_find_index8", "tensor_reduce", "local_gather")
"""Instructions whose result keeps only the partition axis of the operand."""
IN_PLACE_OPERATORS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide"}
ON_TENSOR_ENGINE = ("nki.isa.nc_matmul", "nki.isa.nc_transpose")  # they write to PSUM


class Writes:
    """Rewriter of the writes to tiles of a function."""

    def __init__(self, ctx: Context, expressions: Expressions) -> None:
        self.ctx = ctx
        self.ex = expressions

    def destination(self, target: ast.Subscript) -> View | None:
        """Return the part of a tile that a subscript on the left-hand side selects, or None for a container."""
        base = self.ex.rewrite(target.value)
        if isinstance(base.value, Container):
            return None
        if base.tensor is None and not self.ex._takes_indices(target):
            return None
        return self.part(target)

    def part(self, target: ast.expr, clips: Clips | None = None) -> View:
        """Return the part of a tile that a target selects, restricted to the `clips` of a mask."""
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

    def write(self, target: ast.Subscript, dst: View, value: ast.expr) -> None:
        """Emit lines that write the value of an expression to `dst`, the part of a tile that `target` selects."""
        if not isinstance(value, ast.Call) or not self._write_call(target, dst, value):
            self._copy(dst, self.ex.rewrite(value))

    def _write_call(self, target: ast.Subscript, dst: View, call: ast.Call) -> bool:
        """Emit lines that write the result of a call to a tile. Return False if the call is neither an instruction that
        can write there itself nor masked."""
        dotted = self.ctx.names.dotted(call.func)
        clips, masked = self._mask_clips(call), Operands(self.ex, _mask_of(call))
        clipped = self.part(target, clips) if clips else dst
        if dotted == "nki.language.loop_reduce":
            self._loop_reduce(clipped, call)
        elif dotted == "nki.language.load":
            function(self.ex, call, "load", clipped)
        elif dotted in ON_TENSOR_ENGINE and dst.tensor.region != "psum":
            self._copy_call(clipped, call, clips, masked.guard)
        elif dotted == "nki.isa.nc_matmul":
            self._matmul(clipped, call, ", accumulate=False")
        elif dotted.startswith("nki.isa.") and instruction(self.ex, call, dotted.removeprefix("nki.isa."), clipped):
            pass
        elif dotted.startswith("nki.") and (masked.clips or masked.condition):  # a tile function with a mask
            self._copy_call(clipped, call, masked.clips, masked.guard)
        else:
            return False
        return True

    def _copy_call(self, dst: View, call: ast.Call, clips: Clips, condition: str) -> None:
        """Copy the result of a call, restricted to `clips`, to a tile."""
        result = self.ex.rewrite(call)
        if clips:
            result = Result(clip_whole(name(self.ctx, result), clips).text, result.tensor)
        self._copy(dst, result, condition)

    def _matmul(self, dst: View, call: ast.Call, accumulate: str) -> None:
        """Emit nisa.nc_matmul with a destination in PSUM."""
        given = keywords_of(call, INSTRUCTIONS["nc_matmul"].parameters)
        operands = Operands(self.ex, given.pop("mask", None))
        given.pop("dtype", None)
        matmul(self.ex, operands, given, dst, accumulate)

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
        elif dst.tensor.region != "hbm" and any(starts_anywhere(ctx, node) for node in (dst.tensor, result.tensor)):
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
        for node in names:
            if not isinstance(node, ast.Name) or node.id not in ctx.loops:
                raise CannotError("nl.loop_reduce may reduce only over the variables of enclosing loops")
            conditions.append(f"{node.id} == {ctx.loops[node.id]}")
        operands = Operands(self.ex, given.get("mask"))
        source = operands.view(given["x"]).text
        ctx.emit(
            f"if {' and '.join(conditions)}:\n    {ctx.nisa}.tensor_copy(dst={dst.text}, src={source})\nelse:\n"
            f"    {ctx.nisa}.tensor_tensor(dst={dst.text}, data1={dst.text}, data2={source}, op={operator})"
        )

    def accumulate(self, node: ast.AugAssign) -> None:
        """Emit lines for an in-place operation on part of a tile."""
        ctx, dst = self.ctx, self.part(node.target)
        value = ctx.products.get(node, node.value)
        dotted = ctx.names.dotted(value.func) if isinstance(value, ast.Call) else ""
        adds = isinstance(node.op, ast.Add) and dst.tensor.region in ("psum", "")
        if adds and dotted == "nki.isa.nc_matmul" and isinstance(value, ast.Call):
            clips = self._mask_clips(value)
            self._matmul(self.part(node.target, clips) if clips else dst, value, "")
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
