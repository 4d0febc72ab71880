"""Networks in one launch: comparison with the golden model, rows of the table, and networks that do not fit."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import (
    KINDS_OF_LAYERS,
    chains,
    conv,
    ending_in_dense,
    graphs,
    joined_channels,
    labels,
    model_of,
    of_kind,
    picture,
    residual,
)
from trninfer import kernels, simulator
from trninfer.lowering.launch_plan import LaunchPlanner
from trninfer.lowering.launch_sequence import LaunchSequence
from trninfer.lowering.pipeline import LaunchPlan, Pipeline
from trninfer.lowering.search.footprint import Footprint
from trninfer.models import load_model
from trninfer.models.files import Model
from trninfer.models.golden import run_network
from trninfer.models.inputs import FeatureInput, ImageInput
from trninfer.models.layers import Conv2d, Dense, Flatten, Layer, Pool, Softmax
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.runtime.backend import KernelError
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.launches import config_of, plan_launches
from trninfer.runtime.layer_launches import specs_of
from trninfer.runtime.model_flops import operations, row_operations
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

TOLERANCES = {"float32": 2e-5, "float16": 1e-2, "bfloat16": 6e-2}  # for numbers of magnitude 1, as in all layers


def session(
    model: Model, dtype: str = "float32", batch: int = 1, launches: str = "network", target: str = "trn2"
) -> Session:
    return Session(model, SimulatedBackend(target), dtype, batch, LaunchOptions(launches))


def check(network: Network, dtype: str, batch: int, target: str) -> None:
    model = model_of(network)
    running = session(model, dtype, batch, target=target)
    assert running.launches_note is None
    x = np.random.default_rng(4).standard_normal((batch, *network.input.shape)).astype(np.float32)
    result = running.run(x)
    expected = run_network(network, model.tensors, x).probabilities
    atol = TOLERANCES[dtype] * max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(result.probabilities, expected, atol=atol, rtol=0)
    best = np.take_along_axis(result.probabilities, result.classes[:, None], 1)[:, 0]
    np.testing.assert_array_equal(best, result.probabilities.max(axis=1))  # rounding may make others equal


@pytest.mark.slow
@settings(max_examples=15)
@given(
    st.one_of(chains(), graphs(), joined_channels()),
    st.sampled_from(["float32", "float16", "bfloat16"]),
    st.sampled_from([1, 2, 3, 5, 8, 17]),
    st.sampled_from(["trn1", "trn2", "trn3"]),
)
def test_any_network(network: Network, dtype: str, batch: int, target: str) -> None:
    check(network, dtype, batch, target)


@pytest.mark.parametrize("batch", [1, 16, 17, 129, 700])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_features_in_any_batch(dtype: str, batch: int) -> None:
    layers = (Dense("a", 150, 129, "relu"), Dense("b", 129, 9), Softmax("s"))
    check(Network("n", FeatureInput(150), layers, labels(9)), dtype, batch, "trn2")


@pytest.mark.slow
def test_batches_of_more_sizes_than_are_remembered() -> None:
    """The weights prepared for the packed images of one size are not reused for another size after eviction."""
    image = ImageInput(1, 4, 4, "none", (0.0,), (1.0,))
    layers = (Conv2d("a", 1, 8, (3, 3), padding=(1, 1, 1, 1)), Flatten("f"), Dense("b", 128, 3), Softmax("s"))
    network = Network("n", image, layers, labels(3))
    model = model_of(network)
    running = session(model, batch=70)
    x = np.random.default_rng(4).standard_normal((70, 1, 4, 4)).astype(np.float32)
    expected = run_network(network, model.tensors, x).probabilities
    for size in (*range(70, 0, -2), *range(1, 70, 2)):
        given = running.run(x[:size]).probabilities
        np.testing.assert_allclose(given, expected[:size], atol=TOLERANCES["float32"], rtol=0, err_msg=str(size))


@pytest.mark.slow
def test_sizes_of_batches_that_lay_weights_out_alike_share_them() -> None:
    given = []

    class Noting(SimulatedBackend):
        def launch(self, kernel, *arrays, **parameters):  # type: ignore[no-untyped-def]
            given.append(parameters)
            return super().launch(kernel, *arrays, **parameters)

    model = load_model("digits-cnn")
    running = Session(model, Noting("trn2"), "float32", 20)
    for size in (17, 12, 9, 1):
        running.run(np.zeros((size, *model.network.input.shape), np.float32))
    first, *alike, alone = given
    assert all(each[name] is first[name] for each in alike for name in ("weights", "channel_constants"))
    assert alone["weights"].nbytes < first["weights"].nbytes  # nothing is packed for one picture


@pytest.mark.parametrize("classes", [1, 7, 8, 9, 512, 513, 1000])
def test_any_number_of_classes(classes: int) -> None:
    layers = (Dense("a", 20, classes), Softmax("s"))
    check(Network("n", FeatureInput(20), layers, labels(classes)), "float32", 3, "trn2")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("last", [(Dense("a", 20, 129), Softmax("s", log=True)), (Softmax("s", log=True),)])
def test_logarithms_of_a_softmax_at_the_end(last: tuple[Layer, ...], dtype: str) -> None:
    network = Network("n", FeatureInput(20), last, labels(129 if len(last) > 1 else 20))
    assert session(model_of(network), dtype).launches_note is None
    check(network, dtype, 130, "trn2")


# one picture more than a multiple of the packed images: its layers take as long as those of a full group
ONE_MORE = 1.08


@pytest.mark.parametrize(
    ("name", "target", "dtype"),
    [
        ("digits-cnn", "trn2", "float32"),
        pytest.param("digits-cnn", "trn3", "bfloat16", marks=pytest.mark.slow),
        pytest.param("digits-ffnn", "trn1", "float32", marks=pytest.mark.slow),
        ("digits-ffnn", "trn2", "bfloat16"),
        pytest.param("residual", "trn1", "bfloat16", marks=pytest.mark.slow),
        pytest.param("residual", "trn2", "float32", marks=pytest.mark.slow),
    ],
)
def test_batches_of_any_size(name: str, target: str, dtype: str) -> None:
    """Hardly any size is slower per picture than a smaller one; no launch is slower than layer by layer."""
    model = residual() if name == "residual" else load_model(name)
    networks, layers = (session(model, dtype, 1, how, target) for how in ("network", "layer"))
    before = np.inf
    for batch in (1, 2, 9, 16, 65):
        network = networks.time(batch).total_us
        assert network <= layers.time(batch).total_us, f"a batch of {batch}"
        assert network / batch <= ONE_MORE * before, f"a batch of {batch} is slower a picture than a smaller one"
        before = min(before, network / batch)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS_OF_LAYERS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_launch_of_each_kind_of_layer(kind: str, dtype: str) -> None:
    """None is slower than layer by layer in a small or a large batch."""
    model = of_kind(kind)
    check(model.network, dtype, 3, "trn2")
    networks, layers = (session(model, dtype, 1, how) for how in ("network", "layer"))
    for batch in (1, 64):
        assert networks.time(batch).total_us <= layers.time(batch).total_us, f"a batch of {batch}"


def operations_of_layers(model: Model) -> list[int]:
    shapes = model.network.shapes()
    layers = model.network.layers
    return [operations(layer, *[shapes[name] for name in layer.inputs]).total for layer in layers]


def test_a_row_a_layer_that_add_up() -> None:
    running = session(load_model("digits-cnn"), batch=48)
    result = running.time(48)
    assert [row.name for row in result.layers] == ["launch", "conv1", "conv2", "conv3", "conv4", "conv5", "output"]
    assert [row.kernel for row in result.layers] == ["run_network", *["conv2d"] * 5, "dense"]
    assert result.layers[2].output_shape == (48, 32, 8, 8) and result.layers[-1].output_shape == (48, 11)
    assert sum(row.latency_us for row in result.layers) == pytest.approx(result.total_us)
    assert sum(row.share for row in result.layers) == pytest.approx(1)
    whole = SimulatedBackend("trn2")
    model, dtype = load_model("digits-cnn"), np.dtype(np.float32)
    config = config_of("float32", whole.info, LaunchOptions())
    (segment,) = LaunchSequence(model, dtype, config, LaunchOptions().instructions).segments
    planned = segment.plan(48)
    x = segment.arrange(np.zeros((48, *model.network.input.shape), dtype), planned, dtype)
    operands = planned.layout.operands(dtype)
    launch = whole.launch(kernels.kernel("run_network"), x, **operands, program=planned.program)
    assert launch.time.latency_us == pytest.approx(result.total_us)
    assert sum(row.hardware_flops for row in result.layers) == launch.time.hardware_flops
    work = row_operations(model.network, running.rows)
    assert [row.flops for row in result.layers] == [48 * each.total for each in work]
    assert sum(row.flops for row in result.layers) == 48 * sum(operations_of_layers(model))
    assert sum(row.hbm_bytes for row in result.layers) == launch.time.hbm_bytes
    assert launch.time.latency_error and {row.latency_error for row in result.layers} == {launch.time.latency_error}


def test_network_too_large_for_one_launch_is_planned_by_layer_with_a_reason() -> None:
    layers = (Pool("mean", "average", (319, 319), (1, 1)), Flatten("flat"), Dense("b", 12, 3))
    model = model_of(Network("n", picture(3, 320, 320), layers, (), Output("values")))
    running = session(model)
    assert running.launches_note is not None
    assert running.launches_note.startswith(
        "layer by layer, not in one launch: layer 'mean' (average_pool) needs 412 KiB of an SBUF partition"
    )
    assert running.rows == session(model, launches="layer").rows


def test_a_launch_that_exceeds_sbuf_despite_its_estimate_leaves_layers_and_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The simulator allocates every tile, whereas the search estimates what a launch needs before it simulates it."""
    layers = [conv("a", 3, 8, 3), Pool("p", "max", (240, 240), (240, 240))]
    model = model_of(ending_in_dense((3, 240, 240), layers))
    with monkeypatch.context() as patched:
        patched.setattr(Footprint, "peak", (0, 0))
        running = session(model)
    assert session(model).launches_note is None
    assert running.launches_note is not None
    assert re.fullmatch(
        r"layer by layer, not in one launch: .* bytes per partition exceed the \d+ of SBUF on trn2.*",
        running.launches_note,
    )
    assert running.rows == session(model, launches="layer").rows


