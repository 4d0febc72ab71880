"""Rewrite calls of instructions. Each call gets a `dst`, which is the assigned tile or a newly allocated tile."""

from __future__ import annotations

import ast
from dataclasses import replace

from . import later
from .context import Result, Tensor
from .expressions import Expressions
from .in_place import cumulative, in_place
from .indices import Clips
from .instructions import (
    GONE,
    IN_PLACE,
    INSTRUCTIONS,
    Instruction,
    Operands,
    allocate,
    dtype_of,
    emit_call,
    in_float32,
    is_none,
    keywords_of,
    name,
    shape_of,
    shape_text,
)
from .notes import CHECK, CannotError
from .placing import note_start
from .special import affine_select, iota, memset
from .sums import Sum
from .views import View, clip_whole


def instruction(ex: Expressions, call: ast.Call, op: str, dst: View | None) -> Result | None:
    """Rewrite a call of `nki.isa.<op>` so that it writes to `dst`, if given.

    Return None if the call did not return a tile.
    """
    if op in GONE:
        raise CannotError(f"nisa.{op} was removed: {GONE[op]}")
    if op == "tensor_scalar_cumulative":
        return cumulative(ex, call)
    if any(keyword.arg == "dst" for keyword in call.keywords) and op not in IN_PLACE:
        return later.call(ex, call, f"nki.isa.{op}")  # the form of NKI 0.2 and later
    if op in IN_PLACE:
        return in_place(ex, call, op)
    for special, function in (("memset", memset), ("iota", iota), ("affine_select", affine_select)):
        if op == special:
            return function(ex, call, dst)
    known = INSTRUCTIONS.get(op)
    if known is None:
        return None
    keywords = keywords_of(call, known.parameters)
    operands = Operands(ex, keywords.pop("mask", None))
    dtype = keywords.pop("dtype", None)
    dtype_text = ex.rewrite(dtype).text if dtype is not None and not is_none(dtype) else ""
    if op == "nc_matmul":
        return matmul(ex, operands, keywords, dst, accumulate="")
    return _elementwise(ex, op, operands, keywords, dtype_text, dst)


ALWAYS_TILES = frozenset(
    {"data", "data0", "data1", "data2", "src", "src_buffer", "index", "vals", "on_true_tile", "segment_ids"}
)


def _elementwise(
    ex: Expressions, op: str, operands: Operands, keywords: dict[str, ast.expr], dtype_text: str, dst: View | None
) -> Result:
    known = INSTRUCTIONS[op]
    # Masked-out elements of a new tile were undefined, so a mask matters only if it affects the other elements.
    if dst is None and not known.reduces:
        operands.clips = {}
    views = _tiles(ex, op, operands, keywords)
    note_start(ex.ctx, dst.tensor if dst is not None else None, *(view.tensor for view in views.values()))
    shape = _stretch(ex, views) if op == "tensor_tensor" else ""
    like = views[known.like]
    fixed: dict[str, str] = {}
    if op == "tensor_reduce":
        moved, axis, shape = _put_axes_last(ex, like, keywords.get("axis"))
        fixed = {"data": moved.text, "axis": axis}
    arguments = [
        _argument(ex, known, parameter, keywords[parameter], views)
        for parameter in keywords
        if parameter not in ("keepdims", *fixed)
    ]
    arguments += [f"{parameter}={text}" for parameter, text in fixed.items()]
    function = f"{ex.ctx.nisa}.{op}"
    if dst is not None:
        if op == "nc_transpose" and dtype_of(dst) != dtype_of(like):
            function = ex.ctx.needs("transpose_into")  # the dtypes may differ, which only the first NKI allowed
        emit_call(ex.ctx, operands, f"{function}(dst={dst.text}, {', '.join(filter(None, arguments))})")
        return Result(dst.text, dst.tensor)
    cast = ""
    if op == "nc_transpose" and dtype_text not in ("", dtype_of(like)):
        cast, dtype_text, ex.target = dtype_text, "", ""  # the tile in PSUM has the dtype of the operand
    dtype = dtype_text or _result_dtype(ex, op, views)
    tile = allocate(ex.ctx, ex, shape or _result_shape(ex, op, like, keywords), dtype, known.region)
    written = _clipped_destination(tile, op, like, operands.clips)
    emit_call(ex.ctx, operands, f"{function}(dst={written}, {', '.join(filter(None, arguments))})")
    tensor = tile.tensor or Tensor()
    if cast:
        return Result(f"{ex.ctx.nl}.copy({tile.text}, dtype={cast})", Tensor("sbuf", cast, tensor.shape))
    return Result(tile.text, tensor)


