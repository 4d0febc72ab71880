"""Padding with zeros, numbers and the image's own pixels, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from import_steps import importer_of, numbers, value_of
from onnx_chain import Chain, assert_imports, ends, kinds
from trninfer.models.errors import ModelError
from trninfer.models.importing.importer import Importer
from trninfer.models.importing.onnx_file import Node
from trninfer.models.importing.operators.padding import OPERATORS
from trninfer.models.importing.view import View
from trninfer.models.layers import Concat

SETTINGS = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def features(chain: Chain, folder: Path, opset: int = 20, batch: int = 2) -> None:
    """Import a graph that ends in features, and compare its output."""
    chain.add("Flatten")
    assert_imports(chain, folder, opset, batch)


def test_rows_and_columns_are_cut_and_skipped_and_channels_padded(tmp_path: Path) -> None:
    """The shortcut of residual networks for CIFAR: every other pixel, and zero channels."""
    chain = Chain(3, 9, 8)
    ends, axes, steps = chain.constant([1 << 62, 7]), chain.constant([2, 3]), chain.constant([2, 2])
    chain.add("Slice", chain.constant([0, -8]), ends, axes, steps)
    chain.add("Pad", chain.constant([0, 1, 0, 0, 0, 2, 0, 0]), chain.constant(0.0))
    chain.add("Pad", chain.constant([0, 0, 1, 0, 0, 0, 0, 2]), chain.constant(1.5))
    features(chain, tmp_path)


@SETTINGS
@given(
    side=st.tuples(st.integers(3, 6), st.integers(3, 6)),
    pads=st.tuples(*[st.integers(0, 2)] * 4),
    mode=st.sampled_from(["reflect", "edge", "wrap"]),
)
def test_padding_by_pixels(side, pads, mode, tmp_path: Path) -> None:
    chain = Chain(3, *side)
    chain.add("Pad", chain.constant([0, 0, *pads[:2], 0, 0, *pads[2:]]), mode=mode)
    features(chain, tmp_path)


def test_channels_last_are_padded_by_pixels(tmp_path: Path) -> None:
    chain = Chain(5, 6, 3)
    chain.add("Pad", chain.constant([0, 1, 2, 0, 0, 2, 1, 0]), mode="reflect")
    chain.add("Transpose", perm=[0, 3, 1, 2])
    chain.conv((3, 4))
    features(chain, tmp_path)


def padded(importer: Importer, pads: list[int], *more: np.ndarray, **attributes: object) -> View:
    """Return the output `y` of a Pad of `x`, with its inputs after the pads."""
    names = ["pads", *(f"more{number}" for number in range(len(more)))]
    importer.constants |= dict(zip(names, (np.array(pads), *more)))
    OPERATORS["Pad"](importer, Node("Pad", "n", ("x", *names), ("y",), attributes))
    return importer.views["y"]


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("shape", [(4, 7), (3, 1, 5, 6), (1, 3, 5, 6), (3, 5, 1, 6)])
def test_sounds_and_axes_of_one_beside_an_image(shape: tuple[int, ...], mode: str) -> None:
    """Compared with NumPy; two axes, or three of four axes with more than one entry."""
    whole = shape if len(shape) == 2 else tuple(size for size in shape if size > 1)
    importer = importer_of(*(whole if len(whole) == 3 else (whole[0], 1, whole[1])))
    importer.views["x"] = importer.views["x"].reshaped(shape, True)
    sides = [(0, 0), *((1, 2) if size > 4 else (0, 0) for size in shape)]
    made = padded(importer, [a for a, _ in sides] + [b for _, b in sides], mode=mode)
    x = numbers(*importer.builder.shapes["input"])
    expected = np.pad(x.reshape(2, *shape), sides, mode=mode)
    np.testing.assert_array_equal(value_of(importer, made, x), expected)


def test_axes_that_are_named_and_numbers_below_zero() -> None:
    importer, x = importer_of(3, 5, 6), numbers(3, 5, 6)
    made = padded(importer, [2, -1, 0, 1], np.array(0.5), np.array([-1, 2]))
    expected = np.pad(x, ((0, 0), (0, 0), (0, 1), (2, 0)), constant_values=0.5)[:, :, 1:]
    np.testing.assert_array_equal(value_of(importer, made, x), expected)
    assert padded(importer, [0] * 8) is importer.views["x"]


@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0), (0, 4093)])
def test_channels_of_zeros_before_or_after(before: int, after: int) -> None:
    importer, x = importer_of(3, 1, 2), numbers(3, 1, 2)
    made = padded(importer, [0, before, 0, 0, 0, after, 0, 0])
    expected = np.pad(x, ((0, 0), (before, after), (0, 0), (0, 0)))
    np.testing.assert_array_equal(value_of(importer, made, x), expected)


@pytest.mark.parametrize(
    ("pads", "attributes", "says"),
    [
        ([1, 0, 0, 0, 0, 0, 0, 0], {}, "^pads the batch$"),
        ([0, 0, 0, 0, 1, 0, 0, 0], {}, "^pads the batch$"),
        ([0, 1, 0, 0, 0, 0, 0], {}, "^its pads are not a list of integers$"),
        ([0, 1, 0, 0, 0, 0], {}, "^it has 6 pads, which does not match its input of 4 axes$"),
        ([0, -1, 0, 0, 0, 0, 0, 0], {}, "^channels can be padded to at most 4096, but not cropped$"),
        ([0, 4094, 0, 0, 0, 0, 0, 0], {}, "^channels can be padded to at most 4096, but not cropped$"),
        (
            [0, 0, 5, 0, 0, 0, 0, 0],
            {"mode": "reflect"},
            "^an axis of 5 entries is too short to be padded with 5 and 0 of its own",
        ),
        (
            [0, 0, 0, 0, 0, 0, 0, 7],
            {"mode": "edge"},
            "^an axis of 6 entries is too short to be padded with 0 and 7 of its own",
        ),
        (
            [0, 0, 1, 0, 0, 0, -1, 0],
            {"mode": "wrap"},
            "^its pads 1 and -1 crop an axis, which is supported only in constant mode$",
        ),
    ],
)
def test_pads_that_are_not_supported(pads: list[int], attributes: dict, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        padded(importer_of(3, 5, 6), pads, **attributes)


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("first", [2, -1, -4])
@pytest.mark.parametrize("last", [False, True])
def test_axes_that_are_rolled(axis: int, first: int, last: bool, tmp_path: Path) -> None:
    """As torch.roll is exported: two slices in swapped order, of images with channels first and with channels last."""
    chain = Chain(4, 5, 6)
    chain.conv((4, 4), (1, 1))
    if last:
        chain.add("Transpose", perm=[0, 2, 3, 1])
    source = chain.value
    ends_of = [chain.constant([number]) for number in (first, 2**63 - 1, 0, first, axis)]
    later = chain.add("Slice", ends_of[0], ends_of[1], ends_of[4], first=source)
    earlier = chain.add("Slice", ends_of[2], ends_of[3], ends_of[4], first=source)
    chain.add("Concat", earlier, first=later, axis=axis)
    chain.add("Relu")
    found = kinds(ends(chain, 120, tmp_path))
    is_channel = axis == (3 if last else 1)
    assert is_channel or Concat not in found


def test_channels_padded_by_a_number(tmp_path: Path) -> None:
    """efficientvit concatenates ones to its values, so that their sums become the sums of the weights."""
    chain = Chain(4, 5, 6)
    chain.conv((4, 4), (1, 1))
    chain.add("Pad", chain.constant([0, 1, 0, 0, 0, 2, 0, 0]), chain.constant(np.float32(1.5)))
    ends(chain, 210, tmp_path)


def test_infinite_numbers_before_a_maximum(tmp_path: Path) -> None:
    """timm pads in this way for max pooling with TensorFlow's borders."""
    chain = Chain(4, 5, 6)
    chain.conv((4, 4), (1, 1))
    chain.add("Pad", chain.constant([0, 0, 0, 0, 0, 0, 1, 1]), chain.constant(np.float32(-np.inf)))
    chain.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2])
    ends(chain, 24, tmp_path)


@pytest.mark.parametrize(
    ("shape", "pads"),
    [
        ((6,), [3, 2]),  # features
        ((2, 4, 3), [0, 0, 0, 0, 0, 1]),  # one more feature for each token of each head
        ((2, 4, 3, 2), [1, 0, 0, 2, 0, 1, 0, 0]),
        ((2, 4, 3, 2), [0, -1, 1, 0, 1, 2, 0, -1]),
    ],
)
def test_arrays_that_are_no_images(shape: tuple[int, ...], pads: list[int], tmp_path: Path) -> None:
    count = len(shape)
    chain = Chain(12, 4)
    chain.add("Relu")
    chain.add("Reshape", chain.constant([0, *shape[:-1], -1]))
    chain.add("Pad", chain.constant([0, *pads[:count], 0, *pads[count:]]), chain.constant(1.5))
    features(chain, tmp_path)
