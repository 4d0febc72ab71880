"""Move tiles that are created before a loop and overwritten in each of its iterations into the loop.

The first compiler allocated such a tile again in each iteration, so that an iteration did not have to wait until the
previous iteration had read the tile. In NKI 0.7, a tile has a single address during its lifetime. The creation of the
tile is therefore moved into the loop if the tile carries no values between iterations. This is the case if each
iteration overwrites the whole tile before reading it, or if the tile is created without values and all surrounding
loops are `nl.affine_range`, whose iterations are independent by definition.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from .names import Names, is_stored, stored

MAKERS = ("nki.language.ndarray", "nki.language.empty", "nki.language.zeros")
OVERWRITING = frozenset(
    f"nki.isa.{name}"
    for name in ("dma_copy", "tensor_copy", "activation", "tensor_tensor", "tensor_scalar", "memset", "reciprocal")
)
RANGES = frozenset(f"nki.language.{name}_range" for name in ("affine", "sequential", "static"))
ON_CHIP = frozenset({"sbuf", "psum"})


@dataclass(frozen=True)
class _Maker:
    """A statement that creates a tile. `extents` is its shape as source text, or None if the shape is not a literal."""

    statement: ast.Assign
    name: str
    extents: tuple[str, ...] | None
    is_empty: bool


def made_in_loops(tree: ast.FunctionDef, names: Names) -> dict[ast.stmt, ast.For]:
    """Return the statements that create a tile, each with the loop into which it is moved."""
    if any(isinstance(node, (ast.FunctionDef, ast.Lambda)) for node in ast.walk(tree) if node is not tree):
        return {}
    return {
        maker.statement: loop
        for block in _blocks(tree)
        for position, statement in enumerate(block)
        if (maker := _maker(statement, names)) is not None
        if (loop := _loop_of(tree, block[position + 1 :], maker, names)) is not None
    }


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            if isinstance(block := getattr(node, name, None), list):
                yield block


def _maker(statement: ast.stmt, names: Names) -> _Maker | None:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, call = statement.targets[0], statement.value
    if not isinstance(target, ast.Name) or not isinstance(call, ast.Call) or names.dotted(call.func) not in MAKERS:
        return None
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    place = given.get("buffer")
    region = names.dotted(place.func if isinstance(place, ast.Call) else place).rpartition(".")[2] if place else "sbuf"
    if region not in ON_CHIP or isinstance(place, ast.Call) or given.get("name") is not None:
        return None
    shape = call.args[0] if call.args else given.get("shape")
    extents = None
    if isinstance(shape, (ast.Tuple, ast.List)):
        extents = tuple(ast.unparse(_extent(element, names)) for element in shape.elts)
    return _Maker(statement, target.id, extents, names.dotted(call.func) != "nki.language.zeros")


def _extent(node: ast.expr, names: Names) -> ast.expr:
    """Return the extent in nl.par_dim(extent), or the expression itself if it is not a call of nl.par_dim."""
    is_par_dim = isinstance(node, ast.Call) and names.dotted(node.func) == "nki.language.par_dim" and node.args
    return node.args[0] if is_par_dim and isinstance(node, ast.Call) else node


def _loop_of(tree: ast.FunctionDef, after: list[ast.stmt], maker: _Maker, names: Names) -> ast.For | None:
    """Return the innermost loop in which a tile can be created, among the loops that contain all of its uses."""
    every = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == maker.name]
    if sum(is_stored(node) for node in every) != 1 or _is_handed_on(tree, maker.name, names):
        return None
    needed = {node.id for node in ast.walk(maker.statement.value) if isinstance(node, ast.Name)}
    later = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno > maker.statement.lineno]
    if needed & stored(statement for statement in later if not isinstance(statement, ast.For)):
        return None
    loops = _loops_around(after, maker.name, needed)
    if not loops or _mentions_of(loops[-1], maker.name) != len(every) - 1:
        return None
    if not all(_stays(tree, loops[-1], view) for view in _views(tree, maker.name)):
        return None
    for loop in reversed(loops):
        if _is_overwritten(loop, maker, tree, names):
            return loop
    independent = all(_called(loop.iter, names) == "nki.language.affine_range" for loop in loops)
    return loops[-1] if independent and maker.is_empty and not _accumulates(loops[-1], maker.name) else None


def _loops_around(block: list[ast.stmt], name: str, needed: set[str]) -> list[ast.For]:
    """Return the nested loops, beginning with the outermost, that contain all uses of a name in a block and do not
    change the names that are needed to create its tile."""
    loops: list[ast.For] = []
    while True:
        users = [statement for statement in block if _mentions(statement, name)]
        if len(users) != 1 or not isinstance(users[0], ast.For) or users[0].orelse:
            return loops
        loop = users[0]
        on_one_line = loop.body[0].lineno == loop.lineno  # `for i in x: ...`
        if on_one_line or needed & stored([loop.target]) or _mentions(loop.iter, name):
            return loops
        loops.append(loop)
        block = loop.body


def _mentions(node: ast.AST, name: str) -> bool:
    return _mentions_of(node, name) > 0


def _mentions_of(node: ast.AST, name: str) -> int:
    return sum(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))


def _called(node: ast.expr, names: Names) -> str:
    return names.dotted(node.func) if isinstance(node, ast.Call) else ""


def _is_handed_on(tree: ast.AST, name: str, names: Names) -> bool:
    """Return True if a tile is assigned to another name, put into a container, returned, or passed to a function
    outside NKI."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.Return, ast.Yield, ast.NamedExpr, ast.Starred)):
            if any(isinstance(part, ast.Name) and part.id == name for part in ast.iter_child_nodes(node)):
                return True
        elif isinstance(node, ast.Call) and not names.dotted(node.func).startswith("nki."):
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            if any(isinstance(argument, ast.Name) and argument.id == name for argument in arguments):
                return True
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == name:
            return True
    return False


