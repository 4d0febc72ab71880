"""Depthwise convolutions in row blocks, compared with float64."""

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from random_arrays import normal
from single_operations import lay_out_weights, load_of, run_operations
from trninfer.kernels.convolution.forms import ROW_BLOCKS, Form
from trninfer.kernels.program import Activation, Buffer, Convolution, Pad, WriteRegion

F32 = np.float32


def depthwise(x: Any, w: Any, bias: Any, stride: Any, padding: Any) -> Any:
    """Return relu of the depthwise convolution in float64."""
    top, left, bottom, right = padding
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = sliding_window_view(padded, w.shape[1:], axis=(2, 3))[:, :, :: stride[0], :: stride[1]]
    return np.maximum(np.einsum("bchwij,cij->bchw", windows, w) + bias[:, None, None], 0)


def toeplitz(w: Any, conv: Convolution, heights: list[int]) -> list[Any]:
    """Return the Toeplitz matrices of each block, which contain a filter row's taps where an input row contributes to
    an output row."""
    rows, each = conv.form.rows, 128 // conv.form.rows
    steps = conv.row_blocks(128).steps
    units = []
    first = 0
    for height in heights:
        for start in range(first, first + height, each):
            part = w[start : min(start + each, first + height)]
            unit = np.zeros((rows, each, steps, conv.kernel[1], rows, each), F32)
            for out in range(rows):
                for tap in range(conv.kernel[0]):
                    step, side = divmod(out * conv.stride[0] + tap * conv.dilation[0], rows)
                    for c in range(len(part)):
                        unit[side, c, step, :, out, c] = part[c, tap]
            units.append(unit.reshape(128, steps * conv.kernel[1], 128))
        first += height
    return units


def check(
    form: Form, channels: int, size: tuple[int, int], kernel: tuple[int, int], into: Any = None, **fields: Any
) -> None:
    fields = {"stride": (1, 1), "padding": (kernel[0] // 2, kernel[1] // 2) * 2, **fields}
    x, w, bias = normal((2, channels, *size), F32), normal((channels, *kernel), F32, 1), normal((channels,), F32, 2)
    expected = depthwise(x, w, bias, **fields)
    shape = dict(zip(("channels", "rows", "columns"), expected.shape[1:]))
    conv = Convolution(
        name="c",
        **shape,
        kernel=kernel,
        groups=channels,
        form=form,
        activation=Activation("relu"),
        sources=((0,),),
        bias=1,
        into=into,
        **fields,
    )
    heights = [min(128, channels - first) for first in range(0, channels, 128)]
    blocks = conv.row_blocks(128).blocks(heights)
    constants = np.zeros((128, 1 + len(blocks)), F32)
    each = 128 // form.rows
    for block in blocks:
        numbers = np.zeros((form.rows, each), F32)
        numbers[:, : block.size] = bias[128 * block.tile + block.first :][: block.size]
        constants[:, 1 + block.index] = numbers.reshape(-1)
    weights = lay_out_weights([{number: unit} for number, unit in enumerate(toeplitz(w, conv, heights))])
    load = load_of(x, margin=fields["padding"])
    if into is None:
        found = run_operations([load, conv], x, constants=constants, weights=weights)
    else:
        whole = normal((2, channels, 3 * expected.shape[2] + 1, 2 * expected.shape[3]), F32, 5)
        sizes = dict(zip(("channels", "rows", "columns"), whole.shape[1:]))
        buffer = Buffer(name="r", **sizes, heights=tuple(heights))
        same = Pad(name="p", **sizes, padding=(0, 0, 0, 0), sources=((1,),))
        fill = load_of(whole, 1, into=WriteRegion(buffer=1))
        found = run_operations([load, buffer, fill, conv, same], x, whole, constants=constants, weights=weights)
        down, across = into.first
        whole[:, :, down :: into.step[0], across :: into.step[1]][:, :, : expected.shape[2]] = expected
        expected = whole
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("form", ROW_BLOCKS)
@pytest.mark.parametrize(
    ("channels", "size", "kernel", "stride"),
    [
        (64, (8, 7), (3, 3), (1, 1)),
        (130, (9, 6), (5, 3), (1, 1)),  # the last tile has two channels; the rows do not fill the last block
        (33, (7, 9), (3, 5), (2, 2)),
        (3, (11, 4), (7, 1), (3, 1)),
        (1, (1, 1), (1, 1), (1, 1)),  # fewer rows than a block
    ],
)
def test_rows_of_few_channels(form: Form, channels: int, size: Any, kernel: Any, stride: Any) -> None:
    check(form, channels, size, kernel, stride=stride)


@pytest.mark.parametrize("form", ROW_BLOCKS)
def test_into_every_third_row_of_a_room(form: Form) -> None:
    check(form, 40, (6, 5), (3, 3), into=WriteRegion(buffer=1, first=(1, 0), step=(3, 2)))
