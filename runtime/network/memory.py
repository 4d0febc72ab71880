"""What a program of layers takes of the chip: bytes of an SBUF partition at its fullest, and instructions."""

from __future__ import annotations

from collections.abc import Sequence

from ...kernels.convolution.forms import DIRECT, matrices
from ...kernels.tiling.packing import GROUP_NORM_PIXELS, IDENTITY_BYTES, PARTITIONS, ceil_div, norm_block, pool_band
from ...models.checks import Shape
from ...simulator.chip import find_target
from .forms import FILTERING_BYTES, combined_bytes
from .layout import LaidOut, from_hbm, heights_of, read_together, steps_of
from .program import CONVOLUTIONS, NORMS, Planned

SMALLEST = "trn1"  # the target with the least SBUF
SCRATCH_BYTES = 12 * 1024  # of them for sums on their way from PSUM, and what else lives briefly
GROUP_BYTES = 48 * 1024  # for an input in HBM that is loaded in groups, and what a group gives
WHOLE_BYTES = 8 * 1024  # an input of an image up to which it is loaded as a whole (convolution.plan.WHOLE_IMAGE_BYTES)
PSUM_COLUMNS = 512  # float32 numbers of a PSUM bank


def sbuf_bytes(target: str) -> int:
    """Bytes of a partition that tiles may take on a target."""
    return find_target(target).usable_sbuf_bytes - IDENTITY_BYTES