def _views(tree: ast.AST, name: str) -> set[str]:
    """Return the names of parts and views of a tile."""
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and _root(node.value) == name]
    return {target.id for node in assigned for target in node.targets if isinstance(target, ast.Name)} - {name}


def _root(node: ast.expr) -> str:
    """Return the name of the tensor of which an expression is a view, through subscripts and methods."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(node, (ast.Subscript, ast.Attribute)):
            node = node.value
        else:
            return node.id if isinstance(node, ast.Name) else ""


def _stays(tree: ast.AST, loop: ast.For, view: str) -> bool:
    """Return True if a view is assigned once in a loop, and only read later in the same iteration."""
    every = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == view]
    made = [node for node in every if is_stored(node)]
    inside = _mentions_of(loop, view) == len(every)
    views = _views(tree, view)
    return inside and len(made) == 1 and not views and min(node.lineno for node in every) == made[0].lineno


def _accumulates(loop: ast.For, name: str) -> bool:
    """Return True if a statement in the loop updates the tile from its previous contents."""
    for node in ast.walk(loop):
        if isinstance(node, ast.AugAssign) and _base(node.target) == name:
            return True
        writes = isinstance(node, ast.Assign) and any(_base(target) == name for target in node.targets)
        if writes and isinstance(node, ast.Assign) and _mentions(node.value, name):
            return True
        if isinstance(node, ast.Call) and any(k.arg == "dst" and _base(k.value) == name for k in node.keywords):
            return True
    return False


def _base(node: ast.AST) -> str:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_overwritten(loop: ast.For, maker: _Maker, tree: ast.FunctionDef, names: Names) -> bool:
    """Return True if each iteration writes the whole tile before reading any part of it."""
    first = next(statement for statement in loop.body if _mentions(statement, maker.name))
    inner: dict[str, str] = {}  # loop variables over whole axes, with their trip counts
    outermost = first
    while isinstance(first, ast.For):
        bounds = first.iter.args if isinstance(first.iter, ast.Call) else []
        is_range = _called(first.iter, names) in RANGES or ast.unparse(first.iter).startswith("range(")
        if len(bounds) != 1 or not is_range or not isinstance(first.target, ast.Name) or first.orelse:
            return False
        inner[first.target.id] = ast.unparse(bounds[0])
        first = next(statement for statement in first.body if _mentions(statement, maker.name))
    if any(isinstance(node, (ast.Break, ast.Continue)) for node in ast.walk(outermost)):
        return False
    written = _written(first, maker.name, names)
    if written is None or not _is_whole(written, maker, inner, tree, names):
        return False
    return outermost is first or _mentions_of(outermost, maker.name) == 1


def _written(statement: ast.stmt, name: str, names: Names) -> ast.expr | None:
    """Return the part of a tile that a statement overwrites, or None if it overwrites none or also reads the tile."""
    if _mentions_of(statement, name) != 1:
        return None
    part: ast.expr | None = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        part = _assigned_part(statement.targets[0], statement.value, names)
    elif isinstance(statement, ast.Expr) and _called(statement.value, names) in OVERWRITING:
        arguments = _keywords(statement.value)
        part = arguments.get("dst") if "mask" not in arguments else None
    return part if part is not None and _base(part) == name else None


def _assigned_part(target: ast.expr, value: ast.expr, names: Names) -> ast.expr | None:
    """Return the target if it is a subscript that the whole value overwrites."""
    if not isinstance(target, ast.Subscript) or "mask" in _keywords(value):
        return None
    return target if _called(value, names) != "nki.language.loop_reduce" else None


def _keywords(node: ast.expr) -> dict[str | None, ast.expr]:
    return {keyword.arg: keyword.value for keyword in node.keywords} if isinstance(node, ast.Call) else {}


def _is_whole(part: ast.expr, maker: _Maker, inner: dict[str, str], tree: ast.FunctionDef, names: Names) -> bool:
    """Return True if a part of a tile covers the whole tile over all iterations of the inner loops."""
    if isinstance(part, ast.Name):
        return not inner
    if not isinstance(part, ast.Subscript) or not isinstance(part.value, ast.Name):
        return False
    keys = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
    if len(keys) == 1 and isinstance(keys[0], ast.Constant) and keys[0].value is Ellipsis:
        return not inner
    if maker.extents is None or len(keys) != len(maker.extents):
        return False
    used = {key.id for key in keys if isinstance(key, ast.Name) and key.id in inner}
    indices = _index_arrays(tree, names)
    return used == set(inner) and all(_spans(key, extent, inner, indices) for key, extent in zip(keys, maker.extents))


def _spans(key: ast.expr, extent: str, inner: dict[str, str], indices: dict[str, str]) -> bool:
    if isinstance(key, ast.Slice):
        begins = key.lower is None or (isinstance(key.lower, ast.Constant) and key.lower.value == 0)
        ends = key.upper is None or ast.unparse(key.upper) == extent
        return begins and ends and key.step is None
    if isinstance(key, ast.Name):
        return inner.get(key.id, indices.get(key.id)) == extent
    return extent == "1" and isinstance(key, ast.Constant) and key.value == 0


def _index_arrays(tree: ast.FunctionDef, names: Names) -> dict[str, str]:
    """Return the names that are assigned exactly once, from nl.arange(extent)[...] or an element of
    nl.mgrid[0:extent, ...], with their extents."""
    extents: dict[str, str] = {}
    assigned = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and is_stored(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Subscript):
            extents |= _index_extents(node.targets[0], node.value, names)
    return {name: extent for name, extent in extents.items() if assigned[name] == 1}


def _index_extents(target: ast.expr, value: ast.Subscript, names: Names) -> dict[str, str]:
    """Return the names to which an assignment assigns index arrays, with their extents."""
    base, key = value.value, value.slice
    if isinstance(target, ast.Name) and isinstance(base, ast.Call) and len(base.args) == 1:
        is_arange = names.dotted(base.func) == "nki.language.arange"
        return {target.id: ast.unparse(base.args[0])} if is_arange else {}
    if isinstance(target, ast.Tuple) and names.dotted(base) == "nki.language.mgrid":
        return _grid(target, key.elts if isinstance(key, ast.Tuple) else [key])
    return {}


def _grid(target: ast.Tuple, parts: list[ast.expr]) -> dict[str, str]:
    """Return the names to which nl.mgrid[0:m, 0:n] is assigned, with their extents."""
    return {
        name.id: ast.unparse(part.upper)
        for name, part in zip(target.elts, parts)
        if isinstance(name, ast.Name) and isinstance(part, ast.Slice) and part.upper is not None
        if isinstance(part.lower, ast.Constant) and part.lower.value == 0
    }
