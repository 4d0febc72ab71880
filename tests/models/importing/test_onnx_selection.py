"""The table of all boxes is found in graphs that select boxes by scores or overlaps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_chain import Chain
from trninfer.models.boxes import BoxHead
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network
from trninfer.models.importing.onnx_file import Graph, GraphInput, Node
from trninfer.models.importing.onnx_selection import ignores_classes, outputs_before_selection


def graph(lines: str, *outputs: str) -> Graph:
    """Build a graph from lines such as "a, b = Split x"."""
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


# As Ultralytics writes them: with nms=True, for oriented boxes with nms=True, and end to end.
CLASSES = f"""{BODY.strip()}
each = Slice table
four = Slice table
sure = ReduceMax each
kinds = ArgMax each
"""
OVERLAPS = """picked = NonMaxSuppression compared sure
out = Concat four sure kinds picked
"""
ORIENTED = """order = TopK sure
matrix = Gather compared order
picked = NonZero matrix
out = Concat four sure kinds picked
"""
ENDED = """best, places = TopK sure
out = Gather four kinds best places
"""


@pytest.mark.parametrize(
    ("by_class", "regardless"),
    [
        ("compared = Add four kinds\n" + OVERLAPS, "compared = Mul four w\n" + OVERLAPS),
        ("compared = Add four kinds\n" + ORIENTED, "compared = Mul four w\n" + ORIENTED),
        (BY_SCORE, ENDED),
        ("picked = NonMaxSuppression four each\nout = Gather four picked", "compared = Mul four w\n" + OVERLAPS),
    ],
)
def test_whether_boxes_are_selected_by_class(by_class: str, regardless: str) -> None:
    assert not ignores_classes(graph(CLASSES + by_class.strip(), "out"))
    assert ignores_classes(graph(CLASSES + regardless.strip(), "out"))
    assert not ignores_classes(graph(BODY.strip(), "table"))


def test_several_selected_outputs_have_the_same_rows() -> None:
    lines = BODY + BY_SCORE.strip() + "\nothers = Relu features"
    assert outputs_before_selection(graph(lines, "chosen", "top", "others")) == ("table", "others")


@pytest.mark.parametrize("width", [7, 6])
def test_a_graph_that_suppresses_boxes_is_imported_up_to_their_table(width: int, tmp_path: Path) -> None:
    """As in end-to-end exports of YOLOv5 and v7; other rows cannot be imported without suppression."""
    chain = Chain(3, 32, 32)
    chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = 1
    levels = []
    for stride in (8, 16, 32):
        chain.add("Conv", chain.weight(3 * width, 3, stride, stride), first="x", strides=[stride] * 2)
        chain.add("Reshape", chain.constant([1, 3, width, -1]))
        chain.add("Transpose", perm=[0, 1, 3, 2])
        levels.append(chain.add("Reshape", chain.constant([1, -1, width])))
    chain.add("Concat", *levels[1:], first=levels[0], axis=1)
    chain.add("Sigmoid")
    cells = np.zeros((63, width), np.float32)
    levels = [BoxHead(1, "rows", "cells", strides=(stride,)).grid(32, 32) for stride in (8, 16, 32)]
    cells[:, :2] = np.concatenate([np.tile(origins, (3, 1)) for origins, _ in levels])
    rows = chain.add("Add", chain.constant(cells))
    if width == 6:
        rows = chain.add("Slice", chain.constant([0]), chain.constant([50]), chain.constant([1]))
    boxes = chain.add("Slice", chain.constant([0]), chain.constant([4]), chain.constant([2]), first=rows)
    chain.add("Slice", chain.constant([5]), chain.constant([width]), chain.constant([2]), first=rows)
    scores = chain.add("Transpose", perm=[0, 2, 1])
    numbers = chain.constant([9]), chain.constant([0.5]), chain.constant([0.1])
    chain.add("NonMaxSuppression", scores, *numbers, first=boxes)
    places = chain.add("Gather", chain.constant([2]), axis=1)
    found = [chain.add("Gather", places, first=value, axis=axis) for value, axis in ((boxes, 1), (scores, 2))]
    (tmp_path / "net.onnx").write_bytes(chain.model(outputs=found).SerializeToString())
    if width == 6:
        with pytest.raises(ModelError, match=r"NonMaxSuppression.*selects the largest scores"):
            import_network(tmp_path / "net.onnx")
        return
    network = import_network(tmp_path / "net.onnx").network
    assert network.output.boxes is not None and not network.others
    assert (network.output.boxes.classes, network.output.boxes.objectness, network.output_shape) == (2, True, (63, 7))


@pytest.mark.parametrize("agnostic", [0, 1])
def test_boxes_that_a_plugin_of_tensorrt_selects(agnostic: int, tmp_path: Path) -> None:
    """As YOLOv7's own exporter writes them (--end2end): boxes in pixels, and the scores times the objectness."""
    chain = Chain(3, 32, 32)
    chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = 1
    levels = []
    for stride in (8, 16, 32):
        chain.add("Conv", chain.weight(21, 3, stride, stride), first="x", strides=[stride] * 2)
        chain.add("Reshape", chain.constant([1, 3, 7, -1]))
        chain.add("Transpose", perm=[0, 1, 3, 2])
        levels.append(chain.add("Reshape", chain.constant([1, -1, 7])))
    chain.add("Concat", *levels[1:], first=levels[0], axis=1)
    chain.add("Sigmoid")
    cells = np.zeros((63, 7), np.float32)
    grids = [BoxHead(1, "rows", "cells", strides=(stride,)).grid(32, 32) for stride in (8, 16, 32)]
    cells[:, :2] = np.concatenate([np.tile(origins, (3, 1)) for origins, _ in grids])
    rows = chain.add("Add", chain.constant(cells))
    boxes, objectness, each = (
        chain.add("Slice", *(chain.constant([n]) for n in (first, last, 2)), first=rows)
        for first, last in ((0, 4), (4, 5), (5, 7))
    )
    scores = chain.add("Mul", objectness, first=each)
    chain.add("EfficientNMS_TRT", scores, first=boxes, outputs=4, domain="TRT", box_coding=1, class_agnostic=agnostic)
    chain.nodes[-1].name = "nms"
    found = [chain.value + "'" * number for number in range(4)]
    (tmp_path / "net.onnx").write_bytes(chain.model(outputs=found).SerializeToString())
    imported = import_network(tmp_path / "net.onnx")
    head = imported.network.output.boxes
    assert imported.comparison.passed and not imported.comparison.skipped and head is not None
    assert (head.classes, head.objectness, head.code, head.agnostic) == (2, True, "centre", bool(agnostic))


def test_a_split_has_no_name_of_its_own() -> None:
    lines = "a = Conv x w\nb, c = Split a\nbest, place = TopK b k\nout = Gather c place"
    assert outputs_before_selection(graph(lines, "out")) == ("a",)


def test_nothing_is_selected() -> None:
    assert outputs_before_selection(graph(BODY, "table")) == ()
    assert outputs_before_selection(graph("out, place = TopK x k", "out")) == ()
