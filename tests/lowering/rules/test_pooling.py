"""Pools."""

import pytest
from lowered import assert_right, decide, graph_of, kinds_of
from random_networks import conv, ending_in_dense
from trninfer.kernels.program import AveragePool, MaxPool
from trninfer.models.layers import ChannelShuffle, Layer, Pool


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
