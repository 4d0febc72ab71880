"""Monotonicity that physics requires, checked on random kernels: `python benchmarks/monotone.py --count 1000` checks
more kernels."""

from __future__ import annotations

import random
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from trninfer import simulator
from trninfer.benchmarks import monotone
from trninfer.benchmarks.kernels.random_chain import STEPS, random_chain
from trninfer.benchmarks.monotone import RULES, Kernel, Violation, draw, violations
from trninfer.simulator.timing.critical_path import RESOURCES

COUNT = 40
# The remaining cases are due to the order in which idle engines take work, and to clocks that warm up:
# docs/predictions.md.
MOST = dict(zip(RULES, (1, 1, 3, 1)))
# Engines that start whatever is ready may choose a worse order if one of them is faster.
ANOMALIES = (
    Kernel(1152, 33, ("share", "max", "turn", "narrow", "park"), "bfloat16", together=4, maker="swdge"),
    Kernel(896, 33, ("exp", "park", "add", "share", "scale", "scale"), together=4),
    Kernel(476, 594, ("exp", "share", "park", "add")),
)


@pytest.fixture(scope="module")
def found() -> dict[str, list[Violation]]:
    return violations(COUNT, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_few_random_kernels_go_the_wrong_way(rule: str, found: dict[str, list[Violation]]) -> None:
    wrong = {violation.kernel for violation in found[rule]}
    assert len(wrong) <= MOST[rule], found[rule]


@pytest.mark.parametrize("columns", [1, 15, 31, 127, 128, 255, 256, 257, 511, 1024])
@pytest.mark.parametrize("maker", ["unknown", "hwdge", "swdge", "none"])
def test_no_size_of_a_tile_is_a_cliff(columns: int, maker: str) -> None:
    """Eight tiles with one more column take at least as long, and at most an eighth longer; the same holds for
    bfloat16."""
    kernel = Kernel(1024, columns, ("add",), maker=maker)
    before, after = kernel.time(), replace(kernel, columns=columns + 1).time()
    assert 0.99 * before <= after <= 1.125 * before
    assert replace(kernel, dtype="bfloat16").time() <= 1.05 * before


@pytest.mark.parametrize("kernel", ANOMALIES)
def test_a_faster_resource_never_takes_longer_as_the_order_of_now_remains_possible(kernel: Kernel) -> None:
    run = kernel.run()
    assert all(run.what_if(resource) <= run.latency_us <= run.what_if(resource, 0.5) for resource in RESOURCES)


def test_the_rules_see_what_they_forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """With invented times that violate each rule."""
    kernel = Kernel(256, 64, ())
    monkeypatch.setattr(Kernel, "time", lambda self: 100.0 / self.columns if self.rows == 256 else 10.0 / self.rows)
    for rule in list(RULES)[1:3]:
        assert list(RULES[rule](kernel)), rule
    monkeypatch.setattr(Kernel, "time", lambda self: 2.0 if self.dtype == "bfloat16" else 1.0)
    assert [v.what for v in monotone.slower_in_bfloat16(kernel)] == ["bfloat16 for float32"]


@pytest.mark.parametrize("step", STEPS)
def test_a_chain_computes_what_its_step_is_named_after(step: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((130, 70)).astype(np.float32)
    w = rng.standard_normal((128, 128)).astype(np.float32)
    (result,) = simulator.run(random_chain, a, w, steps=(step,), target="trn2").outputs
    halves = a.copy()
    halves[:, :35] *= 2
    product = np.concatenate([w.T @ a[:128], w[:2, :2].T @ a[128:]])
    expected = {"add": a + a, "scale": 2 * a, "exp": np.exp(a), "max": a - a.max(1, keepdims=True)}
    expected |= {"multiply": product, "share": a * a, "narrow": halves}
    expected["sum"] = a * a.sum(1, keepdims=True)
    expected["cast"] = a.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_allclose(result, expected.get(step, a), rtol=1e-4, atol=1e-4)


def test_a_transposed_source_and_shared_buffers_change_no_value() -> None:
    a = np.arange(200 * 30, dtype=np.float32).reshape(200, 30)
    w = np.zeros((128, 128), np.float32)
    turned = {"turned": True, "together": 2, "buffers": 2}
    (result,) = simulator.run(random_chain, np.ascontiguousarray(a.T), w, steps=("add",), **turned).outputs
    np.testing.assert_array_equal(result, a + a)


def test_drawn_kernels_are_what_a_chip_holds() -> None:
    rng = random.Random(5)
    assert all(draw(rng).time() > 0 for _ in range(10))
