"""Render a launch as self-contained HTML for notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

from ..timing.by_line import describe_critical, describe_line
from ..timing.trace import place, title_of

WIDTH, ROW, LABEL = 960, 18, 130  # in pixels: width of the drawing, height of a row, width of the labels
SHOWN_LINES = 5
MOST_QUEUES = 4  # maximum number of DMA queues that are drawn; the figures include all queues
_COLOURS = {"tensor": "#2f6fb0", "vector": "#3a9a5c", "scalar": "#c07a1a", "gpsimd": "#8a5bb5", "dma": "#777777"}


def fragment(run: Any) -> str:
    """Render one launch: a line of figures, the timeline and utilization of every engine, and the slowest lines."""
    note = f'<div style="font-size:12px">{escape(run.note)}</div>' if run.note else ""
    memory = run.memory
    figures = (
        f"<b>{escape(run.name)}</b> on {run.target}: {run.latency_us:.1f} us predicted, bound by {run.bound_by}; "
        f"{len(run.program)} instructions, MFU {run.mfu:.1%}, {run.hbm_bytes:,} bytes of HBM, "
        f"{memory.sbuf_bytes:,} bytes of an SBUF partition, {memory.psum_banks} PSUM banks"
    )
    lines = "".join(f"<li>{escape(describe_line(line))}</li>" for line in run.lines[:SHOWN_LINES])
    lines += "".join(f'<li style="list-style:none">{escape(advice)}</li>' for advice in run.advice)
    shares = ", ".join(f"{name} {use.share:.0%}" for name, use in run.engines.items() if use.busy_ns)
    return (
        f'<div style="font-family:sans-serif;font-size:13px;color:#222;background:#fff"><div>{figures}</div>{note}'
        f"{_timeline(run)}<div>busy: {shares}</div><div>critical path: {escape(describe_critical(run))}</div>"
        f"<ol>{lines}</ol></div>"
    )


def _timeline(run: Any) -> str:
    """Render the timeline as an SVG with a row for every engine. Events less than a pixel apart are merged."""
    events = run.timeline
    launch = 1000 * run.launch_us
    end = 1000 * run.latency_us or 1.0
    scale = (WIDTH - LABEL) / end
    rows: dict[str, list[Any]] = {}
    for event in events:
        rows.setdefault(event.engine, []).append(event)
    names = [name for name in sorted(rows, key=place) if place(name)[3] < MOST_QUEUES]
    height = ROW * (len(names) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="timeline of {escape(run.name, quote=True)}">'
    ]
    for number, name in enumerate(names):
        top = number * ROW
        parts.append(f'<text x="0" y="{top + 13}" font-size="11">{escape(title_of(name))}</text>')
        colour = next((c for key, c in _COLOURS.items() if key in name), "#777777")
        for start, stop, label in _pieces(rows[name], scale, launch):
            parts.append(
                f'<rect x="{LABEL + start:.1f}" y="{top + 2}" width="{max(stop - start, 0.5):.1f}" height="{ROW - 4}" '
                f'fill="{colour}"><title>{escape(label)}</title></rect>'
            )
    parts.append(f'<text x="{LABEL}" y="{height - 4}" font-size="11">0</text>')
    parts.append(
        f'<text x="{WIDTH}" y="{height - 4}" font-size="11" text-anchor="end">{end / 1000:.1f} us</text></svg>'
    )
    return "".join(parts)


def _pieces(events: list[Any], scale: float, launch: float) -> list[tuple[float, float, str]]:
    """Return (left, right, title) for the events of one engine, in pixels, offset by `launch` nanoseconds."""
    pieces: list[tuple[float, float, str]] = []
    first, count, left, right = events[0], 0, 0.0, -2.0
    for event in events:
        start, stop = (launch + event.start_ns) * scale, (launch + event.end_ns) * scale
        if count and start - right < 1.0:
            count += 1
            right = max(right, stop)
            continue
        if count:
            pieces.append((left, right, _label(first, count)))
        first, count, left, right = event, 1, start, stop
    pieces.append((left, right, _label(first, count)))
    return pieces


def _label(event: Any, count: int) -> str:
    line = f", line {event.line[1]}" if event.line[0] else ""
    more = f" and {count - 1} more" if count > 1 else ""
    return f"{event.name or event.op}{more}: from {event.start_ns / 1000:.2f} us{line}"
