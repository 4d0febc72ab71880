"""Checks of the self-test: every kernel at each size, and every body of an operation."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from trninfer import kernels, simulator
from trninfer.kernels.network import BODIES
from trninfer.runtime.backend import DTYPES
from trninfer.runtime.selftest.checks import SIZES, checks
from trninfer.runtime.selftest.run import count_checks
from trninfer.simulator import TensorSpec
from trninfer.simulator.instructions.core import active

KERNELS = set(kernels.__all__) - {"kernel", "use_nki"}


def test_every_kernel_is_checked_at_each_size() -> None:
    """Kernels that run in any dtype; 8 bits are rejected."""
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
    # Packed rows depend on decisions about whole networks; resident values time other operations.
    assert {kind.__name__ for kind in set(BODIES) - bodies} == {"RowFoldPool", "Placeholder"}


def test_checks_that_failed_on_a_chip_run_first() -> None:
    first = [check.kernel for check in islice(checks(DTYPES["float32"]), 4)]
    assert first == ["psum_side_by_side", "psum_within"] * 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_operand_of_a_check_is_read(dtype: str) -> None:
    """The compiler drops an operand that no instruction reads, so the launch would have one too many."""
    for check in checks(DTYPES[dtype]):
        specs = [TensorSpec(array.shape, array.dtype.name) for array in check.arrays]
        named = {name: TensorSpec(array.shape, array.dtype.name) for name, array in check.named.items()}
        assert operands_read(kernels.kernel(check.kernel), specs, {**named, **check.parameters}) == [
            *range(len(specs)), *named
        ], (check.kernel, check.variant)  # fmt: skip


def operands_read(kernel: Any, arrays: list[TensorSpec], arguments: dict[str, Any]) -> list[int | str]:
    """Return the operands, by position or by name, that some instruction of a kernel reads."""
    read: list[int | str] = []

    def traced(*tensors: Any, **others: Any) -> Any:
        returned = kernel.function(*tensors, **others)
        allocations = {id(access.allocation) for instruction in active().program for access in instruction.reads}
        operands = {key: each for key, each in (*enumerate(tensors), *others.items()) if hasattr(each, "storage")}
        read.extend(key for key, each in operands.items() if id(each.storage.owner) in allocations)
        return returned

    simulator.run(traced, *arrays, functional=False, **arguments)
    return read


def test_odd_sizes_exceed_a_tile_and_are_not_multiples_of_it() -> None:
    for check in checks(DTYPES["float32"]):
        sizes = [side for shape in check.shapes for side in shape]
        within_a_tile = ("run_network", "psum_half_word", "single_column")
        if check.size == "odd" and check.kernel not in within_a_tile:
            assert any(side > 128 and side % 128 for side in sizes), check.kernel
