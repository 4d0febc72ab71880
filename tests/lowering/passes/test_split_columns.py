"""Columns split into phases for strided pools, compared with the golden model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from lowered import (
    applicable,
    assert_right,
    convolution_of,
    decide,
    decided,
    graph_of,
    nanoseconds,
    number_of,
    operation_of,
)
from random_networks import labels, picture
from trninfer.kernels.program import MaxPool
from trninfer.lowering.decisions import Kind
from trninfer.lowering.emission.schedule import Region
from trninfer.lowering.graph.graph import Graph
from trninfer.lowering.passes import split_columns as module
from trninfer.lowering.passes.split_columns import split_columns
from trninfer.models.errors import ModelError
from trninfer.models.layers import Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network

DTYPES = ["bfloat16", "float16"]


def pooled(side: tuple[int, int], channels: int, conv: dict[str, Any], pool: dict[str, Any], size: int = 3) -> Network:
    """Return a convolution, a pool, another convolution and a dense layer; raise ModelError if the windows do not
    fit."""
    image = picture(3, *side)
    layers: list[Layer] = [
        Conv2d("conv", 3, channels, (size, size), (size // 2,) * 4, **{"activation": "relu", **conv}),
        Pool("pool", "max", **{"window": (3, 3), "stride": (2, 2), **pool}),
        Conv2d("after", channels, 8, (1, 1)),
        Flatten("flat"),
    ]
    shape: tuple[int, ...] = image.shape
    for layer in layers:
        shape = layer.output_shape(shape)  # type: ignore[arg-type]
    return Network("n", image, (*layers, Dense("dense", shape[0], 4)), labels(4))


def phases(graph: Graph) -> int:
    return convolution_of(graph, "conv").column_phases


@settings(max_examples=40)
@given(st.data())
def test_pools_of_phases_compute_what_the_golden_model_does(data: st.DataObject) -> None:
    """Also with packed rows, packed images, windows that extend over the edge, bands, and passes of some of the
    images."""
    window = data.draw(st.tuples(st.integers(1, 4), st.integers(2, 4)))
    margins = [(0, 0, 0, 0)] if window[0] == 1 else [(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 1, 0), (1, 0, 0, 1)]
    padding = data.draw(st.sampled_from(margins))
    pool = {
        "window": window,
        "stride": data.draw(st.sampled_from([(2, 2), (2, 2), (1, 2), (3, 3), (2, 3)])),
        "padding": padding,
        "ceil_mode": data.draw(st.booleans()),
    }
    conv = {"activation": data.draw(st.sampled_from(["relu", "relu", "identity", "silu"]))}
    conv["stride"] = data.draw(st.sampled_from([(1, 1), (2, 2)]))
    side = data.draw(st.tuples(st.integers(6, 40), st.sampled_from([6, 12, 24, 36, 36, 23])))
    channels = data.draw(st.sampled_from([5, 32, 64, 64, 130]))
    try:
        network = pooled(side, channels, conv, pool, data.draw(st.sampled_from([1, 3])))
    except ModelError:
        assume(False)
    batch = data.draw(st.sampled_from([1, 2, 3, 4, 7, 16] if side[0] * side[1] < 500 else [1, 3]))
    asked = decide(packs_rows=data.draw(st.booleans()), packed=data.draw(st.sampled_from([1, 2])), splits_phases=True)
    decisions = applicable(network, asked, batch)
    graph = decided(network, decisions, batch, DTYPES[0]).graph
    rows = operation_of(graph, "pool").rows
    if not decisions.value(Kind.PACK_IMAGES) and rows > 8 and data.draw(st.booleans()):
        first = number_of(graph, "conv")
        region = Region(first, number_of(graph, "pool") + 1, 2)
        decisions = decisions.having(*decide(graph, regions=[region]).choices)
    target = data.draw(st.sampled_from(["trn1", "trn2"]))
    at_once = data.draw(st.sampled_from([0, 1, 2]))
    dtype = data.draw(st.sampled_from(DTYPES))
    plan = assert_right(network, decisions, batch, dtype, target=target, at_once=at_once, tolerance=6e-2)
    event(f"{phases(plan.graph)} phases, {'bands' if decisions.of(Kind.BANDS) else 'whole'}")


def test_columns_are_split_where_a_pool_alone_reads_them() -> None:
    def split(side: tuple[int, int], dtype: str = "bfloat16", pool: dict[str, Any] | None = None, **conv: Any) -> int:
        return phases(split_columns(graph_of(pooled(side, 16, conv, pool or {}), dtype)))

    assert split((8, 12)) == 2
    assert split((8, 12), pool={"stride": (2, 3)}) == 3
    assert split((8, 11)) == 1  # one phase would have an additional column
    assert split((8, 12), "float32") == 1
    assert split((8, 12), pool={"stride": (2, 1)}) == 1
    padded = {"padding": (1, 1, 1, 1)}
    assert split((8, 12), pool=padded) == 2
    assert split((8, 12), pool=padded, activation="tanh") == 1  # the zeros around it may be maxima
    assert split((8, 12), activation="tanh") == 2
    assert split((8, 12), activation="tanh", pool={"ceil_mode": True}) == 1  # also if windows extend over the edge


def test_the_zeros_around_are_those_that_windows_reach() -> None:
    graph = graph_of(pooled((8, 12), 16, {}, {"padding": (1, 1, 1, 1)}), "bfloat16")
    pool = operation_of(graph, "pool")
    assert isinstance(pool, MaxPool)
    assert pool.reached(8, 12) == (1, 1, 0, 0)  # windows of three with stride two end at the last column
    assert pool.reached(7, 11) == (1, 1, 1, 1)


@pytest.mark.parametrize("rows", [False, True])
def test_pools_of_phases_are_quicker(rows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    network, decisions = pooled((112, 112), 64, {}, {"padding": (1, 1, 1, 1)}, 1), decide(packs_rows=rows)
    split = nanoseconds(decided(network, decisions, dtype="bfloat16"), "bfloat16")
    monkeypatch.setattr(module, "ITEMSIZE", 0)
    assert split < nanoseconds(decided(network, decisions, dtype="bfloat16"), "bfloat16")
