"""Dividing networks into launches, values passed through HBM, and packed images."""

import re
from dataclasses import replace

import numpy as np
import pytest
from random_networks import model_of, of_kind, residual
from trninfer.kernels.program import Memory
from trninfer.lowering.config import LoweringConfig
from trninfer.lowering.graph.graph import Graph
from trninfer.lowering.launch_plan import LaunchPlanner
from trninfer.lowering.launch_sequence import LaunchSequence
from trninfer.lowering.plan_cache import PlanCache
from trninfer.models import load_model
from trninfer.models.files import Model
from trninfer.models.golden import run_network
from trninfer.models.inputs import FeatureInput, ImageInput
from trninfer.models.layers import ChannelSlice, Concat, Conv2d, Dense, Flatten, Layer, Pool, Reshape
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.runtime.backend import DTYPES
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend
from trninfer.simulator.machine.chip import PARTITIONS

pytestmark = pytest.mark.slow


def _check(session: Session, model: Model, batch: int) -> None:
    x = np.random.default_rng(4).standard_normal((batch, *model.network.input.shape)).astype(np.float32)
    result = session.run(x)
    expected = run_network(model.network, model.tensors, x).probabilities
    np.testing.assert_allclose(result.probabilities, expected, atol=1e-4 * max(1.0, float(np.abs(expected).max())))
    timed = session.time(batch)
    assert [row.name for row in result.layers] == [row.name for row in timed.layers]
    assert result.total_us == pytest.approx(timed.total_us)
    assert sum(row.latency_us for row in result.layers) == pytest.approx(result.total_us)


def _plan(model: Model, dtype: str = "float32", most: int = 50_000) -> LaunchSequence:
    numbers = DTYPES[dtype]
    return LaunchSequence(model, numbers, LoweringConfig("trn2", numbers.itemsize, cache=PlanCache(None)), most)


def test_images_lie_side_by_side_where_channels_are_few() -> None:
    """As many as exist or fit on the partitions; fewer if layers have more channels."""
    (segment,) = _plan(load_model("digits-cnn"), "bfloat16").segments
    assert segment.plan(1).program.packed <= 2  # like those for two pictures, if that is faster for one
    assert segment.plan(2).program.packed == 2
    plan = segment.plan(16)
    packed = [node.operation.packed for node in plan.graph.nodes]
    assert packed[0] == plan.program.packed > packed[-1] and packed == sorted(packed, reverse=True)
    assert all(
        plan.graph.packed_in(node) * node.before[0] <= PARTITIONS
        for node in plan.graph.nodes
        if node.before[0] < PARTITIONS
    )
    assert plan.images % plan.program.packed == 0 and plan.images >= 16


def test_a_residual_network_is_one_launch_whose_sums_are_in_its_convolutions() -> None:
    plan = _plan(residual())
    assert plan.note is None and len(plan.segments) == 1
    kinds = [(node.name, node.kind, len(node.sources)) for node in plan.graph.nodes[:3]]
    assert kinds == [("stem", "conv2d", 1), ("a0", "conv2d", 1), ("b0", "conv2d", 2)]


@pytest.mark.parametrize("share", [0.4, 0.7])
def test_a_budget_of_instructions_cuts_between_blocks(share: float) -> None:
    """Each launch extends as far as the budget allows: adding the next launch up to its first border would exceed
    it."""
    model = residual()
    (whole,) = _plan(model).segments
    most = int(whole.plan(1).instructions * share)
    plan = _plan(model, most=most)
    counts = [segment.plan(1).instructions for segment in plan.segments]
    ends = [segment.last for segment in plan.segments]
    assert max(counts) <= most < sum(counts) and ends[-1] == "dense"
    assert not {"a0", "a1", "a2"} & set(ends)  # two values cross there
    assert plan.note == f"{len(ends)} launches of at most {most} instructions: cut after {', '.join(ends[:-1])}"
    names = [node.name for node in plan.graph.nodes]
    first = "stem"
    for end in ends[:-1]:
        possible = [name for name in names[names.index(end) + 1 :] if name not in ("a0", "a1", "a2")]
        assert _instructions(plan, first, possible[0]) > most
        first = names[names.index(end) + 1]


