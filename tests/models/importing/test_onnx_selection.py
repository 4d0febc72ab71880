"""The table of all boxes is found in graphs that select some of them, by scores or by overlaps."""

from __future__ import annotations

import pytest
from trninfer.models.importing.onnx_file import Graph, GraphInput, Node
from trninfer.models.importing.onnx_selection import outputs_before_selection


def graph(lines: str, *outputs: str) -> Graph:
    """Make a graph of lines such as "a, b = Split x"."""
    nodes = []
    for number, line in enumerate(lines.strip().splitlines()):
        made, (op, *read) = line.split("=")[0], line.split("=")[1].split()
        nodes.append(Node(op, str(number), tuple(read), tuple(name.strip() for name in made.split(",")), {}))
    return Graph("g", tuple(nodes), {}, (GraphInput("x", (1,), None),), outputs, frozenset(outputs), 20)


BODY = """
features = Conv x w
boxes = Conv features w1
scores = Sigmoid features
table = Concat boxes scores
"""
BY_SCORE = """
four, each = Split table
highest = ReduceMax each
top, places = TopK highest k
chosen = Gather four places
out = Concat chosen top
"""
BY_OVERLAP = """
rows = Transpose table
four = Slice rows
each = Slice rows
sure = Greater each limit
some = NonZero sure
kept_boxes = GatherND four some
kept_scores = GatherND each some
picked = NonMaxSuppression kept_boxes kept_scores
size = Shape x
room = ConstantOfShape size
found = Gather kept_boxes picked
out = ScatterND room found
"""


@pytest.mark.parametrize(("ending", "rows"), [(BY_SCORE, "table"), (BY_OVERLAP, "rows")])
def test_all_rows_replace_the_selected_ones(ending: str, rows: str) -> None:
    assert outputs_before_selection(graph(BODY + ending.strip(), "out")) == (rows,)
    with_masks = graph(BODY + "maps = Conv features w2" + ending, "maps", "out")
    assert outputs_before_selection(with_masks) == (rows, "maps")


def test_a_split_has_no_name_of_its_own() -> None:
    lines = "a = Conv x w\nb, c = Split a\nbest, place = TopK b k\nout = Gather c place"
    assert outputs_before_selection(graph(lines, "out")) == ("a",)


def test_nothing_is_selected() -> None:
    assert outputs_before_selection(graph(BODY, "table")) == ()
    assert outputs_before_selection(graph("out, place = TopK x k", "out")) == ()
