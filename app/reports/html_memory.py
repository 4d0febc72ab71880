"""Charts of the SBUF and PSUM use during a launch, and tables of the tiles that are live at the peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .html_markup import Markup, element, fragment, microseconds, percent, quantity
from .html_tables import Heading, cell, table
from .resources import short

_WIDTH, _HEIGHT, _LEFT, _FOOT = 1000, 130, 84, 22
_MOST_POINTS = 1000  # maximum number of groups of points in a curve; each group is represented by its maximum
SHOWN_TILES = 6
SHOWN_LINES = 12
_TITLES = {"sbuf": "SBUF", "psum": "PSUM"}


def memory_section(run: Any) -> Markup:
    """Return the SBUF and PSUM charts of a launch: usage over time, and the tiles that are live at the peak."""
    parts = [_memory(run, region) for region in ("sbuf", "psum")]
    lead = "Bytes per partition of the tiles that are live during the launch, from first write to last access."
    return element(
        "section",
        element("h2", "Use of SBUF and PSUM"),
        element("p", lead, class_="lead"),
        parts,
    )


def _row(run: Any, tile: Any, names: Sequence[str]) -> Markup:
    """Return the row of a tile; `names` are the names of the layers, or empty if there are none."""
    owner = run.parts.owners[tile.position] if run.parts else -1
    life = (tile.end_ns - tile.start_ns) / 1000
    cells = [
        element("th", tile.name, scope="row"),
        cell(names[owner] if owner >= 0 else "launch") if names else None,
        cell(f"{tile.line[0].rpartition('/')[2]}:{tile.line[1]}" if tile.line[0] else "", class_="code"),
        cell(f"{tile.bytes:,}", tile.bytes),
        cell(microseconds(life), life),
        cell(microseconds(tile.idle_ns / 1000), tile.idle_ns),
    ]
    return element("tr", cells)


def _memory(run: Any, region: str) -> Markup:
    use, title = run.memory_use(region), _TITLES[region]
    end = run.prediction.makespan or 1.0
    if not use.peak_bytes:
        return element("p", f"{title} is not used.", class_="note")
    needed = min(run.memory.sbuf_bytes, use.peak_bytes) if region == "sbuf" else use.peak_bytes
    caption = (
        f"{title}: {quantity(needed, 'B')} of {quantity(use.capacity, 'B')} needed ({percent(needed / use.capacity)}). "
        f"The live tiles reach their peak {microseconds(use.peak_ns / 1000)} us after the first trigger"
        f"{', because loads that are issued early fill free space' if needed < use.peak_bytes else ''}."
    )
    chart = element("figure", _curve(use, needed, end, title), element("figcaption", caption), tabindex=0)
    names = [name for name, _, _ in run.parts.spans] if run.parts else []
    headings: list[Heading] = [
        ("tile at the peak", False), *([("layer", False)] if names else []), ("allocated", False), ("bytes", True),
        ("live us", True), ("idle at the peak us", True),
    ]  # fmt: skip
    rows = [_row(run, tile, names) for tile in use.owners[:SHOWN_TILES]]
    spill = max(use.owners, key=lambda tile: tile.bytes * (tile.idle_ns > 0), default=None)
    advice = None
    if spill is not None and spill.idle_ns > 0:
        advice = element(
            "p",
            f"No instruction accesses {spill.name} for {microseconds(spill.idle_ns / 1000)} us around the peak: "
            f"spilling it to HBM, or cutting the launch there, would free {quantity(spill.bytes, 'B')} of a partition.",
            class_="note",
        )
    more = f", {SHOWN_TILES} of {len(use.owners)}" if len(use.owners) > SHOWN_TILES else ""
    return fragment(chart, table(f"{title} at its peak{more}", headings, rows) if rows else None, advice)


def _curve(use: Any, needed: int, end: float, title: str) -> Markup:
    """Return the curve of the bytes in use over time. A label marks the memory that the kernel needs if it runs in
    program order; a line marks the capacity if the curve comes close to it."""
    high = max(use.peak_bytes, 1)
    top = use.capacity if use.peak_bytes > use.capacity / 3 else high * 1.15

    def x(time: float) -> float:
        return _LEFT + (_WIDTH - _LEFT) * time / end

    def y(size: float) -> float:
        return (_HEIGHT - _FOOT) * (1 - size / top)

    words, last = [f"M{_LEFT},{y(0):.1f}"], 0
    for time, size in _thinned(use.points):
        words.append(f"H{x(time):.1f} V{y(size):.1f}")
        last = size
    words.append(f"H{_WIDTH} V{y(0):.1f} Z" if last else f"V{y(0):.1f} Z")
    marks = [
        element("path", d=" ".join(words), class_="engine plain"),
        element("line", x1=_LEFT, x2=_WIDTH, y1=y(0), y2=y(0), class_="axis"),
        element("text", quantity(needed, "B"), x=_LEFT - 8, y=y(needed) + 10, class_="tick", text_anchor="end"),
        element("text", "0 us", x=_LEFT, y=_HEIGHT - 5, class_="tick"),
        element("text", f"{microseconds(end / 1000)} us", x=_WIDTH, y=_HEIGHT - 5, text_anchor="end", class_="tick"),
    ]
    if top == use.capacity:
        marks.append(element("line", x1=_LEFT, x2=_WIDTH, y1=1, y2=1, class_="roof lesser"))
    label = f"{title} over time, of which {needed} bytes of a partition are needed"
    return element("svg", marks, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=label)


def _thinned(points: Any) -> list[tuple[float, int]]:
    """Divide the points into at most _MOST_POINTS groups, and return the highest and the last point of each."""
    step = -(-len(points) // _MOST_POINTS)
    if step <= 1:
        return list(points)
    kept_points: list[tuple[float, int]] = []
    for first in range(0, len(points), step):
        group = points[first : first + step]
        highest = max(group, key=lambda point: point[1])
        kept_points += [highest] if highest is group[-1] else [highest, group[-1]]
    return kept_points


def _spent(critical: Mapping[str, float]) -> str:
    """Return the resources that a source line spent its time on, in order of decreasing time."""
    return ", ".join(f"{short(name)} {time:.2f}" for name, time in sorted(critical.items(), key=lambda pair: -pair[1]))


def _line_row(line: Any) -> Markup:
    cells = [
        element("th", line.place, scope="row"),
        cell(line.text, class_="code source"),
        cell(microseconds(line.critical_us), line.critical_us),
        cell(_spent(line.critical), class_="spent"),
        cell(microseconds(line.busy_us), line.busy_us),
        cell(f"{line.instructions:,}", line.instructions),
    ]
    return element("tr", cells)


def line_section(runs: Any) -> Markup | None:
    """Return the source lines of kernels with their critical time, or None if no launch has source lines."""
    headings: list[Heading] = [
        ("line", False), ("source", False), ("critical us", True), ("spent on", False), ("busy us", True),
        ("instructions", True),
    ]  # fmt: skip
    tables: list[Markup] = []
    for name, run in runs:
        rows = [_line_row(line) for line in run.lines[:SHOWN_LINES]]
        if rows:
            tables.append(table(f"{name}: {microseconds(run.latency_us)} us", headings, rows))
            tables += [element("p", f"Advice: {advice}.", class_="note") for advice in run.advice]
    return element("section", element("h2", "Line by line"), tables) if tables else None
