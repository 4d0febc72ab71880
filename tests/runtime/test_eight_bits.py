"""Networks in float8_e4m3, compared with ONNX Runtime and the golden model within the rounding of the dtype."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from batched_networks import BoundedNetwork, RandomNetwork
from random_networks import model_of, picture
from trninfer.inference.running import PatientSession
from trninfer.lowering.decisions import Kind, Option, Question
from trninfer.lowering.eight_bits import scaled
from trninfer.lowering.emission import weights as laid_out
from trninfer.lowering.search.cheapest_options import CheapestOptions
from trninfer.models import Model
from trninfer.models.golden import run_network
from trninfer.models.importing import ImportOptions, import_network
from trninfer.models.layers import Combine, Conv2d, Flatten, Layer, Pool
from trninfer.models.layers import Dense as DenseLayer
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.runtime.backend import EIGHT_BITS, KernelError
from trninfer.runtime.calibration import Calibration
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.session import OverflowedError, Session
from trninfer.runtime.simulated import SimulatedBackend
from trninfer.runtime.tolerances import network_tolerance

pytestmark = pytest.mark.slow

BATCHES = (1, 2, 3, 4, 7, 16)
TARGETS = ("trn1", "trn2", "trn3")
# Seeds of networks with four or five such layers.
WITH_EIGHT_BITS = (*(pytest.param(seed, marks=pytest.mark.by_hand) for seed in (0, 8)), 2, 18)
# Seeds of networks with values or weights that can be in 8 bits.
BOUNDED = (4, *(pytest.param(seed, marks=pytest.mark.by_hand) for seed in (13, 15)), 30, 32)
WITHOUT_WEIGHTS_BETWEEN = {30}  # those without such layers between the first and the last


def residual_network(channels: int = 160, pool: int = 1) -> Network:
    """Return a network of values with a residual sum, whose filters' channels differ by powers of two."""
    side = 10 // pool
    layers: list[Layer] = [
        Conv2d("first", 3, 32, (3, 3), (1, 1, 1, 1), pool, "relu"),
        Conv2d("wide", 32, channels, (3, 3), (1, 1, 1, 1), activation="relu"),
        Conv2d("next", channels, channels, (3, 3), (1, 1, 1, 1), activation="relu"),
        Conv2d("sum", channels, channels, (1, 1)),
        Combine("added", "add", inputs=("sum", "wide"), activation="relu"),
        Conv2d("mix", channels, 48, (1, 1), activation="gelu"),
        Pool("mean", "average", (side, side), (1, 1)),
        Flatten("flat"),
        DenseLayer("last", 48, 9),
    ]
    return Network("n", picture(3, 10, 10), tuple(layers), (), Output("values"))


def uneven(network: Network, seed: int = 0) -> Model:
    """Return a network whose filters differ in magnitude by channel, up to a factor of sixteen."""
    model, random = model_of(network), np.random.default_rng(seed)
    tensors = dict(model.tensors)
    for name, tensor in model.tensors.items():
        if tensor.ndim == 4:
            tensors[name] = (
                tensor * (2.0 ** random.integers(-2, 3, len(tensor))).astype(np.float32)[:, None, None, None]
            )
    return Model(model.network, tensors, model.metadata)