class Footprint:
    """The memory of laid out layers for so many images (of each that lies side by side with others) at a time."""

    def __init__(self, laid_out: LaidOut, image: Shape, together: int, itemsize: int, images: int) -> None:
        self._laid_out = laid_out
        self._layers = laid_out.layers
        self._image, self._together, self._itemsize, self._images = image, together, itemsize, images
        self._last = _last_readers(self._layers)

    def at(self, number: int) -> int:
        """Bytes of a partition while a layer runs."""
        layer = self._layers[number]
        alive = sum(self.given(n) for n in range(number + 1) if n == number or self._last.get(n, -1) >= number)
        return alive + self._weights(number) + self._scratch(layer) + 4 * self._laid_out.columns

    def peak(self) -> tuple[int, int]:
        """(bytes, layer) where SBUF is fullest."""
        return max((self.at(number), number) for number in range(len(self._layers)))

    def given(self, number: int) -> int:
        """Bytes of a partition that what a layer gives takes."""
        layer = self._layers[number]
        if layer.in_hbm or layer.kind == "scores":
            return 0
        tiles = len(heights_of(self._layers, (number,), self._image[0], self._together))
        apart = self._together // layer.together
        return tiles * self._images * apart * elements(layer.after, layer.margin) * self._itemsize

    def _weights(self, number: int) -> int:
        whole, needed = self._laid_out.run_bytes(number)
        stay = sum(self._laid_out.run_bytes(n)[0] for n, layer in enumerate(self._layers) if layer.stays)
        if self._layers[number].stays:
            return stay * self._itemsize
        return (stay + (whole if self._in_groups(number) else needed)) * self._itemsize

    def _in_groups(self, number: int) -> bool:
        """Whether all weights of a layer are there at a time, for one group of its outputs after the other."""
        layer = self._layers[number]
        if from_hbm(self._layers, layer) or layer.unfold > 1:
            return layer.unfold > 1 or layer.group_bytes > 0
        return layer.form != DIRECT and self._combined(layer) > layer.group_bytes

    def _combined(self, layer: Planned) -> int:
        """Bytes of a partition for the combinations of all that a layer reads."""
        tiles = len(heights_of(self._layers, layer.sources[0], self._image[0], self._together))
        apart = self._together // read_together(self._layers, layer, self._together)
        return combined_bytes(layer, tiles, self._images * apart, self._itemsize)

    def _scratch(self, layer: Planned) -> int:
        if layer.kind in CONVOLUTIONS:
            scratch = SCRATCH_BYTES + (FILTERING_BYTES if layer.form != DIRECT else 0)
            if not from_hbm(self._layers, layer):
                return scratch + (2 * min(layer.group_bytes, self._combined(layer)) if layer.form != DIRECT else 0)
            return scratch + (layer.group_bytes or self._images * self._input(layer))
        if layer.kind == "folded_pool":  # columns are folded first
            rows = layer.before[1] + layer.padding[0] + layer.padding[2]
            return SCRATCH_BYTES + self._images * (rows + layer.after[1]) * layer.after[2] * self._itemsize
        if layer.kind == "average_pool" and layer.kernel == layer.before[1:] and not any(layer.padding):
            return SCRATCH_BYTES  # sums of whole images
        images = self._images * (self._together // layer.together)
        if layer.kind.endswith("_pool"):  # what a band reads with its padding, and both folds of it
            size = 4 if layer.kind == "average_pool" else self._itemsize
            return SCRATCH_BYTES + 3 * _band(layer, images) * size
        if layer.kind in NORMS:
            return SCRATCH_BYTES + self._norm(layer, images)
        wide = layer.kind in ("combine", "prelu") or layer.operation == "elements"
        tiles, size = 1 if layer.kind == "load" else 2, 4 if wide else self._itemsize
        return SCRATCH_BYTES + tiles * images * elements(layer.after) * size

    def _norm(self, layer: Planned, images: int) -> int:
        """Bytes of a partition of what a norm computes on the way."""
        tiles = len(heights_of(self._layers, layer.sources[0], self._image[0], self._together))
        if layer.kind == "layer_norm":  # differences and squares of all tiles, three forms of one; two matrices
            return (2 * tiles + 3) * norm_block(tiles) * 4 + 2 * PARTITIONS * 4
        matrices = 4 * PARTITIONS * (3 * tiles + layer.channels // layer.groups // PARTITIONS)
        return 3 * min(GROUP_NORM_PIXELS, images * elements(layer.before)) * 4 + matrices + 8 * tiles * images * 4

    def _input(self, layer: Planned) -> int:
        """Bytes of a partition of one image (and those beside it) of an input that is loaded as a whole."""
        return input_bytes(self._layers, layer, self._together, self._itemsize)


def input_bytes(layers: Sequence[Planned], layer: Planned, together: int, itemsize: int) -> int:
    """Bytes of a partition of one image, and those beside it, that a layer reads from HBM."""
    tiles = ceil_div(read_together(layers, layer, together) * layer.before[0], PARTITIONS)
    return tiles * elements(layer.before, layer.padding) * itemsize


def _band(layer: Planned, images: int) -> int:
    """Elements of a partition that a pool reads at a time."""
    line, reach = _line_and_reach(layer, images)
    rows = (pool_band(line, reach, layer.stride[0]) - 1) * layer.stride[0] + reach
    return line * min(rows, layer.before[1] + layer.padding[0] + layer.padding[2] + layer.stride[0])


def _line_and_reach(layer: Planned, images: int) -> tuple[int, int]:
    """Elements of a partition in a row that a pool reads of some images, and rows that a window spans."""
    stride, reach = layer.stride[1], (layer.kernel[1] - 1) * layer.dilation[1] + 1
    columns = (layer.after[2] - 1) * stride + reach
    return images * columns, (layer.kernel[0] - 1) * layer.dilation[0] + 1


def elements(shape: Shape, margin: tuple[int, int, int, int] = (0, 0, 0, 0)) -> int:
    """Elements of a partition that one channel of an image takes with the zeros around it."""
    return (shape[1] + margin[0] + margin[2]) * (shape[2] + margin[1] + margin[3])


def _last_readers(layers: Sequence[Planned]) -> dict[int, int]:
    return {part: n for n, layer in enumerate(layers) for parts in layer.sources for part in parts}


def instructions(laid_out: LaidOut, number: int, image: Shape, together: int, images: int) -> int:
    """About how many instructions a layer takes in one pass."""
    layers = laid_out.layers
    layer = layers[number]
    rows = heights_of(layers, layer.sources[0], image[0], together)
    if layer.kind == "taps":
        return layer.copies[0] + 2
    if layer.kind in ("max_pool", "average_pool"):
        line, reach = _line_and_reach(layer, images * together // layer.together)
        return 8 * len(rows) * ceil_div(layer.after[1], pool_band(line, reach, layer.stride[0]))
    if layer.kind in NORMS:
        pixels = images * together // layer.together * layer.after[1] * layer.after[2]
        most = norm_block(len(rows)) if layer.kind == "layer_norm" else GROUP_NORM_PIXELS
        return 8 * len(rows) * ceil_div(pixels, most) + 8 * len(rows)
    if layer.kind not in CONVOLUTIONS:
        return 8 * len(rows)
    of_input = read_together(layers, layer, together)
    apart = together // of_input * images
    outputs = ceil_div(of_input * layer.channels, PARTITIONS) * layer.unfold
    steps = steps_of(layer, layer.taps)
    if layer.kind == "scores":
        pieces = ceil_div(of_input * layer.channels, PSUM_COLUMNS)
        return laid_out.loads(number) + ceil_div(apart, PARTITIONS) * (pieces * len(rows) * steps + 12)
    high, wide = (side * layer.pool_size for side in layer.after[1:])
    high //= layer.unfold
    if high * wide <= PSUM_COLUMNS:
        pieces = ceil_div(apart, PSUM_COLUMNS // (high * wide))
    else:
        pieces = apart * ceil_div(high, max(1, PSUM_COLUMNS // wide)) * ceil_div(wide, PSUM_COLUMNS)
    contracted = 1 if layer.taps[0] * layer.taps[1] > 1 else max(1, len(rows) // layer.groups)
    count, ends = matrices(layer.form, steps), 2 if layer.form == DIRECT else 20
    return laid_out.loads(number) + outputs * pieces * (contracted * count + ends) + layer.copies[0] - 1
