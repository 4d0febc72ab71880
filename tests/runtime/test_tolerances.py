"""The table of allowed errors."""

import pytest
from trninfer.runtime.tolerances import DTYPES, SOURCES, kernel_tolerance, network_tolerance


def test_tolerance_on_the_simulator_covers_only_rounding() -> None:
    assert [kernel_tolerance(dtype) for dtype in DTYPES] == [1e-5, 5e-3, 4e-2, 0.125]
    assert [network_tolerance(dtype) for dtype in DTYPES] == pytest.approx([1e-4, 1e-2, 5e-2, 0.3125])


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_chip_is_granted_its_own_errors(dtype: str) -> None:
    extra = kernel_tolerance(dtype, measured=True) - kernel_tolerance(dtype)
    assert extra == pytest.approx(2e-5 if dtype == "float32" else 1e-5)
    assert network_tolerance(dtype, measured=True) > network_tolerance(dtype)


def test_every_source_of_error_has_a_reason() -> None:
    assert all(source.why and len(source.shares) == len(DTYPES) for source in SOURCES)
    assert {source.what for source in SOURCES if not source.chip_only} == {"rounding"}
