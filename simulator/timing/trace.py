"""Timelines as Chrome trace JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

A track for each engine, one for DMA triggers, and as many for loads and for stores as are under way at a time: events
of one track never overlap. Times are microseconds; the source line of the kernel is in `args`.
"""

from __future__ import annotations

import heapq
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ENGINES = ("tensor", "vector", "scalar", "gpsimd")
TITLES = {"tensor": "Tensor Engine", "vector": "Vector Engine", "scalar": "Scalar Engine", "gpsimd": "GpSimd Engine"}
TRIGGER, FIRST_LOAD, FIRST_STORE = 10, 100, 1000  # track numbers: they order the tracks


def chrome_trace(launches: Iterable[tuple[str, float, Sequence[Any]]]) -> dict[str, Any]:
    """A trace of (name, microseconds of launch before the kernel's work, timeline) after each other."""
    events: list[dict[str, Any]] = []
    titles = {number: TITLES[name] for number, name in enumerate(ENGINES)}
    titles[TRIGGER] = "DMA triggers"
    clock = 0.0
    for name, launch, timeline in launches:
        begin = clock + launch
        last = max([event.done_ns for event in timeline], default=0.0) / 1000
        events.append(_span(name, -1, clock, begin + last - clock, {}))
        lanes: dict[int, list[tuple[float, int]]] = {FIRST_LOAD: [], FIRST_STORE: []}
        for event in timeline:
            start, end, done = (begin + t / 1000 for t in (event.start_ns, event.end_ns, event.done_ns))
            details = _details(event)
            if event.engine != "dma":
                events.append(_span(event.name or event.op, ENGINES.index(event.engine), start, end - start, details))
                continue
            events.append(_span(event.name or event.op, TRIGGER, start, end - start, details))
            first = FIRST_LOAD if event.load else FIRST_STORE
            track = _lane(lanes[first], end, done, first)
            titles[track] = f"DMA {'load' if event.load else 'store'} queue {track - first}"
            events.append(_span(event.name or event.op, track, end, done - end, details))
        clock = begin + last
    titles[-1] = "Kernel"
    return {"displayTimeUnit": "ns", "traceEvents": [*_metadata(titles), *events]}


def write(path: Path, launches: Iterable[tuple[str, float, Sequence[Any]]]) -> None:
    """Write a trace file, whole or not at all."""
    text = json.dumps(chrome_trace(launches), separators=(",", ":"))
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _lane(free: list[tuple[float, int]], start: float, end: float, first: int) -> int:
    """A track of its kind that is free from `start` on."""
    if free and free[0][0] <= start:
        track = heapq.heappop(free)[1]
    else:
        track = first + len(free)
    heapq.heappush(free, (end, track))
    return track


def _span(name: str, track: int, start: float, duration: float, details: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": 1, "tid": track + 2, "ts": round(start, 4), "dur": round(duration, 4),
            "args": details}


def _details(event: Any) -> dict[str, Any]:
    details: dict[str, Any] = {"line": f"{event.line[0]}:{event.line[1]}", "result after ns": round(event.done_ns - event.start_ns, 1)}
    if event.bytes:
        details["bytes"] = event.bytes
    if event.flops:
        details["flops"] = event.flops
    return details


def _metadata(titles: dict[int, str]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "NeuronCore (predicted)"}}]
    for track, title in sorted(titles.items()):
        events.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": track + 2, "args": {"name": title}})
        events.append({"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": track + 2, "args": {"sort_index": track}})
    return events
