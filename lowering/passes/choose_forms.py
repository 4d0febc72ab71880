"""Choose the form of each convolution: the fastest form whose errors are permitted.

3x3 filters may be combined for minimal filtering. Depthwise convolutions may be computed in groups of rows,
elementwise, or with diagonal matrices that are created on the chip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...kernels.convolution.forms import (
    RESERVED_BYTES,
    Form,
    combined_elements,
    input_room,
    most_columns,
    rows_together,
)
from ...kernels.program import Convolution, Memory
from ...kernels.tiling.packing import Taps, ceil_div, tile_sizes
from ...simulator.machine.chip import PARTITIONS, PSUM_BANK_FLOATS
from ..decisions import Ask, Decisions, Kind, Option, Question, one_of
from ..graph.graph import Graph, Node
from .add_margins import with_wide_weights
from .base import Pass
from .pack_taps import foresee_taps, loaded_taps

COMBINED_BYTES = (28 * 1024, 12 * 1024)  # bytes of inputs combined together; two buffers of this size are live
FEWEST_MADE = 49  # if a filter has fewer taps, loading its diagonals is faster than creating them
MOST_MULTIPLIED = 1296  # maximum products of a channel in elementwise forms: 36 x 36 for 6 x 6 pixels
MOST_BYTES_BY_PIXELS = 2592  # of a channel's products; above this, row products are used if they are half as many
LEAST_SAVING = 20  # groups of rows are evaluated if they save at least this percentage of the matmul columns
FORM_GAIN = 1.03  # minimum speedup that justifies the errors of a form
ELEMENTWISE_GAIN = 1.2  # the same for elementwise forms: in a launch, loading matrices overlaps with earlier layers


class ChooseForms(Pass):
    """Chooses one of `forms`, or direct multiplication, for each convolution."""

    name = "choose_forms"
    needs = ("add_margins",)
    kinds = (Kind.FORM,)
    asks = True

    def __init__(self, forms: Sequence[Form]) -> None:
        self._forms = forms

    def apply(self, graph: Graph, decisions: Decisions, ask: Ask) -> Graph:
        """See `Pass`."""
        return choose_forms(graph, self._forms, ask)

    def near(self, graph: Graph, decisions: Decisions) -> Iterator[Decisions]:
        """See `Pass`. Each neighbour multiplies one filter directly instead."""
        for choice in decisions.choices:
            if choice.kind is Kind.FORM:
                yield decisions.without_choice(choice)


def choose_forms(graph: Graph, forms: Sequence[Form], ask: Ask) -> Graph:
    """Set the form of each convolution that supports one of `forms`."""
    for number, node in enumerate(graph.nodes):
        tried = [candidate for form in forms for candidate in _candidates(graph, node, form)]
        candidates = {each.operation: each for each in tried if each is not None}
        if candidates:
            options = [Option(None, {}), *(_option(number, node, each) for each in candidates.values())]
            question = Question(Kind.FORM, graph, number, options, (number,), foreseen=foresee_taps)
            graph = one_of(ask, question)
    return graph


def _candidates(graph: Graph, node: Node, form: Form) -> list[Node | None]:
    """For each buffer size, return the node in the given form, or None if the form does not support that size."""
    if form is Form.MADE:
        return [_with_made_diagonals(graph, node)]
    if form.is_elementwise:
        return [_by_products(graph, node, form)]
    if form.rows > 1:
        return [_in_row_blocks(graph, node, form)]
    wide = with_wide_weights(graph, node)
    return [] if wide is None else [_in_form(graph, wide, form, size) for size in COMBINED_BYTES]


def _option(number: int, node: Node, candidate: Node) -> Option:
    operation = candidate.convolution
    value = (operation.form.value, operation.group_bytes)
    gain = ELEMENTWISE_GAIN if operation.form.is_elementwise else FORM_GAIN
    return Option(value, {number: replace(candidate, direct=node.operation)}, gain)


def _in_row_blocks(graph: Graph, node: Node, form: Form) -> Node | None:
    """Return a depthwise node in groups of rows, or None if it does not support them, or if they save too few
    matmuls."""
    if not node.is_depthwise() or not _is_alone(graph, node):
        return None
    operation = node.convolution
    heights = graph.heights(operation.sources[0])
    changed = node.changed(form=form, taps=Taps(1, 1, heights[0]))
    geometry = changed.convolution.row_blocks(PARTITIONS)
    tiles = len(heights) * operation.kernel[0] * operation.rows
    grouped = len(geometry.blocks(heights)) * geometry.steps * geometry.out_groups
    is_worth = grouped * (100 + LEAST_SAVING) < 100 * tiles
    return changed if is_worth and heights == tile_sizes(operation.channels, PARTITIONS) else None


def _with_made_diagonals(graph: Graph, node: Node) -> Node | None:
    """Return a depthwise node with most of its diagonal matrices created on the chip, or None if it has few diagonals
    or few taps."""
    if not node.is_depthwise() or not _is_alone(graph, node):
        return None
    operation = node.convolution
    heights = graph.heights(operation.sources[0])
    taps = operation.kernel[0] * operation.kernel[1]
    if len(heights) < 2 or taps < FEWEST_MADE or heights != tile_sizes(operation.channels, PARTITIONS):
        return None
    return node.changed(form=Form.MADE, taps=Taps(1, 1, heights[0]))


def _by_products(graph: Graph, node: Node, form: Form) -> Node | None:
    """Return a depthwise node that is multiplied elementwise, or None if another form is better: by pixels for the
    smallest images, by rows of the filter for larger ones."""
    if not node.is_depthwise() or not _is_alone(graph, node):
        return None
    operation = node.convolution
    heights = graph.heights(operation.sources[0])
    best, count = _elementwise(node, graph.itemsize)
    if form is not best or count > MOST_MULTIPLIED:
        return None
    if heights != tile_sizes(operation.channels, PARTITIONS) or operation.bounds > 0:
        return None
    return node.changed(form=form, taps=Taps(1, 1, heights[0]))


def _elementwise(node: Node, itemsize: int) -> tuple[Form, int]:
    """Return the better elementwise form of a depthwise node, and the number of products of a channel in it."""
    operation = node.convolution
    outputs = operation.rows * operation.columns
    by_pixels = outputs * node.before[1] * node.before[2]
    by_rows = outputs * operation.kernel[0] * operation.kernel[1]
    is_worth = by_pixels * itemsize > MOST_BYTES_BY_PIXELS and 2 * by_rows <= by_pixels
    return (Form.ROW_PRODUCTS, by_rows) if is_worth else (Form.PRODUCTS, by_pixels)


def _is_alone(graph: Graph, node: Node) -> bool:
    """True if a node reads from and writes to SBUF, is not in 8 bits, has one image on the partitions, and has no
    addend."""
    operation = node.convolution
    if len(operation.sources) > 1 or operation.packed > 1 or graph.packed_in(node) > 1:
        return False
    if operation.is_scaled or operation.rows_at_once > 1 or operation.row_fold.count > 1 or operation.pool_size > 1:
        return False
    if (
        node.memory is not Memory.SBUF
        or node.output is not None
        or any(graph.is_in_hbm(part) for part in operation.sources[0])
    ):
        return False
    return not any(graph.nodes[part].operation.taps_load for part in operation.sources[0])


def _in_form(graph: Graph, node: Node, form: Form, combined_bytes: int) -> Node | None:
    """Return a node in a form, or None if it does not support the form."""
    operation = node.operation.convolved
    if operation is None or not operation.can_be_combined:
        return None
    source = operation.sources[0][0]
    if source >= 0 and graph.nodes[source].operation.taps_load is not None:
        return None
    loaded = graph.is_from_hbm(node)
    rows = graph.heights(operation.sources[0])
    taps = loaded_taps(graph, node) if loaded else Taps(1, 1, rows[0])  # there are no copies of combined inputs
    wide = operation.outputs_at_once[1]
    if taps.columns > 1 or taps.rows >= operation.kernel[0] > 1:
        return None
    if ceil_div(wide, 2) > most_columns(form, PSUM_BANK_FLOATS):
        return None
    if form is Form.SQUARES and (operation.kernel[0] != 3 or taps.rows > 1):
        return None
    if loaded and not _fits_loaded(operation, form, len(rows) * graph.itemsize):
        return None
    if not loaded and combined_bytes > COMBINED_BYTES[-1] and _all_combined(graph, node, form) <= COMBINED_BYTES[-1]:
        return None  # everything fits in the smaller buffer
    return node.changed(
        form=form, padding=operation.widest_zeros(operation), group_bytes=operation.group_bytes or combined_bytes
    )


def _fits_loaded(operation: Convolution, form: Form, element_bytes: int) -> bool:
    """True if the buffer of an input in HBM can hold a few input rows, combined twice, and the output rows.

    `element_bytes`: the bytes of one element in all tiles.
    """
    together = rows_together(form, operation.pool_size)
    rows = (together + operation.kernel[0]) * input_room(form) + together
    needed = rows * (operation.outputs_at_once[1] + 3) * element_bytes
    return needed <= (operation.group_bytes - RESERVED_BYTES) // 2


def _all_combined(graph: Graph, node: Node, form: Form) -> int:
    """Return the bytes per partition of the combined inputs of a whole image."""
    operation = node.convolution
    elements = combined_elements(form, operation.outputs_at_once, operation.kernel[0])
    return len(graph.heights(operation.sources[0])) * elements * graph.itemsize