def test_a_planner_that_raises_leaves_layers_and_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*given: object, **named: object) -> None:
        raise KeyError(20)

    monkeypatch.setattr(Pipeline, "run", fail)
    model = of_kind("dense")
    with caplog.at_level("ERROR", "trninfer"):
        running = session(model)
    assert running.launches_note is not None
    assert re.fullmatch(
        r"layer by layer, not in one launch: its plan failed \(KeyError: 20 at test_launches.py:\d+\)",
        running.launches_note,
    )
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert running.rows == session(model, launches="layer").rows
    caplog.clear()  # otherwise the test fails (conftest.py)


@pytest.mark.usefixtures("first_plans")
def test_a_planner_that_raises_for_some_batches_runs_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = LaunchPlanner._plan

    def plan(self: LaunchPlanner, pictures: int) -> LaunchPlan:
        assert pictures not in (3, 4, 7), "no plan"
        return real(self, pictures)

    monkeypatch.setattr(LaunchPlanner, "_plan", plan)
    model = of_kind("conv2d")
    running = session(model, batch=7)
    x = np.random.default_rng(0).standard_normal((7, *model.network.input.shape)).astype(np.float32)
    expected = run_network(model.network, model.tensors, x).probabilities
    for batch in (1, 3, 4, 7):
        np.testing.assert_allclose(running.run(x[:batch]).probabilities, expected[:batch], atol=1e-4)
    assert running.launches_note is not None and "a batch of 7 runs as" in running.launches_note
    assert "the plan of one launch failed (AssertionError: no plan" in running.launches_note
    assert any("no plan for 7 images" in record.message for record in caplog.records)
    caplog.clear()  # otherwise the test fails (conftest.py)