def _tiles(ex: Expressions, op: str, operands: Operands, keywords: dict[str, ast.expr]) -> dict[str, View]:
    """Return those operands of an instruction that are tiles, keyed by parameter."""
    known = INSTRUCTIONS[op]
    views = {
        parameter: operands.view(keywords[parameter])
        for parameter in known.tiles
        if parameter in keywords and (parameter in ALWAYS_TILES or _is_tile(ex, keywords[parameter]))
    }
    views = {parameter: in_float32(ex, op, parameter, view, keywords) for parameter, view in views.items()}
    like = views.get(known.like)
    if like is None:
        raise CannotError(f"nisa.{op}: {known.like} is not known to be a tile here")
    in_psum = [parameter for parameter, view in views.items() if view.tensor.region == "psum"]
    if op == "nc_transpose" and in_psum:
        views["data"] = _copied(ex, like)
    elif op in ("tensor_tensor", "scalar_tensor_tensor") and len(in_psum) > 1:  # only one operand may be in PSUM
        views[in_psum[-1]] = _copied(ex, views[in_psum[-1]])
    return views


def _copied(ex: Expressions, view: View) -> View:
    """Return a copy in SBUF of a tile in PSUM."""
    tile = name(ex.ctx, Result(f"{ex.ctx.nl}.copy({view.text})", Tensor("sbuf", view.tensor.dtype, view.shape)))
    return View(tile.text, tile.tensor or Tensor(), view.shape, view.full)


def _result_dtype(ex: Expressions, op: str, views: dict[str, View]) -> str:
    """Return the dtype of a result for which none is given."""
    known = INSTRUCTIONS[op]
    return f"{ex.ctx.nl}.{known.dtype}" if known.dtype else _wider(ex, op, views) or dtype_of(views[known.like])


def _stretch(ex: Expressions, views: dict[str, View]) -> str:
    """Broadcast the operands of tensor_tensor, unless the source shows that their shapes are equal.

    Return the source text of the common shape if a helper computes it, and "" otherwise.
    """
    first, second = views.get("data1"), views.get("data2")
    if first is None or second is None or (first.shape is not None and first.shape == second.shape):
        return ""
    helper = ex.ctx.needs("stretched")
    if first.shape is not None and second.shape is not None and len(first.shape) == len(second.shape):
        for parameter, narrower, wider in (("data2", second, first), ("data1", first, second)):
            if all(n in ("1", m) for m, n in zip(wider.shape or (), narrower.shape or ())):
                text = f"{helper}({narrower.text}, {wider.text})"
                views[parameter] = replace(narrower, text=text, shape=wider.shape, full=wider.full)
                return ""
    shape = f"common_shape({first.text}, {second.text})"
    for parameter in ("data1", "data2"):
        views[parameter] = replace(
            views[parameter], text=f"{helper}({views[parameter].text}, {shape})", shape=None, full=None
        )
    return shape


def _put_axes_last(ex: Expressions, view: View, axis: ast.expr | None) -> tuple[View, str, str]:
    """Return the operand of a reduction with the reduced dimensions last, the source text of their axes, and the source
    text of the result shape."""
    if axis is None:
        raise CannotError("nisa.tensor_reduce without axis")
    axes = axis.elts if isinstance(axis, (ast.List, ast.Tuple)) else [axis]
    try:
        numbers = [int(ast.literal_eval(element)) for element in axes]
    except (ValueError, TypeError):
        raise CannotError("the axis of nisa.tensor_reduce must be a number") from None
    text = ex.rewrite(axis).text
    if view.full is not None and view.shape is not None:
        rank = len(view.full)
        reduced = sorted(number % rank for number in numbers)
        left = [at for at in range(rank) if at not in reduced]
        shape = tuple(view.full[at] for at in left)
        shown = shape_text(shape if len(shape) > 1 else (*shape, "1"))
        if reduced == list(range(len(left), rank)):
            return view, text, shown
        moved = replace(view, text=f"{view.text}.permute({tuple(left + reduced)})")
        return moved, str(tuple(range(len(left), rank))), shown
    if numbers == [1] and ex.ctx.ranks.get(view.text, 2) == 2:
        return view, text, f"({view.text}.shape[0], 1)"
    ex.ctx.needs("kept_shape")
    tuple_text = f"({', '.join(str(number) for number in numbers)},)" if len(numbers) == 1 else str(tuple(numbers))
    moved = replace(view, text=f"axes_last({view.text}, {tuple_text})")
    first = f"len({view.text}.shape) - {len(numbers)}"
    return moved, f"tuple(range({first}, len({view.text}.shape)))", f"kept_shape({view.text}, {tuple_text})"


