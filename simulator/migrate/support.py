"""Helpers that are added to a migrated file if NKI 0.7 has no single equivalent call.

They are written in plain NKI and traced together with the kernel.
"""

from __future__ import annotations

WIDER_DTYPE = '''
def wider_dtype(first, second):
    """Return the dtype of a result of two dtypes: a float rather than an integer, and then the dtype with more bits."""
    bits = {name: int("".join(filter(str.isdigit, name.split("_")[0])) or 8) for name in (first, second)}
    return max(first, second, key=lambda name: ("float" in name, bits[name]))
'''

STRETCHED = '''
def stretched(tile, like):
    """Broadcast a tile along its dimensions of 1 to the shape of a tile (or to a shape). Only partitions are copied."""
    shape = tuple(getattr(like, "shape", like))
    if not isinstance(tile, nl.NkiTensor) or tile.shape == shape:
        return tile
    if tile.shape[0] == shape[0] and math.prod(tile.shape) == math.prod(shape):
        return tile.reshape(shape)
    if len(tile.shape) > len(shape):
        tile = tile.reshape((tile.shape[0], *[extent for extent in tile.shape[1:] if extent > 1]))
    if len(tile.shape) < len(shape):
        tile = tile.reshape((tile.shape[0], *[1] * (len(shape) - len(tile.shape)), *tile.shape[1:]))
    if tile.shape[0] == 1 < shape[0]:
        tile = nl.broadcast_to(tile, (shape[0], *tile.shape[1:]))
    for dimension in range(1, len(shape)):
        if tile.shape[dimension] == 1 < shape[dimension]:
            tile = tile.broadcast(dimension, shape[dimension])
    return tile


def common_shape(*tiles):
    """Return the shape to which tiles are broadcast along their dimensions of 1."""
    shapes = [tile.shape for tile in tiles if isinstance(tile, nl.NkiTensor)]
    if len({(shape[0], math.prod(shape)) for shape in shapes}) == 1:
        return shapes[0]
    rank = max(len(shape) for shape in shapes)
    shapes = [(shape[0], *[1] * (rank - len(shape)), *shape[1:]) for shape in shapes]
    return tuple(max(extents) for extents in zip(*shapes))
'''

ELEMENTWISE = '''
def elementwise(op, x, y, **options):
    """Return op(x, y) for tiles, or for a tile and a number. Tiles are broadcast along dimensions of 1."""
    if isinstance(x, nl.NkiTensor) and isinstance(y, nl.NkiTensor):
        options.setdefault("dtype", wider_dtype(x.dtype, y.dtype))
        shape = common_shape(x, y)
        x, y = stretched(x, shape), stretched(y, shape)
        y = nl.copy(y) if x.buffer == y.buffer == nl.psum else y
    return op(x, y, **options)
'''

REDUCED = '''
def kept_shape(tile, axes):
    """Return the shape of a tile without some of its dimensions. At least two dimensions remain."""
    shape = tuple(extent for axis, extent in enumerate(tile.shape) if axis not in [a % len(tile.shape) for a in axes])
    return shape if len(shape) > 1 else (shape[0], 1)


def axes_last(tile, axes):
    """Move some dimensions of a tile to the end, as reductions require."""
    axes = [axis % len(tile.shape) for axis in axes]
    return tile.permute(tuple([axis for axis in range(len(tile.shape)) if axis not in axes] + axes))
'''

SELECTED = '''
def selected(condition, x, y, **options):
    """Return nl.where of tiles, which are broadcast along dimensions of 1, or of numbers."""
    shape = common_shape(condition, x, y)
    condition, x, y = (stretched(operand, shape) for operand in (condition, x, y))
    return nl.where(condition, x, y, **options)
'''

ASSIGN = '''
def assign(dst, value):
    """Copy a tile into a part of another tile, or fill that part with a number."""
    if isinstance(value, nl.NkiTensor):
        nisa.tensor_copy(dst=dst, src=value)
    else:
        nisa.memset(dst=dst, value=value)
'''

PLACE = '''
def place(dst, value, starts):
    """Copy a tile (or a number) to a part of another tile. `starts`: the first partition of each of the two."""
    is_tile = isinstance(value, nl.NkiTensor)
    if all(start % 32 == 0 and dst.shape[0] <= {0: 128, 64: 64}.get(start, 32) for start in starts[: 1 + is_tile]):
        assign(dst, value)
        return
    source = nl.ndarray(dst.shape, dtype=dst.dtype, buffer=nl.sbuf)
    if not is_tile or value.buffer == nl.psum:
        assign(source, value)
    nisa.dma_copy(dst=dst, src=value if is_tile and value.buffer != nl.psum else source)
'''

