"""Checks of the self-test: every kernel at each size, and every body of an operation."""

from __future__ import annotations

from itertools import islice

from trninfer import kernels
from trninfer.kernels.network import BODIES
from trninfer.runtime.backend import DTYPES
from trninfer.runtime.selftest.checks import SIZES, checks
from trninfer.runtime.selftest.run import count_checks

KERNELS = set(kernels.__all__) - {"kernel", "use_nki"}


def test_every_kernel_is_checked_at_each_size() -> None:
    """Of those that run in any dtype: 8 bits are refused."""
    checked = KERNELS - {"fused_conv2d_float8"}
    for size in SIZES:
        assert {check.kernel for check in checks(DTYPES["float32"]) if check.size == size} == checked
    assert count_checks("float32") == sum(1 for _ in checks(DTYPES["float32"]))


def test_every_body_of_an_operation_is_checked() -> None:
    bodies = {
        type(operation)
        for check in checks(DTYPES["float32"])
        if check.kernel == "run_network"
        for operation in check.parameters["program"].operations
    }
    # Packed rows are decisions about whole networks, exchanges and parts about two cores; resident values time others.
    assert {kind.__name__ for kind in set(BODIES) - bodies} == {"Exchange", "Part", "RowGroupsPool", "Resident"}


def test_what_failed_on_a_chip_comes_first() -> None:
    first = [check.kernel for check in islice(checks(DTYPES["float32"]), 4)]
    assert first == ["psum_side_by_side", "psum_within"] * 2


def test_odd_sizes_are_beyond_a_tile_and_no_multiple_of_it() -> None:
    for check in checks(DTYPES["float32"]):
        sizes = [side for array in check.arrays for side in array.shape]
        if check.size == "odd" and check.kernel != "run_network":
            assert any(side > 128 and side % 128 for side in sizes), check.kernel
