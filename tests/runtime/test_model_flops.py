"""Operations computed from shapes, and the operations counted in each table row."""

import pytest
from random_networks import model_of, picture
from trninfer.models import load_model
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import Activation, Affine, Combine, Conv2d, Dense, Flatten, Pool, Softmax
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.runtime.backend import LaunchTime
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.model_flops import Operations, operations, row_operations, with_model_flops
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import open_simulated_backend
from trninfer.runtime.timing import Row


def test_operations_by_hand() -> None:
    assert operations(Dense("d", 64, 256), (64,)) == (2 * 64 * 256, 0)
    assert operations(Conv2d("c", 4, 8, (3, 3), pool_size=2), (4, 9, 9)) == (2 * 8 * 49 * 9 * 4, 0)
    assert operations(Pool("p", "max", (3, 2), (1, 1)), (2, 5, 5)) == (0, 2 * 3 * 4 * 6)
    assert operations(Activation("a", "relu"), (2, 5, 5)) == (0, 50)
    assert operations(Flatten("f"), (2, 5, 5)) == (0, 0)


def row(name: str, *layers: str) -> Row:
    return Row(name, "", (), (), layers)


def test_rows_have_the_operations_of_their_layers_whatever_they_are_called() -> None:
    layers = (Dense("a.b", 3, 5), Activation("r", "relu"), Dense("c", 5, 2), Softmax("s"))
    network = Network("n", FeatureInput(3), layers, ("x", "y"), Output("classes", "softmax"))
    rows = [row("launch"), row("a.b", "a.b", "r"), row("a", "c", "s")]
    assert row_operations(network, rows) == [(0, 0), (30, 5), (20, 2)]
    assert row_operations(network, [row("network", "a.b", "r", "c", "s")]) == [(50, 7)]
    assert row_operations(network, []) == []


CONVOLUTIONS = (
    (Conv2d("block.conv", 4, 8, (3, 3), (1, 1, 1, 1), activation="relu"), 2 * 64 * 8 * 4 * 9),
    (Conv2d("block", 8, 64, (3, 3), (1, 1, 1, 1)), 2 * 64 * 64 * 8 * 9),
    (Dense("out", 64 * 64, 5), 2 * 64 * 64 * 5),
)


@pytest.mark.parametrize("per", ["network", "layer"])
def test_a_layer_named_after_another_has_its_own_operations(per: str) -> None:
    (first, _), (second, _), (dense, _) = CONVOLUTIONS
    network = Network("n", picture(4, 8, 8), (first, second, Flatten("f"), dense), (), Output("values"))
    session = Session(model_of(network), open_simulated_backend("trn2"), "float32", 1, LaunchOptions(per=per))
    rows = [row.flops for row in session.time(1).layers if row.flops]
    assert rows == [count for _, count in CONVOLUTIONS]


def test_an_affine_of_many_numbers_has_one_row_with_its_operations() -> None:
    layers = (
        Conv2d("conv1", 3, 4, (3, 3), (1, 1, 1, 1)),
        Affine("affine1", (4, 96, 96)),
        Pool("pool1", "average", (96, 96), (1, 1)),
        Flatten("f"),
        Dense("out", 4, 5),
    )
    network = Network("n", picture(3, 96, 96), layers, (), Output("values"))
    rows = Session(model_of(network), open_simulated_backend("trn2"), "float32", 1).time(1).layers
    assert {row.name: row.flops for row in rows} == {
        "launch": 0,
        "conv1": 2 * 96 * 96 * 4 * 3 * 9,
        "affine1": 4 * 96 * 96,
        "pool1": 4 * 96 * 96,
        "out": 40,
    }
    assert next(row for row in rows if row.name == "affine1").output_shape == (1, 4, 96, 96)


def test_a_sum_counts_to_the_convolution_that_adds_it() -> None:
    """They are not counted for the layer after it."""
    layers = (
        Conv2d("a", 4, 4, (3, 3), (1, 1, 1, 1), activation="relu"),
        Conv2d("b", 4, 4, (3, 3), (1, 1, 1, 1)),
        Combine("sum", "add", inputs=("a", "b")),
        Flatten("f"),
        Dense("out", 4 * 64, 5),
    )
    for per in ("network", "layer"):
        network = Network("n", picture(4, 8, 8), layers, (), Output("values"))
        session = Session(model_of(network), open_simulated_backend("trn2"), "float32", 1, LaunchOptions(per=per))
        found = [row.flops for row in session.time(1).layers if row.flops]
        assert found == [2 * 64 * 4 * 4 * 9, 2 * 64 * 4 * 4 * 9 + 4 * 64, 2 * 4 * 64 * 5]


def test_mfu_counts_no_more_than_the_array_multiplied() -> None:
    time = LaunchTime(10.0, mfu=0.0, hardware_flops=400, hfu=0.5, active_us=10.0)
    assert with_model_flops(time, Operations(50, 3), 2).mfu == 0.125
    filtered = with_model_flops(time, Operations(300, 0), 3)
    assert (filtered.flops, filtered.mfu) == (900, 0.5)
    assert with_model_flops(LaunchTime(1.0, hfu=0.0, mfu=0.0), Operations(9, 9), 1).mfu == 0.0
    measured = with_model_flops(LaunchTime(1.0), Operations(9, 9), 1)
    assert (measured.flops, measured.mfu) == (18, None)


def test_the_same_network_has_the_same_operations_however_it_is_launched() -> None:
    """A layer from 64 to 256 used to be reported with 67,142,144 operations in one launch and 32,768 layer by layer."""
    model = load_model("digits-ffnn")
    for per in ("network", "layer"):
        session = Session(model, open_simulated_backend("trn2"), "float32", 1, LaunchOptions(per=per))
        found = {row.name.partition(".")[0]: row.flops for row in session.time(1).layers if row.flops}
        assert found == {"hidden": 2 * 64 * 256, "output": 2 * 256 * 10 + 10}
