"""The faster of one launch and one launch per layer is chosen, and the lower bound of the latter is valid."""

from dataclasses import replace
from typing import Any

import pytest
from random_networks import KINDS_OF_LAYERS, of_kind
from trninfer.runtime.backend import KernelError
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.launches import LayerLaunches, NetworkLaunches, config_of
from trninfer.runtime.quicker_layers import least_of_layers, quicker
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

INFO = SimulatedBackend("trn2").info
NETWORK = of_kind("dilated").network


class Fixed:
    """Launches that take a fixed time."""

    def __init__(self, microseconds: float) -> None:
        self.microseconds, self.note, self.rows = microseconds, None, ()

    def predicted_us(self, *_: Any) -> float:
        return self.microseconds


def choose(together: float, apart: float, info: Any = INFO) -> Any:
    return quicker(NETWORK, "float32", info, 2, Fixed(together), lambda: Fixed(apart))  # type: ignore[arg-type,return-value]


def test_layers_are_taken_where_they_are_quicker() -> None:
    chosen = choose(5000, 4000)
    assert chosen.microseconds == 4000
    assert chosen.note == (
        "layer by layer, which is faster than one launch: 4,000 us, not 5,000, predicted in batches of 2"
    )
    for slower in (5000, 5001):
        assert (choose(5000, slower).microseconds, choose(5000, slower).note) == (5000, None)


def test_layers_are_planned_where_they_may_be_quicker_alone() -> None:
    """Exceptions are chips, on which kernels are not timed here, and two cores, which share one launch."""
    least = sum(least_of_layers(NETWORK, "float32", 2, "trn2").values())
    assert choose(0.99 * least, 0).microseconds == 0.99 * least
    for info in (replace(INFO, name="neuron"), replace(INFO, lnc=2)):
        assert choose(5000, 4000, info).microseconds == 5000


@pytest.mark.parametrize("fault", [KernelError("too large"), ZeroDivisionError()])
def test_layers_that_cannot_be_planned_are_not_taken(fault: Exception, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> Any:
        raise fault

    launches = Fixed(5000)
    assert quicker(NETWORK, "float32", INFO, 2, launches, fail) is launches  # type: ignore[arg-type,comparison-overlap]
    assert launches.note is None
    told = [] if isinstance(fault, KernelError) else [f"{NETWORK.name}: no plan layer by layer in float32"]
    assert [record.message for record in caplog.records] == told
    caplog.clear()  # otherwise the test fails (conftest.py)


def test_launches_are_predicted_from_their_plans() -> None:
    """The prediction equals the timed result, and covers only the layers needed to reach a limit."""
    model, backend = of_kind("dilated"), SimulatedBackend("trn2")
    config = config_of("float32", INFO, LaunchOptions())
    together = NetworkLaunches(model, "float32", config, 50_000, 2, has_layer_times=True)
    layers = LayerLaunches(model, "float32", None, config)
    for each in (together, layers):
        times, _ = each.time(backend, 2)
        assert each.predicted_us("trn2", 2) == pytest.approx(sum(time.latency_us for time in times))
    assert 1.0 <= layers.predicted_us("trn2", 2, 1.0) < layers.predicted_us("trn2", 2) / 2
    least = least_of_layers(model.network, "float32", 2, "trn2")
    assert layers.predicted_us("trn2", 2, least=least) == pytest.approx(layers.predicted_us("trn2", 2))
    assert layers.predicted_us("trn2", 2, 1.0, least) == pytest.approx(sum(least.values()))  # no launch is predicted


@pytest.mark.parametrize("kind", KINDS_OF_LAYERS)
def test_layers_take_at_least_their_bound(kind: str) -> None:
    model = of_kind(kind)
    layers = Session(model, SimulatedBackend("trn2"), "bfloat16", 16, LaunchOptions("layer"))
    for batch in (1, 16):
        assert sum(least_of_layers(model.network, "bfloat16", batch, "trn2").values()) <= layers.time(batch).total_us