AS_PREDICATE = '''
def as_predicate(tile, reverse=False):
    """Convert a tile to a predicate: unsigned integers that are not 0 for the elements to select."""
    if tile.dtype in (nl.uint8, nl.uint16) and not reverse:
        return tile
    return (nl.equal if reverse else nl.not_equal)(tile, 0, dtype=nl.uint8)
'''

FILLED = '''
def filled(tensor, value):
    """Return a tile with the shape of a tensor in HBM, filled with a number."""
    shape = tensor.shape if len(tensor.shape) > 1 else (1, tensor.shape[0])
    return nl.full(shape, value, dtype=tensor.dtype, buffer=nl.sbuf)
'''

AS_ROWS = '''
def as_rows(tensor):
    """Return a tensor in HBM. A vector becomes a column, so that each element is on a separate partition of a tile."""
    return tensor if len(tensor.shape) > 1 else tensor.reshape((tensor.shape[0], 1))
'''

AS_FLOAT32 = '''
def as_float32(column):
    """Return a column in float32, as instructions with a tile require. A column of another dtype is converted."""
    if column.dtype == nl.float32:
        return column
    copied = nl.ndarray(column.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copied, src=column)
    return copied
'''

TILE_BLOCKS = '''
class TileBlocks(dict):
    """Tiles, keyed by the indices of their block. Each tile is allocated when it is first used."""

    def __init__(self, dimensions, shape, dtype, buffer, value=None):
        super().__init__()
        self.dimensions, self.shape, self.dtype, self.buffer, self.value = dimensions, shape, dtype, buffer, value

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        block, part = keys[: self.dimensions], keys[self.dimensions :]
        if block not in self:
            self[block] = nl.ndarray(self.shape, dtype=self.dtype, buffer=self.buffer)
            if self.value is not None:
                nisa.memset(dst=super().__getitem__(block), value=self.value)
        tile = super().__getitem__(block)
        return tile[part] if part else tile
'''

TRANSPOSE_INTO = '''
def transpose_into(dst, data, **options):
    """Transpose into a tile of any dtype. nisa.nc_transpose itself writes only the dtype of its operand."""
    if dst.dtype == data.dtype:
        nisa.nc_transpose(dst=dst, data=data, **options)
        return
    tile = nl.ndarray(dst.shape, dtype=data.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=tile, data=data, **options)
    nisa.tensor_copy(dst=dst, src=tile)
'''

AS_KERNEL = '''
def as_kernel(kernel=None, **options):
    """Return the kernel; a plain function is first passed to nki.jit.

    `options`, for running and timing, are ignored.
    """
    if kernel is None:
        return as_kernel
    return nki.jit(kernel) if inspect.isfunction(kernel) else kernel
'''

SIMULATE_KERNEL = '''
def simulate_kernel(kernel, *args, **kwargs):
    """Run a kernel on the CPU."""
    return nki.simulate(kernel)(*args, **kwargs)
'''

ITEMSIZE = '''
def itemsize(dtype):
    """Return the number of bytes of an element of a dtype, or of a tensor."""
    dtype = getattr(dtype, "dtype", dtype)
    return getattr(dtype, "itemsize", None) or (int("".join(filter(str.isdigit, dtype.split("_")[0])) or 8) // 8)
'''

TEXTS = {
    "itemsize": ITEMSIZE,
    "wider_dtype": WIDER_DTYPE,
    "stretched": STRETCHED,
    "elementwise": ELEMENTWISE,
    "kept_shape": REDUCED,
    "selected": SELECTED,
    "assign": ASSIGN,
    "place": PLACE,
    "as_predicate": AS_PREDICATE,
    "filled": FILLED,
    "as_rows": AS_ROWS,
    "as_float32": AS_FLOAT32,
    "TileBlocks": TILE_BLOCKS,
    "transpose_into": TRANSPOSE_INTO,
    "as_kernel": AS_KERNEL,
    "simulate_kernel": SIMULATE_KERNEL,
}
NEEDS = {"elementwise": ("wider_dtype", "stretched"), "selected": ("stretched",), "place": ("assign",)}


def source(names: set[str], nl: str, nisa: str) -> str:
    """Return the source of helpers and of the helpers that they call in turn, using the aliases of the file for
    nki.language and nki.isa."""
    wanted = set(names)
    for name in names:
        wanted.update(NEEDS.get(name, ()))
    text = "\n".join(TEXTS[name] for name in TEXTS if name in wanted)
    return text.replace("nl.", f"{nl}.").replace("nisa.", f"{nisa}.")