def _clipped_destination(tile: Result, op: str, like: View, clips: Clips) -> str:
    """Return the part of a new tile that a clipped operand fills."""
    if op == "tensor_tensor_scan" and clips:
        return clip_whole(tile, clips).text
    clip = clips.get(-len(like.full)) if like.full is not None else clips.get(-2)
    if clip is None:
        return tile.text
    stop = (clip.start + clip.count).text
    return f"{tile.text}[{clip.start.text}:{stop}]"


def _argument(ex: Expressions, known: Instruction, parameter: str, node: ast.expr, views: dict[str, View]) -> str:
    if parameter in views:
        return f"{parameter}={views[parameter].text}"
    if parameter in known.operators:
        operator = ex.ctx.names.operator(node)
        return f"{parameter}={operator or ex.rewrite(node).text}"
    if parameter == "engine":
        text = later.enumerated(ex, parameter, node) or ex.rewrite(node).text
        return "" if text.endswith("engine.unknown") else f"{parameter}={text}"
    text = later.enumerated(ex, parameter, node) or ex.rewrite(node).text
    return f"{parameter}={text}"


def _is_tile(ex: Expressions, node: ast.expr) -> bool:
    """Return True unless an operand is a number (or an unknown name where a number is possible)."""
    if isinstance(node, ast.Constant):
        return False
    if isinstance(node, ast.Subscript):
        return ex.rewrite(node).tensor is not None
    return ex.rewrite(node).tensor is not None


def _wider(ex: Expressions, op: str, views: dict[str, View]) -> str:
    """Return the result dtype of an instruction on two tensors, which is the wider dtype.

    If the dtypes may differ, a helper computes it.
    """
    if op != "tensor_tensor" or "data2" not in views:
        return ""
    first, second = (dtype_of(views[parameter]) for parameter in ("data1", "data2"))
    if first == second:
        return first
    return f"{ex.ctx.needs('wider_dtype')}({first}, {second})"


def _gathered_columns(ex: Expressions, keywords: dict[str, ast.expr]) -> str:
    """Return the number of columns that local_gather writes."""
    count = ex.rewrite(keywords["num_valid_indices"]).text if "num_valid_indices" in keywords else ""
    count = count if count not in ("", "None") else f"16 * {ex.rewrite(keywords['index']).text}.shape[1]"
    elements = ex.rewrite(keywords["num_elem_per_idx"]).text if "num_elem_per_idx" in keywords else "1"
    return count if elements == "1" else f"{count} * {elements}"


def _result_shape(ex: Expressions, op: str, like: View, keywords: dict[str, ast.expr]) -> str:
    """Return the shape of a newly allocated result."""
    partitions = like.full[0] if like.full is not None else f"{like.text}.shape[0]"
    fixed = {"bn_stats": "6", "bn_aggr": "2", "max8": "8"}
    if op in fixed:
        return shape_text((partitions, fixed[op]))
    if op == "tensor_partition_reduce":
        rest = like.full[1:] if like.full is not None else (f"*{like.text}.shape[1:]",)
        return shape_text(("1", *rest))
    if op == "nc_transpose":
        if like.full is not None:
            return shape_text((_product(like.full[1:]), like.full[0]))
        return f"({like.text}.shape[1], {like.text}.shape[0])"
    if op == "local_gather":
        return shape_text((partitions, _gathered_columns(ex, keywords)))
    if op == "dma_transpose":
        return _turned(like, keywords.get("axes"))
    return shape_of(like)


def _turned(like: View, axes: ast.expr | None) -> str:
    """Return the result shape of a DMA transpose."""
    orders = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
    if like.full is not None and len(like.full) in orders:
        return shape_text(tuple(like.full[axis] for axis in orders[len(like.full)]))
    if axes is None or (isinstance(axes, (ast.Tuple, ast.List)) and len(axes.elts) == 2):
        return f"({like.text}.shape[1], {like.text}.shape[0])"
    raise CannotError("nisa.dma_transpose of a tensor whose shape is unknown here: allocate dst and pass it")


