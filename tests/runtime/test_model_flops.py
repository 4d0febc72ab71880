"""Operations from shapes, and what rows of a table count of them."""

from trninfer.models import load_model
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import Activation, Conv2d, Dense, Flatten, Pool, Softmax
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


def rows(*names: str) -> list[Row]:
    return [Row(name, name.rpartition(".")[2], (), ()) for name in names]


def test_rows_have_their_layers_and_those_without_a_row() -> None:
    layers = (Dense("a.b", 3, 5), Activation("r", "relu"), Dense("c", 5, 2), Softmax("s"))
    network = Network("n", FeatureInput(3), layers, ("x", "y"), Output("classes", "softmax"))
    assert row_operations(network, rows("launch", "a.b", "c")) == [(0, 0), (30, 0), (20, 5 + 2)]
    by_layer = rows("a.b.transpose", "a.b.matmul", "a.b.bias_activation", "r.activation", "c.matmul", "argmax")
    assert row_operations(network, by_layer) == [(0, 0), (30, 0), (0, 0), (0, 5), (20, 2), (0, 0)]
    assert row_operations(network, rows("network")) == [(50, 7)] and row_operations(network, []) == []


def test_mfu_counts_no_more_than_the_array_multiplied() -> None:
    time = LaunchTime(10.0, mfu=0.0, hardware_flops=400, hfu=0.5, active_us=10.0)
    assert with_model_flops(time, Operations(50, 3), 2).mfu == 0.125
    filtered = with_model_flops(time, Operations(300, 0), 3)
    assert (filtered.flops, filtered.mfu) == (900, 0.5)
    assert with_model_flops(LaunchTime(1.0, hfu=0.0, mfu=0.0), Operations(9, 9), 1).mfu == 0.0
    measured = with_model_flops(LaunchTime(1.0), Operations(9, 9), 1)
    assert (measured.flops, measured.mfu) == (18, None)


def test_the_same_network_has_the_same_operations_however_it_is_launched() -> None:
    """A layer of 64 to 256 was told as 67,142,144 operations in one launch and as 32,768 layer by layer."""
    model = load_model("digits-ffnn")
    for per in ("network", "layer"):
        session = Session(model, open_simulated_backend("trn2"), "float32", 1, LaunchOptions(per=per))
        found = {row.name.partition(".")[0]: row.flops for row in session.time(1).layers if row.flops}
        assert found == {"hidden": 2 * 64 * 256, "output": 2 * 256 * 10 + 10}
