"""Falling back to slower launches if the chip rejects one, with a backend that runs on the simulator and rejects
launches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from trninfer.benchmarks.workloads import residual_network
from trninfer.models import load_model
from trninfer.models.golden import run_network
from trninfer.runtime.backend import BackendInfo, KernelError, LaunchResult, split_arguments
from trninfer.runtime.fallback import planned_launches
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.launches import plan_launches
from trninfer.runtime.neuron.errors import CompileError, DeviceLost, ExecutionError
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

pytestmark = pytest.mark.usefixtures("first_plans")

CHIP = BackendInfo("neuron", "trn2", "measured", "measured, host round trip")


class Chip:
    """Runs kernels on the simulator, and rejects those that `refuse` selects by name and number of earlier launches."""

    info = CHIP

    def __init__(self, refuse) -> None:
        self._simulated = SimulatedBackend("trn2")
        self._refuse = refuse
        self.launched: list[str] = []

    def launch(self, kernel, *arrays, **parameters) -> LaunchResult:
        self.launched.append(kernel.__name__)
        error = self._refuse(kernel.__name__, self.launched)
        if error is not None:
            raise error
        result = self._simulated.launch(kernel, *arrays, **parameters)
        return replace(result, layers={})

    def time(self, kernel, *specs, **parameters) -> LaunchResult:
        operands, others = split_arguments(kernel, specs, parameters)
        arrays = {name: np.zeros(spec.shape, spec.dtype) for name, spec in operands.items()}
        return replace(self.launch(kernel, **arrays, **others), outputs=())


@pytest.fixture(scope="module")
def model():
    return residual_network(16, 4)


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(5).standard_normal((3, 3, 16, 16)).astype(np.float32)


def run(model, x, refuse, options: LaunchOptions | None = None):
    chip, told = Chip(refuse), []
    session = Session(model, chip, "float32", 2, options or LaunchOptions(), told.append)
    return session, session.run(x), chip.launched, told


@pytest.mark.slow
@pytest.mark.parametrize("kind", [CompileError, ExecutionError])
def test_one_launch_that_fails_becomes_several(model, x, kind) -> None:
    """The first batch is repeated; its answers and its single row are unchanged."""
    golden = run_network(model.network, model.tensors, x).probabilities
    session, result, launched, told = run(
        model, x, lambda name, launched: kind("[NCC_EBVF030] too many") if len(launched) == 1 else None
    )
    np.testing.assert_allclose(result.probabilities, golden, atol=1e-5)
    assert set(launched) == {"run_network"} and len(launched) >= 1 + 2 * 2
    (line,) = told
    assert "[NCC_EBVF030] too many; continuing in launches of at most" in line and "instructions" in line
    assert [layer.name for layer in result.layers] == ["network"] and session.launches_note in line
    assert result.total_us == pytest.approx(sum(layer.latency_us for layer in result.layers)) and result.total_us > 0


@pytest.mark.slow
def test_launches_that_fail_again_become_layers(model, x) -> None:
    golden = run_network(model.network, model.tensors, x).probabilities
    session, result, _, told = run(
        model, x, lambda name, launched: CompileError("no") if name == "run_network" and len(launched) < 3 else None
    )
    np.testing.assert_allclose(result.probabilities, golden, atol=1e-5)
    assert (
        len(told) == 2 and told[1].endswith("continuing layer by layer") and session.launches_note == "layer by layer"
    )
    assert len(result.layers) == 1


def test_the_limit_is_half_of_what_the_launch_had(model) -> None:
    launches = plan_launches(model, "float32", CHIP, LaunchOptions(), 2)
    (whole,) = planned_launches(launches, CHIP, 2)
    count = whole.count_instructions("trn2")
    told: list[str] = []
    refused: list[int] = []

    def refuse(name, launched):
        return None if refused or refused.append(1) else CompileError("no")

    Session(model, Chip(refuse), "float32", 2, LaunchOptions(), told.append).time(2)
    assert f"at most {count // 2:,} instructions" in told[0]


def test_a_network_that_cannot_be_halved_falls_back_to_layers() -> None:
    model = load_model("digits-ffnn")
    x = np.random.default_rng(5).uniform(0, 16, (3, 64)).astype(np.float32)
    _, result, _, told = run(model, x, lambda name, launched: CompileError("no") if len(launched) == 1 else None)
    assert len(told) <= 2 and len(result.layers) == 1
    golden = run_network(model.network, model.tensors, x).probabilities
    np.testing.assert_allclose(result.probabilities, golden, atol=1e-5)


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (CompileError("no"), LaunchOptions("layer")),  # there is no slower way
        (KernelError("refused"), LaunchOptions()),  # the kernel's own check
        (DeviceLost("gone"), LaunchOptions()),
    ],
)
def test_error_that_no_fallback_solves_is_raised(model, x, error, options) -> None:
    with pytest.raises(type(error), match=str(error)):
        run(model, x, lambda name, launched: error, options)


def test_launches_without_failure_are_planned_once(model, x) -> None:
    _, result, launched, told = run(model, x, lambda name, launched: None)
    assert told == [] and launched == ["run_network"] * 2 and len(result.layers) == 1


def test_without_anybody_to_report_there_is_no_slower_way(model, x) -> None:
    chip = Chip(lambda name, launched: CompileError("no"))
    with pytest.raises(CompileError):
        Session(model, chip, "float32", 2).run(x)
