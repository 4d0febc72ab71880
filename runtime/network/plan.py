"""Layers that are one launch: how their rows and images lie side by side, what of them stays in SBUF, and in how many
passes the images of a batch go through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from ...kernels.convolution.forms import DIRECT
from ...kernels.tiling.packing import ceil_div, round_up
from ...models.checks import Shape
from .estimate import estimate
from .filters import ungrouped
from .fold import fold
from .forms import COMBINED_BYTES, form_of, quickest, widest_padding
from .given import Given, with_phases
from .layout import LaidOut, heights_of, read_together, tile_heights
from .memory import GROUP_BYTES, WHOLE_BYTES, Footprint, input_bytes, instructions
from .program import CONVOLUTIONS, DoesNotFit, Planned, behind, readers_of
from .tails import with_tails
from .taps import with_taps
from .together import choices_of, togethers
from .widen import widened

PASS_COLUMNS = 8 * 1024  # about, that the first layer moves in a pass: its end is hidden behind the one after it


@dataclass(frozen=True)
class NetworkLaunch:
    """What `run_network` takes beside x; weights and constants are those of `laid_out`."""

    laid_out: LaidOut
    program: tuple[tuple[Any, ...], ...]
    together: int
    images_at_once: int
    instructions: int  # about so many, of one pass
    pictures: int
    image: Shape  # of x
    given: Given  # how the host makes x of what comes in
    nanoseconds: float  # that it takes, about: what it is compared by

    @property
    def images(self) -> int:
        """Images of x: the pictures filled up to a multiple of those that lie side by side."""
        return round_up(self.pictures, self.together)

    @property
    def forms(self) -> list[str | None]:
        """How each layer that the kernel names multiplies its filters, in their order."""
        parts: dict[str, list[Planned]] = {}
        for layer in self.laid_out.layers:
            parts.setdefault(layer.name, []).append(layer)
        return [form_of(own) for own in parts.values()]

    def parameters(self) -> dict[str, Any]:
        """What the kernel is told beside its operands."""
        return {
            "program": self.program,
            "together": self.together,
            "images_at_once": self.images_at_once,
            "pictures": self.pictures,
        }


class Segment:
    """Some layers of a network that are one launch; what comes in is an image (C, H, W)."""

    def __init__(
        self,
        layers: Sequence[Planned],
        image: Shape,
        dtype: np.dtype[Any],
        room: int,
        forms: Sequence[str] = (),
        from_host: bool = True,
    ) -> None:
        """DoesNotFit where the layers cannot be one launch. `room`: bytes of a partition of SBUF. `forms`: of
        convolutions, beside the direct one. `from_host`: the host gives the input, and may pad it."""
        self._came, self._dtype, self._from_host = image, dtype, from_host
        self.output, self.last = layers[-1].after, layers[-1].name
        self.launch = lru_cache(maxsize=64)(self._launch)
        self._ways: list[_Way] = []
        reason = DoesNotFit("nothing of it fits")
        for drawn in _ways_of(_with_load(with_tails(layers), image)):
            try:
                self._ways.append(_Way(drawn, image, dtype, room, forms, from_host))
            except DoesNotFit as why:
                reason = why
        if not self._ways:
            raise reason

    def filled_up(self, value: Any, planned: NetworkLaunch) -> Any:
        """What comes in, [pictures, ...], as the kernel takes it: a launch's images, those that there are not zeros."""
        if not self._from_host and len(value) == planned.images:
            return value.reshape((planned.images, *planned.image))  # what the launch before gave may stay on the device
        return planned.given.arranged(np.asarray(value).reshape(-1, *self._came), planned.images, self._dtype)

    def _launch(self, batch: int) -> NetworkLaunch:
        return min((way.launch(batch) for way in self._ways), key=lambda planned: planned.nanoseconds)


def _ways_of(layers: list[Planned]) -> list[list[Planned]]:
    """The same layers with the rows of some side by side, where they can be, and as they are."""
    wide = widened(layers)
    as_wide = [layers] if wide is None else [layers, wide]
    folded = [fold(way) for way in as_wide]
    return [*(way for way in folded if any(layer.blank[2] > 1 for layer in way)), layers]


