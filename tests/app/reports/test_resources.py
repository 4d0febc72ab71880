"""The displayed names of the resources of a critical path."""

import pytest
from trninfer.app.reports.resources import TITLES, by_size, short, title
from trninfer.simulator.timing.critical_path import RESOURCES


def test_every_resource_has_a_title() -> None:
    assert set(TITLES) == set(RESOURCES)


@pytest.mark.parametrize(
    ("resource", "narrow", "sentence"),
    [
        ("dma_bandwidth", "DMA bandwidth", "DMA bandwidth"),
        ("gpsimd", "gpsimd", "GpSimd Engine"),
        ("other_core", "other core", "the other core"),
        ("a_new_one", "a new one", "a new one"),
        (None, "-", "not known"),
    ],
)
def test_names(resource, narrow, sentence) -> None:
    assert (short(resource), title(resource)) == (narrow, sentence)


def test_the_largest_first_and_the_smallest_together() -> None:
    assert by_size({"vector": 5.0, "tensor": 94.0, "launch": 0.5, "scalar": 0.4, "gpsimd": 0.1}) == [
        ("tensor", 94.0), ("vector", 5.0), ("launch", 0.5), ("other", pytest.approx(0.5)),
    ]  # fmt: skip
    # 0.5 % of the time is shown; smaller shares, which total less than 0.05 us, are not.
    assert by_size({"tensor": 9.0, "scalar": 0.04}) == [("tensor", 9.0)]
    assert by_size({"tensor": 9.95, "scalar": 0.05}) == [("tensor", 9.95), ("scalar", 0.05)]
    assert by_size({}) == [] and by_size({"launch": 0.0}) == [("launch", 0.0)]