def _instructions(plan: LaunchSequence, first: str, last: str) -> int:
    """Return the number of instructions in a launch of the layers from `first` to `last`, inclusive."""
    numbers = [node.name for node in plan.graph.nodes]
    start, end = numbers.index(first), numbers.index(last) + 1
    nodes = [
        node.changed(sources=tuple(tuple(max(-1, part - start) for part in parts) for parts in node.sources))
        for node in plan.graph.nodes[start:end]
    ]
    if end < len(numbers):
        nodes[-1] = replace(nodes[-1], output=0)
    image = plan.graph.nodes[start - 1].operation.shape if start else plan.graph.image
    graph = Graph(tuple(nodes), image, plan.graph.itemsize, from_host=start == 0)
    config = LoweringConfig("trn2", plan.graph.itemsize, cache=PlanCache(None))
    return LaunchPlanner(graph, config).plan(1).instructions


@pytest.mark.usefixtures("one_launch")
@pytest.mark.parametrize("batch", [1, 5])
def test_launches_that_a_budget_cuts_answer_as_one_does(batch: int) -> None:
    model = residual()
    session = Session(model, SimulatedBackend("trn2"), "float32", batch, LaunchOptions(instructions=60))
    note = session.launches_note
    assert note is not None and "launches of at most 60 instructions: cut after" in note
    _check(session, model, batch)


def test_a_budget_that_nothing_fits_cuts_at_every_border() -> None:
    plan = _plan(residual(blocks=1), most=1)
    assert [segment.last for segment in plan.segments] == ["stem", "b0", "mean", "dense"]
    largest = max(segment.plan(1).instructions for segment in plan.segments)
    assert f"at most 1 instructions if possible ({largest} in the largest): cut after" in str(plan.note)


def test_a_batch_is_cut_where_its_instructions_pass_the_budget() -> None:
    model = residual()
    whole = Session(model, SimulatedBackend("trn2"), "float32", 40)
    cut = Session(model, SimulatedBackend("trn2"), "float32", 40, LaunchOptions(instructions=300))
    note = re.fullmatch(
        r"a batch of 40 runs as (\d+) launches of up to (\d+); more images would exceed 300 instructions",
        cut.launches_note,
    )
    assert note and int(note[1]) > 1 and int(note[1]) * int(note[2]) >= 40
    assert whole.launches_note is None
    launch = whole.time(40).layers[0].latency_us
    assert cut.time(40).layers[0].latency_us > 1.5 * launch
    _check(cut, model, 40)


def _large(side: int, *layers: Layer) -> Model:
    image = ImageInput(3, side, side, "none", (0.0,) * 3, (1.0,) * 3)
    return model_of(Network("large", image, layers, (), Output("values")))


def test_a_layer_that_is_too_large_for_sbuf_runs_in_bands_of_rows() -> None:
    """48,400 input and output numbers per channel take 387 KB per partition."""
    model = _large(
        220,
        Conv2d("a", 3, 16, (3, 3), (1, 1, 1, 1), 1, "relu"),
        Conv2d("b", 16, 16, (3, 3), (1, 1, 1, 1), 2, "relu"),
        Conv2d("c", 16, 8, (3, 3), (1, 1, 1, 1), 2, "relu"),
        Pool("mean", "average", (55, 55), (1, 1)),
        Flatten("flat"),
        Dense("dense", 8, 3),
    )
    plan = _plan(model)
    assert plan.note is None
    bands = [operation for operation in plan.segments[0].plan(1).program.operations if operation.name == "a"]
    assert len(bands) > 1 and all(band.rows < 220 for band in bands)
    _check(Session(model, SimulatedBackend("trn2"), "float32", 1, LaunchOptions(form="direct")), model, 1)


