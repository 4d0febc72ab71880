"""Rewrite subscripts: index arrays of the first NKI become slices or access patterns, which masks restrict."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from ..machine.syntax import parse
from .context import Result, Tensor, view_of
from .indices import Clip, Clips, Index
from .notes import CannotError
from .sums import Sum


@dataclass(frozen=True)
class Element:
    """An element of a subscript: an index or, if `index` is None, any other element as source text.

    `rows` is set if the element is a column of indices in SBUF, with one index per selected row.
    """

    text: str
    index: Index | None = None
    is_slice: bool = False
    rows: tuple[str, ...] | None = None


@dataclass(frozen=True)
class View:
    """The part of a tensor that a subscript selects. `full` is its shape before it is clipped by the mask."""

    text: str
    tensor: Tensor
    shape: tuple[str, ...] | None
    full: tuple[str, ...] | None


def is_advanced(elements: list[Element]) -> bool:
    """Return True if a subscript contains index arrays."""
    return any(element.index is not None and element.index.axes for element in elements)


def take(base: Result, elements: list[Element], clips: Clips | None = None) -> View:
    """Return the part of a tensor that a subscript selects."""
    tensor = base.tensor or Tensor()
    blocks, inner = elements[: tensor.blocks], elements[tensor.blocks :]
    text = _block(base.text, blocks) if tensor.blocks else base.text
    if tensor.blocks and not inner:
        whole = view_of(tensor, tensor.shape)
        return clip_whole(Result(text, whole), clips) if clips else View(text, whole, tensor.shape, tensor.shape)
    if inner and inner[0].rows is not None:
        return _gathered(text, tensor, inner, clips or {})
    if not is_advanced(inner):
        return _basic(text, tensor, inner, clips)
    indices = [element.index for element in inner if element.index is not None]
    if len(indices) < len(inner):
        raise CannotError("index arrays and slices cannot be combined in one subscript")
    return _advanced(text, tensor, indices, clips or {})


def _block(text: str, elements: list[Element]) -> str:
    """Return the tile that the block dimensions of a subscript select."""
    if any(element.is_slice or (element.index is not None and element.index.axes) for element in elements):
        raise CannotError("a block dimension may be indexed only by a number: process the blocks one by one")
    return f"{text}[{', '.join(element.text for element in elements)}]"


def _basic(text: str, tensor: Tensor, elements: list[Element], clips: Clips | None) -> View:
    """Rewrite a subscript of slices and numbers.

    It stays the same, except that a column or row outside PSUM keeps two dimensions.
    """
    if clips:
        whole = _basic(text, tensor, elements, None)
        clipped = _basic(text, tensor, _clipped_slices(elements, tensor, clips), None)
        sizes = tuple(f"{whole.text}.shape[{at}]" for at in range(max(-at for at in clips)))
        return replace(clipped, full=whole.full or sizes)
    keys = [element.text for element in elements]
    slices = [position for position, element in enumerate(elements) if element.is_slice]
    if len(slices) == 1 and len(elements) > 1 and tensor.region != "psum":
        # A tile keeps two dimensions when a column or a row is selected.
        others = [position for position in range(len(elements)) if position not in slices and keys[position] != "..."]
        after = [position for position in others if position > slices[0]]
        if after:
            keys[after[-1]] = _one(keys[after[-1]])
    shape = _basic_shape(elements, keys, tensor)
    return View(f"{text}[{', '.join(keys)}]", view_of(tensor, shape, _first_row(elements)), shape, shape)


def _first_row(elements: list[Element]) -> str:
    """Return the first partition that a subscript of slices and numbers selects, or "" if it is the first partition of
    the tensor."""
    node = parse(f"x[{elements[0].text}]", mode="eval").body if elements else None
    part = node.slice if isinstance(node, ast.Subscript) else None
    if isinstance(part, ast.Call) and part.args:
        return ast.unparse(part.args[0])
    if isinstance(part, ast.Slice):
        return ast.unparse(part.lower) if part.lower is not None else ""
    return "" if part is None or elements[0].is_slice else ast.unparse(part)


def _clipped_slices(elements: list[Element], tensor: Tensor, clips: Clips) -> list[Element]:
    """Return the elements of a subscript after a mask, whose axes are counted from the right, has restricted its
    slices."""
    rank = tensor.rank or len(tensor.shape or ())
    if not rank or any(element.text == "..." for element in elements):
        raise CannotError("a mask on slices of a tile of unknown rank: shorten the slices with min(...)")
    elements = elements + [Element(":", is_slice=True)] * (rank - len(elements))
    slices = [position for position, element in enumerate(elements) if element.is_slice]
    for at, clip in clips.items():
        if -at > len(slices):
            raise CannotError("a mask cannot have more axes than the tile that it restricts")
        elements[slices[at]] = Element(_clipped_slice(elements[slices[at]].text, clip), is_slice=True)
    return elements


def _clipped_slice(text: str, clip: Clip) -> str:
    """Return "a:b" or "nl.ds(a, n)" restricted to the elements of `clip`."""
    part = parse(f"x[{text}]", mode="eval").body.slice  # type: ignore[attr-defined]
    first = part.args[0] if isinstance(part, ast.Call) else part.lower
    start = Sum.of(ast.unparse(first)) if first is not None else Sum(0)
    if (start.is_number and start.number < 0) or getattr(part, "step", None) is not None:
        raise CannotError("a mask on a slice with a step or from the end: shorten the slice with min(...)")
    return slice_text((start + clip.start).text, (start + clip.start + clip.count).text)


def slice_text(*parts: str) -> str:
    """Format a slice, with spaces if a part is not a simple name or number."""
    simple = all(part.isidentifier() or part.isdigit() for part in parts)
    return (":" if simple else " : ").join(parts)


def _one(text: str) -> str:
    """Return a slice that selects the single element at an index."""
    index = Sum.of(text)
    return slice_text(index.text, (index + 1).text)


def _basic_shape(elements: list[Element], keys: list[str], tensor: Tensor) -> tuple[str, ...] | None:
    """Return the shape that a subscript of slices and numbers selects, or None if it is unknown."""
    if tensor.shape is None and tensor.rank != len(keys):
        return None  # the tensor may have more dimensions
    known, shape = tensor.shape or (), []
    for position, key in enumerate(keys):
        extent = known[position] if key == ":" and position < len(known) else _extent(key)
        if extent is not None:
            shape.append(extent)
        elif elements[position].is_slice or key in (":", "..."):
            return None
    return (*shape, *known[len(keys) :])


def _extent(key: str) -> str | None:
    """Return the number of elements in "a:b" or "nl.ds(a, n)" as source text, or None if it cannot be computed."""
    try:
        node = parse(f"x[{key}]", mode="eval").body
    except SyntaxError:
        return None
    part = node.slice if isinstance(node, ast.Subscript) else None
    if isinstance(part, ast.Slice) and part.upper is not None and part.step is None:
        lower = Sum.of(ast.unparse(part.lower)) if part.lower is not None else Sum(0)
        upper = Sum.of(ast.unparse(part.upper))
        count = upper - lower
        return count.text if not count.is_number or count.number > 0 else None
    if isinstance(part, ast.Call) and len(part.args) == 2:
        return ast.unparse(part.args[1])
    return None


def _advanced(text: str, tensor: Tensor, indices: list[Index], clips: Clips) -> View:
    rank = max(index.rank for index in indices)
    counts: dict[int, Sum] = {}
    for index in indices:
        for at, axis in index.axes.items():
            if at in counts and counts[at] != axis.count:
                raise CannotError("index arrays along one axis must have the same size")
            counts[at] = axis.count
    if rank > max(2, len(indices), len(counts)):
        raise CannotError(
            "index arrays cannot have more axes than the tensor has dimensions: use a grid of these dimensions only"
        )
    full = tuple(counts[at].text if at in counts else "1" for at in range(-rank, 0))
    clipped = [index.clipped(clips) for index in indices]
    shape = tuple(
        (clips[at].count if at in clips else counts[at]).text if at in counts else "1" for at in range(-rank, 0)
    )
    keys = _slices(clipped, rank, tensor)
    found = f"{text}[{', '.join(keys)}]" if keys is not None else _pattern(text, tensor, clipped, rank)
    return View(found, view_of(tensor, shape, clipped[0].base.text), shape, full)


def _slices(indices: list[Index], rank: int, tensor: Tensor) -> list[str] | None:
    """Return the subscript as slices if each axis corresponds to one dimension and the order is the same."""
    used: list[tuple[int, int]] = []  # (axis, dimension)
    keys = []
    for dimension, index in enumerate(indices):
        if len(index.axes) > 1 or any(not a.factor.is_number or a.factor.number < 1 for a in index.axes.values()):
            return None
        used += [(at, dimension) for at in index.axes]
        keys.append(_key(index))
    axes = [at for at, _ in used]
    if len(set(axes)) != len(axes) or axes != sorted(axes):
        return None
    for at in sorted(set(range(-rank, 0)) - set(axes)):
        place = _dimension_for(at, used, indices)
        if place is None:
            return None
        keys[place] = _one(keys[place])
        used.append((at, place))
    return keys


def _dimension_for(axis: int, used: list[tuple[int, int]], indices: list[Index]) -> int | None:
    """Return the last dimension that is indexed by a number and that keeps the order of the axes, or None."""
    before = max([dimension for at, dimension in used if at < axis], default=-1)
    after = min([dimension for at, dimension in used if at > axis], default=len(indices))
    return max([d for d in range(before + 1, after) if not indices[d].axes], default=None)


def _key(index: Index) -> str:
    if not index.axes:
        return index.base.text
    ((_, axis),) = index.axes.items()
    factor, count, base = axis.factor.number, axis.count, index.base
    if factor == 1:
        if base == Sum(0):
            return slice_text("0", count.text)
        return slice_text(base.text, (base + count).text)
    last = (count - 1) * factor + base + 1
    return slice_text(base.text, last.text, str(factor))


def _pattern(text: str, tensor: Tensor, indices: list[Index], rank: int) -> str:
    """Return the subscript as an explicit access pattern on the tensor."""
    pairs: list[str] = []
    for at in range(-rank, 0):
        axes = {dimension: index.axes[at] for dimension, index in enumerate(indices) if at in index.axes}
        if any(axis.factor.is_number and axis.factor.number < 0 for axis in axes.values()):
            raise CannotError("an index cannot count down: strides of access patterns cannot be negative")
        step, count = Sum(0), Sum(1)
        for dimension, axis in axes.items():
            step = step + Sum(0, {f"{text}.strides[{dimension}]": 1}) * axis.factor
            count = axis.count
        if step == Sum(0) and count != Sum(1) and not pairs and tensor.region in ("sbuf", "psum"):
            raise CannotError(
                "one partition is read as several: copy it to all partitions with nl.broadcast_to(t, shape)"
            )
        pairs.append(f"[{step.text if step != Sum(0) or count != Sum(1) else '1'}, {count.text}]")
    offset = Sum(0, {f"{text}.offset": 1})
    for dimension, index in enumerate(indices):
        if index.base != Sum(0):
            offset = offset + Sum(0, {f"{text}.strides[{dimension}]": 1}) * index.base
    return f"{text}.ap([{', '.join(pairs)}], offset={offset.text})"


def _gathered(text: str, tensor: Tensor, elements: list[Element], clips: Clips) -> View:
    """Return rows of a tensor in HBM, selected by indices that are stored in SBUF."""
    indices = [element.index for element in elements[1:]]
    if tensor.region not in ("hbm", "") or any(index is None for index in indices):
        raise CannotError("a tile cannot be an index: read rows of a tensor in HBM with t.ap(..., vector_offset=tile)")
    rank = max([index.rank for index in indices if index is not None], default=2)
    rows = elements[0].rows or ("1",)
    pairs, shape = [f"[{text}.strides[0], {rows[0]}]"], [rows[0]]
    offset = Sum(0, {f"{text}.offset": 1})
    for dimension, index in enumerate(indices, 1):
        if index is None:
            continue
        step = Sum(0, {f"{text}.strides[{dimension}]": 1})
        offset = offset + step * index.base
        for at, axis in sorted(index.clipped(clips).axes.items()):
            if at == -rank:
                raise CannotError("rows that are selected by a tile cannot also be indexed by an index array")
            pairs.append(f"[{(step * axis.factor).text}, {axis.count.text}]")
            shape.append(axis.count.text)
    pattern = f"[{', '.join(pairs)}], offset={offset.text}, vector_offset={elements[0].text}"
    found = tuple(shape)
    return View(f"{text}.ap({pattern})", view_of(tensor, found), found, found)


def clip_whole(result: Result, clips: Clips) -> View:
    """Return a whole tile, clipped by a mask with axes counted from the right."""
    tensor = result.tensor or Tensor()
    shape = tensor.shape
    rank = max([2, *(max(-at, clip.rank) for at, clip in clips.items())]) if shape is None else len(shape)
    extents = ("",) * rank if shape is None else shape
    keys, left = [], []
    for at in range(-rank, 0):
        clip = clips.get(at)
        if clip is None or extents[at] == "1":
            keys.append(":")
            left.append(extents[at])
            continue
        stop = clip.start + clip.count
        keys.append(slice_text(clip.start.text, stop.text))
        left.append(clip.count.text)
    while keys and keys[-1] == ":":
        keys.pop()
    text = f"{result.text}[{', '.join(keys)}]" if keys else result.text
    found = tuple(left) if shape is not None else None
    return View(text, replace(tensor, shape=found), found, shape)