def test_a_backend_that_does_not_report_layers_has_one_row() -> None:
    (row,) = plan_launches(
        load_model("digits-ffnn"), "float32", replace(SimulatedBackend("trn2").info, has_layer_times=False)
    ).rows
    assert (row.name, row.kernel, row.input_shape, row.output_shape) == ("network", "run_network", (-1, 64), (-1, 10))


@pytest.mark.slow
@pytest.mark.usefixtures("one_launch")
@pytest.mark.parametrize("instructions", [50_000, pytest.param(50, marks=pytest.mark.by_hand)])  # one launch, several
def test_two_cores_answer_as_one_does(instructions: int) -> None:
    model = load_model("digits-cnn")
    x = np.random.default_rng(0).standard_normal((9, *model.network.input.shape)).astype(np.float32)
    options = LaunchOptions(instructions=instructions)
    one, two = (Session(model, SimulatedBackend("trn2", lnc=lnc), "float32", 9, options) for lnc in (1, 2))
    assert (len(two.show(1)) > 1) == (instructions < 1000)
    for batch in (1, 9):
        expected, given = one.run(x[:batch]), two.run(x[:batch])
        np.testing.assert_array_equal(given.classes, expected.classes)
        np.testing.assert_allclose(given.probabilities, expected.probabilities, atol=1e-5)
        assert given.total_us == two.time(batch).total_us  # also from shapes only
        assert given.total_us == pytest.approx(sum(layer.latency_us for layer in given.layers))
        assert given.total_us < expected.total_us or batch < 2