@pytest.mark.usefixtures("one_launch")
def test_a_value_that_is_too_large_for_sbuf_goes_through_hbm() -> None:
    """`b` is assembled from bands of `a`, and does not fit beside the weights that the dense layer loads."""
    model = _large(
        320,
        Conv2d("a", 3, 4, (3, 3), (1, 1, 1, 1), 1, "relu"),
        Conv2d("b", 4, 4, (3, 3), (1, 1, 1, 1), 1, "relu", stride=(2, 2)),
        Flatten("flat"),
        Dense("dense", 4 * 160 * 160, 3),
    )
    plan = _plan(model)
    assert plan.note is None
    nodes = plan.segments[0].plan(1).graph.nodes
    assert [node.name for node in nodes if node.memory is Memory.HBM] == ["b"]
    session = Session(model, SimulatedBackend("trn2"), "float32", 1, LaunchOptions(form="direct"))
    _check(session, model, 1)
    rows = {row.name: row for row in session.time(1).layers}
    value = 4 * 4 * 160 * 160
    assert rows["b"].hbm_bytes > value and rows["dense"].hbm_bytes > value + 4 * 3 * 4 * 160 * 160


def test_weights_that_sbuf_cannot_hold_stream_through_it() -> None:
    """8.4 million numbers take 256 KiB per partition, more than its size."""
    layers = (Dense("a", 1024, 4096, "relu"), Dense("b", 4096, 1024, "relu"), Dense("c", 1024, 3))
    model = model_of(Network("wide", FeatureInput(1024), layers, (), Output("values")))
    session = Session(model, SimulatedBackend("trn2"), "float32", 3)
    assert session.launches_note is None
    _check(session, model, 3)
    one, three = (session.time(count).layers[2] for count in (1, 3))  # for layer b
    assert one.hbm_bytes == three.hbm_bytes == 4 * 4096 * 1024  # once for all rows of a pass


def test_a_last_layer_whose_weights_are_too_large_runs_as_the_others_do() -> None:
    layers = (Dense("a", 8, 2304, "relu"), Dense("b", 2304, 2048))  # 144 KiB per partition
    model = model_of(Network("wide", FeatureInput(8), layers, (), Output("values")))
    assert len(_plan(model).segments) == 1
    session = Session(model, SimulatedBackend("trn2"), "float32", 2)
    assert session.launches_note is None and [row.name for row in session.rows] == ["launch", "a", "b"]
    _check(session, model, 2)


def test_a_batch_that_no_memory_holds_at_once_is_one_launch() -> None:
    """Reshaped values cannot be processed in bands; the batch is processed in parts of fewer pictures instead."""
    side = 120
    layers = (
        ChannelSlice("one", 0, side * side, inputs=("input",)),
        Reshape("left", (1, side, side)),
        Conv2d("a", 1, 2, (3, 3), stride=(4, 4)),
        Flatten("flat"),
        ChannelSlice("row", side * side, side * side + 3, inputs=("input",)),
        Dense("b", 2 * 30 * 30, 3, inputs=("flat",)),
        Concat("all", inputs=("b", "row")),
        Dense("dense", 6, 4),
    )
    plan = _plan(model_of(Network("n", FeatureInput(side * side + 3), layers, tuple("abcd"))))
    (segment,) = plan.segments
    planned = segment.plan(16)
    assert planned.program.pictures == 16 and planned.program.stages[0].at_once < 16


def test_the_note_states_the_fault_of_a_smaller_batch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One launch for 8 images exceeds the instruction budget, and planning fails for 4."""

    def count(self: LaunchSequence, images: int) -> int:
        assert images != 4, "no plan"
        return 100 * images

    monkeypatch.setattr(LaunchSequence, "_most_instructions", count)
    plan = LaunchSequence(
        of_kind("conv2d"), np.dtype(np.float32), LoweringConfig("trn2", 4, cache=PlanCache(None)), 450, 8
    )
    note = plan.note_of(8)
    assert note is not None and note.startswith("a batch of 8 runs as 4 launches of up to 2; more images would exceed")
    assert "; the plan for 4 images failed (AssertionError: no plan" in note
    caplog.clear()  # otherwise the test fails (conftest.py)
