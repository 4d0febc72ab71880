"""The feed-forward network whose hidden units stay in SBUF, in the variants that little SBUF or many rows require."""

from typing import Any

import nki
import nki.language as nl
import numpy as np
from ffnn_networks import DTYPES, error_of, golden, network
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer import simulator
from trninfer.kernels import ffnn_forward
from trninfer.kernels.ffnn import Classes, Probabilities
from trninfer.kernels.ffnn_fused import run_fused
from trninfer.kernels.ffnn_plan import Sizes, plan_fused
from trninfer.kernels.tiling.tiles import itemsize
from trninfer.simulator import TensorSpec


@nki.jit
def forward_in(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, room: int) -> Any:
    """Run the fused version within `room` KiB per partition."""
    out = nl.ndarray((x.shape[0], w2.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    run_fused((x, w1, b1, w2, b2), plan_in(x, w2, room), Probabilities(out))
    return out


@nki.jit
def predict_in(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, room: int) -> Any:
    """Return the classes that it predicts."""
    out = nl.ndarray((x.shape[0],), dtype=nl.int32, buffer=nl.shared_hbm)
    run_fused((x, w1, b1, w2, b2), plan_in(x, w2, room), Classes(out, w2.shape[1]))
    return out


def plan_in(x: Any, w2: Any, room: int) -> Any:
    sizes = Sizes(x.shape[0], x.shape[1], w2.shape[0], w2.shape[1], itemsize(x.dtype))
    return plan_fused(sizes, room * 1024, 0)


SIDES = st.one_of(st.sampled_from([1, 2, 128, 129, 256, 512, 513, 1025]), st.integers(1, 1100))


@settings(max_examples=25)
@given(
    n=SIDES,
    d=SIDES,
    h=SIDES,
    c=SIDES,
    dtype=st.sampled_from(DTYPES),
    target=st.sampled_from(["trn1", "trn2", "trn3"]),
    data=st.data(),
)
def test_blocks_and_panels(n: int, d: int, h: int, c: int, dtype: Any, target: str, data: st.DataObject) -> None:
    """Blocks of rows, panels of weights that stay or are reloaded, groups of units and of classes, within the given
    KiB."""
    arrays = network(n, d, h, c, dtype, np.float32)
    outputs, probabilities = golden(*arrays)
    tolerance = error_of(dtype)
    sizes = Sizes(n, d, h, c, np.dtype(dtype).itemsize)
    enough = [room for room in (24, 32, 48, 64, 96, 192) if plan_fused(sizes, room * 1024, 0) is not None]
    room = data.draw(st.sampled_from(enough), "room")
    (result,) = simulator.run(forward_in, *arrays, target=target, room=room).outputs
    (classes,) = simulator.run(predict_in, *arrays, target=target, room=room).outputs
    assert result is not None and classes is not None
    np.testing.assert_allclose(result.astype(np.float64), probabilities, rtol=0, atol=tolerance)
    chosen = outputs[np.arange(n), classes]
    assert np.all(outputs.max(axis=1) - chosen <= 4 * tolerance * (1 + np.abs(chosen)))


def test_weights_are_read_once_a_block() -> None:
    """1,024 rows, of which SBUF holds 512 at a time: x, the answers and biases are transferred once, the weights
    twice."""
    shapes = [(1024, 2048), (2048, 8192), (1, 8192), (8192, 1024), (1, 1024)]
    run = simulator.run(ffnn_forward, *(TensorSpec(shape, np.dtype(np.float16)) for shape in shapes), functional=False)
    weights, rest = 2048 * 8192 + 8192 * 1024, 1024 * (2048 + 1024)
    assert 0 <= run.hbm_bytes - 2 * (2 * weights + rest) < 1 << 20
