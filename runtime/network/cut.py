"""How a network is cut into as few launches as instructions and SBUF allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...kernels.tiling.packing import ceil_div
from ...models.files import Model
from ..launch_options import DEFAULT_LAUNCHES
from .drawing import draw
from .given import image_of
from .memory import SMALLEST, sbuf_bytes
from .plan import Segment
from .program import DoesNotFit, Planned


class NetworkPlan:
    """A network as segments, each a launch; DoesNotFit where it cannot be told so."""

    def __init__(
        self,
        model: Model,
        dtype: np.dtype[Any],
        most: int = DEFAULT_LAUNCHES.instructions,
        forms: Sequence[str] = (),
        target: str = SMALLEST,
    ) -> None:
        """`most`: instructions of a launch. `forms`: in which 3x3 filters may be multiplied where that is quicker
        than directly (kernels/convolution/forms.py). `target`: whose SBUF there is room in."""
        self._room = sbuf_bytes(target)
        self.image = image_of(model)
        self.layers = tuple(draw(model, dtype, self.image.shape))
        self.most = most
        self._forms = tuple(forms)
        self.segments = self._cut(dtype)
        self.note = self._note()

    def images(self, batch: int) -> int:
        """How many of a batch's images go into a launch, so that its instructions stay within the budget."""
        launches, fitting = 1, batch
        while fitting > 1 and (count := max(self._count(segment, fitting) for segment in self.segments)) > self.most:
            launches = max(launches + 1, launches * count // self.most)
            fitting = ceil_div(batch, launches)
        return fitting

    def note_of(self, batch: int) -> str | None:
        """What to tell of the launches that a batch takes; None where it is one."""
        notes = [] if self.note is None else [self.note]
        fitting = self.images(batch)
        if fitting < batch:
            launches = ceil_div(batch, fitting)
            notes.append(
                f"a batch of {batch} is {launches} times up to {fitting}: more would pass {self.most} instructions"
            )
        return "; ".join(notes) or None

    @staticmethod
    def _count(segment: Segment, batch: int) -> int:
        planned = segment.launch(batch)
        return planned.instructions * ceil_div(batch, planned.together * planned.images_at_once)

    def _cut(self, dtype: np.dtype[Any]) -> tuple[Segment, ...]:
        """As few segments as instructions and SBUF allow: each takes all layers up to the last border that it can."""
        segments: list[Segment] = []
        borders = [n + 1 for n in range(len(self.layers)) if _is_border(self.layers, n)]
        first, image = 0, self.image.shape
        while first < len(self.layers):
            found: Segment | None = None
            reason: DoesNotFit | None = None
            ahead = [border for border in borders if border > first]
            for end in reversed(ahead):
                try:
                    tried = Segment(_part(self.layers, first, end), image, dtype, self._room, self._forms, first == 0)
                except DoesNotFit as why:
                    reason = why
                    continue
                if self._count(tried, 1) <= self.most or end == ahead[0]:
                    found, after = tried, end
                    break
            if found is None:
                raise reason or DoesNotFit("nothing of it fits")
            segments.append(found)
            first, image = after, found.output
        return tuple(segments)

    def _note(self) -> str | None:
        if len(self.segments) == 1:
            return None
        ends = [segment.last for segment in self.segments[:-1]]
        return f"{len(self.segments)} launches of at most {self.most} instructions: cut after {', '.join(ends)}"


def _is_border(layers: Sequence[Planned], number: int) -> bool:
    """Whether all that later layers read of a layer and those before it is what the layer gives."""
    later = [parts for layer in layers[number + 1 :] for parts in layer.sources]
    return all(parts == (number,) or min(parts) > number for parts in later) and (
        number == len(layers) - 1 or layers[number].kind != "scores"
    )


def _part(layers: Sequence[Planned], first: int, end: int) -> list[Planned]:
    """Layers with their sources counted from the first; the last of them, unless it ends the network, gives to HBM."""
    part = [
        replace(layer, sources=tuple(tuple(max(-1, n - first) for n in parts) for parts in layer.sources))
        for layer in layers[first:end]
    ]
    if end < len(layers):
        part[-1] = replace(part[-1], in_hbm=True)
    return part
