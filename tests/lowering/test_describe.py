"""Descriptions of how layers multiply their filters."""

from dataclasses import replace
from typing import Any

from trninfer.kernels.convolution.forms import Form
from trninfer.kernels.program import Convolution, MaxPool, Operation, RowFold, RowFoldPool, TapsLoad
from trninfer.kernels.tiling.packing import Taps
from trninfer.lowering.describe import LayerRow, forms_by_layer, rows_of
from trninfer.lowering.graph.graph import Graph, Node

ALIKE: dict[str, Any] = {"name": "a", "channels": 8, "rows": 6, "columns": 5}
CONV = Convolution(**ALIKE)


def said(*operations: Operation) -> list[str | None]:
    shape = (8, 6, 5)
    nodes = tuple(Node(each, "", shape, (shape, shape)) for each in operations)
    return list(forms_by_layer(Graph(nodes, shape, 4)).values())


def test_what_is_said_of_a_layer_is_how_it_multiplies_its_filters() -> None:
    assert said(MaxPool(**ALIKE, kernel=(2, 2))) == [None]
    assert said(CONV) == ["direct"]
    pool = RowFoldPool(
        **ALIKE, kernel=(2, 2), stride=(2, 2), dilation=(1, 1), padding=(0,) * 4, start=0, offset=0, image_rows=3
    )
    assert said(replace(CONV, form=Form.PAIRS, row_fold=RowFold(2, 1, 0)), pool) == ["pairs, 2 rows packed"]
    load = TapsLoad(**ALIKE, kernel_columns=3)
    assert said(load, replace(CONV, taps=Taps(3, 1, 42), packed=2)) == ["direct, 9 taps per matmul, 2 images packed"]
    parts = replace(CONV, groups=8), replace(CONV, groups=8, taps=Taps(3, 1, 32))
    assert said(*parts) == ["direct, diagonals, 3 taps per matmul"]
    assert said(replace(CONV, rows_at_once=4)) == ["direct, 4 rows packed"]


def test_layers_come_in_the_order_in_which_they_run() -> None:
    squares = replace(CONV, name="b", form=Form.SQUARES)
    assert said(CONV, squares, MaxPool(**{**ALIKE, "name": "c"}, kernel=(2, 2))) == ["direct", "squares", None]


def test_a_layer_of_several_nodes_is_one_row() -> None:
    shape, after = (8, 6, 5), (4, 3, 2)
    nodes = (Node(CONV, "conv2d", shape, (shape, after)), Node(replace(CONV, channels=1), "x", after, (after, shape)))
    assert rows_of(Graph(nodes, shape, 4)) == [LayerRow("a", "conv2d", shape, after)]
    steps = (Node(CONV, "affine", shape, (shape, after)), Node(CONV, "affine", after, (after, shape)))
    found = rows_of(Graph(steps, shape, 4, layers=(("a", "a"), ("sum", "a"))))
    assert found == [LayerRow("a", "affine", shape, shape, ("a", "sum"))]
