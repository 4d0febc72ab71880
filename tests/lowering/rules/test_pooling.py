"""Pools."""

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from lowered import applicable, assert_right, convolution_of, decide, graph_of, kinds_of
from random_networks import conv, ending_in_dense
from trninfer.kernels.program import AveragePool, MaxPool
from trninfer.models.errors import ModelError
from trninfer.models.layers import Activation, Affine, ChannelShuffle, Combine, Conv2d, Layer, Pool
from trninfer.models.network import Network


@pytest.mark.parametrize("method", ["max", "average"])
@pytest.mark.parametrize("fields", [{}, {"ceil_mode": True}, {"padding": (1, 0, 1, 1)}, {"dilation": (2, 1)}])
@pytest.mark.parametrize("include", [False, True])
def test_pools_of_any_window(method: str, fields: dict[str, object], include: bool) -> None:
    pool = Pool("pool", method, (2, 3), (2, 2), count_include_pad=include, **fields)  # type: ignore[arg-type]
    layers: list[Layer] = [conv("a", 3, 12, 3), ChannelShuffle("turned", 3), pool]
    assert kinds_of(layers)[:2] == ["conv2d", f"{method}_pool"]
    assert_right(ending_in_dense((3, 6, 5), layers), decide(packed=4), 5)


def test_what_pools_is_an_operation_of_its_kind() -> None:
    layers = [conv("a", 3, 8, 1), Pool("b", "max", (2, 2), (2, 2)), Pool("c", "average", (3, 2), (1, 1))]
    operations = [node.operation for node in graph_of(ending_in_dense((3, 6, 5), layers)).nodes]
    assert [type(operation) for operation in operations[1:3]] == [MaxPool, AveragePool]


def test_rows_and_columns_that_a_pool_leaves_are_not_computed() -> None:
    """This holds even if they read padding, but not if the value has another reader."""
    pool = Pool("pool", "max", (2, 2), (2, 2))
    alone = [conv("a", 3, 8, 3), pool, conv("b", 8, 8, 1)]
    assert convolution_of(graph_of(ending_in_dense((3, 9, 7), alone)), "a").shape == (8, 8, 6)
    assert convolution_of(graph_of(ending_in_dense((3, 9, 7), alone)), "a").padding == (1, 1, 0, 0)
    moving = [Conv2d("a", 3, 8, (3, 3), (1, 1, 3, 3), stride=(2, 2)), pool, conv("b", 8, 8, 1)]
    assert convolution_of(graph_of(ending_in_dense((3, 7, 7), moving)), "a").shape == (8, 4, 4)
    assert convolution_of(graph_of(ending_in_dense((3, 7, 7), moving)), "a").padding == (1, 1, 1, 1)
    unpadded = [conv("a", 3, 8, 1), pool, conv("b", 8, 8, 1)]
    assert convolution_of(graph_of(ending_in_dense((3, 9, 7), unpadded)), "a").shape == (8, 9, 7)
    both: list[Layer] = [conv("a", 3, 8, 3), pool, Conv2d("b", 8, 8, (2, 2), stride=(2, 2), inputs=("a",))]
    network = ending_in_dense((3, 9, 7), [*both[:2], both[2], Combine("sum", "add", inputs=("pool", "b"))])
    assert convolution_of(graph_of(network), "a").shape == (8, 9, 7)
    assert_right(network, decide(), 2)


@st.composite
def pooled(draw: st.DrawFn) -> Network:
    """Draw a convolution of any size, stride and padding, the layers fused into it, and a max pool with any window."""
    channels = draw(st.sampled_from([3, 16, 33, 64, 130]))
    pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))
    padding = draw(st.tuples(*[st.integers(0, 3)] * 4))
    strides = st.tuples(st.integers(1, 5), st.integers(1, 5))
    stem = Conv2d("a", 3, channels, draw(pairs), padding, stride=draw(strides), dilation=draw(pairs))
    between = draw(st.sampled_from([[], [Activation("between", "relu")], [Affine("between", (channels,))]]))
    window = draw(pairs)
    pool = Pool("pool", "max", window, draw(strides), dilation=draw(st.sampled_from([(1, 1), (2, 1)])))
    after = conv("b", channels, 8, draw(st.sampled_from([1, 3])))
    try:
        return ending_in_dense((3, draw(st.integers(8, 21)), draw(st.integers(8, 21))), [stem, *between, pool, after])
    except ModelError:
        reject()


@settings(max_examples=10, deadline=None)
@given(
    network=pooled(),
    batch=st.sampled_from([1, 2, 3, 4, 7, 16]),
    dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
    target=st.sampled_from(["trn1", "trn2", "trn3"]),
    kind=st.sampled_from(["packed", "packs_rows", "pads_channels", "splits_phases"]),
)
def test_pools_of_convolutions(network: Network, batch: int, dtype: str, target: str, kind: str) -> None:
    decisions = applicable(network, decide(**{kind: 2 if kind == "packed" else True}), batch)  # type: ignore[arg-type]
    assert_right(network, decisions, batch, dtype, target=target)
