"""Running the checks: failures are detected, the other checks continue, and a lost chip ends the run."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trninfer.models import load_model
from trninfer.runtime.backend import DTYPES, BackendUnavailable, KernelError
from trninfer.runtime.neuron.errors import CompileError, DeviceLost
from trninfer.runtime.selftest.checks import SIZES, checks
from trninfer.runtime.selftest.run import FAILED, OK, WRONG, _settled, check_kernels, check_network
from trninfer.runtime.simulated import open_simulated_backend
from trninfer.simulator.machine.errors import ReportedOnChipWarning


class Spoiling:
    """The simulator, with `what` applied to the outputs of kernels whose names begin with a prefix."""

    def __init__(self, name: str, what) -> None:
        self._backend = open_simulated_backend("trn2")
        self.info = self._backend.info
        self._name, self._what = name, what

    def launch(self, kernel: Any, *arrays: Any, **parameters: Any) -> Any:
        result = self._backend.launch(kernel, *arrays, **parameters)
        return replace(result, outputs=self._what(result.outputs)) if kernel.__name__ == self._name else result

    def time(self, kernel: Any, *specs: Any, **parameters: Any) -> Any:
        return self._backend.time(kernel, *specs, **parameters)


def one_off(outputs):
    return tuple(output + (output.dtype.type(1) if output.dtype.kind == "i" else 0) for output in outputs)


def lost_term(outputs):
    (output,) = outputs
    changed = np.array(output)
    changed[-1, -1] += 1
    return (changed,)


def refuse(outputs):
    raise KernelError("the compiler failed: no")


def lose(outputs):
    raise BackendUnavailable("this process lost the NeuronCore")


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "target"), [("float32", "trn1"), ("bfloat16", "trn2"), ("float16", "trn3")])
def test_the_simulator_passes(dtype: str, target: str) -> None:
    backend = open_simulated_backend(target)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcomes = list(check_kernels(backend, dtype, None))
    reported = {Path(each.filename).name for each in caught if each.category is ReportedOnChipWarning}
    allowed = {"psum_sums.py", "rule_breakers.py"}  # they ask the chip
    if target == "trn1":  # copies with a bias (issue 1296, on trn1), which NKI 0.7 no longer supports
        allowed |= {"activation_functions.py", "normalization.py", "group_normalization.py"}
    assert reported <= allowed
    assert [outcome for outcome in outcomes if outcome.status != OK] == []
    assert all(outcome.predicted_us > 0 for outcome in outcomes)
    measured = [outcome.measured_host_us or outcome.measured_device_us for outcome in outcomes]
    assert measured == [None] * len(outcomes)


@pytest.mark.parametrize(
    ("name", "what", "status"),
    [("psum_within", lost_term, WRONG), ("argmax", one_off, WRONG), ("psum_side_by_side", refuse, FAILED)],
)
def test_failed_check_is_reported_and_other_checks_continue(monkeypatch, name: str, what, status: str) -> None:
    some = [check for check in checks(DTYPES["float32"]) if check.kernel in (name, "transpose")]
    monkeypatch.setattr("trninfer.runtime.selftest.run.checks", lambda dtype: iter(some))
    found = Counter(
        (outcome.kernel, outcome.status) for outcome in check_kernels(Spoiling(name, what), "float32", None)
    )
    assert found == {(name, status): 2, ("transpose", OK): 2}


def test_a_chip_that_is_not_there_ends_it() -> None:
    with pytest.raises(BackendUnavailable):
        list(check_kernels(Spoiling("vector_add_naive", lose), "float32", None))


def test_a_chip_that_is_lost_again_and_again_is_lost_for_good(monkeypatch) -> None:
    def lose_each(outputs):
        raise DeviceLost("the process on the NeuronCore ended")

    monkeypatch.setattr("trninfer.runtime.selftest.run.checks", lambda dtype: islice(checks(dtype), 5))
    monkeypatch.setattr("trninfer.runtime.selftest.run.Recovery.MAX_LOSSES", 2)
    found = check_kernels(Spoiling("psum_within", lose_each), "float32", None)
    assert [outcome.status for outcome in found] == [OK, FAILED, OK, FAILED, OK]  # two losses, not consecutive
    monkeypatch.setattr("trninfer.runtime.selftest.run.Recovery.MAX_LOSSES", 1)
    found = check_kernels(Spoiling("psum_within", lose_each), "float32", None)
    assert [next(found).status for _ in range(2)] == [OK, FAILED]
    with pytest.raises(DeviceLost):
        next(found)


def test_a_bundled_network() -> None:
    model = load_model("digits-ffnn")
    x = np.random.default_rng(0).uniform(0, 16, (3, 64)).astype(np.float32)
    (outcome,) = check_network(model, ("a", "b", "c"), x, open_simulated_backend("trn2"), "float32", None)
    assert outcome.status == OK and outcome.verification.passed and outcome.comparison is None
    *failed, last = check_network(model, ("a", "b", "c"), x, Spoiling("run_network", refuse), "float32", None)
    for outcome in failed:
        assert (outcome.status, outcome.message, outcome.result) == (FAILED, "the compiler failed: no", None)
    assert [outcome.launches.split()[0] for outcome in failed] == ["as", "launches"]
    assert (last.launches, last.status) == ("layer by layer", OK)


def test_either_of_two_classes_with_similar_scores_is_accepted() -> None:
    scores = np.array([[0.5, 0.499, 0.001], [0.5, 0.499, 0.001], [0.1, 0.2, 0.7]])
    expected = np.array([0, 0, 2], np.int32)
    found = np.array([1, 2, 3], np.int32)  # a near-tie, a different class, and none
    np.testing.assert_array_equal(_settled(found, expected, scores, 1e-2), [1, 0, 2])
    np.testing.assert_array_equal(_settled(found, expected, scores, 1e-4), expected)


def one_check(monkeypatch: pytest.MonkeyPatch, kernel: str = "transpose") -> None:
    (check,) = [check for check in checks(DTYPES["float32"]) if (check.kernel, check.size) == (kernel, SIZES[0])]
    monkeypatch.setattr("trninfer.runtime.selftest.run.checks", lambda dtype: iter([check]))


def test_an_error_is_relative_to_the_largest_number_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    one_check(monkeypatch)
    for factor, status in ((1 + 2e-6, OK), (1.5, WRONG)):
        backend = Spoiling("transpose", lambda outputs, f=factor: tuple(np.asarray(o) * np.float32(f) for o in outputs))
        (outcome,) = check_kernels(backend, "float32", None)
        assert outcome.status == status and outcome.error == pytest.approx(factor - 1, rel=0.2)
        assert outcome.is_failure == (status != OK)
        assert not replace(outcome, informational=True).is_failure


def test_a_chip_has_measured_times_beside_the_predicted_one(monkeypatch: pytest.MonkeyPatch) -> None:
    one_check(monkeypatch)
    simulated = open_simulated_backend("trn2")
    chip = Spoiling("none", None)
    chip.info = replace(simulated.info, latency_kind="measured")
    (outcome,) = check_kernels(chip, "float32", simulated)
    assert outcome.measured_host_us == outcome.predicted_us > 0 and outcome.measured_device_us is None
    assert outcome.tolerance > next(iter(check_kernels(simulated, "float32", None))).tolerance


def test_of_a_long_log_the_head_and_the_end_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    one_check(monkeypatch)
    for log in ("x" * 8000, "a" * 6000 + "b" * 5000 + "c" * 2000):
        error = CompileError("the compiler failed: no")
        error.log = log

        def fail(outputs, error=error):
            raise error

        (outcome,) = check_kernels(Spoiling("transpose", fail), "float32", None)
        assert (outcome.status, outcome.message, outcome.otherwise) == (FAILED, str(error), ())
        assert outcome.log == (log if len(log) == 8000 else "a" * 6000 + "\n[...]\n" + "c" * 2000)
