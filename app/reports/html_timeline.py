"""The engine timeline of a page: consecutive launches, reduced to a number of blocks that a browser can draw quickly.

Nothing is dropped: instructions of one engine that start close together are merged into one block, which shows the
number of instructions and the time for which the engine was busy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np

from ..text import printable
from .html_charts import resource_legend
from .html_markup import Markup, element, fragment, microseconds

MAX_BLOCKS = 20_000  # maximum number per page: about 800 KB, drawn within one or two frames
MAX_LANES = 6  # maximum number of lanes for DMA queues per direction; further queues share the last lane
BINS = 480  # columns of the static picture, used in print and without scripts
_PACKAGE = Path(__file__).resolve().parents[2]
_ROUNDING_NS = 1e-3  # tolerance for an apparent overlap of two instructions due to rounding

ENGINES = {
    "tensor": "Tensor Engine",
    "vector": "Vector Engine",
    "scalar": "Scalar Engine",
    "gpsimd": "GpSimd Engine",
}


class InstructionSpan(NamedTuple):
    """An instruction; times are in nanoseconds from the start of the first launch."""

    start: float
    end: float
    launch: int
    op: str
    line: str
    bytes: int
    flops: int


@dataclass
class Block:
    """An instruction, or `count` merged instructions during which the engine is busy for `busy` nanoseconds."""

    start: float
    end: float
    launch: int
    op: str
    line: str
    bytes: int
    flops: int
    count: int
    busy: float


class LaunchSpan(NamedTuple):
    """A launch: the name of its row, its start, the start of the kernel itself, and its end, in nanoseconds."""

    name: str
    start: float
    work: float
    end: float


class Track(NamedTuple):
    """An engine or a lane of DMA queues."""

    kind: str  # tensor, vector, scalar, gpsimd, dma
    title: str
    spans: list[InstructionSpan]


@dataclass(frozen=True)
class Timeline:
    """The launches and their tracks."""

    launches: tuple[LaunchSpan, ...]
    tracks: tuple[Track, ...]

    @property
    def total_ns(self) -> float:
        """Return the end time of the last launch."""
        return self.launches[-1].end if self.launches else 0.0

    @property
    def instructions(self) -> int:
        """Return the number of instructions on all tracks except the critical path."""
        return sum(len(track.spans) for track in self.tracks if track.kind != "critical")


def _spans(run: Any, work: float, first: int) -> Iterator[tuple[tuple[str, int], InstructionSpan]]:
    """Yield the instructions of a run that began at `work`, and the steps of its critical path, each with its track.
    `first` is the number of the run's first launch or layer."""
    for event in run.timeline:
        layer = run.parts.owners[event.position] if run.parts and event.position >= 0 else 0
        yield (
            _track(event.engine),
            InstructionSpan(
                start=work + event.start_ns,
                end=work + event.end_ns,
                launch=first + layer,
                op=event.name or event.op,
                line=_short(event.line),
                bytes=event.bytes,
                flops=event.flops,
            ),
        )
    for step in getattr(run, "critical_path", ()):
        layer = run.parts.owners[step.position] if run.parts else 0
        yield (
            ("critical", 0),
            InstructionSpan(
                start=work + step.start_ns,
                end=work + step.end_ns,
                launch=first + layer,
                op=f"{step.resource}: {step.name or step.op}",
                line=_short(step.line),
                bytes=0,
                flops=0,
            ),
        )


def collect(runs: Sequence[tuple[str, Any]]) -> Timeline:
    """Concatenate the timelines of consecutive (name, `simulator.Run`) pairs. The layers of a run are shown by name,
    like launches."""
    launches: list[LaunchSpan] = []
    tracks: dict[tuple[str, int], list[InstructionSpan]] = {}
    clock = 0.0
    for name, run in runs:
        work = clock + run.launch_us * 1000
        first = len(launches) + 1 if run.parts else len(launches)
        for track, span in _spans(run, work, first):
            tracks.setdefault(track, []).append(span)
        end = clock + run.latency_us * 1000
        if run.parts:
            launches.append(LaunchSpan(name, clock, work, work))
            launches += [
                LaunchSpan(part, work + start, work + start, work + stop) for part, start, stop in run.parts.spans
            ]
        else:
            launches.append(LaunchSpan(name, clock, work, end))
        clock = end
    spans = []
    for kind, lane in sorted(tracks, key=_place):
        spans.append(Track(_core_of(kind)[1].partition(" ")[0], _title(kind, lane), sorted(tracks[kind, lane])))
    return Timeline(tuple(launches), tuple(spans))


