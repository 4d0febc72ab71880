"""Networks are planned in 32 and 16 bits and run in batches before their files are written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from trninfer.models import Conv2d, Dense, FeatureInput, Flatten, ImageInput, Model, Network, Output, Pool, Softmax
from trninfer.models.errors import ModelError
from trninfer.models.golden import run_network
from trninfer.models.outputs import NamedOutput
from trninfer.runtime import launches, network_check
from trninfer.runtime.choose import choose_backend
from trninfer.runtime.network_check import before_softmax, check_network


def classifier(scale: float = 1.0) -> Model:
    layers = (
        Conv2d("conv", 1, 4, (3, 3), activation="relu"),
        Flatten("flat"),
        Dense("scores", 4 * 6 * 6, 3),
        Softmax("chances"),
    )
    network = Network("n", ImageInput(1, 8, 8, "none", (0.0,), (1.0,)), layers, tuple("abc"))
    random = np.random.default_rng(0)
    tensors = {name: random.standard_normal(shape, np.float32) for name, shape in network.tensor_shapes().items()}
    tensors["scores.weight"] *= scale
    return Model(network, tensors, {})


def test_a_network_that_runs() -> None:
    check = check_network(classifier())
    assert check.passed and check.batches == (1, 3, 16) and check.verification is not None


@pytest.mark.parametrize("scale", [1.0, 100.0])  # with 100, all probabilities are 0 or 1
@pytest.mark.parametrize("wrong", [3, 16])
def test_pictures_of_a_batch_that_mix_are_found(monkeypatch: pytest.MonkeyPatch, scale: float, wrong: int) -> None:
    real = launches.NetworkLaunches.run

    def run(self, backend, data, progress):
        ran = real(self, backend, data, progress)
        rolled = np.where(np.arange(3) == 0, np.roll(ran.scores, 1, axis=0), ran.scores)
        return replace(ran, scores=rolled) if len(data) == wrong else ran

    monkeypatch.setattr(launches.NetworkLaunches, "run", run)
    assert not check_network(classifier(scale)).passed


def test_a_sensitive_network_may_differ_as_correct_computations_do(monkeypatch: pytest.MonkeyPatch) -> None:
    real = launches.NetworkLaunches.run

    def run(self, backend, data, progress):
        ran = real(self, backend, data, progress)
        return replace(ran, scores=ran.scores + 4e-4 * np.abs(ran.scores).max(axis=1, keepdims=True))

    monkeypatch.setattr(launches.NetworkLaunches, "run", run)
    passed = {share: check_network(classifier(100.0), share).passed for share in (0.0, 1e-4, 2e-4, 0.1)}
    assert passed == {0.0: False, 1e-4: False, 2e-4: True, 0.1: True}


def test_network_without_a_plan_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, says in (
        (
            KeyError(20),
            r"the network cannot run in float32 in batches of 1 \(KeyError: 20\), which is a bug in trninfer",
        ),
        (
            network_check.KernelError("conv1 needs\n300 KiB"),
            "in float32 in batches of 1: conv1 needs 300",
        ),
    ):

        def fail(*given: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(network_check.Session, "time", fail)
        with pytest.raises(ModelError, match=says) as told:
            check_network(classifier())
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("kind, side", [("average", 320), ("max", 398)])
def test_windows_that_no_memory_holds_are_refused_in_one_line(kind: str, side: int) -> None:
    """`classify` prints the same line, since its session runs the unchecked import."""
    pools = (Pool("pool", kind, (side - 1, side - 1), (1, 1)), Flatten("flat"))
    network = Network("n", ImageInput(1, side, side, "none", (0.0,), (1.0,)), pools, (), Output("values"))
    model = Model(network, {}, {})
    says = r"layer 'pool' \(\w+_pool\) needs \d+ KiB of an SBUF partition; \d+ are available; 16-bit dtypes"
    with pytest.raises(ModelError, match=f"the network cannot run in float32 in batches of 1: {says}"):
        check_network(model)
    session = network_check.Session(model, choose_backend("sim", "trn2"), "float32", 1)
    for run in (lambda: session.time(1), lambda: session.run(np.zeros((1, 1, side, side), np.float32))):
        with pytest.raises(network_check.KernelError, match=f"in float32, {says}") as told:
            run()
        assert "\n" not in str(told.value)


def test_every_dtype_and_two_sizes_of_batches_are_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []
    real = network_check.Session

    class Spy(real):
        def time(self, count: int):
            planned.append((self.dtype, count))
            return super().time(count)

    monkeypatch.setattr(network_check, "Session", Spy)
    check_network(classifier())
    assert planned == [(dtype, batch) for dtype in ("float32", "bfloat16", "float16") for batch in (1, 2)]


def test_fewer_and_no_batches_of_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    model = classifier()
    for most, batches in ((0, ()), (1 << 31, (1, 3))):
        monkeypatch.setattr(network_check, "BATCHES", (((1, 3), most),))
        check = check_network(model)
        assert check.batches == batches and check.passed and (check.verification is None) == (not batches)


def test_scores_before_the_softmax() -> None:
    model = classifier()
    x = np.random.default_rng(1).standard_normal((2, 1, 8, 8), np.float32)
    scores = before_softmax(model)
    assert [layer.name for layer in scores.network.layers] == ["conv", "flat", "scores"]
    whole = run_network(model.network, model.tensors, x)
    np.testing.assert_array_equal(run_network(scores.network, scores.tensors, x).scores, whole.logits)


def test_scores_of_several_outputs() -> None:
    layers = (
        Dense("left", 4, 2),
        Softmax("left chances"),
        Dense("right", 4, 3, inputs=("input",)),
        Dense("value", 4, 1, inputs=("input",)),
        Softmax("chances", inputs=("right",)),
    )
    others = (
        NamedOutput("left", "left chances", (2,), Output("classes", "softmax"), ("x", "y")),
        NamedOutput("value", "value", (1,), Output("values")),
        NamedOutput("raw", "right", (3,), Output("values")),  # whose softmax is also an output
    )
    network = Network("n", FeatureInput(4), layers, tuple("abc"), others=others)
    found = before_softmax(Model(network, {}, {})).network
    assert [named.layer for named in found.named_outputs] == ["right", "left", "value", "right"]
    assert found.layers[-1].name == "right" and {named.output.kind for named in found.named_outputs} == {"values"}


def test_a_softmax_of_what_others_read_stays() -> None:
    layers = (Dense("d", 4, 2), Dense("e", 2, 2), Softmax("s", inputs=("d",)))
    other = NamedOutput("e", "e", (2,), Output("values"))
    network = Network("n", FeatureInput(4), layers, ("a", "b"), others=(other,))
    assert [layer.name for layer in before_softmax(Model(network, {}, {})).network.layers] == ["d", "e", "s"]
