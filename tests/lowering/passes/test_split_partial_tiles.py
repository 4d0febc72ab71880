"""The last channels of an expansion as separate nodes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import ALL, assert_right, decide, decided, graph_of, nanoseconds, nodes_of
from random_networks import labels, model_of, picture
from trninfer.kernels.program import Convolution
from trninfer.lowering.passes.split_partial_tiles import split_partial_tiles
from trninfer.models.layers import Activation, Combine, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend


def expanded(channels: int, size: int = 3, stride: int = 1, gate: bool = False) -> Network:
    """Return an expansion, a depthwise convolution and a projection, with or without a gate between them."""
    layers: list[Layer] = [
        Conv2d("expand", 8, channels, (1, 1), activation="silu"),
        Conv2d(
            "each", channels, channels, (size, size), (size // 2,) * 4, 1, "relu", (stride, stride), groups=channels
        ),
    ]
    side = (12 + 2 * (size // 2) - size) // stride + 1
    if gate:
        layers += [
            Pool("mean", "average", (side, side), (1, 1)),
            Conv2d("squeeze", channels, channels, (1, 1)),
            Activation("excite", "sigmoid"),
            Combine("gate", "multiply", inputs=("each", "excite")),
        ]
    layers += [Conv2d("project", channels, 4, (1, 1)), Flatten("flat"), Dense("dense", 4 * side * side, 5)]
    return Network("n", picture(8, 12, 12), tuple(layers), labels(5))


@settings(max_examples=30)
@given(
    st.sampled_from([129, 144, 160, 161, 192, 193, 255, 256, 272]),
    st.sampled_from([1, 2, 3, 5]),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.sampled_from([(), ALL]),
    st.sampled_from([1, 3]),
    st.sampled_from(["float32", "bfloat16"]),
)
def test_any_tail_against_the_golden_model(
    channels: int, size: int, stride: int, gate: bool, copied: tuple[int, ...], batch: int, dtype: str
) -> None:
    """With and without copies of the partial tile on the partitions below it."""
    tolerance = 2e-5 if dtype == "float32" else 4e-2
    assert_right(
        expanded(channels, size, stride, gate),
        decide(copied=copied, pack_depthwise_expansions=True),
        batch,
        dtype,
        tolerance=tolerance,
    )


@pytest.mark.parametrize(
    ("channels", "size", "parts"),
    [(144, 3, [128, 16]), (272, 5, [256, 16]), (192, 3, [128, 64]), (240, 3, [240]), (128, 3, [128]), (144, 1, [144])],
)
def test_a_tail_is_apart_where_it_leaves_room_for_copies(channels: int, size: int, parts: list[int]) -> None:
    graph = split_partial_tiles(graph_of(expanded(channels, size)))
    assert [node.operation.channels for node in nodes_of(graph, "each")] == parts
    assert [node.operation.channels for node in nodes_of(graph, "expand")] == parts
    if len(parts) > 1:
        first, second = (n for n, node in enumerate(graph.nodes) if node.name == "expand")
        assert [node.sources for node in nodes_of(graph, "each")] == [((first,),), ((second,),)]
        (project,) = nodes_of(graph, "project")
        assert project.sources == ((first + 2, second + 2),)  # both parts, one after the other


def test_a_tail_whose_taps_share_the_partitions_is_quicker() -> None:
    with_copies, without = (
        decided(expanded(144), decide(copied=copied, pack_depthwise_expansions=True), dtype="bfloat16")
        for copied in (ALL, ())
    )
    operations = [node.operation for node in nodes_of(with_copies.graph, "expand")]
    assert [each.copies.count > 1 for each in operations if isinstance(each, Convolution)] == [False, True]
    assert nanoseconds(with_copies, "bfloat16") < nanoseconds(without, "bfloat16")


def test_the_table_has_a_row_for_both_parts() -> None:
    session = Session(model_of(expanded(144)), SimulatedBackend("trn2"), "bfloat16", 1)
    rows = [row.name for row in session.time(1).layers]
    assert rows.count("expand") == rows.count("each") == 1
    assert sum(row.latency_us for row in session.time(1).layers) == pytest.approx(session.time(1).total_us)
