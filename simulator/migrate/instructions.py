"""Instructions of `nki.isa`, which returned tiles up to NKI 0.1 and have written to `dst` since NKI 0.2.

Source: the API pages and migration guides of NKI (nki/migration/index.rst) and its release notes.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from ..instructions.operands import Scalar
from ..instructions.tensor_operands import Tile
from ..machine.instruction import DECLARATIONS
from ..machine.syntax import parse
from ..nki import isa as _isa  # noqa: F401 (declares the instructions)
from .context import Context, Result, Tensor
from .expressions import Expressions
from .indices import Clips, Mask
from .layout import wrapped
from .notes import CHECK, CannotError
from .views import View, clip_whole


@dataclass(frozen=True)
class Instruction:
    """An instruction of the first NKI: its parameters in positional order, and a description of its result.

    `like` is the operand that determined the shape of the result and, without dtype=, its data type. `reduces` is True
    if masked-out elements affect the other elements of the result. `operators` lists the parameters that are operators,
    and `tiles` the parameters that are tiles.
    """

    parameters: tuple[str, ...]
    like: str
    tiles: tuple[str, ...]
    operators: tuple[str, ...] = ()
    reduces: bool = False
    region: str = "sbuf"
    dtype: str = ""  # dtype of the result if it is independent of the operand's dtype


def _of(parameters: str, like: str, tiles: str, operators: str = "", **options: object) -> Instruction:
    return Instruction(tuple(parameters.split()), like, tuple(tiles.split()), tuple(operators.split()), **options)  # type: ignore[arg-type]


INSTRUCTIONS: dict[str, Instruction] = {
    "activation": _of("op data bias scale reduce_op reduce_res reduce_cmd", "data", "data bias scale", "op reduce_op"),
    "activation_reduce": _of(
        "op data reduce_op reduce_res bias scale", "data", "data bias scale reduce_res", "op reduce_op", reduces=True
    ),
    "tensor_tensor": _of("data1 data2 op", "data1", "data1 data2", "op"),
    "tensor_scalar": _of(
        "data op0 operand0 reverse0 op1 operand1 reverse1", "data", "data operand0 operand1", "op0 op1"
    ),
    "scalar_tensor_tensor": _of(
        "data op0 operand0 op1 operand1 reverse0 reverse1", "data", "data operand0 operand1", "op0 op1"
    ),
    "tensor_tensor_scan": _of(
        "data0 data1 initial op0 op1 reverse0 reverse1", "data0", "data0 data1 initial", "op0 op1", reduces=True
    ),
    "tensor_scalar_reduce": _of(
        "data op0 operand0 reduce_op reduce_res reverse0",
        "data",
        "data operand0 reduce_res",
        "op0 reduce_op",
        reduces=True,
    ),
    "tensor_copy": _of("src", "src", "src"),
    "reciprocal": _of("data", "data", "data"),
    "dropout": _of("data prob", "data", "data prob"),
    "tensor_reduce": _of("op data axis", "data", "data", "op", reduces=True),
    "tensor_partition_reduce": _of("op data", "data", "data", "op", reduces=True),
    "bn_stats": _of("data", "data", "data", reduces=True),
    "bn_aggr": _of("data", "data", "data", reduces=True),
    "max8": _of("src", "src", "src", reduces=True),
    "nc_find_index8": _of("data vals", "vals", "data vals", reduces=True, dtype="uint32"),
    "nc_match_replace8": _of("data vals imm dst_idx", "data", "data vals dst_idx", reduces=True),
    "sequence_bounds": _of("segment_ids", "segment_ids", "segment_ids", reduces=True),
    "local_gather": _of(
        "src_buffer index num_elem_per_idx num_valid_indices", "src_buffer", "src_buffer index", reduces=True
    ),
    "range_select": _of(
        "on_true_tile comp_op0 comp_op1 bound0 bound1 reduce_cmd reduce_res reduce_op range_start on_false_value",
        "on_true_tile",
        "on_true_tile bound0 bound1 reduce_res",
        "comp_op0 comp_op1 reduce_op",
        reduces=True,
    ),
    "nc_matmul": _of(
        "stationary moving is_stationary_onezero is_moving_onezero is_transpose tile_position tile_size",
        "moving",
        "stationary moving",
        reduces=True,
        region="psum",
    ),
    "dma_transpose": _of("src axes", "src", "src", reduces=True),
    "nc_transpose": _of("data engine", "data", "data", region="psum"),
}
IN_PLACE = {  # instructions that already had a dst, with their positional parameters in the first NKI
    "dma_copy": (),
    "tensor_copy_predicated": (),
    "select_reduce": (),
    "nc_stream_shuffle": ("src", "dst", "shuffle_mask"),
}
GONE = {
    "builtin_custom_op": "there is no replacement",
    "tensor_copy_dynamic_src": "use nisa.tensor_copy with src=t.ap(..., scalar_offset=...)",
    "tensor_copy_dynamic_dst": "use nisa.tensor_copy with dst=t.ap(..., scalar_offset=...)",
}


class Arguments(dict[str, ast.expr]):
    """The arguments of a call, keyed by name. Reading one that is missing raises CannotError."""

    def __missing__(self, name: str) -> ast.expr:
        raise CannotError(f"the call lacks the argument {name}")


def keywords_of(call: ast.Call, parameters: tuple[str, ...]) -> dict[str, ast.expr]:
    """Return the arguments of a call, keyed by name, in the order of the call."""
    if any(isinstance(argument, ast.Starred) for argument in call.args) or any(k.arg is None for k in call.keywords):
        raise CannotError("expanded arguments (*args, **kwargs) are not supported")
    if len(call.args) > len(parameters):
        raise CannotError(f"more positional arguments than {', '.join(parameters)}")
    arguments = Arguments(zip(parameters, call.args))
    arguments.update({str(keyword.arg): keyword.value for keyword in call.keywords})
    return arguments


def is_none(node: ast.expr) -> bool:
    """Return True for the literal None."""
    return isinstance(node, ast.Constant) and node.value is None


class Operands:
    """The operands of a call, clipped by its mask."""

    def __init__(self, expressions: Expressions, mask: ast.expr | None) -> None:
        self._expressions = expressions
        self.ctx = expressions.ctx
        self.clips: Clips = {}
        self.condition = ""
        if mask is None or is_none(mask):
            return
        result = expressions.rewrite(mask)
        value = result.value
        if value is None:  # it is a Python condition
            plain = result.text.isidentifier()  # it may be None, which means no mask
            self.condition = f"({result.text} is None or {result.text})" if plain else result.text
            return
        if not isinstance(value, Mask):
            raise CannotError(f"mask={ast.unparse(mask)} is not a condition on known index arrays")
        clips = value.clips()
        if clips is None:
            raise CannotError("the mask does not select a rectangle: use nisa.affine_select, or loop over the rows")
        self.clips, conditions = clips
        for factor in value.assumed_positive:
            self.ctx.add(CHECK, f"the mask is rewritten for a positive {factor.text}")
        if any(clip.count.is_number and clip.count.number <= 0 for clip in self.clips.values()):
            raise CannotError(f"mask={ast.unparse(mask)} is never true: remove the call, or correct the mask")
        unmet = [sum_ for sum_ in conditions if not (sum_.is_number and sum_.number <= 0)]
        self.condition = " and ".join(f"{sum_.text} <= 0" for sum_ in unmet)

    @property
    def guard(self) -> str:
        """Return the condition of the call: the condition of its mask and, in loops, that no clipped axis is empty."""
        turning = {*self.ctx.loops, *(f"program_{axis}" for axis in range(self.ctx.programs))}
        counts = [clip.count for clip in self.clips.values() if not clip.count.is_number]
        left = [f"{count.text} > 0" for count in counts if turning & names_in(count.text)]
        return " and ".join([self.condition, *left] if self.condition else left)

    def view(self, node: ast.expr, clips: Clips | None = None) -> View:
        """Return an operand, which is either part of a tensor or a whole tensor."""
        clips = self.clips if clips is None else clips
        if isinstance(node, ast.Subscript):
            base = self._expressions.rewrite(node.value)
            if base.tensor is not None or self._expressions._takes_indices(node):
                return self._expressions.view(node, clips)
        result = self.named(node)
        if clips:
            return clip_whole(result, clips)
        tensor = result.tensor or Tensor()
        return View(result.text, tensor, tensor.shape, tensor.shape)

    def named(self, node: ast.expr) -> Result:
        """Return an operand that can be repeated in the text. A computed value is first assigned to a name."""
        result = self._expressions.rewrite(node)
        if result.tensor is None or isinstance(node, (ast.Name, ast.Subscript)) or result.text.isidentifier():
            return result
        return name(self.ctx, result)


def name(ctx: Context, result: Result) -> Result:
    """Bind a new name to a tensor that an expression computes, and return the name."""
    _may_hoist(ctx)
    fresh = ctx.fresh()
    ctx.emit(f"{fresh} = {result.text}")
    return Result(fresh, result.value)


def allocate(ctx: Context, expressions: Expressions, shape: str, dtype: str, region: str) -> Result:
    """Allocate a tile under the assigned name or a new name."""
    _may_hoist(ctx)
    fresh = expressions.target or ctx.fresh()
    expressions.target = ""
    ctx.emit(f"{fresh} = {ctx.nl}.ndarray({shape}, dtype={dtype}, buffer={ctx.nl}.{region})")
    extents = _extents(shape)
    return Result(fresh, Tensor(region, dtype, extents))


def _may_hoist(ctx: Context) -> None:
    if ctx.no_hoisting:
        raise CannotError(f"no dst can be allocated before an instruction inside of {ctx.no_hoisting}")


def _extents(shape: str) -> tuple[str, ...] | None:
    node = parse(shape, mode="eval").body
    if isinstance(node, ast.Tuple) and not any(isinstance(element, ast.Starred) for element in node.elts):
        return tuple(ast.unparse(element) for element in node.elts)
    return None


def names_in(text: str) -> set[str]:
    """Return the names in an expression."""
    return {node.id for node in ast.walk(parse(text, mode="eval")) if isinstance(node, ast.Name)}


def shape_text(shape: tuple[str, ...]) -> str:
    return f"({', '.join(shape)}{',' if len(shape) == 1 else ''})"


def shape_of(view: View) -> str:
    """Return the full shape of an operand as source text."""
    return shape_text(view.full) if view.full is not None else f"{view.text}.shape"


def dtype_of(view: View) -> str:
    """Return the data type of an operand as source text."""
    if view.tensor.dtype:
        return view.tensor.dtype
    node = _viewed(parse(view.text, mode="eval").body)
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
        raise CannotError(f"{view.text} is not known to be a tile here")
    return f"{ast.unparse(node)}.dtype"


_VIEWS = frozenset({"ap", "broadcast", "permute", "reshape"})  # tensor methods that preserve the dtype


def _viewed(node: ast.expr) -> ast.expr:
    """Return the tensor of which an expression is a view. `t[0]` is kept, since `t` may be a list of tensors."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:  # a helper: stretched(t, shape)
        return _viewed(node.args[0])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
        return _viewed(node.func.value)
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(parts) > 1 or isinstance(parts[0], ast.Slice):
            return _viewed(node.value)
    return node


BIT_OPERATORS = ("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift")


def in_float32(ex: Expressions, op: str, parameter: str, view: View, keywords: dict[str, ast.expr]) -> View:
    """Return an operand that NKI 0.7 accepts only in float32.

    It is converted unless the source shows that it is float32.

    The first compiler itself converted columns such as the bias of `tensor_scalar`.
    """
    declared = DECLARATIONS[op].operands.get(parameter)
    if not isinstance(declared, (Scalar, Tile)) or declared.dtypes != ("float32",):
        return view
    operator = keywords.get(getattr(declared, "operator", ""))
    if operator is not None and (ex.ctx.names.operator(operator) or "").endswith(BIT_OPERATORS):
        return view
    if view.tensor.dtype == f"{ex.ctx.nl}.float32":
        return view
    return replace(view, text=f"{ex.ctx.needs('as_float32')}({view.text})")


def emit_call(ctx: Context, operands: Operands, text: str) -> None:
    """Emit an instruction, subject to the condition of its mask."""
    _may_hoist(ctx)
    if operands.guard:
        ctx.emit(f"if {operands.guard}:\n    " + wrapped(text).replace("\n", "\n    "))
    else:
        ctx.emit(text)
