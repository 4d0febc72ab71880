"""Charts that require no script: the distribution of time, and the roofline."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .html_markup import Markup, element, fragment, microseconds, percent, quantity
from .resources import TITLES, by_size, title

if TYPE_CHECKING:
    from ...runtime.timing import LayerTiming
    from .report import LayerTable

_WIDTH, _HEIGHT = 960, 470
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 24, 20, 56
_PARTS = (0.55, 0.35, 0.75, 0.2)  # candidate positions of the label along a sloping roof, as fractions
RING = 1.1  # minimum ratio of executed FLOPs to model FLOPs at which both are drawn
_FP32_PASSES = 4  # passes of the PE array per float32 matmul (peak fp32 FLOPS in AWS's architecture guides)


def bound_class(layer: LayerTiming) -> str:
    """Return the CSS class for the resource that bounds a layer."""
    return layer.bound_by or "unknown"


def time_bar(table: LayerTable) -> Markup:
    """Return a bar of the time of a network, with one segment per layer, coloured by its bound."""
    total = table.total_us
    segments = []
    for layer in table.layers:
        share = layer.latency_us / total if total else 0.0
        bound = f", bound by {title(layer.bound_by)}" if layer.bound_by else ""
        segments.append(
            element(
                "span",
                element("span", layer.name) if share >= 0.06 else None,
                class_=f"segment {bound_class(layer)}",
                style=f"flex-grow:{max(share, 1e-6):.6f}",
                title=f"{layer.name}: {microseconds(layer.latency_us)} us, {percent(share)}{bound}",
            )
        )
    return element(
        "div",
        element("p", table.title, " ", element("b", f"{microseconds(total)} us"), class_="bar-title"),
        element("div", segments, class_="bar", role="img", aria_label=f"Shares of the layers of {table.title}"),
        resource_bar(table.critical) if table.critical else None,
        class_="bar-row",
    )


def resource_bar(critical: Mapping[str, float]) -> Markup:
    """Return a bar of the critical path, with one segment per resource, and a line of figures."""
    total = sum(critical.values()) or 1.0
    parts = by_size(critical)
    segments = [
        element(
            "span",
            class_=f"segment {name if name in TITLES else 'unknown'}",
            style=f"flex-grow:{max(time / total, 1e-6):.6f}",
            title=f"{title(name)}: {microseconds(time)} us, {percent(time / total)}",
        )
        for name, time in parts
    ]
    words = [
        element(
            "li",
            element("span", class_=f"swatch {name if name in TITLES else 'unknown'}"),
            f"{title(name)} {microseconds(time)} us",
        )
        for name, time in parts
    ]
    return fragment(
        element("div", segments, class_="bar thin", role="img", aria_label="Shares of the resources"),
        element("ul", element("li", "critical path:"), words, class_="legend"),
    )


def bound_legend(layers: Sequence[LayerTiming]) -> Markup:
    """Return a legend of the resources that bound the layers."""
    return resource_legend({bound_class(layer) for layer in layers}, "bound by")


def resource_legend(resources: Collection[str], lead: str = "colours") -> Markup:
    """Return a legend of the colours of resources, in the order of `TITLES`."""
    names = (*TITLES.items(), ("unknown", "none: overlapped by other rows, or unknown"))
    items = [element("li", element("span", class_=f"swatch {key}"), name) for key, name in names if key in resources]
    return element("ul", element("li", lead), items, class_="legend")


@dataclass(frozen=True)
class Roof:
    """A performance limit: in FLOP/s, or in bytes/s if `slope`."""

    name: str
    value: float
    slope: bool


@dataclass(frozen=True)
class Point:
    """A layer on the roofline: FLOP/byte, FLOP/s of the model, and FLOP/s executed by the PE array (0 if unknown)."""

    name: str
    intensity: float
    rate: float
    share: float
    layer: LayerTiming
    hardware_rate: float = 0.0


def roofs(target: str, dtype: str) -> tuple[Roof, ...]:
    """Return the limits of a NeuronCore: its PE array, HBM and 16 DMA engines (`simulator.timing.constants`)."""
    from ...simulator.machine.chip import PARTITIONS, TARGETS
    from ...simulator.timing.constants import machine

    constants = machine(target)
    peak = 2 * PARTITIONS**2 * TARGETS[target].tensor_ghz * 1e9
    limits = [Roof("PE array, 16 bits", peak, False)]
    if dtype == "float32":
        limits.append(Roof("PE array, float32", peak / _FP32_PASSES, False))
    return (
        *limits,
        Roof("HBM", constants.hbm_stack_rate * 1e9, True),
        Roof("16 DMA engines", constants.dma_sustained * 1e9, True),
    )


def points(tables: Sequence[LayerTable]) -> tuple[list[Point], list[str]]:
    """Return the layers that have both arithmetic and memory traffic, and the names of all other layers, which cannot
    be shown on the chart."""
    charted, without = [], []
    total = sum(table.total_us for table in tables)
    for name, layer in ((f"{table.prefix}{layer.name}", layer) for table in tables for layer in table.layers):
        span = layer.latency_us if layer.active_us is None else layer.active_us
        if not (layer.flops and layer.hbm_bytes and span):
            without.append(name)
            continue
        flops = min(layer.flops, layer.hardware_flops) if layer.mfu and layer.hardware_flops else layer.flops
        hardware = layer.hardware_flops / span * 1e6
        share = layer.latency_us / total if total else 0.0
        charted.append(Point(name, flops / layer.hbm_bytes, flops / span * 1e6, share, layer, hardware))
    return charted, without


def roofline(tables: Sequence[LayerTable], target: str, dtype: str, kind: str) -> Markup:
    """Return the roofline as SVG, with logarithmic axes: each layer is a circle whose area is its share of the time."""
    limits = roofs(target, dtype)
    layers, without = points(tables)
    axes = _Axes(layers, limits)
    marks = [*axes.grid()]
    circles = [  # smaller circles are drawn last
        (point, axes.x(point.intensity), axes.y(point.rate), 4 + 14 * math.sqrt(point.share))
        for point in sorted(layers, key=lambda point: -point.share)
    ]
    occupied = [(x - radius, y - radius, x + radius, y + radius) for _, x, y, radius in circles]
    crowd = [circle[1:] for circle in circles]
    crowd += [(x, axes.y(point.hardware_rate), 30.0) for point, x, *_ in circles if point.hardware_rate]
    marks += [axes.roof(roof, limits, crowd) for roof in limits]
    occupied += [
        (_WIDTH - _RIGHT - 200, y - 20, _WIDTH - _RIGHT, y) for y in (axes.y(r.value) for r in limits if not r.slope)
    ]
    labels = []
    ringed = [circle for circle in circles if circle[0].hardware_rate > RING * circle[0].rate]
    for point, x, y, _ in ringed:
        marks += _hardware_ring(point, x, y, axes.y(point.hardware_rate))
    for point, x, y, radius in circles:
        about = element("title", _describe(point, kind))
        classes = f"point {bound_class(point.layer)}"
        marks.append(element("circle", about, cx=f"{x:.1f}", cy=f"{y:.1f}", r=f"{radius:.1f}", class_=classes))
        box = _free_place(x, y, radius, 6.3 * len(point.name), occupied)
        if box is not None:
            occupied.append(box)
            labels.append(element("text", point.name, x=f"{box[0]:.1f}", y=f"{box[1] + 11:.1f}", class_="point-label"))
    svg = element(
        "svg", marks, labels, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img",
        aria_label=f"Roofline of {target} with {len(layers)} layers",
    )  # fmt: skip
    return element("figure", svg, element("figcaption", _caption(kind, without)), class_="roofline", tabindex=0)


def _caption(kind: str, without: Sequence[str]) -> str:
    """Explain the axes and marks of a roofline; `without` names the layers that are not on it."""
    caption = (
        f"Operations per second ({kind}, while the layer's own instructions run) against operations per byte of HBM "
        "traffic. The area of a circle is the layer's share of the time; a ring above it shows HFU, which counts all "
        "multiplications of the PE array. Layers under a sloping roof are bound by memory, those "
        "under a flat one by the PE array."
    )
    if without:
        caption += f" Without arithmetic or traffic, so not on the chart: {', '.join(without)}."
    return caption


def _hardware_ring(point: Point, x: float, y: float, high: float) -> tuple[Markup, Markup]:
    """Return the ring that marks a layer's hardware FLOP/s at height `high`, and the line from its circle to the
    ring."""
    color_class = bound_class(point.layer)
    line = element(
        "line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=f"{y:.1f}", y2=f"{high + 4:.1f}", class_=f"reach {color_class}"
    )
    return line, element("circle", cx=f"{x:.1f}", cy=f"{high:.1f}", r=4, class_=f"ring {color_class}")


def _describe(point: Point, kind: str) -> str:
    return (
        f"{point.name}: {quantity(point.rate, 'FLOP/s')}, {point.intensity:.3g} FLOP/byte, "
        f"{microseconds(point.layer.latency_us)} us {kind} ({percent(point.share)}), "
        f"MFU {percent(point.layer.mfu or 0.0)}, HFU {percent(point.layer.hfu or 0.0)}, "
        f"bound by {point.layer.bound_by or 'unknown'}"
    )


def _free_place(
    x: float, y: float, radius: float, width: float, taken: list[tuple[float, float, float, float]]
) -> tuple[float, float, float, float] | None:
    """Return a free area (left, top, right, bottom) for a label of this width next to its circle, or None if there is
    none."""
    for left, top in (
        (x + radius + 4, y - 7),
        (x - radius - 4 - width, y - 7),
        (x - width / 2, y - radius - 17),
        (x - width / 2, y + radius + 3),
    ):
        box = (left, top, left + width, top + 14)
        inside = left > _LEFT and box[2] < _WIDTH - _RIGHT and top > _TOP and box[3] < _HEIGHT - _BOTTOM
        if inside and all(box[2] < o[0] or box[0] > o[2] or box[3] < o[1] or box[1] > o[3] for o in taken):
            return box
    return None


class _Axes:
    """The axes of the chart, in FLOP/byte and FLOP/s; both ranges include all points and the ridge point."""

    def __init__(self, layers: Sequence[Point], limits: Sequence[Roof]) -> None:
        flat = [roof.value for roof in limits if not roof.slope]
        ridge = max(flat) / min(roof.value for roof in limits if roof.slope)
        # Show at least two decades to the left of the ridge and below the lowest flat roof, even if they contain few
        # layers.
        intensities = [*(point.intensity for point in layers), ridge / 100, ridge]
        rates = [*(point.rate for point in layers), *(p.hardware_rate for p in layers if p.hardware_rate)]
        rates += [min(flat) / 100, max(flat)]
        self.low = math.floor(math.log10(min(intensities)) - 0.05), math.floor(math.log10(min(rates)) - 0.05)
        self.high = math.log10(max(intensities)) + 0.9, math.log10(max(rates)) + 0.35

    def x(self, intensity: float) -> float:
        """Return the x coordinate."""
        share = (math.log10(intensity) - self.low[0]) / (self.high[0] - self.low[0])
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, rate: float) -> float:
        """Return the y coordinate."""
        share = (math.log10(rate) - self.low[1]) / (self.high[1] - self.low[1])
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def grid(self) -> list[Markup]:
        """Return the grid lines and labels at powers of ten."""
        marks = []
        right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
        for decade in range(self.low[0], math.floor(self.high[0]) + 1):
            x = f"{self.x(10.0**decade):.1f}"
            marks.append(element("line", x1=x, x2=x, y1=_TOP, y2=bottom, class_="grid"))
            marks.append(element("text", f"{10.0**decade:g}", x=x, y=bottom + 18, class_="tick", text_anchor="middle"))
        for decade in range(self.low[1], math.floor(self.high[1]) + 1):
            y = self.y(10.0**decade)
            marks.append(element("line", x1=_LEFT, x2=right, y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid"))
            label = quantity(10.0**decade, "")
            marks.append(element("text", label, x=_LEFT - 8, y=f"{y + 4:.1f}", class_="tick", text_anchor="end"))
        marks.append(
            element("text", "FLOP / byte of HBM traffic", x=right, y=_HEIGHT - 14, class_="title", text_anchor="end")
        )
        marks.append(element("text", "FLOP/s", x=8, y=_TOP - 4, class_="title"))
        return marks

    def roof(self, roof: Roof, limits: Sequence[Roof], circles: Sequence[tuple[float, float, float]]) -> Markup:
        """Return a roof as a line up to the highest roof of the other kind, with a label at a position not covered by
        circles."""
        peak = max(other.value for other in limits if not other.slope)
        highest = roof.value == max(other.value for other in limits if other.slope == roof.slope)
        if roof.slope:
            start = max(10.0 ** self.low[0], 10.0 ** self.low[1] / roof.value)
            end = min(peak / roof.value, 10.0 ** self.high[0])
            ends = (start, start * roof.value), (end, end * roof.value)
        else:
            fastest = max(other.value for other in limits if other.slope)
            start = max(roof.value / fastest, 10.0 ** self.low[0])
            ends = (start, roof.value), (10.0 ** self.high[0], roof.value)
        (x1, y1), (x2, y2) = ((self.x(x), self.y(y)) for x, y in ends)
        name = f"{roof.name}, {quantity(roof.value, 'B/s' if roof.slope else 'FLOP/s')}"
        line = element(
            "line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}",
            class_="roof" if highest else "roof lesser",
        )  # fmt: skip
        if not roof.slope:
            label = element("text", name, x=f"{x2 - 6:.1f}", y=f"{y1 - 6:.1f}", class_="roof-label", text_anchor="end")
        else:
            places = [(x1 + part * (x2 - x1), y1 + part * (y2 - y1)) for part in _PARTS]
            x, y = min(places, key=lambda place: _crowd(place, 3.2 * len(name), circles))
            angle = math.degrees(math.atan2(y2 - y1, x2 - x1))
            label = element(
                "text", name, x=f"{x:.1f}", y=f"{y + (-7 if highest else 16):.1f}", class_="roof-label",
                text_anchor="middle", transform=f"rotate({angle:.1f} {x:.1f} {y:.1f})",
            )  # fmt: skip
        return element("g", line, label)


def _crowd(place: tuple[float, float], reach: float, circles: Sequence[tuple[float, float, float]]) -> int:
    """Return the number of circles (x, y, radius) within a distance of `reach` from a point."""
    return sum(math.hypot(place[0] - x, place[1] - y) < reach + radius for x, y, radius in circles)
