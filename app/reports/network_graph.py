"""`bench --graph`: draw a network from top to bottom, with layers coloured by time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...inference import palette
from ...models.checks import INPUT
from ...models.network import Network
from ..text import printable
from .html_markup import Markup, element, fragment, microseconds
from .report import LayerTable

_WIDTH, _HEIGHT, _DOWN, _GAP, _LANE, _EDGE, _TOP = 216, 58, 30, 18, 16, 24, 64
_LETTERS = 30  # maximum length of a label, so that it fits into a box
_LIGHT, _DARK = palette.SURFACES_LIGHT, palette.SURFACES_DARK
# Renderers that ignore style sheets use the light colours in the attributes.
_STYLE = (
    "@media screen and (prefers-color-scheme: dark) {"
    f" .back {{ fill: {_DARK['card']} }} text {{ fill: {_DARK['ink']} }}"
    f" .edge, .box {{ stroke: {_DARK['faint']} }}"
    f" .box {{ fill: color-mix(in srgb, {_DARK['heat']} var(--warmth), {_DARK['line']}) }} }}"
)

Slot = tuple[str, str, int]  # a layer ("", name, 0), or an edge crossing a row: (reader, layer read, row)


@dataclass(frozen=True)
class GraphTitle:
    """The title above a drawn network; `kind` is "predicted" or "measured"."""

    kind: str
    target: str
    dtype: str
    batch_size: int


def render_graph(network: Network, table: LayerTable, title: GraphTitle) -> str:
    """Return an SVG of the network; each layer shows its name, its kind, the shape of one example, and its time in
    microseconds."""
    times = {row.name: row.latency_us for row in table.layers}
    names = {INPUT, *(layer.name for layer in network.layers)}
    rows = _arrange(network)
    places = _places(rows)
    width = max(640.0, 2 * _EDGE + max(_row_width(row) for row in rows))
    height = _TOP + len(rows) * (_HEIGHT + _DOWN) + _EDGE
    others = sum(time for name, time in times.items() if name not in names)
    unit = f"us {title.kind}"
    lead = f"{network.name}: a batch of {title.batch_size} in {title.dtype} on {title.target}"
    total = f"{microseconds(table.total_us)} {unit} in all, {microseconds(others)} of them not attributed to a layer"
    edges = [_edge(layer.name, read, rows, places, width) for layer in network.layers for read in layer.inputs]
    shapes, kinds = network.shapes(), {INPUT: "input", **{layer.name: layer.kind for layer in network.layers}}
    boxes = []
    for name, kind in kinds.items():
        x, y = places["", name, 0]
        shape = "x".join(map(str, shapes[name]))
        boxes.append(_box((x + width / 2, y), (name, f"{kind} {shape}"), times.get(name), _warmest(times, names), unit))
    style = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {width:.0f} {height:.0f}", "width": f"{width:.0f}"}
    head = [
        element("title", f"{lead}, {total}"),
        element("style", _STYLE),
        element("rect", width="100%", height="100%", fill=_LIGHT["card"], class_="back"),
        element("text", lead, x=_EDGE, y=26, font_size=15, font_weight="bold"),
        element("text", total, x=_EDGE, y=46),
    ]
    return element(
        "svg",
        head,
        edges,
        boxes,
        **style,
        height=height,
        font_family="system-ui, 'DejaVu Sans', sans-serif",
        font_size=12,
        fill=_LIGHT["ink"],
    )


def _warmest(times: Mapping[str, float], names: set[str]) -> float:
    return max((time for name, time in times.items() if name in names), default=0.0)


def _arrange(network: Network) -> list[list[Slot]]:
    """Return rows of layers, each below all of its inputs, with a lane in every row that an edge crosses. The slots of
    a row are ordered by the mean position of their inputs."""
    ranks = {INPUT: 0}
    rows: dict[int, list[Slot]] = {0: [("", INPUT, 0)]}
    above: dict[Slot, list[Slot]] = {}
    for layer in network.layers:
        rank = ranks[layer.name] = 1 + max(ranks[read] for read in layer.inputs)
        slot: Slot = ("", layer.name, 0)
        rows.setdefault(rank, []).append(slot)
        above[slot] = []
        for read in dict.fromkeys(layer.inputs):
            previous: Slot = ("", read, 0)
            for between in range(ranks[read] + 1, rank):
                lane: Slot = (layer.name, read, between)
                rows.setdefault(between, []).append(lane)
                above[lane] = [previous]
                previous = lane
            above[slot].append(previous)
    arranged = [rows[0]]
    for rank in range(1, len(rows)):
        xs = _centres(arranged[-1])
        middles = {slot: sum(xs[neighbour] for neighbour in above[slot]) / len(above[slot]) for slot in rows[rank]}
        arranged.append(sorted(rows[rank], key=middles.__getitem__))
    return arranged


def _row_width(row: list[Slot]) -> float:
    return sum(_LANE if slot[0] else _WIDTH for slot in row) + _GAP * (len(row) - 1)


def _centres(row: list[Slot]) -> dict[Slot, float]:
    """Return the centre of each slot, relative to the centre of the row."""
    centres, x = {}, -_row_width(row) / 2
    for slot in row:
        wide = _LANE if slot[0] else _WIDTH
        centres[slot] = x + wide / 2
        x += wide + _GAP
    return centres


def _places(rows: list[list[Slot]]) -> dict[Slot, tuple[float, float]]:
    """Return the coordinates of the centre of each slot's top edge."""
    return {
        slot: (x, _TOP + rank * (_HEIGHT + _DOWN)) for rank, row in enumerate(rows) for slot, x in _centres(row).items()
    }


