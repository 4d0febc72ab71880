"""What --verify calls equal, a near-tie and wrong."""

import numpy as np
from trninfer.models import Dense, FeatureInput, Model, Network, Softmax, run_network
from trninfer.models.network import Output
from trninfer.runtime.tolerances import network_tolerance
from trninfer.runtime.verify import Verification, Verifier, merge

NETWORK = Network("n", FeatureInput(3), (Dense("d", 3, 3), Softmax("s")), ("a", "b", "c"))
IDENTITY = Model(NETWORK, {"d.weight": np.eye(3, dtype=np.float32), "d.bias": np.zeros(3, np.float32)}, {})


def verify(x: list[list[float]], change: list[list[float]], dtype: str = "float32") -> Verification:
    """The verdict on probabilities that differ from the golden ones by `change`."""
    rows = np.array(x, np.float32)
    verifier = Verifier(IDENTITY, dtype)
    found = run_network(NETWORK, IDENTITY.tensors, rows).probabilities + np.array(change, np.float32)
    for part in (slice(0, 1), slice(1, None)):  # in two batches
        verifier.check(rows[part], found[part].argmax(axis=1).astype(np.int32), found[part])
    return verifier.verdict


def test_equal_answers_pass() -> None:
    verdict = verify([[1, 2, 3], [3, 2, 1]], [[0, 0, 0], [0, 0, 0]])
    assert verdict == Verification(True, 0.0, 0, 0, network_tolerance("float32"))


def test_an_error_beyond_the_tolerance_fails_though_the_class_is_right() -> None:
    verdict = verify([[1, 2, 3]], [[0.001, 0, 0]])
    assert not verdict.passed and verdict.disagreements == 0 and abs(verdict.max_abs_error - 0.001) < 1e-6
    assert verify([[1, 2, 3]], [[0.001, 0, 0]], "float16").passed


def test_another_class_fails() -> None:
    verdict = verify([[0, 0, 3], [1, 2, 3]], [[0, 0, 0], [0, 0.9, 0]])
    assert not verdict.passed and verdict.disagreements == 1 and verdict.near_ties == 0


def test_near_ties_are_counted_apart() -> None:
    verdict = verify([[2, 2 + 1e-6, 0]], [[0.00001, 0, 0]])
    assert verdict.passed and verdict.disagreements == 0 and verdict.near_ties == 1


def test_large_logits_are_allowed_coarser_rounding() -> None:
    change = [[0.0002, -0.0002, 0]]
    assert not verify([[15, 15, 0]], change).passed
    assert verify([[64, 64, 0]], change).passed


def test_values_may_differ_in_proportion_and_have_no_class() -> None:
    values = Network("n", FeatureInput(3), NETWORK.layers[:1], (), Output("values"))
    for size, error, passed in ((40, 0.1, True), (40, 10, False), (0.1, 0.02, True), (0.1, 0.1, False)):
        row = np.full((1, 3), size, np.float32)
        verifier = Verifier(Model(values, IDENTITY.tensors, {}), "bfloat16")
        verifier.check(row, np.full(1, -1, np.int32), row + np.array([[0, error, 0]], np.float32))
        assert (verifier.verdict.passed, verifier.verdict.disagreements) == (passed, 0), (size, error)


def test_nothing_to_compare_passes() -> None:
    verifier = Verifier(IDENTITY, "float32")
    assert verifier.verdict.passed
    verifier.check(np.empty((0, 3), np.float32), np.empty(0, np.int32), np.empty((0, 3), np.float32))
    assert verifier.verdict == Verification(True, 0.0, 0, 0, network_tolerance("float32"))


def test_verdicts_are_merged() -> None:
    good, bad = Verification(True, 0.5, 0, 2, 1e-4), Verification(False, 0.25, 3, 1, 1e-4)
    assert merge((good, bad)) == Verification(False, 0.5, 3, 3, 1e-4)
    assert merge((good,)) == good
