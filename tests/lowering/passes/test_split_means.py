"""Pools of whole images, first over columns and then over rows."""

from collections.abc import Callable

import numpy as np
import pytest
from lowered import assert_right, decide, graph_of, nodes_of
from random_networks import labels, picture
from trninfer.lowering.decisions import Choice, Kind
from trninfer.lowering.graph.graph import NodeId
from trninfer.lowering.passes.split_means import is_of_whole_image, split_means
from trninfer.models.files import Model
from trninfer.models.layers import Conv2d, Dense, Flatten, Pool
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend


def pooled(method: str, window: tuple[int, int], padding: tuple[int, int, int, int] = (0, 0, 0, 0)) -> Network:
    """Return a convolution and a pool on an image of 9x7."""
    outputs = tuple(side + sum(padding[n::2]) - size + 1 for n, (side, size) in enumerate(zip((9, 7), window)))
    layers = (
        Conv2d("conv", 3, 40, (3, 3), (1, 1, 1, 1), 1, "silu"),
        Pool("pool", method, window, (1, 1), padding),
        Flatten("flat"),
        Dense("dense", 40 * outputs[0] * outputs[1], 4),
    )
    return Network("n", picture(3, 9, 7), layers, labels(4))


@pytest.mark.parametrize("method", ["average", "max"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_pool_of_a_whole_image_in_bands(method: str, batch: int, dtype: str) -> None:
    """The nodes are taps, the convolution, the pool over columns, which runs in three bands, and the pool over rows."""
    across = NodeId(1, ("across",))
    decisions = decide(splits_means=True, others=[Choice(Kind.BANDS, across, (across, 3))])
    plan = assert_right(pooled(method, (9, 7)), decisions, batch, dtype)
    assert [node.operation.rows for node in nodes_of(plan.graph, "pool")] == [9, 1]
    assert [operation.rows for operation in plan.program.operations if operation.name == "pool"] == [9, 4, 4, 1, 1]


@pytest.mark.parametrize("method", ["average", "max"])
def test_windows_are_not_cut(method: str) -> None:
    for window, padding in (((9, 6), (0, 0, 0, 0)), ((8, 7), (0, 0, 0, 0)), ((9, 7), (1, 1, 1, 1))):
        graph = graph_of(pooled(method, window, padding))
        assert not any(map(is_of_whole_image, graph.nodes))
        assert split_means(graph).nodes == graph.nodes


@pytest.mark.parametrize(("method", "expected"), [("average", np.mean), ("max", np.max)])
def test_an_image_that_sbuf_cannot_hold_is_pooled_as_a_whole(method: str, expected: Callable[..., np.ndarray]) -> None:
    layers = (Pool("pool", method, (398, 398), (1, 1)), Flatten("flat"))
    network = Network("n", picture(2, 398, 398), layers, (), Output("values"))
    session = Session(Model(network, {}, {}), SimulatedBackend("trn2"), "float32", 1)
    assert session.launches_note is None
    x = np.random.default_rng(2).standard_normal((1, 2, 398, 398)).astype(np.float32)
    np.testing.assert_allclose(session.run(x).probabilities, expected(x, axis=(2, 3)), atol=1e-5)


def test_only_the_pool_over_rows_is_an_output() -> None:
    layers = (Conv2d("conv", 3, 8, (3, 3)), Pool("pool", "average", (7, 5), (1, 1)), Flatten("flat"))
    graph = split_means(graph_of(Network("n", picture(3, 9, 7), layers, (), Output("values"))))
    across, rows = nodes_of(graph, "pool")
    assert across.output is None and rows.output is not None
