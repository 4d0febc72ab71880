"""Rewrite the creation of tensors: block dimensions become a dictionary of tiles, buffers are named explicitly, and
NumPy dtypes become NKI dtypes."""

from __future__ import annotations

import ast

from .context import Result, Tensor
from .expressions import Expressions
from .instructions import keywords_of, shape_text
from .later import REGIONS
from .notes import CHECK, CannotError

PARAMETERS = {
    "ndarray": ("shape", "dtype"),
    "empty": ("shape", "dtype"),
    "zeros": ("shape", "dtype"),
    "ones": ("shape", "dtype"),
    "full": ("shape", "fill_value", "dtype"),
    "zeros_like": ("x", "dtype"),
    "empty_like": ("x", "dtype"),
    "shared_constant": ("constant", "dtype"),
    "rand": ("shape", "dtype"),
}
VALUES = {"zeros": "0", "ones": "1"}


def par_dim(ex: Expressions, call: ast.Call) -> str:
    """Return the extent in nl.par_dim(extent)."""
    if len(call.args) != 1:
        raise CannotError("nl.par_dim without an extent")
    return ex.rewrite(call.args[0]).text


def create(ex: Expressions, call: ast.Call, op: str) -> Result | None:
    """Rewrite a call that creates a tensor."""
    keywords = keywords_of(call, PARAMETERS[op])
    if op == "rand":
        dtype = _dtype(ex, keywords) or f"{ex.ctx.nl}.float32"
        return Result(f"{ex.ctx.nl}.rand({ex.rewrite(keywords['shape']).text}, {dtype})", Tensor("sbuf", dtype))
    if op == "shared_constant":
        return Result(f"{ex.ctx.nl}.shared_constant({ex.rewrite(keywords['constant']).text})", Tensor("hbm"))
    if op.endswith("_like"):
        return _like(ex, op, keywords)
    return _shaped(ex, op, keywords)


def _shaped(ex: Expressions, op: str, keywords: dict[str, ast.expr]) -> Result:
    """Rewrite a call that creates a tensor of a given shape, in a given memory."""
    region, placed = _region(ex, keywords.get("buffer"))
    if placed:
        buffer = ast.unparse(keywords["buffer"])
        ex.ctx.add(CHECK, f"the compiler chooses the place of the tensor instead of buffer={buffer}")
    kind = _kind(region)
    is_accumulator = kind == "psum" and ex.target in ex.ctx.accumulators  # the first matmul overwrites it
    dtype = _dtype(ex, keywords)
    extents, blocks = _extents(ex, keywords["shape"])
    value = ex.rewrite(keywords["fill_value"]).text if op == "full" else VALUES.get(op)
    if blocks and extents is not None and kind != "hbm":
        return _blocks(ex, _shape(extents[blocks:], kind), blocks, dtype, kind, None if is_accumulator else value)
    shape = _shape(extents, kind) if extents is not None else None
    arguments = (
        shape_text(shape) if shape is not None else ex.rewrite(keywords["shape"]).text,
        value if op == "full" else None,
        f"dtype={dtype}" if dtype else None,
        f"buffer={ex.ctx.nl}.{region}",
        _name(ex, keywords.get("name")),
    )
    function = "ndarray" if op == "empty" or (op == "zeros" and is_accumulator) else op
    return Result(f"{ex.ctx.nl}.{function}({', '.join(filter(None, arguments))})", Tensor(kind, dtype, shape))


def _name(ex: Expressions, node: ast.expr | None) -> str | None:
    """Return the keyword `name`, except in a loop, in which several tensors would have the same name."""
    is_text = isinstance(node, ast.Constant) and node.value
    return f"name={ex.ctx.source.of(node)}" if is_text and node is not None and not ex.ctx.in_loop else None


def _like(ex: Expressions, op: str, keywords: dict[str, ast.expr]) -> Result:
    base = ex.rewrite(keywords["x"])
    options = ""
    region = base.tensor.region if base.tensor is not None else ""
    dtype = base.tensor.dtype if base.tensor is not None else ""
    if "dtype" in keywords:
        dtype = _dtype(ex, keywords)
        options += f", dtype={dtype}"
    if "buffer" in keywords:
        memory, _ = _region(ex, keywords["buffer"])
        region = _kind(memory)
        options += f", buffer={ex.ctx.nl}.{memory}"
    return Result(
        f"{ex.ctx.nl}.{op}({base.text}{options})", Tensor(region, dtype, base.tensor.shape if base.tensor else None)
    )


def _dtype(ex: Expressions, keywords: dict[str, ast.expr]) -> str:
    return ex.rewrite(keywords["dtype"]).text if "dtype" in keywords else ""


def _kind(region: str) -> str:
    return "hbm" if region.endswith("hbm") else region


def _region(ex: Expressions, node: ast.expr | None) -> tuple[str, bool]:
    """Return the memory that buffer= selects, and whether it also specifies an address."""
    value = node.value if isinstance(node, ast.Constant) else ""
    if node is None or value is None:
        return "sbuf", False
    if value in REGIONS:
        return str(value), False
    called = node.func if isinstance(node, ast.Call) else node
    dotted = ex.ctx.names.dotted(called)
    is_of_nki = dotted.startswith(("nki.language", "nki.compiler"))
    name = next((part for part in dotted.split(".") if part in REGIONS), None) if is_of_nki else None
    if name is not None:
        return "shared_hbm" if name == "hbm" else name, isinstance(node, ast.Call)
    if isinstance(called, (ast.Name, ast.Attribute)):  # an allocator defined in the file
        name = called.id if isinstance(called, ast.Name) else called.attr
        mentioned = {part for dotted in ex.ctx.names.mentioned_by(name) for part in dotted.split(".")[2:3]}
        regions = mentioned & {"sbuf", "psum"}
        if len(regions) == 1:
            return regions.pop(), True
    raise CannotError(f"buffer={ast.unparse(node)} is not a known memory")


def _extents(ex: Expressions, shape: ast.expr) -> tuple[list[str] | None, int]:
    """Return the extents of a shape (None unless it is a literal), and the number of dimensions before the partition
    dimension."""
    if not isinstance(shape, (ast.Tuple, ast.List)):
        return None, 0
    extents, blocks = [], 0
    for position, element in enumerate(shape.elts):
        if isinstance(element, ast.Call) and ex.ctx.names.dotted(element.func) == "nki.language.par_dim":
            blocks = position
        if isinstance(element, ast.Starred):
            return None, 0
        extents.append(ex.rewrite(element).text)
    return extents, blocks


def _shape(extents: list[str], kind: str) -> tuple[str, ...]:
    """Return the shape of a tensor. A tile has at least two dimensions."""
    return (*extents, "1") if len(extents) == 1 and kind != "hbm" else tuple(extents)


def _blocks(ex: Expressions, shape: tuple[str, ...], blocks: int, dtype: str, region: str, value: str | None) -> Result:
    """Return a dictionary of tiles, each filled with `value` if given."""
    filled = f", value={value}" if value is not None else ""
    text = f"{ex.ctx.needs('TileBlocks')}({blocks}, {shape_text(shape)}, {dtype}, {ex.ctx.nl}.{region}{filled})"
    return Result(text, Tensor(region, dtype, shape, blocks))
