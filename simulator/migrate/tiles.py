"""Rewrite calls of `nki.language` (creation, loads and stores, tile functions) and Python operators on tiles."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from ..instructions.operators import ACTIVATIONS, ALU
from ..machine.syntax import parse
from .context import Result, Tensor, Window
from .creation import create, par_dim
from .expressions import Expressions
from .indices import Mask
from .instructions import Operands, is_none, keywords_of, shape_text
from .later import RANGES, loop_range
from .moves import load, load_transposed, store
from .notes import CannotError
from .placing import note_start
from .special import where_of_mask
from .views import View

BINARY = frozenset(name for name, operator in ALU.items() if not operator.unary) | {"divide", "mod", "fmod"}
MATHEMATICAL = {"negative", "sin", "cos", "tan", "floor", "ceil", "trunc", "logical_not", "invert"}
UNARY = frozenset({*ACTIVATIONS, *(name for name, operator in ALU.items() if operator.unary)}) | MATHEMATICAL
REDUCING = frozenset({"sum", "max", "min", "mean", "prod", "var", "all", "softmax"})
CREATING = frozenset(
    {"ndarray", "zeros", "ones", "full", "empty", "zeros_like", "empty_like", "shared_constant", "rand"}
)
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
    ast.LShift: "left_shift",
    ast.RShift: "right_shift",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}


def function(ex: Expressions, call: ast.Call, op: str, dst: View | None = None) -> Result | None:
    """Rewrite a call of `nki.language.<op>`. Return None if its meaning is the same in NKI 0.7."""
    if f"nki.language.{op}" in RANGES:
        return loop_range(ex, call)
    if op == "load":
        return load(ex, call, dst)
    if op in GONE:
        raise CannotError(f"nl.{op}: {GONE[op]}")
    handler = HANDLERS.get(op)
    return handler(ex, call, op) if handler is not None else None


PARAMETERS = {
    "matmul": ("x", "y", "transpose_x"),
    "transpose": ("x",),
    "broadcast_to": ("x", "shape"),
    "where": ("condition", "x", "y"),
    "expand_dims": ("x", "axis"),
    "gather_flattened": ("data", "indices"),
    "rms_norm": ("x", "w", "axis", "n", "epsilon"),
}
GONE = {
    "loop_reduce": "assign its result to a tile in a statement of its own, t[...] = nl.loop_reduce(...)",
    "all_reduce": "use nki.collectives.all_reduce",
    "atomic_rmw": "use nisa.dma_compute",
}


def _window(ex: Expressions, call: ast.Call, op: str) -> Result:
    arguments = [ex.rewrite(argument).text for argument in call.args]
    arguments += [f"{keyword.arg}={ex.rewrite(keyword.value).text}" for keyword in call.keywords]
    return Result(f"{ex.ctx.nl}.ds({', '.join(arguments)})", Window())


def _arange(ex: Expressions, call: ast.Call, op: str) -> Result:
    from .indices import arange
    from .sums import Sum

    bounds = [ex.sum(argument) for argument in call.args]
    if call.keywords or not 1 <= len(bounds) <= 2:
        raise CannotError("nl.arange with a step")
    return Result("", arange(bounds[0] if len(bounds) == 2 else Sum(0), bounds[-1]))


# Tile functions


def _options(ex: Expressions, keywords: dict[str, ast.expr], *names: str) -> str:
    passed = [name for name in names if name in keywords and not is_none(keywords[name])]
    return "".join(f", {name}={ex.rewrite(keywords[name]).text}" for name in passed)


def _dtype(ex: Expressions, keywords: dict[str, ast.expr]) -> str:
    node = keywords.get("dtype")
    return "" if node is None or is_none(node) else ex.rewrite(node).text


def _binary_call(ex: Expressions, call: ast.Call, op: str) -> Result | None:
    keywords = keywords_of(call, ("x", "y"))
    operands = Operands(ex, keywords.pop("mask", None))
    x, y = ex.rewrite(keywords["x"]), ex.rewrite(keywords["y"])
    if x.tensor is None and y.tensor is None and not operands.clips:
        text = f"{ex.ctx.nl}.{op}({x.text}, {y.text}{_options(ex, keywords, 'dtype')})"
        return Result(text, Tensor("sbuf"))
    return binary(ex, op, x, y, _options(ex, keywords, "dtype"))


def binary(ex: Expressions, op: str, x: Result, y: Result, options: str = "") -> Result:
    """Rewrite x <op> y if at least one operand is a tile.

    Masked-out elements were undefined, so they may be computed too.
    """
    nl = ex.ctx.nl
    note_start(ex.ctx, x.tensor, y.tensor)
    if x.tensor is not None and y.tensor is not None and x.tensor.region == y.tensor.region == "psum":
        y = Result(f"{nl}.copy({y.text})", replace(y.tensor, region="sbuf"))  # only one operand may be in PSUM
    if op == "divide":
        return _quotient(ex, x, y, options)
    tensors = [side.tensor for side in (x, y) if side.tensor is not None]
    dtypes = {tensor.dtype for tensor in tensors}
    shapes = {tensor.shape for tensor in tensors}
    same = len(tensors) == 1 or (len(shapes) == 1 and None not in shapes and len(dtypes) == 1 and "" not in dtypes)
    known = [tensor for tensor in tensors if tensor.shape is not None]
    shape = known[0].shape if len(known) == len(tensors) and (same or len(tensors) == 1) else None
    if len(known) == 2 and not same:
        shape = _broadcast_shape(known[0].shape, known[1].shape)
    dtype = tensors[0].dtype if len(dtypes) == 1 else ""
    if "dtype=" in options:
        dtype = options.split("dtype=")[1]
    if len(tensors) == 2 and not same:
        text = f"{ex.ctx.needs('elementwise')}({nl}.{op}, {x.text}, {y.text}{options})"
    else:
        text = f"{nl}.{op}({x.text}, {y.text}{options})"
    return Result(text, Tensor("sbuf", dtype, shape))


def _broadcast_shape(a: tuple[str, ...] | None, b: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if a is None or b is None or len(a) != len(b):
        return None
    extents = []
    for m, n in zip(a, b):
        if m != n and "1" not in (m, n):
            return None
        extents.append(n if m == "1" else m)
    return tuple(extents)


def _quotient(ex: Expressions, x: Result, y: Result, options: str) -> Result:
    """Rewrite x / y as x times the reciprocal of y, since there is no division instruction."""
    nl = ex.ctx.nl
    if y.tensor is None:
        plain = y.text.replace(".", "").replace("_", "").isalnum()
        factor = Result(f"1.0 / {y.text}" if plain else f"1.0 / ({y.text})")
        return binary(ex, "multiply", x, factor, options)
    inverse = Result(f"{nl}.reciprocal({y.text})", Tensor("sbuf", y.tensor.dtype, y.tensor.shape))
    return binary(ex, "multiply", x, inverse, options)


def _unary(ex: Expressions, call: ast.Call, op: str) -> Result | None:
    keywords = keywords_of(call, ("x", "dtype"))
    Operands(ex, keywords.pop("mask", None))
    x = ex.rewrite(keywords["x"])
    note_start(ex.ctx, x.tensor)
    op = "copy" if op == "static_cast" else op
    text = f"{ex.ctx.nl}.{op}({x.text}{_options(ex, keywords, 'dtype')})"
    tensor = x.tensor or Tensor()
    if op == "rsqrt" and tensor.region == "psum":  # GpSimd, which computes rsqrt, cannot access PSUM
        text = f"{ex.ctx.nl}.rsqrt({ex.ctx.nl}.copy({x.text}){_options(ex, keywords, 'dtype')})"
    return Result(text, Tensor("sbuf", _dtype(ex, keywords) or tensor.dtype, tensor.shape))


def _reduction(ex: Expressions, call: ast.Call, op: str) -> Result | None:
    keywords = keywords_of(call, ("x", "axis"))
    operands = Operands(ex, keywords.pop("mask", None))
    view = operands.view(keywords["x"])
    note_start(ex.ctx, view.tensor)
    if operands.clips:
        rows = {at: clip for at, clip in operands.clips.items() if view.full is not None and at != -len(view.full)}
        if rows != operands.clips:  # masked-out rows were undefined
            view = operands.view(keywords["x"], rows)
    axis = keywords.get("axis")
    numbers = _numbers(axis)
    text = view.text
    axis_text = ex.rewrite(axis).text if axis is not None else "1"
    shape: tuple[str, ...] | None = None
    if view.full is not None and numbers:
        rank = len(view.full)
        reduced = sorted(number % rank for number in numbers)
        left = [at for at in range(rank) if at not in reduced]
        shape = view.full if op == "softmax" else _reduced_shape(view.full, reduced, left, "keepdims" in keywords)
        if op != "softmax" and not _are_last(reduced, rank):
            text = f"{view.text}.permute({tuple(left + reduced)})"
            axis_text = str(tuple(range(len(left), rank)))
    options = _options(ex, keywords, "dtype", "keepdims")
    dtype = _dtype(ex, keywords) or view.tensor.dtype
    return Result(f"{ex.ctx.nl}.{op}({text}, axis={axis_text}{options})", Tensor("sbuf", dtype, shape))


def _numbers(axis: ast.expr | None) -> list[int]:
    """Return the axes of a reduction, or [] if one of them is not a literal."""
    axes = axis.elts if isinstance(axis, (ast.List, ast.Tuple)) else [axis]
    numbers = [e.value for e in axes if isinstance(e, ast.Constant) and isinstance(e.value, int)]
    return numbers if len(numbers) == len(axes) else []


def _reduced_shape(shape: tuple[str, ...], reduced: list[int], left: list[int], keeps: bool) -> tuple[str, ...]:
    """Return the result shape of a reduction. A tile keeps at least two dimensions."""
    if keeps:
        return tuple("1" if at in reduced else extent for at, extent in enumerate(shape))
    if len(left) > 1 or not _are_last(reduced, len(shape)):
        return tuple(shape[at] for at in left)
    return shape[0], "1"


def _are_last(axes: list[int], rank: int) -> bool:
    return axes == list(range(rank - len(axes), rank))


def _other(ex: Expressions, call: ast.Call, op: str) -> Result | None:
    keywords = keywords_of(call, PARAMETERS[op])
    first = "src" if op == "broadcast_to" and "src" in keywords else PARAMETERS[op][0]
    for parameter in (first, *PARAMETERS[op][1:2]):
        keywords[parameter]  # refuses a call that lacks it
    mask = keywords.pop("mask", None)
    if mask is not None and op in ("matmul", "gather_flattened", "rms_norm") and Operands(ex, mask).clips:
        raise CannotError(f"nl.{op} does not accept a mask: slice its operands instead")
    if op == "where":
        return _where(ex, keywords)
    if op == "broadcast_to":
        return _broadcast(ex, ex.rewrite(keywords[first]), keywords["shape"])
    return _same_call(ex, op, {parameter: ex.rewrite(node) for parameter, node in keywords.items()})


def _same_call(ex: Expressions, op: str, operands: dict[str, Result]) -> Result:
    """Return a call with the same parameters in NKI 0.7."""
    first = next(iter(operands.values())).tensor or Tensor()
    tensor = Tensor("sbuf", first.dtype)
    if op in ("matmul", "transpose"):
        for parameter in operands.keys() & {"x", "y"}:
            operands[parameter] = _outside_psum(ex, operands[parameter])
        tensor = _tensor_engine_tile(ex, op, operands, first)
    arguments = [
        operand.text if parameter in ("x", "y") else f"{parameter}={operand.text}"
        for parameter, operand in operands.items()
    ]
    return Result(f"{ex.ctx.nl}.{op}({', '.join(arguments)})", tensor)


def _tensor_engine_tile(ex: Expressions, op: str, operands: dict[str, Result], first: Tensor) -> Tensor:
    """Describe the tile in PSUM that nl.matmul or nl.transpose returns."""
    if op == "matmul":
        return Tensor("psum", f"{ex.ctx.nl}.float32", _matmul_shape(operands))
    shape = first.shape if first.shape is not None and len(first.shape) == 2 else None
    return Tensor("psum", first.dtype, shape[::-1] if shape is not None else None)


def _outside_psum(ex: Expressions, operand: Result) -> Result:
    """Return an operand of the Tensor Engine, which cannot read PSUM."""
    is_in_psum = operand.tensor is not None and operand.tensor.region == "psum"
    return Result(f"{ex.ctx.nl}.copy({operand.text})", operand.tensor) if is_in_psum else operand


def _broadcast(ex: Expressions, tile: Result, shape: ast.expr) -> Result:
    """Rewrite a broadcast.

    A helper drops the dimensions of size 1 that the tile has because of a grid with more axes.
    """
    extents = tuple(ex.rewrite(e).text for e in shape.elts) if isinstance(shape, (ast.Tuple, ast.List)) else None
    known = tile.tensor.shape if tile.tensor is not None else None
    differs = extents is not None and known is not None and len(extents) != len(known)
    function_text = ex.ctx.needs("stretched") if differs else f"{ex.ctx.nl}.broadcast_to"
    text = f"{function_text}({tile.text}, {ex.rewrite(shape).text})"
    return Result(text, Tensor("sbuf", tile.tensor.dtype if tile.tensor is not None else "", extents))


def _matmul_shape(results: dict[str, Result]) -> tuple[str, ...] | None:
    x, y = (results[parameter].tensor for parameter in ("x", "y"))
    if x is None or y is None or x.shape is None or y.shape is None or len(x.shape) != 2 or len(y.shape) != 2:
        return None
    transposed = "transpose_x" in results and results["transpose_x"].text == "True"
    return (x.shape[1] if transposed else x.shape[0], y.shape[1])


def _where(ex: Expressions, keywords: dict[str, ast.expr]) -> Result:
    condition = ex.rewrite(keywords["condition"])
    if isinstance(condition.value, Mask):
        return where_of_mask(ex, keywords)
    if condition.tensor is None:
        raise CannotError("nl.where of a condition that is neither a tile nor a comparison of index arrays")
    x, y = ex.rewrite(keywords["x"]), ex.rewrite(keywords["y"])
    note_start(ex.ctx, condition.tensor, x.tensor, y.tensor)
    tensor = next((side.tensor for side in (x, y) if side.tensor is not None), condition.tensor)
    shapes = {side.tensor.shape for side in (condition, x, y) if side.tensor is not None}
    options = _options(ex, keywords, "dtype")
    if len(shapes) > 1 or None in shapes:
        shown = f"{ex.ctx.needs('selected')}({condition.text}, {x.text}, {y.text}{options})"
        return Result(shown, Tensor("sbuf", tensor.dtype, condition.tensor.shape))
    return Result(f"{ex.ctx.nl}.where({condition.text}, {x.text}, {y.text}{options})", tensor)


HANDLERS: dict[str, Callable[[Expressions, ast.Call, str], Result | None]] = {
    **dict.fromkeys(PARAMETERS, _other),
    **dict.fromkeys(REDUCING, _reduction),
    **dict.fromkeys((*UNARY, "copy", "static_cast"), _unary),
    **dict.fromkeys(BINARY, _binary_call),
    **dict.fromkeys(CREATING, create),
    **dict.fromkeys(("arange", "mgrid"), _arange),
    **dict.fromkeys(("ds", "dslice"), _window),
    "par_dim": lambda ex, call, _: Result(par_dim(ex, call)),
    "store": lambda ex, call, _: store(ex, call),
    "load_transpose2d": lambda ex, call, _: load_transposed(ex, call),
}


# Operators and methods


def operate(ex: Expressions, node: ast.expr) -> Result | None:
    """Rewrite a Python operator that is applied to tiles. Return None for an operator that is applied to numbers."""
    if isinstance(node, ast.UnaryOp):
        operand = ex.rewrite(node.operand)
        if operand.tensor is None:
            return None
        names = {ast.USub: "negative", ast.Invert: "invert", ast.Not: "logical_not"}
        if type(node.op) not in names:
            return operand
        return Result(f"{ex.ctx.nl}.{names[type(node.op)]}({operand.text})", operand.tensor)
    if isinstance(node, ast.Compare):
        if len(node.ops) != 1 or type(node.ops[0]) not in OPERATORS:
            return None
        left, right = ex.rewrite(node.left), ex.rewrite(node.comparators[0])
        kind: type[ast.AST] = type(node.ops[0])
    elif isinstance(node, ast.BinOp):
        left, right, kind = ex.rewrite(node.left), ex.rewrite(node.right), type(node.op)
    else:
        return None
    if left.tensor is None and right.tensor is None:
        return None
    if kind is ast.MatMult:
        return Result(f"{ex.ctx.nl}.matmul({left.text}, {right.text})", Tensor("psum"))
    if kind not in OPERATORS:
        raise CannotError(f"{ex.ctx.source.of(node)}: tiles do not support this operator")
    return binary(ex, OPERATORS[kind], left, right)


def method(ex: Expressions, call: ast.Call) -> Result | None:
    """Rewrite a call of a tile method. Return None if the object is not a tile or the call is unchanged."""
    assert isinstance(call.func, ast.Attribute)
    base = ex.rewrite(call.func.value)
    if base.tensor is None:
        return None
    nl, which = ex.ctx.nl, call.func.attr
    arguments = [ex.rewrite(argument).text for argument in call.args]
    if which == "broadcast_to":
        return _broadcast(ex, base, call.args[0] if call.args else call.keywords[0].value)
    if which == "astype":
        dtype = ex.rewrite(call.args[0] if call.args else call.keywords[0].value).text
        return Result(f"{nl}.copy({base.text}, dtype={dtype})", Tensor("sbuf", dtype, base.tensor.shape))
    if which == "expand_dims":
        tensor = Tensor(base.tensor.region, base.tensor.dtype)
        return Result(f"{nl}.expand_dims({base.text}, {', '.join(arguments)})", tensor)
    if which in ("reshape", "view", "permute", "ap", "reinterpret_cast"):
        return _viewed(ex, call, base, base.tensor)
    return None


def _viewed(ex: Expressions, call: ast.Call, base: Result, tensor: Tensor) -> Result:
    """Rewrite a call of a method that returns another view of a tile."""
    assert isinstance(call.func, ast.Attribute)
    which = call.func.attr
    requested = call.args[0] if len(call.args) == 1 else call.keywords[0].value if call.keywords else None
    if which == "reshape" and isinstance(requested, (ast.Tuple, ast.List)):
        shape = tuple(_whole(ex.rewrite(element).text) for element in requested.elts)
        return Result(f"{base.text}.reshape({shape_text(shape)})", Tensor(tensor.region, tensor.dtype, shape))
    arguments = [ex.rewrite(argument).text for argument in call.args]
    extents = None
    if which == "reshape" and call.args and not isinstance(call.args[0], (ast.Name, ast.Attribute)):
        extents = tuple(arguments)
        arguments = [f"({', '.join(arguments)})"]
    dtype = tensor.dtype if which in ("reshape", "permute") else ""
    arguments += [f"{keyword.arg}={ex.rewrite(keyword.value).text}" for keyword in call.keywords]
    return Result(f"{base.text}.{which}({', '.join(arguments)})", Tensor(tensor.region, dtype, extents))


def _whole(extent: str) -> str:
    """Return an extent with integer division, since the first NKI accepted 4.0 in place of 4."""
    node = parse(extent, mode="eval").body
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
        return extent
    return f"{ast.unparse(node.left)} // {ast.unparse(node.right)}"
