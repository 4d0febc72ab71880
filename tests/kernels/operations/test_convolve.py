"""Convolutions in a program, compared with float64: from SBUF or HBM to SBUF or HBM, whole or in groups."""

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from random_arrays import normal
from single_operations import columns_of, lay_out_weights, load_of, run_operations, run_program
from trninfer.kernels.operation_fields import Memory
from trninfer.kernels.program import (
    LAUNCH_INPUT,
    Activation,
    Buffer,
    Convolution,
    Copies,
    Operation,
    Pad,
    WriteRegion,
)
from trninfer.kernels.tiling.packing import Taps

F32 = np.float32


def convolved(x: Any, w: Any, bias: Any, padding: Any = (0, 0, 0, 0), stride: Any = (1, 1), pool_size: int = 1) -> Any:
    """Return relu of the convolution in float64, after max pooling with windows of pool_size x pool_size."""
    top, left, bottom, right = padding
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = sliding_window_view(padded, w.shape[2:], axis=(2, 3))[:, :, :: stride[0], :: stride[1]]
    sums = np.einsum("bchwij,ocij->bohw", windows, w, optimize=True) + bias[:, None, None]
    rows, columns = (size // pool_size for size in sums.shape[2:])
    sums = sums[:, :, : rows * pool_size, : columns * pool_size]
    return np.maximum(sums.reshape(*sums.shape[:2], rows, pool_size, columns, pool_size).max(axis=(3, 5)), 0)


def units_of(w: Any, packed: int = 1) -> list[dict[int, Any]]:
    """Return the filters for one tap per matmul, [rows, taps, outputs], at most 128 each; packed images are on the
    diagonal."""
    outputs, channels = w.shape[:2]
    matrix = np.zeros((packed, channels, w.shape[2] * w.shape[3], packed, outputs), F32)
    for image in range(packed):
        matrix[image, :, :, image] = w.reshape(outputs, channels, -1).transpose(1, 2, 0)
    whole = matrix.reshape(packed * channels, -1, packed * outputs)
    starts_in, starts_out = range(0, whole.shape[0], 128), range(0, whole.shape[2], 128)
    return [{t: whole[a : a + 128, :, b : b + 128] for t, a in enumerate(starts_in)} for b in starts_out]


def operands(channels: int, outputs: int, size: tuple[int, int], batch: int = 2, kernel: Any = (3, 3)) -> Any:
    x, w = normal((batch, channels, *size), F32), normal((outputs, channels, *kernel), F32, 1) / channels
    return x, w, normal((outputs,), F32, 2)


def operation_of(expected: Any, w: Any, **fields: Any) -> Convolution:
    fields = {"sources": ((0,),), "taps": Taps(1, 1, w.shape[1] * fields.get("packed", 1)), **fields}
    size = dict(zip(("channels", "rows", "columns"), expected.shape[1:]))
    return Convolution(name="c", **size, kernel=w.shape[2:], activation=Activation("relu"), **fields)


def assert_close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize(
    ("channels", "outputs", "size", "fields"),
    [
        (3, 5, (7, 9), {}),
        (130, 129, (6, 5), {"padding": (1, 1, 1, 1)}),  # two tiles of inputs and of outputs
        (4, 130, (9, 8), {"stride": (2, 1), "padding": (0, 1, 1, 0)}),
        (8, 6, (9, 10), {"pool_size": 2, "padding": (1, 0, 0, 0)}),  # an odd column is dropped
        (2, 3, (60, 50), {"padding": (1, 1, 1, 1)}),  # many banks
    ],
)
def test_from_sbuf_to_sbuf(target: str, channels: int, outputs: int, size: tuple[int, int], fields: Any) -> None:
    x, w, bias = operands(channels, outputs, size)
    expected = convolved(x, w, bias, **fields)
    load = load_of(x, margin=fields.get("padding", (0, 0, 0, 0)))
    options = {"constants": columns_of([3], bias), "weights": lay_out_weights(units_of(w)), "target": target}
    assert_close(run_operations([load, operation_of(expected, w, bias=1, **fields)], x, **options), expected)


@pytest.mark.parametrize("pool_size", [1, 2])
@pytest.mark.parametrize("group_bytes", [0, 10_000])
def test_from_hbm(group_bytes: int, pool_size: int) -> None:
    """The input is loaded at once, or in groups of rows."""
    x, w, bias = operands(20, 6, (40, 30), 1)
    expected = convolved(x, w, bias, (1, 1, 1, 1), (1, 1), pool_size)
    fields = {"padding": (1, 1, 1, 1), "pool_size": pool_size, "group_bytes": group_bytes}
    conv = operation_of(expected, w, sources=((LAUNCH_INPUT,),), **fields)
    assert_close(run_operations([conv], x, constants=columns_of(bias), weights=lay_out_weights(units_of(w))), expected)


def test_to_hbm() -> None:
    """One tile at a time, into a buffer in HBM."""
    x, w, bias = operands(20, 130, (12, 10))
    expected = convolved(x, w, bias)
    out = Buffer(name="c", channels=130, rows=10, columns=8, memory=Memory.OUTPUT)
    conv = operation_of(expected, w, into=WriteRegion(buffer=1))
    program: list[Operation] = [load_of(x), out, conv]
    (found,) = run_program(program, x, constants=columns_of(bias), weights=lay_out_weights(units_of(w)))
    assert_close(found, expected)


@pytest.mark.parametrize("packed_out", [1, 2, 4])
def test_packed_images(packed_out: int) -> None:
    """Four images on the partitions of the input become one, two or four phases with fewer images each."""
    x, w, bias = operands(8, 16, (5, 6), 8)
    expected = convolved(x, w, bias)
    whole = units_of(w, 4)[0][0].reshape(32, -1, 4, 16)
    firsts = range(0, 4, packed_out)
    phases = [whole[:, :, first : first + packed_out].reshape(32, -1, 16 * packed_out) for first in firsts]
    conv = operation_of(expected, w, packed=packed_out, taps=Taps(1, 1, 32))
    options = {
        "constants": columns_of(np.tile(bias, packed_out)),
        "weights": lay_out_weights([{0: phase} for phase in phases]),
    }
    assert_close(run_operations([load_of(x, 0, 4), conv], x, packed=4, at_once=1, **options), expected)


def test_an_addend_goes_before_the_activation() -> None:
    x, w, bias = operands(6, 6, (6, 7))
    expected = convolved(x, w, bias, (1, 1, 1, 1))
    conv = operation_of(expected, w, padding=(1, 1, 1, 1), sources=((0,), (0,)))
    sums = convolved(x, w, bias + 100, (1, 1, 1, 1)) - 100  # the bias keeps all sums positive
    found = run_operations(
        [load_of(x, margin=(1, 1, 1, 1)), conv], x, constants=columns_of(bias), weights=lay_out_weights(units_of(w))
    )
    assert_close(found, np.maximum(sums + x, 0))


def test_a_place_of_its_own_in_a_room() -> None:
    """Writes every other row and every third column, from the second on; the rest is unchanged."""
    x, w, bias = operands(4, 5, (4, 5), kernel=(1, 1))
    expected = convolved(x, w, bias)
    buffer = Buffer(name="r", channels=5, rows=9, columns=14, heights=(5,))
    whole = normal((2, 5, 9, 14), F32, 5)
    fill = load_of(whole, 1, into=WriteRegion(buffer=1))
    conv = operation_of(expected, w, into=WriteRegion(buffer=1, first=(1, 1), step=(2, 3)))
    same = Pad(name="r", channels=5, rows=9, columns=14, padding=(0, 0, 0, 0), sources=((1,),))
    options = {"constants": columns_of(bias), "weights": lay_out_weights(units_of(w))}
    found = run_operations([load_of(x), buffer, fill, conv, same], x, whole, **options)
    whole[:, :, 1:8:2, 1:14:3] = expected
    assert_close(found, whole)


def test_copies_for_the_filter_rows_that_follow() -> None:
    """The next convolution reads two rows of taps from the same partitions."""
    x, w, bias = operands(4, 32, (8, 8))
    between = convolved(x, w, bias)
    after, second = normal((3, 32, 2, 1), F32, 3) / 8, normal((3,), F32, 4)
    expected = convolved(between, after, second)
    first = operation_of(between, w, copies=Copies(2, 1, 32))
    # one column per output, with (row, channel) on the rows
    taps = np.concatenate([after[:, :, 0], after[:, :, 1]], axis=1).transpose(1, 2, 0)
    last = operation_of(expected, after, taps=Taps(2, 1, 32), sources=((1,),), bias=1)
    weights = [lay_out_weights(units_of(w)), lay_out_weights([{0: taps.reshape(64, -1, 3)}])]
    found = run_operations([load_of(x), first, last], x, constants=columns_of(bias, second), weights=weights)
    assert_close(found, expected)