def error_of(model: Model, batch: int, target: str = "trn2", launches: LaunchOptions | None = None) -> float:
    """Return the largest error of a batch as a share of the largest number."""
    x = np.random.default_rng(batch).standard_normal((batch, *model.network.input.shape), np.float32)
    with np.errstate(all="ignore"):
        expected = run_network(model.network, model.tensors, x).scores
    session = Session(model, SimulatedBackend(target), EIGHT_BITS, batch, launches or LaunchOptions())
    return float(np.abs(session.run(x).probabilities - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("seed", WITH_EIGHT_BITS)
def test_random_networks_are_answered_as_onnx_runtime_answers_them(seed: int, tmp_path: Path) -> None:
    network = RandomNetwork(seed)
    path = network.saved(tmp_path)
    golden = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    imported = import_network(path, options=ImportOptions(output_kind="values"))
    random = np.random.default_rng(seed)
    session = Session(
        Model(imported.network, imported.tensors, {}), SimulatedBackend(TARGETS[seed % 3]), EIGHT_BITS, max(BATCHES)
    )
    for batch in BATCHES:
        x = random.standard_normal((batch, *network.shape)).astype(np.float32)
        (expected,) = golden.run(None, {"x": x})
        error = np.abs(session.run(x).probabilities - expected).max()
        assert error <= network_tolerance(EIGHT_BITS) * max(1.0, np.abs(expected).max()), network.words


PRICED = CheapestOptions.answer


def fp8_wherever_possible(cheapest: CheapestOptions, question: Question) -> Option:
    """Make the choices of the cost model, but store values in 8 bits wherever possible."""
    if question.kind is not Kind.FP8:
        return PRICED(cheapest, question)
    option = question.options[-1]
    cheapest.made.append(question.choice(option))
    return option


@pytest.mark.parametrize("seed", BOUNDED)
def test_whatever_may_be_in_eight_bits_is_right(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random networks in one launch, or on two cores, with all possible values in 8 bits."""
    monkeypatch.setenv("TRNINFER_CACHE", str(tmp_path))
    monkeypatch.setattr(CheapestOptions, "answer", fp8_wherever_possible)
    network = BoundedNetwork(seed, most=24)
    path = network.saved(tmp_path)
    golden = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    imported = import_network(path, options=ImportOptions(output_kind="values"))
    random = np.random.default_rng(seed)
    backend = SimulatedBackend(("trn2", "trn3")[seed % 2], lnc=1 + seed // 2 % 2)
    session = Session(Model(imported.network, imported.tensors, {}), backend, EIGHT_BITS, max(BATCHES))
    assert session.launches_note is not None
    assert ("if faster" in session.launches_note) == (seed not in WITHOUT_WEIGHTS_BETWEEN)
    for batch in BATCHES:
        x = random.standard_normal((batch, *network.shape)).astype(np.float32)
        (expected,) = golden.run(None, {"x": x})
        error = np.abs(session.run(x).probabilities - expected).max()
        assert error <= network_tolerance(EIGHT_BITS) * max(1.0, np.abs(expected).max()), network.words


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("channels", "pool"), [(64, 1), (160, 2), (256, 1)])
def test_tiles_sums_and_pools_are_right(target: str, channels: int, pool: int) -> None:
    model = uneven(residual_network(channels, pool))
    assert error_of(model, 2, target) <= network_tolerance(EIGHT_BITS)


FAULTS: dict[str, Callable[[list[np.ndarray]], list[np.ndarray]]] = {
    "the scale of another channel": lambda columns: [columns[0], np.roll(columns[1], 1), *columns[2:]],
    "the mean scale": lambda columns: [columns[0], columns[1] * 0 + columns[1].mean(), *columns[2:]],
    "a sum rescaled twice": lambda columns: [*columns[:2], *(column * 2 for column in columns[2:])],
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_a_wrong_scale_passes_the_tolerance(
    fault: Callable[[list[np.ndarray]], list[np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(graph: Any, node: Any) -> list[np.ndarray]:
        columns = scaled(graph, node)
        return fault(columns) if len(columns) > 1 else columns

    model = uneven(residual_network())
    right = error_of(model, 1)
    monkeypatch.setattr(laid_out, "scaled", wrong)
    assert right <= network_tolerance(EIGHT_BITS) < error_of(model, 1)


@pytest.mark.parametrize("batch", [1, 3, 130])
def test_all_layers_may_be_in_eight_bits(batch: int) -> None:
    model, launches = uneven(residual_network(channels=64)), LaunchOptions(eight_bits="all")
    session = Session(model, SimulatedBackend("trn2"), EIGHT_BITS, batch, launches)
    assert session.launches_note is not None and "weights of 6 of 6 layers are in 8 bits, and" in session.launches_note
    assert error_of(model, batch, launches=launches) <= network_tolerance(EIGHT_BITS)


@pytest.mark.parametrize("activation", [("clip", (0.0, 6.0)), ("silu", ())])
def test_the_last_layer_may_read_what_may_be_in_eight_bits(activation: tuple[str, tuple[float, ...]]) -> None:
    name, parameters = activation
    layers: tuple[Layer, ...] = (
        Conv2d("first", 3, 40, (3, 3), (1, 1, 1, 1), activation="relu"),
        Conv2d("each", 40, 40, (3, 3), (1, 1, 1, 1), 1, name, groups=40, activation_parameters=parameters),
        Flatten("flat"),
        DenseLayer("last", 40 * 36, 7),
    )
    model = model_of(Network("n", picture(3, 6, 6), layers, (), Output("values")))
    for batch in (1, 4):
        assert error_of(model, batch, launches=LaunchOptions(eight_bits="all")) <= network_tolerance(EIGHT_BITS)


def test_values_between_launches_are_bfloat16() -> None:
    model, launches = uneven(residual_network()), LaunchOptions(instructions=60)
    session = Session(model, SimulatedBackend("trn2"), EIGHT_BITS, 2, launches)
    assert session.launches_note is not None and "launches of at most 60 instructions" in session.launches_note
    assert error_of(model, 2, launches=launches) <= network_tolerance(EIGHT_BITS)


def test_layers_in_eight_bits_are_reported() -> None:
    session = Session(model_of(residual_network()), SimulatedBackend("trn2"), EIGHT_BITS, 1)
    note = session.launches_note
    assert note is not None and "weights of 4 of 6 layers are in 8 bits (in bfloat16: first, last)" in note
    forms = {
        row.name: time.form or "" for row, time in zip(session.rows, session._launches.time(session.backend, 1)[0])
    }
    assert "8-bit" in forms["next"] and "8-bit weights" in forms["mix"]
    assert "8-bit weights" not in forms["first"] + forms["last"]


def test_a_network_of_two_layers_has_none_in_eight_bits() -> None:
    layers = (Flatten("flat"), DenseLayer("a", 12, 5, "relu"), DenseLayer("b", 5, 3))
    model = model_of(Network("n", picture(3, 2, 2), layers, (), Output("values")))
    session = Session(model, SimulatedBackend("trn2"), EIGHT_BITS, 1)
    assert session.launches_note is not None and session.launches_note.startswith("no layer has weights in 8 bits")
    assert error_of(model, 3) < 0.01


def test_layer_by_layer_is_refused_in_one_line() -> None:
    with pytest.raises(KernelError, match=r"^float8_e4m3 requires --launches network; single layers run in --dtype"):
        Session(model_of(residual_network()), SimulatedBackend("trn2"), EIGHT_BITS, 1, LaunchOptions("layer"))


def test_inputs_far_beyond_calibration_are_refused_not_answered() -> None:
    model = model_of(residual_network())
    tiny = Calibration(lambda: np.full((1, 3, 10, 10), 1e-3, np.float32), "tiny inputs")
    with pytest.raises(OverflowedError, match=r"not finite in float8_e4m3.*inputs such as this one .--calibrate"):
        error_of(model, 1, launches=LaunchOptions(calibration=tiny))


def test_one_input_far_beyond_calibration_is_named_and_the_others_are_answered() -> None:
    model = model_of(residual_network())
    x = np.random.default_rng(0).standard_normal((7, 3, 10, 10)).astype(np.float32)
    x[4] *= 1e4
    session = Session(model, SimulatedBackend("trn2"), EIGHT_BITS, 7)
    (answer,) = PatientSession(session).stream([x])
    assert list(answer.failures) == [4] and "--dtype bfloat16" in answer.failures[4]
    others = np.delete(x, 4, axis=0)
    expected = run_network(model.network, model.tensors, others).scores
    assert np.abs(answer.probabilities - expected).max() <= network_tolerance(EIGHT_BITS) * np.abs(expected).max()


ODD: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "zeros": lambda weights: weights * 0,
    "one channel of zeros": lambda weights: weights * (np.arange(len(weights)) > 0)[:, None, None, None],
    "tiny": lambda weights: weights * np.float32(1e-42),
    "NaN": lambda weights: np.where(np.arange(weights.size).reshape(weights.shape) == 1, np.nan, weights),
    "infinity": lambda weights: np.where(np.arange(weights.size).reshape(weights.shape) == 1, np.inf, weights),
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("way", ODD)
@pytest.mark.parametrize("eight_bits", ["inner", "all"])
def test_odd_weights_are_right_or_refused_in_one_line(way: str, eight_bits: Any) -> None:
    given = model_of(residual_network(channels=24))
    tensors = {**given.tensors, "next.weight": ODD[way](given.tensors["next.weight"]).astype(np.float32)}
    launches = LaunchOptions(eight_bits=eight_bits)
    if way in ("NaN", "infinity"):
        with pytest.raises(OverflowedError, match=r"^the output of 'n' is not finite in float8_e4m3"):
            error_of(Model(given.network, tensors, {}), 2, launches=launches)
        return
    assert error_of(Model(given.network, tensors, {}), 3, launches=launches) <= network_tolerance(EIGHT_BITS)


@pytest.mark.parametrize("largest", [0.0, 1e-3, 1e3])
def test_calibration_inputs_of_any_size_are_right_or_refused(largest: float) -> None:
    model = model_of(residual_network(channels=24))
    launches = LaunchOptions(calibration=Calibration(lambda: np.full((2, 3, 10, 10), largest, np.float32), "flat"))
    try:
        error = error_of(model, 2, launches=launches)
    except OverflowedError:
        assert largest < 1
    else:
        assert error <= network_tolerance(EIGHT_BITS)