def _track(engine: str) -> tuple[str, int]:
    """Map `dma load 9` to ("dma load", 5), since all later queues share the last lane. A prefix "core 1 " is kept."""
    if engine in ENGINES or engine.rpartition(" ")[2] in ENGINES:
        return engine, 0
    kind, _, number = engine.rpartition(" ")
    return kind, min(int(number), MAX_LANES - 1)


def _place(key: tuple[str, int]) -> tuple[str, int, int]:
    """Return the sort key of a track: the critical path first, then the engines and DMA queues of each core."""
    core, kind = _core_of(key[0])
    order = ("critical", *ENGINES, "dma load", "dma store")
    return ("" if kind == "critical" else core), order.index(kind), key[1]


def _core_of(kind: str) -> tuple[str, str]:
    """Split `core 1 dma load` into ("core 1 ", "dma load"). With a single core, the first part is ""."""
    return (kind[:7], kind[7:]) if kind.startswith("core ") else ("", kind)


def _title(kind: str, lane: int) -> str:
    core, kind = _core_of(kind)
    if kind in ENGINES:
        return core + ENGINES[kind]
    if kind == "critical":
        return "Critical path"
    return f"{core}DMA {kind.partition(' ')[2]} {lane}{' and up' if lane == MAX_LANES - 1 else ''}"


def _short(line: tuple[str, int]) -> str:
    """Return the kernel's file name, without its folder, and the line number."""
    if not line[0]:
        return ""
    path = PurePath(line[0])
    parts = path.relative_to(_PACKAGE).parts if path.is_relative_to(_PACKAGE) else path.parts[-2:]
    return f"{'/'.join(parts)}:{line[1]}"


def thin(timeline: Timeline, limit: int) -> tuple[list[list[Block]], float]:
    """Return the blocks of each track, at most `limit` in total, and the merge resolution in nanoseconds.

    The resolution is 0 if only DMA queues that share a lane were merged. Otherwise, the finest grid of 1, 2, 4, ... ns
    that satisfies the limit is used.
    """
    resolution = 0.0
    while True:
        blocks = [merge(track.spans, resolution) for track in timeline.tracks]
        if sum(map(len, blocks)) <= max(limit, len(timeline.launches) * len(timeline.tracks)):
            return blocks, resolution
        resolution = max(1.0, 2 * resolution)


