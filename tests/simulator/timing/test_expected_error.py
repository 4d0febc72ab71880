"""The uncertainty of a prediction, based on a kernel's bottleneck and on the measurements for its target."""

import pytest
from trninfer import simulator
from trninfer.kernels import vector_add_stream
from trninfer.simulator.timing.expected_error import (
    DIFFERENCES,
    ERRORS,
    KINDS,
    NOT_VALIDATED,
    REST,
    SHORT_US,
    expected_error,
    kind_of,
    weakest_error,
)


@pytest.mark.parametrize(
    ("bound_by", "issue_bound", "launch_us", "latency_us", "kind"),
    [
        ("latency", False, 10, 12, "launch"),
        ("tensor", False, 10, 19.9, "launch"),
        ("tensor", False, 10, 20, "short"),  # as long as its launch
        ("tensor", False, 10, 50, "short"),
        ("tensor", False, 10, 10 + SHORT_US - 1, "short"),
        ("tensor", False, 10, 10 + SHORT_US, "tensor"),
        ("gpsimd", True, 10, 500, "gpsimd"),
        ("vector", False, 10, 5000, "latency"),
        ("dma", True, 10, 50, "short"),
        ("dma", True, 10, 500, "issue"),
        ("dma", False, 10, 500, "dma"),
        ("tensor", True, 10, 500, "tensor"),
    ],
)
def test_kernels_are_distinguished_by_what_bounds_them(
    bound_by: str, issue_bound: bool, launch_us: float, latency_us: float, kind: str
) -> None:
    assert kind_of(bound_by, issue_bound, launch_us, latency_us) == kind
    assert kind in KINDS


def test_an_unmeasured_kind_is_not_validated() -> None:
    assert expected_error("trn2", "tensor") == ERRORS["trn2"]["tensor"] < ERRORS["trn2"][REST]
    assert "latency" not in ERRORS["trn2"] and expected_error("trn2", "latency") == NOT_VALIDATED
    assert expected_error("trn4", "tensor") is None


def test_a_kernel_is_as_sure_as_the_weakest_kind_of_time_that_counts() -> None:
    """A kind counts if it takes a sixth of the critical path or more; kinds without separate measurements count as the
    rest."""
    tensor, rest = ERRORS["trn2"]["tensor"], ERRORS["trn2"][REST]
    assert weakest_error("trn2", "tensor", {"launch": 10, "tensor": 90, "vector": 5}) == tensor
    assert weakest_error("trn2", "tensor", {"launch": 10, "tensor": 70, "vector": 20}) == rest
    assert weakest_error("trn2", "latency", {"vector": 90}) == NOT_VALIDATED
    assert weakest_error("trn4", "tensor", {"tensor": 90}) is None


def test_every_target_has_a_share_for_what_was_not_measured() -> None:
    assert set(ERRORS) == set(simulator.TARGETS) >= set(DIFFERENCES)
    for errors in ERRORS.values():
        assert set(errors) <= {*KINDS, REST} and REST in errors
        assert all(0 < error < 1 for error in errors.values())
    assert all(0 < error < 1 for error in DIFFERENCES.values())


def test_a_prediction_has_an_expected_error() -> None:
    def timed(**more: object) -> simulator.Run:
        vector = simulator.TensorSpec((25_600,), "float32")
        return simulator.run(vector_add_stream, vector, vector, free=200, functional=False, **more)

    run = timed()
    assert run.latency_error == expected_error("trn2", run.kind) == ERRORS["trn2"][run.kind]
    assert timed(target="trn3").latency_error == NOT_VALIDATED  # for a kernel bound by its launch
    # a modified machine, which nobody has measured
    assert timed(constants={"dma_sustained": 100}).latency_error is None
