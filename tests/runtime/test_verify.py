"""The criteria of --verify: equal, near-tie and wrong."""

import ml_dtypes
import numpy as np
from trninfer.models import Dense, FeatureInput, Model, Network, Softmax, run_network
from trninfer.models.outputs import Output
from trninfer.runtime.tolerances import network_tolerance
from trninfer.runtime.verify import Verification, Verifier, merge

NETWORK = Network("n", FeatureInput(3), (Dense("d", 3, 3), Softmax("s")), ("a", "b", "c"))
IDENTITY = Model(NETWORK, {"d.weight": np.eye(3, dtype=np.float32), "d.bias": np.zeros(3, np.float32)}, {})


def verify(x: list[list[float]], change: list[list[float]], dtype: str = "float32") -> Verification:
    """Return the verdict on probabilities that differ from the golden ones by `change`."""
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


def test_values_left_of_sums_that_cancel_may_be_off_by_roundings_of_what_was_summed() -> None:
    """100 x - 100 y with nearly equal x and y: the result in bfloat16 is off by a rounding of 100."""
    layers = (Dense("a", 2, 2), Dense("b", 2, 1))
    tensors = {"a.weight": np.eye(2, dtype=np.float32) * 100, "a.bias": np.zeros(2, np.float32)}
    tensors |= {"b.weight": np.array([[1], [-1]], np.float32), "b.bias": np.zeros(1, np.float32)}
    model = Model(Network("n", FeatureInput(2), layers, (), Output("values")), tensors, {})
    row = np.array([[1.0, 0.999]], np.float32)
    rounded = (row.astype(ml_dtypes.bfloat16).astype(np.float32) * 100).astype(ml_dtypes.bfloat16).astype(np.float32)
    expected = run_network(model.network, tensors, row).probabilities
    for error, dtype, passed in (
        (float(rounded[0, 0] - rounded[0, 1] - expected[0, 0]), "bfloat16", True),
        (2.0, "bfloat16", False),
        (0.3, "float16", False),
    ):
        verifier = Verifier(model, dtype)
        verifier.check(row, np.full(1, -1, np.int32), expected + np.float32(error))
        assert verifier.verdict.passed == passed, (error, dtype)
    assert abs(float(rounded[0, 0] - rounded[0, 1] - expected[0, 0])) > network_tolerance("bfloat16")


def test_verification_without_inputs_passes() -> None:
    verifier = Verifier(IDENTITY, "float32")
    assert verifier.verdict.passed
    verifier.check(np.empty((0, 3), np.float32), np.empty(0, np.int32), np.empty((0, 3), np.float32))
    assert verifier.verdict == Verification(True, 0.0, 0, 0, network_tolerance("float32"))


def test_verdicts_are_merged() -> None:
    good, bad = Verification(True, 0.5, 0, 2, 1e-4), Verification(False, 0.25, 3, 1, 1e-4)
    assert merge((good, bad)) == Verification(False, 0.5, 3, 3, 1e-4)
    assert merge((good,)) == good