def merge(spans: Iterable[InstructionSpan], resolution: float) -> list[Block]:
    """Merge spans, ordered by start time, into blocks: spans of one launch are merged if they overlap or start in the
    same grid cell."""
    blocks: list[Block] = []
    for span in spans:
        last = blocks[-1] if blocks else None
        near = last is not None and last.launch == span.launch and (
            span.start < last.end - _ROUNDING_NS
            or (resolution > 0 and span.start // resolution == last.start // resolution)
        )  # fmt: skip
        if last is None or not near:
            blocks.append(Block(*span, count=1, busy=span.end - span.start))
            continue
        last.busy += max(0.0, span.end - max(span.start, last.end))
        last.end = max(last.end, span.end)
        last.count += 1
        last.bytes += span.bytes
        last.flops += span.flops
        last.op = span.op if span.op == last.op else "several"
        last.line = span.line if span.line == last.line else ""
    return blocks


def timeline_section(timeline: Timeline, note: str, kind: str) -> Markup:
    """Return the timeline section: a canvas with its data, a static picture, and a note on merged blocks."""
    blocks, resolution = thin(timeline, MAX_BLOCKS)
    drawn_blocks = sum(len(row) for track, row in zip(timeline.tracks, blocks) if track.kind != "critical")
    caption = f"All {timeline.instructions:,} instructions are drawn, each as a separate block."
    if drawn_blocks < timeline.instructions:
        near = f", or start in the same {resolution:g} ns of a grid" if resolution else ""
        caption = (
            f"{timeline.instructions:,} instructions are drawn as {drawn_blocks:,} blocks: instructions of one track "
            f"that overlap{near} are merged. A block is paler if its engine was idle for longer. No instruction is "
            "omitted."
        )
    buttons = (("in", "+", "Zoom in"), ("out", "\u2212", "Zoom out"), ("fit", "Fit", "Show all"))
    canvas = element(
        "div",
        element("p", caption, class_="lead"),
        element(
            "div",
            [element("button", text, type="button", data_zoom=key, title=title) for key, text, title in buttons],
            element("span", "", class_="range", id="timeline-range"),
            element(
                "span",
                "Point at a layer to highlight its blocks. Drag to pan; Ctrl + wheel, + and \u2212 zoom; a double "
                "click on a layer fills the view.",
                class_="hint",
            ),
            class_="toolbar",
        ),
        element("canvas", id="timeline", tabindex=0, role="img", aria_label=_spoken(timeline, kind)),
        element("canvas", id="overview", aria_hidden="true"),
        element("div", id="tip", role="status", hidden=True),
        class_="interactive",
    )
    parts = [
        element("h2", "What the engines did"),
        element("p", note, class_="lead"),
        resource_legend(used_resources(timeline)),
        canvas,
        element("figure", utilisation(timeline), element("figcaption", _CAPTION), class_="static"),
        element("script", _json(timeline, blocks), type="application/json", id="timeline-data"),
    ]
    return element("section", parts, id="timeline-section")


def used_resources(timeline: Timeline) -> set[str]:
    """Return the resources whose colours appear in the timeline: engines, DMA, and the resources on the critical
    path."""
    steps = {span.op.partition(":")[0] for track in timeline.tracks if track.kind == "critical" for span in track.spans}
    return steps | {"dma_bandwidth" if track.kind == "dma" else track.kind for track in timeline.tracks} - {"critical"}


_CAPTION = "Utilization of each engine over time, from 0 % at the bottom of its row to 100 % at the top."


def _spoken(timeline: Timeline, kind: str) -> str:
    names = ", ".join(track.title for track in timeline.tracks)
    return f"{kind} timeline of {microseconds(timeline.total_ns / 1000)} microseconds with the tracks {names}"


def _json(timeline: Timeline, blocks: list[list[Block]]) -> Markup:
    """Return the data of the canvas; times are in nanoseconds, and each string is stored once."""
    texts: dict[str, int] = {}

    def text(value: str) -> int:
        return texts.setdefault(printable(value), len(texts))

    tracks = [
        {
            "kind": track.kind,
            "title": track.title,
            "blocks": [
                [
                    round(block.start, 1), round(block.end - block.start, 1), block.launch, text(block.op),
                    text(block.line), block.bytes, block.flops, block.count, round(block.busy, 1),
                ]
                for block in row
            ],
        }
        for track, row in zip(timeline.tracks, blocks, strict=True)
    ]  # fmt: skip
    launches = [
        [printable(name), round(start), round(work), round(end)] for name, start, work, end in timeline.launches
    ]
    data = {
        "total": timeline.total_ns,
        "launches": launches,
        "tracks": tracks,
        "texts": list(texts),
    }
    # A script element ends at the first "</script", even within a string.
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def utilisation(timeline: Timeline) -> Markup:
    """Draw the utilization of each engine over time, with one row per engine, 1000 units wide."""
    edges = np.linspace(0.0, timeline.total_ns, BINS + 1)
    height, gap = 34, 10
    rows: list[Markup] = []
    kinds = [(kind, title) for kind, title in (*ENGINES.items(), ("dma", "DMA, any data moving"))]
    for position, (kind, title) in enumerate(kinds):
        spans = sorted(span for track in timeline.tracks if track.kind == kind for span in track.spans)
        shares = _shares([(block.start, block.end) for block in merge(spans, 0.0)], edges)
        foot = position * (height + gap) + height
        points = " ".join(
            f"{160 + 840 * i / BINS:.1f},{foot - height * share:.1f} {160 + 840 * (i + 1) / BINS:.1f},"
            f"{foot - height * share:.1f}"
            for i, share in enumerate(shares)
        )
        rows += [
            element("text", title, x=0, y=foot - height / 2 + 4, class_="label"),
            element("path", d=f"M160,{foot} L{points} L1000,{foot} Z", class_=f"engine {kind}"),
            element("line", x1=160, x2=1000, y1=foot, y2=foot, class_="axis"),
        ]
    bottom = len(kinds) * (height + gap) + 8
    rows += [
        element("text", "0 us", x=160, y=bottom, class_="tick"),
        element(
            "text", f"{microseconds(timeline.total_ns / 1000)} us", x=1000, y=bottom, class_="tick",
            text_anchor="end",
        ),
    ]  # fmt: skip
    return element(
        "svg", fragment(rows), viewBox=f"0 0 1000 {bottom + 8}", role="img", aria_label="How busy each engine was"
    )


def _shares(intervals: list[tuple[float, float]], edges: np.ndarray) -> np.ndarray:
    """Return the fraction (0..1) of each bin between edges [n + 1] that is covered by disjoint ordered intervals, as
    float64 [n]."""
    if not intervals or edges[-1] <= 0:
        return np.zeros(len(edges) - 1)
    bounds = np.maximum.accumulate(np.array(intervals, np.float64).ravel())  # start, end, start, end, ...
    lengths = bounds[1::2] - bounds[::2]
    ends = np.cumsum(lengths)
    covered = np.stack([ends - lengths, ends], axis=1).ravel()
    shares = np.diff(np.interp(edges, bounds, covered)) / np.diff(edges)
    return np.clip(shares, 0.0, 1.0)
