"""Place values that do not fit in SBUF: run regions of nodes in bands of rows, and keep large values in HBM.

A node is a border if its value is the only one that later nodes read from it and from the nodes before it. A region
consists of the nodes between two borders. If these nodes cannot all run in bands, it is the longest run of nodes whose
last value is the only one that other nodes read. The inner values of a region exist only band by band. The values at
its two ends are whole: in SBUF if they are small, otherwise in HBM. A region whose bands would recompute too many halo
rows is split in two, with a value in HBM between the halves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from ...kernels.convolution.forms import Form
from ...kernels.program import Memory
from ..decisions import Choice, Decisions, Kind
from ..emission.bands import BandPlan, can_band, is_by_row
from ..emission.emit import BAND_UNIT, band_rows
from ..emission.schedule import Region, Schedule, region_choice, regions_of
from ..graph.graph import Graph, Node, Unsupported
from ..passes.choose_forms import COMBINED_BYTES
from ..passes.split_means import is_of_whole_image
from ..pipeline import LaunchPlan
from .footprint import Footprint

PLACED = (Kind.BANDS, Kind.SPILL)
BANDS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
MOST_AGAIN = 1.5  # maximum work of a region including halos, relative to the work without bands
SHARE = 3  # a whole value at the end of a region may occupy up to 1 / SHARE of the budget


def make_smaller(
    plan: LaunchPlan, footprint: Footprint, refused: list[Choice], budget_bytes: int
) -> tuple[Decisions, list[Choice]]:
    """Return decisions that reduce the SBUF usage of a launch with one image per pass, and a list of rejected choices.

    Raises Unsupported if nothing is left to try.
    """
    needed, fullest = footprint.peak
    number, graph, decisions = _reader(plan, fullest), plan.graph, plan.decisions
    node = graph.nodes[number]
    operation = node.operation.convolved
    region = Schedule.of(decisions, graph).region_of(number)
    if region is None and operation is not None and operation.form is not Form.DIRECT:
        group_bytes = operation.group_bytes
        sizes = COMBINED_BYTES if operation.form.is_minimal and group_bytes not in COMBINED_BYTES else (group_bytes,)
        return decisions, [*refused, *(Choice(Kind.FORM, node.id, (operation.form.value, size)) for size in sizes)]
    if graph.packed == 1:
        spilled = _spill(plan, footprint, budget_bytes) if region else None
        new_decisions = spilled or (
            _more_bands(graph, decisions, region) if region else _new_region(graph, decisions, number, budget_bytes)
        )
        if new_decisions is None and not decisions.value(Kind.SPLIT_MEANS) and any(map(is_of_whole_image, graph.nodes)):
            new_decisions = decisions.without(*PLACED).having(Choice(Kind.SPLIT_MEANS))
        if new_decisions is not None:
            return new_decisions, []
    raise Unsupported(
        f"layer {node.name!r} ({node.kind}) needs {needed // 1024} KiB of an SBUF partition; "
        f"{budget_bytes // 1024} are available"
    )


def _reader(plan: LaunchPlan, number: int) -> int:
    """Return the node of an operation; for a load, the node that reads it."""
    operations, nodes = plan.program.operations, plan.emitted.nodes
    if operations[number].is_load:
        later = enumerate(operations[number + 1 :], number + 1)
        return next((nodes[n] for n, other in later if any(number in parts for parts in other.sources)), nodes[number])
    return nodes[number]


def borders(graph: Graph) -> list[int]:
    """Return the borders of a graph, as defined above."""
    last = graph.last_readers()
    numbers, furthest = [], -1
    for number in range(len(graph.nodes)):
        if furthest <= number:
            numbers.append(number)
        furthest = max(furthest, last.get(number, number))
    return numbers


def _new_region(graph: Graph, decisions: Decisions, number: int, budget_bytes: int) -> Decisions | None:
    """Return decisions with a region around a node, or None if its operations cannot run in bands."""
    large = budget_bytes // SHARE
    region = _between_borders(graph, decisions, number, large) or _closed_run(graph, decisions, number)
    if region is None:
        return None
    first, end = region
    read = {part for node in graph.nodes[first:end] for parts in node.sources for part in parts if 0 <= part < first}
    written = {end - 1} if end < len(graph.nodes) else set()
    in_hbm = {n for n in read | written if whole_bytes(graph, n) > large}
    regions = [*regions_of(decisions, graph), Region(first, end, BANDS[0])]
    return _placed(graph, decisions, regions, in_hbm)


def _placed(graph: Graph, decisions: Decisions, regions: Iterable[Region], in_hbm: Iterable[int]) -> Decisions:
    """Return decisions with different regions, and with additional values in HBM."""
    spilled = (Choice(Kind.SPILL, graph.nodes[n].id) for n in in_hbm)
    return decisions.without(Kind.BANDS).having(*(region_choice(graph, region) for region in regions), *spilled)


def _between_borders(graph: Graph, decisions: Decisions, number: int, large: int) -> tuple[int, int] | None:
    """Return the nodes [first, end) between the borders around a node, extended beyond borders whose values are
    large."""
    ends = borders(graph)
    in_regions = _in_regions(graph, decisions)

    def is_free(first: int, last: int) -> bool:
        return can_run_in_bands(graph, first, last + 1) and in_regions.isdisjoint(range(first, last + 1))

    def start_of(node: int) -> int:
        return max((border for border in ends if border < node), default=-1) + 1

    first, end = start_of(number), next((border for border in ends if border >= number), None)
    if end is None or not is_free(first, end):
        return None
    while first > 0 and whole_bytes(graph, first - 1) > large and is_free(start_of(first - 1), end):
        first = start_of(first - 1)
    for after in (border for border in ends if border > end):
        if whole_bytes(graph, end) <= large or not is_free(first, after):
            break
        end = after
    return first, end + 1


def _closed_run(graph: Graph, decisions: Decisions, number: int) -> tuple[int, int] | None:
    """Return the longest run of nodes [first, end) around a node that can run in bands and whose last value is the only
    one that other nodes read, or None if there is no such run."""
    in_regions, last = _in_regions(graph, decisions), graph.last_readers()

    def can_be_in(n: int) -> bool:
        return n not in in_regions and can_run_in_bands(graph, n, n + 1)

    if not can_be_in(number):
        return None
    first, end = number, number + 1
    while first > 0 and can_be_in(first - 1) and graph.nodes[first - 1].output is None:
        first -= 1
    while end < len(graph.nodes) and can_be_in(end) and graph.nodes[end - 1].output is None:
        end += 1
    for start in range(first, number + 1):
        for stop in range(end, number, -1):
            if _is_closed(last, start, stop):
                return start, stop
    return None


def _is_closed(last: dict[int, int], first: int, end: int) -> bool:
    """True if other nodes read only the last of nodes [first, end); `last`: the last consumer of each node."""
    return all(last.get(n, n) < end for n in range(first, end - 1))


def _in_regions(graph: Graph, decisions: Decisions) -> set[int]:
    return {n for region in regions_of(decisions, graph) for n in range(region.first, region.end)}


def _spill(plan: LaunchPlan, footprint: Footprint, budget_bytes: int) -> Decisions | None:
    """Return decisions that move the largest whole value at the SBUF peak to HBM, or None if whole values leave enough
    memory for bands."""
    graph, decisions = plan.graph, plan.decisions
    schedule = Schedule.of(decisions, graph)
    whole_values: dict[int, int] = {}
    for number, size in footprint.values_at_peak.items():
        node = footprint.node_of(number)
        region = schedule.region_of(node)
        is_value = not graph.nodes[node].operation.is_load
        if is_value and graph.nodes[node].memory is Memory.SBUF and (region is None or region.end == node + 1):
            whole_values[node] = whole_values.get(node, 0) + size
    if sum(whole_values.values()) <= budget_bytes // 2:
        return None
    largest = max(whole_values, key=lambda node: whole_values[node])
    return _placed(graph, decisions, schedule.regions, [largest])


def _more_bands(graph: Graph, decisions: Decisions, region: Region) -> Decisions | None:
    """Return decisions with more bands for a region, or with two regions if more bands would recompute too many rows.
    Return None if there are too few rows for more bands."""
    rows = graph.nodes[region.end - 1].operation.rows
    more = [replace(region, bands=n) for n in BANDS if n > region.bands and rows > BAND_UNIT * (n - 1)]
    if not more or computed_again(graph, more[0]) > MOST_AGAIN:
        cut = cut_region(graph, decisions, region)
        if cut is not None:
            return cut
    if not more:
        return None
    return decisions.having(region_choice(graph, more[0]))


def cut_region(graph: Graph, decisions: Decisions, region: Region) -> Decisions | None:
    """Return decisions with a region split in two at the smallest possible value, which is then kept in HBM, or None if
    the region cannot be split."""
    last = graph.last_readers()
    cuts = [n for n in range(region.first, region.end - 1) if _is_closed(last, region.first, n + 1)]
    if not cuts:
        return None
    cut = min(cuts, key=lambda n: whole_bytes(graph, n))
    halves = (Region(region.first, cut + 1, BANDS[0]), Region(cut + 1, region.end, BANDS[0]))
    others = [other for other in regions_of(decisions, graph) if other != region]
    return _placed(graph, decisions, [*others, *halves], [cut])


def computed_again(graph: Graph, region: Region) -> float:
    """Return the work of a band in the middle of a region, including its halo rows, relative to its share of the
    rows."""
    rows = graph.nodes[region.end - 1].operation.rows
    bands = list(band_rows(rows, region.bands))
    plan = BandPlan(graph, region.first, region.end, bands[len(bands) // 2])
    work = total = 0.0
    for number, (first, end) in plan.rows.items():
        operation = graph.nodes[number].operation
        products = operation.columns * math.prod(getattr(operation, "kernel", (1, 1)))
        work += (end - first) * products
        total += operation.rows * products
    return work * len(bands) / total


def can_run_in_bands(graph: Graph, first: int, end: int) -> bool:
    """True if nodes [first, end) can run band by band and the launch returns none of their values except the last."""
    nodes = graph.nodes[first:end]
    return (
        all(can_band(node) for node in nodes)
        and all(node.output is None for node in nodes[:-1])
        and all(_reads_by_row(graph, node, first) for node in nodes)
    )


def _reads_by_row(graph: Graph, node: Node, first: int) -> bool:
    """Return True if a node of the region that begins at `first` reads every value of the region row by row."""
    return all(
        part < first or is_by_row(graph, node, part, operand)
        for operand, parts in enumerate(node.sources)
        for part in parts
    )


def whole_bytes(graph: Graph, number: int) -> int:
    """Return the bytes per partition of a node's whole value, for one image."""
    operation = graph.nodes[number].operation
    return len(graph.heights((number,))) * operation.rows * operation.columns * graph.itemsize