@pytest.mark.usefixtures("first_plans")
def test_the_price_of_a_plan_on_two_cores_is_that_of_its_launch() -> None:
    model = load_model("digits-cnn")
    backend = SimulatedBackend("trn2", lnc=2)
    plan = LaunchSequence(model, np.dtype(np.float32), config_of("float32", backend.info, LaunchOptions()), 50_000)
    planned = plan.segments[0].plan(6)
    assert (planned.cores, planned.program.pictures) == (2, 3)
    result = backend.time(
        kernels.kernel("run_network"), **specs_of(planned, np.dtype(np.float32)), program=planned.program
    )
    assert planned.nanoseconds / 1000 == pytest.approx(result.time.latency_us - 10.2)


@pytest.mark.usefixtures("first_plans")
def test_two_cores_write_nothing_twice() -> None:
    model = load_model("digits-cnn")
    config = config_of("float32", SimulatedBackend("trn2", lnc=2).info, LaunchOptions())
    (segment,) = LaunchSequence(model, np.dtype(np.float32), config, 50_000).segments
    for batch in (1, 3):
        planned = segment.plan(batch)
        x = segment.arrange(np.zeros((batch, *model.network.input.shape), np.float32), planned, np.dtype(np.float32))
        operands = segment.operands(planned, np.dtype(np.float32))
        kernel = kernels.kernel("run_network")
        run = simulator.run(kernel, x, **operands, target="trn2", lnc=2, sanitize=True, program=planned.program)
        assert not [finding for finding in run.findings if finding.kind == "race"]


def test_layer_by_layer_is_refused_on_two_cores() -> None:
    model = load_model("digits-ffnn")
    with pytest.raises(KernelError, match=r"digits-ffnn: runs layer by layer \(as asked for\), .* omit --lnc 2"):
        Session(model, SimulatedBackend("trn2", lnc=2), launches=LaunchOptions("layer"))
