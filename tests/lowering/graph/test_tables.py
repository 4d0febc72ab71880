"""Gates computed with powers to avoid table loads of the Scalar Engine, and averages of large images."""

import pytest
from lowered import assert_right, graph_of, nanoseconds, planned
from random_networks import labels, picture
from trninfer.kernels.program import Affine, Convolution
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.graph.graph import Graph
from trninfer.lowering.graph.tables import BY_POWERS
from trninfer.models.layers import Activation, Combine, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network

SIDE = 40  # the average of such an image sums a few rows at a time


def gated(activation: str, side: int = SIDE, gates: int = 1) -> Network:
    """Return repeated squeeze-and-excite blocks."""
    layers: list[Layer] = [Conv2d("stem", 3, 24, (3, 3), (1, 1, 1, 1), activation=activation)]
    for n in range(gates):
        before = layers[-1].name
        layers += [
            Pool(f"mean{n}", "average", (side, side), (1, 1)),
            Conv2d(f"squeeze{n}", 24, 6, (1, 1), activation=activation),
            Conv2d(f"excite{n}", 6, 24, (1, 1)),
            Activation(f"gate{n}", "sigmoid"),
            Combine(f"gated{n}", "multiply", inputs=(before, f"gate{n}")),
            Conv2d(f"conv{n}", 24, 24, (1, 1), activation=activation),
        ]
    layers += [Pool("mean", "average", (side, side), (1, 1)), Flatten("flat"), Dense("dense", 24, 4)]
    return Network("n", picture(3, side, side), tuple(layers), labels(4))


def gates_of(graph: Graph) -> set[str]:
    """Return the activations of the layers that compute gates."""
    return {node.operation.activation.name for node in graph.nodes if isinstance(node.operation, Affine)}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("batch", [1, 3])
def test_gates_by_powers_are_right(dtype: str, batch: int) -> None:
    network = gated("silu")
    assert gates_of(graph_of(network)) == {BY_POWERS}
    assert_right(network, Decisions(), batch, dtype)


def test_gates_keep_their_table_where_no_other_is_loaded() -> None:
    assert gates_of(graph_of(gated("relu"))) == {"sigmoid"}


def test_maps_keep_their_table() -> None:
    """Powers of many numbers take longer than a table load."""
    layers: list[Layer] = [
        Conv2d("a", 3, 4, (1, 1), activation="silu"),
        Conv2d("b", 4, 4, (1, 1), activation="sigmoid"),
        Flatten("flat"),
        Dense("dense", 144, 4),
    ]
    graph = graph_of(Network("n", picture(3, 6, 6), tuple(layers), labels(4)))
    assert {node.operation.activation.name for node in graph.nodes if isinstance(node.operation, Convolution)} == {
        "silu",
        "sigmoid",
    }


def test_gates_by_powers_are_quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    network = gated("silu", 8, 3)
    by_powers = nanoseconds(planned(network, dtype="bfloat16"), "bfloat16")
    monkeypatch.setattr("trninfer.lowering.launch_sequence.spare_tables", lambda graph: graph)
    by_table = nanoseconds(planned(network, dtype="bfloat16"), "bfloat16")
    assert by_powers < 0.95 * by_table
