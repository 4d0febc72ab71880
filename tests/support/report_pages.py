"""Reports with one or two rows, runs with a few events, and pages as elements."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from types import SimpleNamespace

from trninfer.app.reports.report import LayerTable, Report
from trninfer.runtime.timing import LayerTiming

VOID = {"meta"}


class Page(HTMLParser):
    """A page as elements, which must be nested correctly; `text` is the visible text, and `scripts` contains the
    code."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(source)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> in {self.open}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif "style" not in self.open:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of all elements of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    def data(self) -> dict:
        """Return the timeline's data."""
        return json.loads(self.scripts[0])


def layer(name: str = "conv", **changes) -> LayerTiming:
    """Return a row of 10 us, bound by the Tensor Engine."""
    values = {
        "name": name, "kernel": "fused_conv2d_maxpool_packed", "input_shape": (1, 3, 8, 8),
        "output_shape": (1, 4, 4, 4), "flops": 4_000_000, "hbm_bytes": 20_000, "latency_us": 10.0,
        "latency_us_p99": None, "share": 1.0, "bound_by": "tensor", "mfu": 0.25,
    }  # fmt: skip
    return LayerTiming(**{**values, **changes})


def make_report(*layers: LayerTiming, **changes) -> Report:
    """Return a report on one network."""
    report = Report("bench", "net", "sim", "trn2", "float32", "predicted")
    report.tables = [LayerTable("net: a batch of 1", "", layers or (layer(),))]
    for key, value in changes.items():
        setattr(report, key, value)
    return report


def event(engine: str, start: float, end: float, op: str = "op") -> SimpleNamespace:
    """Return an event of a run."""
    return SimpleNamespace(
        engine=engine, op=op, start_ns=start, end_ns=end, name="", line=("/a/b/kernels/x.py", 7), bytes=8, flops=3
    )


def make_run(*events: SimpleNamespace, latency_us: float = 20.0) -> SimpleNamespace:
    """Return a run with a launch overhead of 10 us."""
    return SimpleNamespace(parts=None, launch_us=10.0, latency_us=latency_us, timeline=events)
