"""Networks on the simulator, compared with the golden model, and sums of times."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer import simulator
from trninfer.lowering.config import LoweringConfig
from trninfer.lowering.plan_cache import PlanCache
from trninfer.models import Conv2d, Dense, FeatureInput, Flatten, ImageInput, Model, Network, Softmax, run_network
from trninfer.models.layout import pack_conv2d
from trninfer.models.outputs import Output
from trninfer.runtime import layer_launches
from trninfer.runtime.backend import BackendInfo, LaunchResult, LaunchTime
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.layer_launches import LayerStep, plan_layers
from trninfer.runtime.session import OverflowedError, Session
from trninfer.runtime.simulated import SimulatedBackend

FLOAT32 = np.dtype(np.float32)


def labels(count: int) -> tuple[str, ...]:
    return tuple(f"label {i}" for i in range(count))


def random_model(network: Network, seed: int = 0) -> Model:
    random = np.random.default_rng(seed)
    tensors = {
        name: (random.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32)
        for name, shape in network.tensor_shapes().items()
    }
    return Model(network, tensors, {})


def inputs(network: Network, count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, *network.input.shape), np.float32)


FEATURES = Network(
    "features", FeatureInput(20), (Dense("hidden", 20, 30, "relu"), Dense("out", 30, 5), Softmax("softmax")), labels(5)
)
PICTURES = Network(
    "pictures",
    ImageInput(1, 12, 10, "digit", (0.0,), (1.0,)),
    (
        Conv2d("conv", 1, 6, (3, 3), (1, 1, 1, 1), 2, "relu"),
        Conv2d("wide", 6, 4, (3, 3), activation="tanh"),
        Flatten("flatten"),
        Dense("head", 4 * 4 * 3, 3),
        Softmax("softmax"),
    ),
    labels(3),
)


def steps_of(network: Network) -> tuple[LayerStep, ...]:
    config = LoweringConfig("trn2", FLOAT32.itemsize, cache=PlanCache(None))
    return plan_layers(random_model(network), FLOAT32, config)


def session(network: Network, dtype: str = "float32", batch_size: int = 4, launches: str = "layer") -> Session:
    return Session(random_model(network), SimulatedBackend("trn2"), dtype, batch_size, LaunchOptions(launches))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float16", 5e-3), ("bfloat16", 4e-2)])
@pytest.mark.parametrize("network", [FEATURES, PICTURES], ids=lambda network: network.name)
def test_answers_are_the_golden_models(network: Network, dtype: str, tolerance: float) -> None:
    model = random_model(network)
    x = inputs(network, 7)
    result = Session(model, SimulatedBackend("trn2"), dtype, 3).run(x)
    golden = run_network(network, model.tensors, x)
    np.testing.assert_allclose(result.probabilities, golden.probabilities, atol=tolerance)
    assert result.classes.dtype == np.int32
    assert np.array_equal(result.classes, result.probabilities.argmax(axis=1))


@pytest.mark.slow
@given(
    features=st.sampled_from([1, 3, 127, 129]), hidden=st.sampled_from([1, 2, 130]), classes=st.sampled_from([1, 2, 9]),
    count=st.integers(1, 5), batch_size=st.integers(1, 6), activation=st.sampled_from(["relu", "gelu", "sigmoid"]),
)  # fmt: skip
@settings(max_examples=15)
def test_any_sizes_and_batches(
    features: int, hidden: int, classes: int, count: int, batch_size: int, activation: str
) -> None:
    layers = (Dense("a", features, hidden, activation), Dense("b", hidden, classes), Softmax("s"))
    network = Network("n", FeatureInput(features), layers, labels(classes))
    model = random_model(network)
    x = inputs(network, count)
    result = Session(model, SimulatedBackend("trn2"), "float32", batch_size).run(x)
    golden = run_network(network, model.tensors, x)
    np.testing.assert_allclose(result.probabilities, golden.probabilities, atol=1e-5)


def test_rows_are_named_after_layers_and_kernels() -> None:
    steps = steps_of(PICTURES)
    assert [(step.name, step.kernel) for step in steps] == [
        ("conv.conv2d", "fused_conv2d_maxpool_packed"),
        ("wide.conv2d", "fused_conv2d_maxpool_packed"),
        ("head.transpose", "transpose"),
        ("head.matmul", "matmul_fully_optimized"),
        ("head.bias_activation", "bias_activation"),
        ("argmax", "argmax"),
    ]
    assert steps[4].parameters["activation"] == "softmax"  # the softmax layer is fused into it


@pytest.mark.parametrize(
    ("network", "softmaxes"),
    [
        (Network("n", FeatureInput(4), (Dense("d", 4, 3, "relu"), Softmax("s")), labels(3)), 1),
        (Network("n", FeatureInput(4), (Softmax("s"),), labels(4)), 1),
        (Network("n", FeatureInput(4), (Dense("d", 4, 3),), labels(3)), 0),
    ],
    ids=["softmax after relu", "softmax alone", "no softmax"],
)
def test_networks_whose_softmax_cannot_be_fused(network: Network, softmaxes: int) -> None:
    model = random_model(network)
    assert len([step for step in steps_of(network) if step.name.startswith("s.")]) == softmaxes
    x = inputs(network, 3)
    result = Session(model, SimulatedBackend("trn2")).run(x)
    np.testing.assert_allclose(result.probabilities, run_network(network, model.tensors, x).probabilities, atol=1e-6)


def test_shapes_count_all_inputs_and_shares_make_one() -> None:
    result = session(FEATURES, batch_size=4).run(inputs(FEATURES, 10))
    assert result.layers[0].input_shape == (10, 20) and result.layers[0].output_shape == (20, 10)
    assert result.layers[-1].output_shape == (10,)
    assert sum(layer.share for layer in result.layers) == pytest.approx(1)
    assert result.total_us == pytest.approx(sum(layer.latency_us for layer in result.layers))


def test_time_from_shapes_returns_the_same_rows() -> None:
    for network in (FEATURES, PICTURES):
        assert session(network).time(10).layers == session(network).run(inputs(network, 10)).layers


def test_the_last_smaller_batch_adds_its_own_time() -> None:
    full, rest = session(FEATURES, batch_size=4).time(4).layers, session(FEATURES, batch_size=4).time(2).layers
    together = session(FEATURES, batch_size=4).time(10).layers
    for row, a, b in zip(together, full, rest, strict=True):
        assert row.latency_us == pytest.approx(2 * a.latency_us + b.latency_us)
        assert row.hbm_bytes == 2 * a.hbm_bytes + b.hbm_bytes


def test_a_time_is_computed_once_for_a_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    latency = simulator.Run.latency_us

    def counting(run: simulator.Run) -> float:
        asked.append(run)
        return latency.__get__(run)

    monkeypatch.setattr(simulator.Run, "latency_us", property(counting))
    running = session(FEATURES, batch_size=4)
    running.run(inputs(FEATURES, 12))
    assert len(set(map(id, asked))) == 7  # one for each launch of a batch, none for the second and third batch
    running.run(inputs(FEATURES, 13))
    assert len(set(map(id, asked))) == 14  # a batch of one has a different shape


def test_batches_are_read_lazily_and_progress_is_reported() -> None:
    events: list[object] = []

    def batches() -> Iterator[np.ndarray]:
        for number in range(3):
            events.append(f"batch {number}")
            yield inputs(FEATURES, 2)

    for answer in session(FEATURES).stream(batches(), events.append):
        events.append(f"answered {len(answer.classes)}")
    numbers = [event for event in events if isinstance(event, float)]
    assert numbers == sorted(numbers) and numbers[-1] == 6
    told = [event for event in events if isinstance(event, str)]
    assert told == ["batch 0", "answered 2", "batch 1", "answered 2", "batch 2", "answered 2"]


def test_empty_input_gives_empty_result() -> None:
    assert list(session(FEATURES).stream([])) == []
    result = session(FEATURES).run(inputs(FEATURES, 0))
    assert len(result.classes) == 0 and result.probabilities.shape == (0, 5) and result.layers == ()


def test_weights_are_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = []
    monkeypatch.setattr(layer_launches, "pack_conv2d", lambda *filters: packed.append(1) or pack_conv2d(*filters))
    running = session(PICTURES)
    for _ in range(2):
        running.run(inputs(PICTURES, 5))
        assert len(packed) == 2


def test_wrong_shapes_and_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="expects 20 features, not 21"):
        session(FEATURES).run(np.zeros((2, 21), np.float32))
    with pytest.raises(ValueError, match="at least 1"):
        session(FEATURES, batch_size=0)


def test_overflow_is_reported() -> None:
    x = np.full((1, 20), 1e6, np.float32)  # beyond float16
    with pytest.raises(OverflowedError, match=r"not finite in float16.*float32"):
        session(FEATURES, "float16").run(x)


@pytest.mark.parametrize("sign", [1, -1])
def test_an_overflow_to_infinity_alone_is_reported(sign: int) -> None:
    network = Network("n", FeatureInput(4), (Dense("d", 4, 2),), (), Output("values"))
    tensors = {"d.weight": np.full((4, 2), sign, np.float32), "d.bias": np.zeros(2, np.float32)}
    x = np.full((1, 4), 6e4, np.float32)  # 240,000 overflows float16; no difference of infinities is computed
    for per in ("network", "layer"):
        ran = Session(Model(network, tensors, {}), SimulatedBackend("trn2"), "float16", 1, LaunchOptions(per))
        with pytest.raises(OverflowedError, match="not finite in float16"):
            ran.run(x)


class Stopped:
    """A backend with prescribed launch times."""

    info = BackendInfo("sim", "trn2", "predicted", "predicted")

    def __init__(self, times: list[tuple[float, float | None, str]]) -> None:
        self.times = iter(times)

    def time(self, kernel: object, *specs: object, **parameters: object) -> LaunchResult:
        latency, mfu, bound_by = next(self.times)
        return LaunchResult((), LaunchTime(latency, 2 * latency, None, None, 10, 20, bound_by, mfu))


def test_sums_over_launches() -> None:
    network = Network("n", FeatureInput(4), (Softmax("s"),), labels(4))
    backend = Stopped([(10, 0.5, "dma"), (1, 0.1, "latency"), (30, 0.1, "tensor"), (1, 0.1, "latency")])
    row = Session(random_model(network), backend, batch_size=2, launches=LaunchOptions("layer")).time(4).layers[0]  # type: ignore[arg-type]
    assert (row.latency_us, row.latency_us_p99, row.flops, row.hbm_bytes) == (40, 80, 16, 40)
    assert row.bound_by == "tensor"
    assert row.mfu == pytest.approx((10 * 0.5 + 30 * 0.1) / 40)
    assert row.share == pytest.approx(40 / 42)