class _Way:
    """Layers as a launch may run them, and the image that they are given."""

    def __init__(
        self,
        layers: Sequence[Planned],
        image: Shape,
        dtype: np.dtype[Any],
        room: int,
        forms: Sequence[str],
        from_host: bool,
    ) -> None:
        """DoesNotFit where even one image of these layers does not. As `Segment` has them."""
        self._room, self._dtype, self._forms = room, dtype, tuple(forms)
        self.image, self.given = image, Given()
        if from_host:
            layers, self.image, self.given = with_phases(layers, image)
            layers, self.image, zeros = with_taps(layers, self.image, dtype.itemsize)
            if any(zeros):
                self.given = Given(zeros)
        self.layers = tuple(layers)
        self._check()
        self._one = self._with(1, 1)

    def _check(self) -> None:
        for layer in self.layers:
            if layer.kind == "combine" or (layer.kind == "conv2d" and len(layer.sources) > 1):
                other = heights_of(self.layers, layer.sources[1], self.image[0], 1)
                own = heights_of(self.layers, layer.sources[0], self.image[0], 1)
                if layer.kind == "conv2d":
                    own = tile_heights(layer.channels)
                if own != other:
                    raise DoesNotFit(f"the channels that layer {layer.name!r} ({layer.shown}) combines lie apart")

    def launch(self, batch: int) -> NetworkLaunch:
        """The quickest launch of so many pictures, by the images that lie side by side."""
        best = self._one if batch == 1 else self._with(1, batch)
        for together in choices_of(self.layers, self.image, batch):
            try:
                planned = self._with(together, batch)
            except DoesNotFit:
                continue
            if planned.nanoseconds < best.nanoseconds:
                best = planned
        return best

    def _with(self, together: int, batch: int) -> NetworkLaunch:
        layers = [replace(layer, together=own) for layer, own in zip(self.layers, togethers(self.layers, together))]
        layers = [_of_all_groups(layer) if read_together(layers, layer, together) > 1 else layer for layer in layers]
        layers = self._grouped(_with_margins(layers, bool(self._forms)), together)
        images = ceil_div(batch, together)
        whole = LaidOut(self._formed(layers, together, images), self.image[0], together, self._dtype.itemsize)
        held = sum(whole.run_bytes(n)[0] for n in range(len(layers))) * self._dtype.itemsize
        first = next(layer for layer in layers if layer.kind != "taps")
        columns = images * first.after[1] * first.after[2] * first.pool_size**2
        passes = max(1, (columns + PASS_COLUMNS // 2) // PASS_COLUMNS)
        if held <= self._room // 2 and passes > 1:
            layers = [replace(layer, stays=layer.kind in CONVOLUTIONS) for layer in layers]
        at_once, layers = self._images_at_once(layers, together, images)
        if any(layer.stays for layer in layers):
            at_once = min(at_once, ceil_div(images, passes))
        laid_out = LaidOut(layers, self.image[0], together, self._dtype.itemsize)
        count = sum(instructions(laid_out, n, self.image, together, at_once) for n in range(len(layers)))
        program = tuple(layer.fields() for layer in laid_out.layers)
        time = estimate(laid_out, self.image[0], together, self._dtype.itemsize, batch)
        return NetworkLaunch(laid_out, program, together, at_once, count, batch, self.image, self.given, time)

    def _formed(
        self, layers: list[Planned], together: int, images: int, refused: Sequence[tuple[int, str, int]] = ()
    ) -> list[Planned]:
        """The layers with the form in which each multiplies its filters, for `images` and those beside them; `refused`:
        for which SBUF has no room."""
        formed = []
        for n, layer in enumerate(layers):
            rows = heights_of(layers, layer.sources[0], self.image[0], together)
            choices = [each for each in product(self._forms, COMBINED_BYTES) if (n, *each) not in refused]
            count = images * together // layer.together
            formed.append(quickest(layers, n, rows, choices, self._dtype.itemsize, count))
        return formed

    def _grouped(self, layers: list[Planned], together: int) -> list[Planned]:
        """Large inputs come in groups of rows."""
        size = self._dtype.itemsize
        return [
            replace(layer, group_bytes=GROUP_BYTES)
            if layer.kind == "conv2d"
            and layer.sources[0] == (-1,)
            and layer.before[1:] != (1, 1)
            and input_bytes(layers, layer, together, size) > WHOLE_BYTES
            else layer
            for layer in layers
        ]

    def _images_at_once(self, layers: list[Planned], together: int, images: int) -> tuple[int, list[Planned]]:
        """The most images that SBUF has room for at a time, and the layers, some of which may give to HBM."""
        refused: list[tuple[int, str, int]] = []
        while True:
            formed = self._formed(layers, together, images, refused)
            laid_out = LaidOut(formed, self.image[0], together, self._dtype.itemsize)

            def peak(count: int, laid_out: LaidOut = laid_out) -> tuple[int, int]:
                return Footprint(laid_out, self.image, together, self._dtype.itemsize, count).peak()

            if peak(images)[0] <= self._room:
                return images, formed
            one = peak(1)
            if one[0] <= self._room:
                fitting, too_many = 1, images
                while too_many - fitting > 1:
                    middle = (fitting + too_many) // 2
                    if peak(middle)[0] <= self._room:
                        fitting = middle
                    else:
                        too_many = middle
                return fitting, formed
            if formed[one[1]].form != DIRECT:
                large = formed[one[1]]
                sizes = [large.group_bytes] if large.group_bytes in COMBINED_BYTES else COMBINED_BYTES
                refused += [(one[1], large.form, size) for size in sizes]
            else:
                layers, refused = self._spilled(layers, one[1], laid_out, together), []

    def _spilled(self, layers: list[Planned], number: int, laid_out: LaidOut, together: int) -> list[Planned]:
        """The largest of what lies in SBUF while a layer runs goes through HBM."""
        footprint = Footprint(laid_out, self.image, together, self._dtype.itemsize, 1)
        candidates = [n for n in range(number + 1) if _may_spill(layers, n) and not layers[n].in_hbm]
        last = {n: max((reader for reader, _ in readers_of(layers, n)), default=n) for n in candidates}
        alive = [n for n in candidates if footprint.given(n) and last[n] >= number]
        if not alive or together > 1:
            name, kind = layers[number].name, layers[number].shown
            needed, there = footprint.at(number) // 1024, self._room // 1024
            raise DoesNotFit(f"layer {name!r} ({kind}) needs {needed} KiB of a partition of SBUF, {there} are there")
        largest = max(alive, key=footprint.given)
        return [
            replace(
                layer,
                in_hbm=layer.in_hbm or n == largest,
                group_bytes=GROUP_BYTES if layer.sources[0] == (largest,) else layer.group_bytes,
            )
            for n, layer in enumerate(layers)
        ]


def _with_load(layers: Sequence[Planned], image: Shape) -> list[Planned]:
    """An input that is not just the first operand of one convolution is loaded by a layer of its own."""
    reading = [layers[n] for n, _ in readers_of(layers, -1)]
    if len(reading) == 1 and reading[0].sources[0] == (-1,) and reading[0].kind in CONVOLUTIONS:
        return list(layers)
    load = Planned("load", layers[0].name, ((-1,),), image[0], shown="load", before=image, after=image)
    return behind(load, layers)


def _of_all_groups(layer: Planned) -> Planned:
    """A convolution whose filters have zeros for the channels of other groups: those of images side by side stand on
    the diagonal as groups do."""
    if layer.kind not in CONVOLUTIONS or layer.groups == 1 or layer.filters is None:
        return layer
    return replace(layer, filters=ungrouped(layer.filters, layer.groups), groups=1)


def _with_margins(layers: Sequence[Planned], filtering: bool) -> list[Planned]:
    """The zeros that the convolutions which read a layer want around what it gives."""
    wanted: list[list[tuple[int, ...]]] = [[(0, 0, 0, 0)] for _ in layers]
    for layer in layers:
        for part in layer.sources[0] if layer.kind in ("conv2d", "folded_pool") else ():
            if part >= 0:
                wanted[part].append(widest_padding(layer) if filtering else layer.padding)
    return [replace(layer, margin=tuple(max(sides) for sides in zip(*own))) for layer, own in zip(layers, wanted)]


def _may_spill(layers: Sequence[Planned], number: int) -> bool:
    """Whether what a layer gives may go through HBM: a convolution's, to convolutions alone."""
    layer = layers[number]
    return (
        layer.kind == "conv2d"
        and layer.unfold == 1
        and not any(layer.blank[:2])
        and all(
            layers[n].kind == "conv2d" and layers[n].sources[0] == (number,) and (number,) not in layers[n].sources[1:]
            for n, _ in readers_of(layers, number)
        )
    )
