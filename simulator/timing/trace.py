"""Write timelines as Chrome trace JSON, which can be opened in Perfetto (ui.perfetto.dev) and chrome://tracing.

There is one track for each engine and DMA queue. Times are in microseconds, and `args` contains the kernel's source
line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..machine.atomic_file import replacing
from .critical_path import Step

TITLES = {
    "launch": "Launch",
    "part": "Layers",
    "critical": "Critical path",
    "tensor": "Tensor Engine",
    "vector": "Vector Engine",
    "scalar": "Scalar Engine",
    "gpsimd": "GpSimd Engine",
}
ORDER = tuple(TITLES)  # order of the tracks from the top; DMA queues follow


Launches = Iterable[tuple[str, float, Sequence[Any], Sequence[tuple[str, float, float]], Sequence[Step]]]


def _span_of_step(step: Any, begin: float) -> dict[str, Any]:
    """Return the span of a critical-path step in a launch that begins at `begin` microseconds."""
    details = {"instruction": step.name or step.op, "waited for": step.waited or "nothing"}
    details |= {"line": f"{step.line[0]}:{step.line[1]}"} if step.line[0] else {}
    return _span(step.resource, begin + step.start_ns / 1000, (step.end_ns - step.start_ns) / 1000, details)


def chrome_trace(launches: Launches) -> dict[str, Any]:
    """Return a trace of consecutive launches.

    Each launch consists of a name, the launch overhead in microseconds, a timeline, the spans of its layers (if any) as
    (name, start_ns, end_ns), and the steps of its critical path, which the trace names after their resources.
    """
    spans: list[tuple[str, dict[str, Any]]] = []
    clock = 0.0
    for name, launch, timeline, parts, steps in launches:
        begin = clock + launch
        end = begin + max([event.done_ns for event in timeline], default=0.0) / 1000
        spans.append(("launch", _span(name, clock, end - clock, {"launch us": launch})))
        for part, first, last in parts:
            spans.append(("part", _span(part, begin + first / 1000, (last - first) / 1000, {})))
        spans += [("critical", _span_of_step(step, begin)) for step in steps]
        for event in timeline:
            start, length = begin + event.start_ns / 1000, (event.end_ns - event.start_ns) / 1000
            spans.append((event.engine, _span(event.name or event.op, start, length, _details(event))))
        clock = end
    tracks = {track: number for number, track in enumerate(sorted({track for track, _ in spans}, key=place), 1)}
    for track, span in spans:
        span["tid"] = tracks[track]
    return {"displayTimeUnit": "ns", "traceEvents": [*_metadata(tracks), *[span for _, span in spans]]}


def write(path: Path, launches: Launches) -> None:
    """Write a trace file atomically."""
    text = json.dumps(chrome_trace(launches), separators=(",", ":"))
    with replacing(path) as file:
        file.write(text.encode())


def place(track: str) -> tuple[str, int, str, int]:
    """Return the sort key of a track: the launch, then each core's engines, then the DMA queues."""
    core, rest = (track[:6], track[7:]) if track.startswith("core ") else ("", track)
    if rest in ORDER:
        return core, ORDER.index(rest), "", 0
    kind, number = rest.rsplit(" ", 1)
    return core, len(ORDER), kind, int(number)


def title_of(track: str) -> str:
    """Return the title of a track: the name of the engine, prefixed with the core if there are two cores."""
    core, rest = (track[:7], track[7:]) if track.startswith("core ") else ("", track)
    return core + TITLES.get(rest, rest.replace("dma", "DMA"))


def _span(name: str, start: float, duration: float, details: dict[str, Any]) -> dict[str, Any]:
    # Each boundary is rounded only once, so that consecutive events remain adjacent.
    begin, end = round(start, 4), round(start + duration, 4)
    return {"ph": "X", "name": name, "pid": 1, "ts": begin, "dur": round(end - begin, 4), "args": details}


def _details(event: Any) -> dict[str, Any]:
    details: dict[str, Any] = {"ready after ns": round(event.done_ns - event.start_ns, 1)}
    if event.line[0]:
        details["line"] = f"{event.line[0]}:{event.line[1]}"
    if event.issued_ns != event.start_ns:
        details["triggered before ns"] = round(event.start_ns - event.issued_ns, 1)
    if event.bytes:
        details["bytes"] = event.bytes
    if event.flops:
        details["flops"] = event.flops
    return details


def _metadata(tracks: dict[str, int]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "NeuronCore (predicted)"}}
    ]
    for track, number in tracks.items():
        title = title_of(track)
        events.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": {"name": title}})
        events.append({"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": number, "args": {"sort_index": number}})
    return events