def _product(extents: tuple[str, ...]) -> str:
    product = Sum(1)
    for extent in extents:
        product = product * Sum.of(extent)
    return product.text


def matmul(
    ex: Expressions, operands: Operands, keywords: dict[str, ast.expr], dst: View | None, accumulate: str
) -> Result:
    """Rewrite `nisa.nc_matmul` (or nl.matmul) to write to `dst`, accumulating if `accumulate` requests it."""
    clips = operands.clips
    stationary, moving = keywords["stationary"], keywords["moving"]
    whole_operands = operands.view(stationary, {}), operands.view(moving, {})
    sides = _matmul_clips(clips, whole_operands, dst is None)
    left, right = (_in_sbuf(ex, operands.view(node, side)) for node, side in zip((stationary, moving), sides))
    note_start(ex.ctx, left.tensor, right.tensor)
    options = _matmul_options(ex, keywords)
    if dst is None:
        dst = _matmul_tile(ex, whole_operands, dtype_of(right), options)
    call = f"{ex.ctx.nisa}.nc_matmul(dst={dst.text}, stationary={left.text}, moving={right.text}{accumulate}{options})"
    emit_call(ex.ctx, operands, call)
    return Result(dst.text, dst.tensor)


def _matmul_options(ex: Expressions, keywords: dict[str, ast.expr]) -> str:
    """Return the options of a matmul that are not the defaults."""
    options = ""
    for option, node in keywords.items():
        value = ex.rewrite(node).text
        if option == "perf_mode" and "double_row" in value:
            value = f"{ex.ctx.nisa}.matmul_perf_mode.double_row"
        if option not in ("stationary", "moving") and value not in ("False", "None", "()"):
            options += f", {option}={value}"
    return options


def _matmul_tile(ex: Expressions, whole_operands: tuple[View, View], dtype: str, options: str) -> View:
    """Allocate the result of a matmul in PSUM. A transpose keeps the `dtype` of its operand."""
    doubled = "double_row" in options and not any(
        view.full is not None and len(view.full) < 3 for view in whole_operands
    )
    first = 2 if doubled else 1  # double rows are a separate dimension
    columns = _columns(ex, whole_operands[0], first)
    columns = (f"{whole_operands[0].text}.shape[{first}]",) if columns[0].startswith("*") else columns
    shape = (_product(columns), *_columns(ex, whole_operands[1], first))
    dtype = dtype if ", is_transpose=True" in options else f"{ex.ctx.nl}.float32"
    tile = allocate(ex.ctx, ex, shape_text(shape), dtype, "psum")
    return View(tile.text, tile.tensor or Tensor(), shape, shape)


def _in_sbuf(ex: Expressions, view: View) -> View:
    """Return an operand of the Tensor Engine. If it is in PSUM, it is copied to SBUF, as the first compiler did."""
    if view.tensor.region != "psum":
        return view
    ex.ctx.add(CHECK, "the Tensor Engine cannot read PSUM: its operand is copied to SBUF first")
    return View(f"{ex.ctx.nl}.copy({view.text})", Tensor("sbuf", dtype_of(view), view.shape), view.shape, view.full)


def _columns(ex: Expressions, view: View, at: int) -> tuple[str, ...]:
    """Return the extents of an operand of the Tensor Engine starting at dimension `at`, which is the first after the
    rows."""
    if view.full is not None:
        return view.full[at:]
    rank = view.tensor.rank or ex.ctx.ranks.get(view.text, 0)
    return tuple(f"{view.text}.shape[{axis}]" for axis in range(at, rank)) if rank else (f"*{view.text}.shape[{at}:]",)


def _matmul_clips(clips: Clips, views: tuple[View, View], fresh: bool) -> tuple[Clips, Clips]:
    """Return the clips that a mask implies for the rows of the stationary and the moving operand, and for the columns
    of the moving operand."""
    rows = {at: clip for at, clip in clips.items() if at < -1}
    columns = {at: clip for at, clip in clips.items() if at == -1}
    if not columns:
        return rows, rows
    if fresh:  # masked-out elements of a new tile were undefined
        return rows, rows
    return rows, {**rows, **columns}
