"""Loads and stores of a program, compared element by element."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from convolution_problems import problem
from nki_tensors import counted, hbm, in_hbm, on
from single_operations import load_of, run_operations
from trninfer.kernels.convolution.resident import plan_resident
from trninfer.kernels.operations.launch import Launch
from trninfer.kernels.operations.load import FEW_ROWS, load, load_taps
from trninfer.kernels.program import LAUNCH_INPUT, Copies, Program, Stage, TapsLoad


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("shape", "packed"), [((1, 1, 1, 1), 1), ((3, 129, 2, 5), 1), ((6, 50, 2, 3), 3)])
def test_a_value_comes_and_goes_as_it_is(dtype: Any, shape: tuple[int, ...], packed: int) -> None:
    """A few images at a time; on the chip, they are surrounded by zeros."""
    x = (counted(*shape) % 256).astype(dtype)
    for fields in ({}, {"margin": (1, 2, 0, 1)}):
        found = run_operations([load_of(x, 0, packed, **fields)], x, packed=packed, at_once=1)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize(("images", "features"), [(1, 300), (FEW_ROWS, 5), (FEW_ROWS + 1, 5), (129, 300), (700, 3)])
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_features_are_transposed(images: int, features: int, target: str) -> None:
    """With DMAs of single elements if they are few, otherwise on the Tensor Engine, which moves whole rows."""
    x = counted(images, features) % 4093
    with on(target) as core:
        sizes = {"height": 1, "width": 1, "in_channels": features, "out_channels": 2, "kernel": (1, 1)}
        heights = [min(128, features - first) for first in range(0, features, 128)]
        plan = plan_resident(problem(batch=images, **sizes), 2, heights, keeps_rows=False, combined_bytes=0)
        tiles = load(in_hbm(x.reshape(images, features, 1, 1)), plan)
        assert [each.shape for each in tiles] == [(height, images, 1, 1) for height in heights]
        np.testing.assert_array_equal(np.concatenate([each.values[:, :, 0, 0] for each in tiles]), x.T)
        transposes = sum(step.op == "nc_transpose" for step in core.program)
    assert (transposes > 0) == (images > FEW_ROWS)


@pytest.mark.parametrize("packed", [1, 2])
@pytest.mark.parametrize("copies", [Copies(), Copies(3, 1, 12), Copies(3, 1, 32), Copies(2, 2, 32)])
@pytest.mark.parametrize("dilation", [1, 2])
def test_each_filter_column_is_an_image_moved_left(packed: int, copies: Copies, dilation: int) -> None:
    """(image, filter column, channel) on the partitions, and copies shifted by rows for the filter's rows."""
    channels, width, rows, columns = 6 // packed, 2, 5, 7
    lanes = width * channels * packed
    x = counted(2 * packed, channels, rows, columns) + 1
    operation = TapsLoad(
        name="t",
        channels=width * channels,
        rows=rows,
        columns=columns,
        packed=packed,
        kernel_columns=width,
        dilation=dilation,
        copies=copies,
        sources=((LAUNCH_INPUT,),),
    )
    with on("trn2"):
        program = Program((Stage((operation,), 2),), packed, 2 * packed)
        launch = Launch((in_hbm(x),), (in_hbm(np.zeros(1)), None), hbm((128, 1)), program)
        launch.begin_pass(0, 2, 0)
        value = load_taps(launch, 0, operation, launch.operands(operation))
        assert (value.images, value.channels, value.rows, value.columns) == (2, 2 * channels, rows, columns)
        (found,) = (each.values for each in value.tiles)
    images = x.reshape(2, packed, channels, rows, columns)
    for copy in range(copies.count):
        part = found[copy * copies.stride : copy * copies.stride + lanes].reshape(
            packed, width, channels, 2, rows, columns
        )
        first, most = copy * copies.shift, columns - (width - 1) * dilation
        for column in range(width):
            left = column * dilation
            expected = images[:, :, :, first:, left : left + most].transpose(1, 2, 0, 3, 4)
            np.testing.assert_array_equal(part[:, column, :, :, : rows - first, :most], expected)
    between = found[lanes : copies.stride] if copies.count > 1 else found[:0]
    assert (between == 0).all()
