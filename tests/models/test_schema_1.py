"""Networks of schema 1, which are plain sequences of layers, are still read."""

from __future__ import annotations

import json

import pytest
from trninfer.models.errors import ModelError
from trninfer.models.layers import Conv2d, Flatten, Pool, Softmax
from trninfer.models.network import Network
from trninfer.models.outputs import Output

SCHEMA_1 = {
    "name": "old",
    "input": {"kind": "image", "channels": 1, "height": 8, "width": 9, "preprocess": "digit", "mean": [0], "std": [1]},
    "layers": [
        {"kind": "conv2d", "name": "c", "in_channels": 1, "out_channels": 2, "kernel_size": 3, "padding": 1},
        {"kind": "average_pool", "name": "p", "window_height": 4, "window_width": 3},
        {"kind": "flatten", "name": "f"},
        {"kind": "softmax", "name": "s"},
    ],
    "labels": [str(number) for number in range(12)],
}


def test_schema_1_is_read_as_a_sequence() -> None:
    network = Network.from_json(json.dumps(SCHEMA_1))
    assert network.layers == (
        Conv2d("c", 1, 2, (3, 3), (1, 1, 1, 1), inputs=("input",)),
        Pool("p", "average", (4, 3), (4, 3), inputs=("c",)),
        Flatten("f", inputs=("p",)),
        Softmax("s", inputs=("f",)),
    )
    assert network.output == Output("classes", "softmax")
    assert Network.from_json(network.to_json()) == network


@pytest.mark.parametrize("field", ["stride", "groups", "inputs"])
def test_schema_1_has_no_newer_fields(field: str) -> None:
    layer = {**SCHEMA_1["layers"][0], field: [1, 1]}
    with pytest.raises(ModelError, match=f"layer number 1: unknown field '{field}'"):
        Network.from_json(json.dumps({**SCHEMA_1, "layers": [layer, *SCHEMA_1["layers"][1:]]}))
