"""Advice for a network: every gain is that of a run with the change, and only worthwhile advice is given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from trninfer.models import Conv2d, Dense, FeatureInput, Flatten, ImageInput, Network, Output
from trninfer.models.files import Model
from trninfer.runtime import advice as module
from trninfer.runtime.advice import LEAST_GAIN, Advice, Adviser, Setting
from trninfer.runtime.launch_options import DEFAULT_LAUNCHES, LaunchOptions
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

LAYERS = (Conv2d("conv", 3, 8, (3, 3), (1, 1, 1, 1), activation="gelu"), Flatten("flat"), Dense("head", 8 * 36, 4))


@pytest.fixture(scope="module")
def model() -> Model:
    network = Network("n", ImageInput(3, 6, 6, "none", (0.0,) * 3, (1.0,) * 3), LAYERS, (), Output("values"))
    random = np.random.default_rng(0)
    return Model(network, {n: random.normal(size=s).astype(np.float32) for n, s in network.tensor_shapes().items()}, {})


SETTING = Setting("float32", 2, LaunchOptions("layer", form="direct"))


@pytest.fixture(scope="module")
def adviser(model: Model) -> Adviser:
    return Adviser(model, "trn2", SETTING)


@pytest.fixture(scope="module")
def given(adviser: Adviser) -> list[Advice]:
    return adviser.advice()


def timed(model: Model, setting: Setting) -> float:
    session = Session(model, SimulatedBackend("trn2"), setting.dtype, setting.batch, setting.launches)
    return session.time(setting.batch).total_us / setting.batch


def test_gains_are_those_of_a_run_with_the_option(model: Model, given: list[Advice]) -> None:
    tried = {
        "--dtype bfloat16": replace(SETTING, dtype="bfloat16"),
        "--launches network": replace(SETTING, launches=replace(SETTING.launches, per="network")),
    }
    before = timed(model, SETTING)
    whole = {advice.option: advice for advice in given if advice.layer is None}
    for option in tried.keys() & whole.keys():
        assert whole[option].before_us == pytest.approx(before)
        assert whole[option].after_us == pytest.approx(timed(model, tried[option]))
    assert "--launches network" in whole
    larger = next(option for option in whole if option and option.startswith("--batch-size"))
    each = {batch: timed(model, replace(SETTING, batch=batch)) for batch in (4, 8, 16, 32)}
    best = min(each, key=lambda batch: each[batch])
    assert larger == f"--batch-size {best}" and whole[larger].after_us == pytest.approx(each[best])
    assert before / 2 <= whole["--cores 2"].after_us < 0.6 * before  # two at a time, each of which may take longer


def test_advice_is_worth_it_and_in_order(given: list[Advice]) -> None:
    least = LEAST_GAIN * given[0].before_us
    assert all(advice.before_us - advice.after_us >= least for advice in given)
    assert [advice.layer is None for advice in given] == sorted(
        (advice.layer is None for advice in given), reverse=True
    )
    for layer in (True, False):
        gains = [a.before_us - a.after_us for a in given if (a.layer is None) == layer]
        assert gains == sorted(gains, reverse=True)
    assert all((advice.kind == "estimated") == (advice.option is None) for advice in given)


def test_layers_in_one_launch_and_what_is_so_already(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bfloat16 and one launch; the three channels of an image fill few of the partitions, 288 features fill all."""
    monkeypatch.setattr(module, "BATCHES", (2,))
    best = Adviser(model, "trn2", Setting("bfloat16", 2, DEFAULT_LAUNCHES))
    given = best.advice()
    assert not {advice.option for advice in given} & {"--dtype bfloat16", "--launches network", "--form quickest"}
    rows = {row.name: row for row in best.result.layers}
    layers = {advice.layer: advice for advice in given if advice.layer}
    assert set(layers) == {"conv", "head"}
    for name, advice in layers.items():
        assert (advice.option, advice.before_us) == ("--batch-size 4", pytest.approx(rows[name].latency_us / 2))
        held = {"conv": "3 of 128 partitions hold input channels"}.get(name, f"bound by {rows[name].bound_by}, HFU ")
        moved = f"{rows[name].hbm_bytes / 1e6:.3g} MB are moved for this layer"
        assert advice.evidence.startswith(moved if rows[name].bound_by.startswith("dma") else held)


def test_a_resource_twice_as_fast(adviser: Adviser) -> None:
    found = adviser.what_ifs()
    assert found and [what.critical_us for what in found] == sorted((w.critical_us for w in found), reverse=True)
    assert sum(what.critical_us for what in found) == pytest.approx(adviser.result.total_us)
    for what in found:
        assert what.saved_us == pytest.approx(adviser.result.total_us - what.latency_us)
        assert what.latency_us >= adviser.result.total_us / 2 - 1e-6  # nothing else becomes faster
    assert any(what.saved_us > 0 for what in found)


def test_batches_stay_below_what_takes_long_to_try(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    network = model.network
    shapes = network.shapes()
    work = sum(layer.multiply_accumulates(*(shapes[name] for name in layer.inputs)) for layer in network.layers)
    adviser = Adviser(model, "trn2", Setting("bfloat16", 1, DEFAULT_LAUNCHES))
    tried: list[int] = []
    real = Adviser._time

    def noting(self: Adviser, setting: Setting):
        tried.append(setting.batch)
        return real(self, setting)

    monkeypatch.setattr(Adviser, "_time", noting)
    for limit, expected in ((4 * work, [2, 4]), (4 * work - 1, [2]), (1, [])):
        tried.clear()
        monkeypatch.setattr(module, "MOST_WORK", limit)
        adviser._larger_batch()
        assert tried == expected


def test_a_sentence() -> None:
    advice = Advice(
        "conv", "3 of 128 partitions hold input channels", "a batch of 4", "--batch-size 4", 12.345, 6.1, "computed"
    )
    assert advice.sentence() == (
        "conv: 3 of 128 partitions hold input channels; with a batch of 4: 6.1 us per input instead of 12.3 (computed)"
    )
    assert replace(advice, layer=None).sentence().startswith("3 of 128")


def test_an_evidence_of_weights_that_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCHES", (2,))
    network = Network("wide", FeatureInput(1024), (Dense("wide", 1024, 1024),), (), Output("values"))
    tensors = {"wide.weight": np.ones((1024, 1024), np.float32), "wide.bias": np.ones(1024, np.float32)}
    adviser = Adviser(Model(network, tensors, {}), "trn2", Setting("float32", 1, DEFAULT_LAUNCHES))
    evidence = next(a.evidence for a in adviser.advice() if a.option == "--batch-size 2")
    moved = float(evidence.split()[0])
    assert (
        evidence == f"{moved:g} MB are moved for a batch of 1, of which {4 * 1025 * 1024 / 1e6 / moved:.0%} are weights"
    )
