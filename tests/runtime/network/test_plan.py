"""How networks are cut into launches, what goes through HBM, and which images lie side by side."""

import re

import ml_dtypes
import numpy as np
import pytest
from random_networks import model_of, residual
from trninfer.models import load_model
from trninfer.models.files import Model
from trninfer.models.golden import run_network
from trninfer.models.inputs import FeatureInput, ImageInput
from trninfer.models.layers import Conv2d, Dense, Flatten, Pool
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.network.cut import NetworkPlan
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

BF16 = np.dtype(ml_dtypes.bfloat16)


def _check(session: Session, model: Model, batch: int) -> None:
    x = np.random.default_rng(4).standard_normal((batch, *model.network.input.shape)).astype(np.float32)
    result = session.run(x)
    expected = run_network(model.network, model.tensors, x).probabilities
    np.testing.assert_allclose(result.probabilities, expected, atol=1e-4 * max(1.0, float(np.abs(expected).max())))
    timed = session.time(batch)
    assert [row.name for row in result.layers] == [row.name for row in timed.layers]
    assert result.total_us == pytest.approx(timed.total_us)
    assert sum(row.latency_us for row in result.layers) == pytest.approx(result.total_us)


def test_images_lie_side_by_side_where_channels_are_few() -> None:
    (segment,) = NetworkPlan(load_model("digits-cnn"), BF16).segments
    sizes = {1: 1, 2: 2, 3: 4, 7: 8, 8: 8, 9: 8, 64: 16, 1000: 16}  # of a batch, and how many of 8 channels together
    assert {batch: segment.launch(batch).together for batch in sizes} == sizes
    assert [layer.together for layer in segment.launch(64).laid_out.layers] == [16, 16, 4, 2, 2, 1, 1]


def test_a_residual_network_is_one_launch_whose_sums_are_in_its_convolutions() -> None:
    plan = NetworkPlan(residual(), BF16)
    assert plan.note is None
    kinds = [(layer.name, layer.kind, len(layer.sources)) for layer in plan.layers[:3]]
    assert kinds == [("stem", "conv2d", 1), ("a0", "conv2d", 1), ("b0", "conv2d", 2)]


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("most", [31, 60])
def test_a_budget_of_instructions_cuts_between_blocks(most: int, batch: int) -> None:
    model = residual()
    session = Session(model, SimulatedBackend("trn2"), "float32", batch, LaunchOptions(instructions=most))
    note = session.launches_note
    assert note is not None
    launches = int(note.split()[0])
    assert launches == {31: 4, 60: 2}[most]
    assert f"launches of at most {most} instructions: cut after" in note
    assert not any(f" {name}" in note for name in ("a0", "a1", "a2"))  # two values pass there
    _check(session, model, batch)


def test_a_batch_is_cut_where_its_instructions_pass_the_budget() -> None:
    model = residual()
    whole = Session(model, SimulatedBackend("trn2"), "float32", 40)
    cut = Session(model, SimulatedBackend("trn2"), "float32", 40, LaunchOptions(instructions=300))
    note = re.fullmatch(
        r"a batch of 40 is (\d+) times up to (\d+): more would pass 300 instructions", cut.launches_note
    )
    assert note and int(note[1]) > 1 and int(note[1]) * int(note[2]) >= 40
    assert whole.launches_note is None
    launch = whole.time(40).layers[0].latency_us
    assert cut.time(40).layers[0].latency_us > 1.5 * launch
    _check(cut, model, 40)


def test_a_layer_that_is_too_large_for_sbuf_goes_through_hbm() -> None:
    """48,400 numbers a channel, in and out, are 387 KB of a partition."""
    layers = (
        Conv2d("a", 3, 16, (3, 3), (1, 1, 1, 1), 1, "relu"),
        Conv2d("b", 16, 16, (3, 3), (1, 1, 1, 1), 2, "relu"),
        Conv2d("c", 16, 8, (3, 3), (1, 1, 1, 1), 2, "relu"),
        Pool("mean", "average", (55, 55), (1, 1)),
        Flatten("flat"),
        Dense("dense", 8, 3),
    )
    image = ImageInput(3, 220, 220, "none", (0.0,) * 3, (1.0,) * 3)
    model = model_of(Network("large", image, layers, (), Output("values")))
    plan = NetworkPlan(model, np.dtype(np.float32))
    assert plan.note is None
    program = plan.segments[0].launch(1).laid_out.layers
    assert [layer.name for layer in program if layer.in_hbm] == ["a"]
    _check(Session(model, SimulatedBackend("trn2"), "float32", 1), model, 1)


def test_weights_that_sbuf_cannot_hold_stream_through_it() -> None:
    """8.4 million numbers are 256 KiB of a partition, more than it has."""
    layers = (Dense("a", 1024, 4096, "relu"), Dense("b", 4096, 1024, "relu"), Dense("c", 1024, 3))
    model = model_of(Network("wide", FeatureInput(1024), layers, (), Output("values")))
    session = Session(model, SimulatedBackend("trn2"), "float32", 3)
    assert session.launches_note is None
    _check(session, model, 3)
    one, three = (session.time(count).layers[2] for count in (1, 3))
    assert one.hbm_bytes == three.hbm_bytes == 4 * 4096 * 1024  # once for all rows of a pass


def test_a_last_layer_whose_weights_are_too_large_runs_as_the_others_do() -> None:
    layers = (Dense("a", 8, 2304, "relu"), Dense("b", 2304, 2048))  # 144 KiB of a partition
    model = model_of(Network("wide", FeatureInput(8), layers, (), Output("values")))
    plan = NetworkPlan(model, np.dtype(np.float32))
    assert [(layer.name, layer.kind) for layer in plan.layers[1:]] == [("b", "conv2d"), ("scores", "scores")]
    _check(Session(model, SimulatedBackend("trn2"), "float32", 2), model, 2)