def _edge(
    reader: str, read: str, rows: list[list[Slot]], places: Mapping[Slot, tuple[float, float]], width: float
) -> Markup:
    """Return the path from a layer down through its lanes to a layer that reads it."""
    x, y = places["", read, 0]
    words = [f"M{x + width / 2:.1f} {y + _HEIGHT:.0f}"]
    start = x
    lanes = [places[reader, read, rank] for rank in range(len(rows)) if (reader, read, rank) in places]
    for stop, top in [*lanes, places["", reader, 0]]:
        a, b, half = start + width / 2, stop + width / 2, _DOWN / 2
        words.append(f"C{a:.1f} {top - half:.0f} {b:.1f} {top - half:.0f} {b:.1f} {top:.0f}V{top + _HEIGHT:.0f}")
        start = stop
    path = " ".join(words).rpartition("V")[0]  # the path ends at the top of the layer that reads it
    return element("path", d=path, fill="none", stroke=_LIGHT["faint"], stroke_width=1.2, class_="edge")


def _box(place: tuple[float, float], labels: tuple[str, str], time: float | None, most: float, unit: str) -> Markup:
    x, y = place
    warmth = (time or 0.0) / most if most else 0.0
    cold, hot = palette.rgb(_LIGHT["page"]), palette.rgb(_LIGHT["heat"])
    red, green, blue = (round(low + (high - low) * warmth) for low, high in zip(cold, hot))
    time_text = "no separate time" if time is None else f"{microseconds(time)} {unit}"
    lines = [*labels, time_text]
    return element(
        "g",
        element("title", ", ".join(lines)),
        element(
            "rect", x=f"{x - _WIDTH / 2:.1f}", y=f"{y:.0f}", width=_WIDTH, height=_HEIGHT, rx=6,
            fill=f"#{red:02x}{green:02x}{blue:02x}", stroke=_LIGHT["faint"], class_="box",
            style=f"--warmth: {100 * warmth:.0f}%",
        ),
        [
            element(
                "text", _fitted(line), x=f"{x:.1f}", y=f"{y + 18 + 16 * number:.0f}", text_anchor="middle",
                font_weight="bold" if number == 0 else None,
            )
            for number, line in enumerate(lines)
        ],
    )  # fmt: skip


def _fitted(text: str) -> Markup:
    label = printable(text)
    return fragment(label if len(label) <= _LETTERS else f"{label[: _LETTERS - 1]}\u2026")
