"""Rewrite expressions as NKI 0.7 source text, and classify each as a tensor, an index array, a mask, or none of
these."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

from .context import Ambiguous, Axis, Container, Context, Result, Tensor, Window
from .indices import Axis as Step
from .indices import Clips, Index, Mask, arange, grid_axis
from .names import RENAMED
from .notes import CannotError
from .sums import Sum
from .views import Element, View, clip_whole, is_advanced, slice_text, take

Handler = Callable[["Expressions", ast.Call, str], "Result | None"]


class Expressions:
    """Rewriter of the expressions of a function."""

    def __init__(self, ctx: Context, call: Handler, operate: Callable[[Expressions, ast.expr], Result | None]) -> None:
        self.ctx = ctx
        self._call = call
        self._operate = operate
        self.target = ""  # the assigned name, which becomes the destination of an instruction
        self._host = False  # inside a NumPy call
        self._known: dict[int, tuple[ast.expr, Result]] = {}  # cached results of rewritten expressions
        self._names_of: dict[int, frozenset[str]] = {}  # names in the expressions of a statement

    def begin(self) -> None:
        """Reset the state at the start of a statement."""
        self._known.clear()
        self._names_of.clear()
        self.target = ""

    def rewrite(self, node: ast.expr) -> Result:
        """Rewrite an expression. The lines that must precede it are emitted exactly once."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = node, self._rewritten(node)
        return known[1]

    def _rewritten(self, node: ast.expr) -> Result:
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Call):
            return self._call(self, node, self.ctx.names.dotted(node.func)) or self.generic(node)
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare)):
            return self._index(node) or self._operate(self, node) or self.generic(node)
        if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            return self._comprehension(node)
        if isinstance(node, (ast.IfExp, ast.BoolOp)):
            chosen = self._either(node) if isinstance(node, ast.IfExp) and self._mentions(node, Index) else None
            return chosen or self._inside(node, "a conditional expression")
        result = self.generic(node)
        return Result(result.text, self._container(node)) if isinstance(node, DISPLAYS) else result

    def _name(self, node: ast.Name) -> Result:
        value = self.ctx.scope.get(node.id)
        if isinstance(value, Ambiguous):
            raise CannotError(f"{node.id}: an index array must not differ between branches or iterations")
        return Result((None if self._host else self.ctx.names.dtype(node)) or node.id, value)

    def _comprehension(self, node: ast.expr) -> Result:
        """Rewrite a comprehension or a lambda. The result is a container if its elements are tensors or slices."""
        result = self._inside(node, "a comprehension or lambda")
        element = node.body if isinstance(node, ast.Lambda) else getattr(node, "elt", getattr(node, "value", None))
        known = self._known.get(id(element))
        value = known[1].value if known is not None else None
        if isinstance(value, Window):
            return Result(result.text, Container(windows=True))
        if isinstance(value, Tensor) and not isinstance(node, ast.Lambda):
            return Result(result.text, Container(value))
        return result

    def _container(self, node: ast.expr) -> Container:
        """Describe the contents of a list, tuple, set or dictionary whose elements have already been rewritten."""
        elements = node.values if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        if elements and all(isinstance(self.rewrite(element).value, Window) for element in elements):
            return Container(windows=True)
        tensors = [self.rewrite(element).tensor for element in elements]
        are_tensors = bool(tensors) and all(tensor is not None for tensor in tensors)
        return Container(tensors[0] if are_tensors and len(set(tensors)) == 1 else Tensor() if are_tensors else None)

    def generic(self, node: ast.expr) -> Result:
        """Rewrite the subexpressions of an expression that does not itself change in NKI 0.7."""
        outer, self.target = self.target, ""
        host = self._host
        if isinstance(node, ast.Call) and self.ctx.names.dotted(node.func).startswith("numpy"):
            self._host = True  # dtypes in this call are NumPy dtypes
        changes = []
        for child in _children(node):
            result = self.rewrite(child)
            if isinstance(result.value, (Index, Mask, Axis)) and not isinstance(node, (ast.Tuple, ast.keyword)):
                raise CannotError(f"{self.ctx.source.of(child)}: index arrays are supported only in subscripts")
            if result.text != self.ctx.source.of(child):
                changes.append((*self.ctx.source.span(child), result.text))
        self.target, self._host = outer, host
        start, end = self.ctx.source.span(node)
        parts, at = [], start
        for first, last, new in sorted(changes):
            parts += [self.ctx.source.text[at:first], new]
            at = last
        return Result("".join([*parts, self.ctx.source.text[at:end]]))

    def _inside(self, node: ast.expr, what: str) -> Result:
        outer, self.ctx.no_hoisting = self.ctx.no_hoisting, what
        scope = dict(self.ctx.scope)
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                self.ctx.scope[name.id] = None
            elif isinstance(name, ast.arg):
                self.ctx.scope[name.arg] = None
        try:
            return self.generic(node)
        finally:
            self.ctx.no_hoisting = outer
            self.ctx.scope.clear()
            self.ctx.scope.update(scope)

    # Names of tensors and their attributes

    def _attribute(self, node: ast.Attribute) -> Result:
        dtype = self.ctx.names.dtype(node) if not self._host else None
        if dtype is not None:
            return Result(dtype)
        if node.attr == "itemsize" and not self._host:  # dtypes of NKI 0.7 are names
            return Result(f"{self.ctx.needs('itemsize')}({self.rewrite(node.value).text})")
        dotted = self.ctx.names.dotted(node)
        if dotted.startswith("nki."):
            return Result(self.module_name(dotted, self.ctx.source.of(node)))
        base = self.rewrite(node.value)
        index = grid_axis(base.value, node.attr) if isinstance(base.value, tuple) else None
        if index is not None:
            return Result("", index)
        if isinstance(base.value, Index) and node.attr == "shape":
            return Result(base.value.shape_text)
        if base.tensor is not None and node.attr == "T":
            raise CannotError("tensors have no attribute T: use nl.transpose")
        return Result(f"{base.text}.{node.attr}")

    def module_name(self, dotted: str, shown: str) -> str:
        """Return the spelling of an NKI name in the migrated file."""
        renamed = RENAMED.get(dotted)
        if renamed is not None:
            return renamed.replace("nl.", f"{self.ctx.nl}.", 1).replace("nisa.", f"{self.ctx.nisa}.", 1)
        for module, alias in (("nki.language", self.ctx.nl), ("nki.isa", self.ctx.nisa)):
            if dotted.startswith(f"{module}."):
                return alias + dotted.removeprefix(module)
        return shown

    # Subscripts and index arrays

    def _subscript(self, node: ast.Subscript) -> Result:
        dotted = self.ctx.names.dotted(node.value)
        if dotted == "nki.language.mgrid":
            return Result("", self._grid(node))
        base = self.rewrite(node.value)
        if isinstance(base.value, Index):
            placed = base.value.placed(tuple(isinstance(part, ast.Slice) for part in _parts(node)))
            if placed is None:
                raise CannotError(f"{self.ctx.source.of(node)}: index arrays in this form are not supported")
            return Result("", placed)
        if isinstance(base.value, tuple) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
            return Result("", base.value[node.slice.value])
        element = self._element_of(base.value, node) if isinstance(base.value, Container) else None
        if element is not None:
            return element
        if base.tensor is None and not self._takes_indices(node):
            return self.generic(node)
        view = self.view(node)
        return Result(view.text, view.tensor)

    def _element_of(self, container: Container, node: ast.Subscript) -> Result | None:
        """Rewrite a subscript of a container. Return None if nothing is known of its elements."""
        if isinstance(node.slice, ast.Slice):
            return None
        text, element = self.generic(node).text, container.element
        if container.windows:
            return Result(text, Window())
        return Result(text, replace(element, dtype=f"{text}.dtype", shape=None)) if element is not None else None

    def _takes_indices(self, node: ast.Subscript) -> bool:
        parts = _parts(node)
        try:
            axes = any(isinstance(self.ctx.scope.get(p.id), Axis) for p in parts if isinstance(p, ast.Name))
            return axes or is_advanced(self._elements(parts))
        except CannotError:
            return False

    def view(self, node: ast.Subscript, clips: Clips | None = None) -> View:
        """Return the view that a subscript of a tensor selects, restricted to the `clips` of the mask."""
        base = self.rewrite(node.value)
        elements = self._elements(_parts(node))
        if len(elements) == 1 and elements[0].text == "..." and clips:
            return clip_whole(base, clips)
        if any(element.rows is not None for element in elements[1:]):
            raise CannotError("a tile can be an index only of the first dimension: use t.ap(..., scalar_offset=...)")
        return take(base, elements, clips)

    def _elements(self, parts: list[ast.expr]) -> list[Element]:
        """Return the elements of a subscript. A grid of index arrays contributes one element per dimension."""
        if len(parts) == 1 and not isinstance(parts[0], ast.Slice):
            value = self.rewrite(parts[0]).value
            if isinstance(value, tuple):
                return [Element(index.base.text, index) for index in value]
        return [self.element(part) for part in parts]

    def element(self, node: ast.expr) -> Element:
        """Rewrite one element of a subscript."""
        if isinstance(node, ast.Slice):
            return self._slice(node)
        if isinstance(node, ast.Constant) and node.value is Ellipsis:
            return Element("...", is_slice=True)
        result = self.rewrite(node)
        match result.value:
            case Axis(start, stop):
                return Element(slice_text(start, stop), is_slice=True)
            case Mask() | tuple():
                raise CannotError(
                    f"{self.ctx.source.of(node)} cannot be one of several indices, and a mask cannot be an index"
                )
            case Index() as index:
                return Element(index.base.text, index)
            case Tensor(shape=shape):
                return Element(result.text, rows=shape if shape is not None else (f"{result.text}.shape[0]",))
            case Window():
                return Element(result.text, is_slice=True)
        return Element(result.text, Index(Sum.of(result.text)))

    def _slice(self, node: ast.Slice) -> Element:
        parts = [self.rewrite(part).text if part is not None else "" for part in (node.lower, node.upper)]
        text = slice_text(*parts) if all(parts) else ":".join(parts)
        if node.step is not None:
            text += f":{self.rewrite(node.step).text}"
        return Element(text, is_slice=True)

    def _grid(self, node: ast.Subscript) -> tuple[Index, ...]:
        parts = _parts(node)
        grid = []
        for position, part in enumerate(parts):
            if not isinstance(part, ast.Slice) or part.upper is None or part.step is not None:
                raise CannotError("nl.mgrid supports only slices a:b")
            start = self.sum(part.lower) if part.lower is not None else Sum(0)
            axis = arange(start, self.sum(part.upper)).axes[-1]
            grid.append(Index(start, {position - len(parts): axis}, len(parts)))
        return tuple(grid)

    def sum(self, node: ast.expr) -> Sum:
        """Rewrite a Python integer expression as a sum."""
        result = self.rewrite(node)
        if result.value is not None:
            raise CannotError(f"{self.ctx.source.of(node)} must be a number")
        return Sum.of(result.text)

    def _index(self, node: ast.BinOp | ast.UnaryOp | ast.Compare) -> Result | None:
        """Rewrite arithmetic operations and comparisons of index arrays."""
        if isinstance(node, ast.Compare):
            return self._mask(node)
        if isinstance(node, ast.UnaryOp):
            operand = self.rewrite(node.operand) if isinstance(node.op, ast.USub) else Result("")
            return Result("", operand.value.scaled(Sum(-1))) if isinstance(operand.value, Index) else None
        if not self._mentions(node, Index, Mask):
            return None
        left, right = self.rewrite(node.left), self.rewrite(node.right)
        if isinstance(left.value, Mask) or isinstance(right.value, Mask):
            return self._both(node)
        if not isinstance(left.value, Index) and not isinstance(right.value, Index):
            return None
        a, b = as_index(left), as_index(right)
        if a is None or b is None:
            raise CannotError(f"{self.ctx.source.of(node)}: an index array cannot be combined with a tensor")
        apply = AFFINE.get(type(node.op))
        value = apply(a, b) if apply is not None else None
        if value is None:
            raise CannotError(f"{self.ctx.source.of(node)}: not an affine index")
        return Result("", value)

    def _both(self, node: ast.BinOp) -> Result:
        """Rewrite `a & b` for masks."""
        a, b = self._as_mask(node.left), self._as_mask(node.right)
        if not isinstance(node.op, ast.BitAnd) or a is None or b is None:
            raise CannotError(f"{self.ctx.source.of(node)}: masks may be combined only with &")
        return Result("", a & b)

    def _either(self, node: ast.IfExp) -> Result | None:
        """Rewrite `a if condition else b` for index arrays over the same axes."""
        first, second = (as_index(self.rewrite(side)) for side in (node.body, node.orelse))
        if first is None or second is None or not (first.axes or second.axes):
            return None
        test = self.rewrite(node.test).text
        axes = {}
        for at in {**first.axes, **second.axes}:
            one, other = first.axes.get(at), second.axes.get(at)
            if one is None or other is None or one.count != other.count:
                raise CannotError(f"{self.ctx.source.of(node)}: index arrays of different sizes")
            if one.factor != other.factor and any(f.is_number and f.number < 0 for f in (one.factor, other.factor)):
                raise CannotError(f"{self.ctx.source.of(node)}: an index cannot count down in only one of two cases")
            axes[at] = Step(_chosen(test, one.factor, other.factor), one.count)
        return Result("", Index(_chosen(test, first.base, second.base), axes, max(first.rank, second.rank)))

    def _mentions(self, node: ast.expr, *kinds: type) -> bool:
        """Return True if an expression may contain index arrays, because it mentions one, nl.arange or nl.mgrid."""
        for name in self._mentioned(node):
            value = self.ctx.scope.get(name)
            if name in INDEX_FUNCTIONS or isinstance(value, kinds) or (isinstance(value, tuple) and Index in kinds):
                return True
        return False

    def _mentioned(self, node: ast.AST) -> frozenset[str]:
        """Return the names in an expression, with dotted names for functions that create index arrays."""
        known = self._names_of.get(id(node))
        if known is None:
            parts = [self._mentioned(child) for child in ast.iter_child_nodes(node)]
            names = {node.id} if isinstance(node, ast.Name) else set()
            if isinstance(node, (ast.Name, ast.Attribute)):
                names |= INDEX_FUNCTIONS & {self.ctx.names.dotted(node)}
            known = self._names_of[id(node)] = frozenset(names).union(*parts)
        return known

    def _as_mask(self, node: ast.expr) -> Mask | None:
        result = self.rewrite(node)
        if isinstance(result.value, Mask):
            return result.value
        restriction = self._mask(node, always=True) if isinstance(node, ast.Compare) else None
        return restriction.value if restriction is not None and isinstance(restriction.value, Mask) else None

    def _mask(self, node: ast.Compare, always: bool = False) -> Result | None:
        if not always and not self._mentions(node, Index):
            return None
        sides = [self.rewrite(side) for side in (node.left, *node.comparators)]
        if not always and not any(isinstance(side.value, Index) for side in sides):
            return None
        below: list[Index] = []
        for operator, left, right in zip(node.ops, sides, sides[1:]):
            a, b = as_index(left), as_index(right)
            if a is None or b is None:
                raise CannotError(f"{self.ctx.source.of(node)}: an index array cannot be compared with a tensor")
            below += self._at_most_zero(node, operator, a, b)
        return Result("", Mask(tuple(below)))

    def _at_most_zero(self, node: ast.Compare, operator: ast.cmpop, left: Index, right: Index) -> Iterator[Index]:
        """Yield the indices that are at most zero where a comparison holds."""
        ahead, behind = left - right, right - left
        if ahead is None or behind is None:
            raise CannotError(f"{self.ctx.source.of(node)}: index arrays of different sizes")
        one = Index(Sum(1))
        kinds: dict[type[ast.cmpop], list[Index | None]] = {
            ast.Lt: [ahead + one],
            ast.LtE: [ahead],
            ast.Gt: [behind + one],
            ast.GtE: [behind],
            ast.Eq: [ahead, behind],
        }
        indices = kinds.get(type(operator))
        if indices is None:
            raise CannotError(f"{self.ctx.source.of(node)}: masks in this form are not supported")
        yield from (index for index in indices if index is not None)


DISPLAYS = (ast.List, ast.Tuple, ast.Dict, ast.Set)
AFFINE = {ast.Add: Index.__add__, ast.Sub: Index.__sub__, ast.Mult: Index.__mul__}
INDEX_FUNCTIONS = frozenset({"nki.language.arange", "nki.language.mgrid"})


def _parts(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _chosen(test: str, first: Sum, second: Sum) -> Sum:
    return first if first == second else Sum(0, {f"({first.text} if {test} else {second.text})": 1})


def as_index(result: Result) -> Index | None:
    """Return an index array. A number is converted to an index without axes; for a tensor, None is returned."""
    if isinstance(result.value, Index):
        return result.value
    return Index(Sum.of(result.text)) if result.value is None else None


def _children(node: ast.AST) -> list[ast.expr]:
    """Return the direct subexpressions of a node, including those in keywords, slices and comprehensions."""
    children: list[ast.expr] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Slice) or not isinstance(child, ast.expr):
            children.extend(_children(child))
        else:
            children.append(child)
    return children
