"""Layers that compute nothing, against NumPy: every number in its place, bit by bit."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from trninfer import simulator
from trninfer.kernels import channel_shuffle, channel_slice, concat, pad, permute

DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
dtypes, targets = st.sampled_from(DTYPES), st.sampled_from(["trn1", "trn2", "trn3"])
SHAPES = [(1, 1), (3, 513), (129, 7), (1, 1, 1, 1), (2, 6, 5, 7), (1, 129, 13, 11), (3, 127, 1, 1), (1, 3, 127, 129)]


def numbered(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    return (np.arange(np.prod(shape)).reshape(shape) % 251).astype(dtype)


def run(kernel: Any, *arrays: Any, **given: Any) -> Any:
    (result,) = simulator.run(kernel, *arrays, **given).outputs
    return result


@given(st.sampled_from(SHAPES), st.lists(st.sampled_from([1, 2, 127, 129]), min_size=1, max_size=7), dtypes, targets)
def test_concat(shape: tuple[int, ...], widths: list[int], dtype: Any, target: str) -> None:
    parts = [numbered((shape[0], width, *shape[2:]), dtype) + dtype(1) for width in (shape[1], *widths)]
    np.testing.assert_array_equal(run(concat, *parts, target=target), np.concatenate(parts, axis=1))


@given(st.sampled_from(SHAPES), st.data(), dtypes, targets)
def test_channel_slice(shape: tuple[int, ...], data: Any, dtype: Any, target: str) -> None:
    first = data.draw(st.integers(0, shape[1] - 1))
    last = data.draw(st.integers(first + 1, shape[1]))
    x = numbered(shape, dtype)
    np.testing.assert_array_equal(run(channel_slice, x, target=target, first=first, last=last), x[:, first:last])


@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 60), st.integers(1, 9), dtypes, targets)
def test_channel_shuffle(batch: int, groups: int, each: int, side: int, dtype: Any, target: str) -> None:
    x = numbered((batch, groups * each, side, 3), dtype)
    expected = x.reshape(batch, groups, each, side, 3).swapaxes(1, 2).reshape(x.shape)
    np.testing.assert_array_equal(run(channel_shuffle, x, target=target, groups=groups), expected)


@given(
    st.sampled_from([(1, 1, 1, 1), (2, 65, 5, 7), (1, 3, 127, 129), (1, 2, 3, 5000), (1, 130, 70, 70)]),
    st.tuples(*[st.integers(-2, 4)] * 4),
    st.sampled_from([0.0, -1.5]),
    dtypes,
    targets,
)
def test_pad(shape: tuple[int, ...], padding: tuple[int, int, int, int], value: float, dtype: Any, target: str) -> None:
    top, left, bottom, right = (max(side, 0) if min(shape[2:]) < 5 else side for side in padding)
    x = numbered(shape, dtype)
    kept = x[:, :, max(0, -top) : shape[2] + min(0, bottom), max(0, -left) : shape[3] + min(0, right)]
    room = ((0, 0), (0, 0), (max(0, top), max(0, bottom)), (max(0, left), max(0, right)))
    result = run(pad, x, target=target, padding=(top, left, bottom, right), value=value)
    np.testing.assert_array_equal(result, np.pad(kept, room, constant_values=value))


@given(
    st.sampled_from([1, 3]),
    st.lists(st.sampled_from([1, 2, 3, 5, 17]), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
    dtypes,
    targets,
)
def test_permute(batch: int, split: list[int], random: Any, dtype: Any, target: str) -> None:
    order = list(range(len(split)))
    random.shuffle(order)
    x = numbered((batch, int(np.prod(split))), dtype)
    expected = x.reshape(batch, *split).transpose(0, *(axis + 1 for axis in order)).reshape(batch, -1)
    np.testing.assert_array_equal(run(permute, x, target=target, split=tuple(split), order=tuple(order)), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_channels_go_last_and_first(dtype: Any) -> None:
    x = numbered((2, 129, 13, 11), dtype)
    last = run(permute, x, split=(129, 13, 11), order=(1, 2, 0))
    np.testing.assert_array_equal(last, x.transpose(0, 2, 3, 1).reshape(2, -1))
    np.testing.assert_array_equal(run(permute, last, split=(13, 11, 129), order=(2, 0, 1)), x.reshape(2, -1))


IMAGE, OTHER = np.zeros((2, 5, 3, 4), np.float32), np.zeros((2, 5, 3, 5), np.float32)


@pytest.mark.parametrize(
    ("kernel", "arrays", "given", "message"),
    [
        (concat, [IMAGE, OTHER], {}, r"all must be float32 and alike \(2, 5, 3, 4\) but for axis 1"),
        (concat, [IMAGE, IMAGE.astype(np.float16)], {}, "all must be float32 .* got float16"),
        (concat, [IMAGE[0], IMAGE[0]], {}, "a must have 2 axes or 4, got shape"),
        (channel_slice, [IMAGE], {"first": 2, "last": 6}, "within the 5 channels of x, got 2 and 6"),
        (channel_shuffle, [IMAGE], {"groups": 2}, "groups must divide the 5 channels of x, got 2"),
        (pad, [IMAGE], {"padding": (-2, 0, -1, 0)}, r"padding must leave something of 3x4, got \(-2, 0, -1, 0\)"),
        (pad, [IMAGE.astype(np.int32)], {"padding": (0, 0, 0, 0)}, "x must be float32, bfloat16 or float16, got int32"),
        (permute, [IMAGE], {"split": (5, 3), "order": (1, 0)}, "split must have the 60 numbers of an example"),
        (permute, [numbered((1, 64), np.float32)], {"split": (2,) * 6, "order": (5, 4, 3, 2, 1, 0)}, "at most 5 axes"),
    ],
)
def test_arguments_that_do_not_fit(kernel: Any, arrays: list[Any], given: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        simulator.run(kernel, *arrays, **given)
