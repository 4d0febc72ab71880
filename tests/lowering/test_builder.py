"""Lowering rules, one for each kind of layer, and the builder's helpers for them."""

from dataclasses import replace

import numpy as np
import pytest
from random_networks import conv, ending_in_dense, labels, model_of, picture
from trninfer.kernels.program import Convolution, MaxPool
from trninfer.lowering import rules  # noqa: F401 (registers them)
from trninfer.lowering.builder import RULES, GraphBuilder
from trninfer.lowering.graph.graph import Unsupported
from trninfer.lowering.launch_sequence import lower_layers
from trninfer.models.layers import LAYER_KINDS, ChannelShuffle, Concat, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.models.outputs import NamedOutput, Output

WITHOUT_RULE: dict[str, str] = {}  # kinds of layers that run layer by layer, and why


@pytest.mark.parametrize("kind", LAYER_KINDS)
def test_each_kind_of_layer_has_a_rule(kind: str) -> None:
    if kind in WITHOUT_RULE:
        assert LAYER_KINDS[kind] not in RULES, f"layer kind {kind!r} has a rule now: take it off WITHOUT_RULE"
        return
    assert LAYER_KINDS[kind] in RULES, f"layer kind {kind!r} has no lowering rule: add one to lowering/rules/"


def test_rules_are_for_kinds_of_layers() -> None:
    assert set(RULES) <= set(LAYER_KINDS.values()) and all(issubclass(kind, Layer) for kind in RULES)
    assert set(WITHOUT_RULE) <= set(LAYER_KINDS)


def builder_of(*layers: Layer, others: tuple[NamedOutput, ...] = ()) -> GraphBuilder:
    """Return a builder that has applied the rules of some layers, in a network that continues with a dense layer."""
    network = replace(ending_in_dense((3, 6, 5), list(layers)), others=others)
    model = model_of(network)
    builder = GraphBuilder.start(model, np.dtype(np.float32), network.input.shape)  # type: ignore[arg-type]
    for layer in network.layers[: len(layers)]:
        RULES[type(layer)](builder, layer)
    return builder


A = conv("a", 3, 4, 3)
TURNED = ChannelShuffle("turned", 2)


def test_a_name_stands_for_channels_of_nodes() -> None:
    builder = builder_of(A, TURNED)
    assert [type(node.operation) for node in builder.nodes] == [Convolution]
    assert builder.places["turned"].parts == (0,) and builder.places["turned"].order.tolist() == [0, 2, 1, 3]
    assert builder.is_last("a") and not builder.is_last("turned") and builder.is_gathered("a")
    builder.make_plain("a")
    assert len(builder.nodes) == 1
    builder.make_plain("turned")
    assert builder.is_last("turned") and [node.name for node in builder.nodes] == ["a", "turned"]


def test_a_gather_lays_channels_out_as_they_are_named() -> None:
    builder = builder_of(A, TURNED)
    builder.gather("turned")
    node = builder.nodes[-1]
    assert node.kind == "channel_shuffle" and node.filters is not None
    np.testing.assert_array_equal(node.filters.make()[:, :, 0, 0], np.eye(4)[[0, 2, 1, 3]])
    builder.gather("a")  # it already has a separate row
    assert (builder.nodes[-1].name, builder.nodes[-1].kind) == ("a", "gather")


def test_numbers_are_as_the_parts_have_their_channels() -> None:
    builder = builder_of(A, TURNED, Pool("pool", "max", (2, 2), (2, 2)), Conv2d("b", 4, 4, (1, 1), groups=4))
    pool, depthwise = builder.nodes[1:]
    assert isinstance(pool.operation, MaxPool) and builder.places["pool"].order.tolist() == [0, 2, 1, 3]
    assert depthwise.filters is not None
    weights = builder.model.tensors["b.weight"]
    np.testing.assert_array_equal(depthwise.filters.make(), weights[[0, 2, 1, 3]])


def test_a_node_moves_behind_those_that_do_not_read_it() -> None:
    b, c = conv("b", 3, 4, 1, inputs=("input",)), conv("c", 4, 4, 1, inputs=("b",))
    builder = builder_of(A, b, c, Concat("all", inputs=("a", "c")))
    builder.move_to_end(0)
    assert [(node.name, node.sources) for node in builder.nodes] == [("b", ((-1,),)), ("c", ((0,),)), ("a", ((-1,),))]
    assert {name: place.parts for name, place in builder.places.items()} == {
        "input": (-1,),
        "a": (2,),
        "b": (0,),
        "c": (1,),
        "all": (2, 1),
    }


def test_a_value_is_read_once_where_no_output_is_it() -> None:
    flat = Flatten("out")
    alone = builder_of(A, flat)
    returned = builder_of(A, flat, others=(NamedOutput("x", "out", (120,), Output("values")),))
    assert alone.is_read_once("a") and alone.is_read_once("out")
    assert returned.is_read_once("a") and not returned.is_read_once("out")
    twice = builder_of(A, conv("b", 4, 4, 1, inputs=("a",)), Concat("both", inputs=("a", "b")))
    assert not twice.is_read_once("a")


def test_a_kind_without_a_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, Pool)
    layers = (Pool("p", "max", (2, 2), (2, 2)), Flatten("f"), Dense("d", 18, 2))
    network = Network("n", picture(3, 6), layers, labels(2))
    with pytest.raises(Unsupported, match=r"layer 'p' \(pool\) has no lowering rule"):
        lower_layers(model_of(network), np.dtype(np.float32))
