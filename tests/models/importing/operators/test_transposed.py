"""Transposed convolutions of every stride, padding and size, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from onnx_chain import Chain, assert_imports
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network

SETTINGS = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def ends(chain: Chain, folder: Path, opset: int = 20, batch: int = 2) -> None:
    """Import a graph that ends in features, and compare its output."""
    chain.add("Flatten")
    assert_imports(chain, folder, opset, batch)


class Axis(NamedTuple):
    """An axis of an image, and of a transposed convolution."""

    side: int
    taps: int
    stride: int
    dilation: int
    more: int  # output_padding
    before: int  # the rows or columns that padding removes
    after: int


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    """Draw an axis of which padding leaves at least one row or column."""
    side, taps, stride = draw(st.integers(1, 7)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    dilation, more = draw(st.integers(1, 2)), draw(st.integers(0, stride - 1))
    left = (side - 1) * stride + (taps - 1) * dilation + more
    before = draw(st.integers(0, min(3, left)))
    return Axis(side, taps, stride, dilation, more, before, draw(st.integers(0, min(3, left - before))))


@SETTINGS
@example(Axis(1, 1, 2, 1, 1, 1, 0), Axis(1, 1, 1, 1, 0, 0, 0), 1)  # padding removes the image: a row of zeros remains
@given(axes(), axes(), st.sampled_from([1, 2]))
def test_transposed_convolutions(tmp_path: Path, rows: Axis, columns: Axis, groups: int) -> None:
    chain = Chain(4, rows.side, columns.side)
    weight, bias = chain.weight(4, 3, rows.taps, columns.taps), chain.weight(3 * groups)
    how = {
        "strides": [rows.stride, columns.stride],
        "dilations": [rows.dilation, columns.dilation],
        "pads": [rows.before, columns.before, rows.after, columns.after],
        "output_padding": [rows.more, columns.more],
        "group": groups,
    }
    chain.add("ConvTranspose", weight, bias, **how)
    ends(chain, tmp_path)


@SETTINGS
@given(
    side=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    less=st.none() | st.tuples(st.integers(-2, 3), st.integers(-2, 3)),
    way=st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]),
)
def test_transposed_convolutions_to_a_size(side, kernel, strides, less, way, tmp_path: Path) -> None:
    """`less`: by how much the output_shape is below the full size, or above it, where only the bias remains; without
    it, the padding mode determines the size."""
    full = [(n - 1) * step + size for n, step, size in zip(side, strides, kernel)]
    how = {"strides": strides} | ({} if way == "NOTSET" else {"auto_pad": way})
    if less is not None:
        how["output_shape"] = [max(1, most - max(fewer, 1 - step)) for most, fewer, step in zip(full, less, strides)]
    chain = Chain(2, *side)
    chain.add("ConvTranspose", chain.weight(2, 3, *kernel), chain.weight(3), **how)
    ends(chain, tmp_path)


def test_rows_beyond_a_transposed_convolution_are_its_bias(tmp_path: Path) -> None:
    chain = Chain(2, 3, 4)
    how = {"strides": [2, 3], "output_padding": [1, 2]}
    chain.add("ConvTranspose", chain.weight(2, 3, 2, 1), chain.weight(3), **how)
    ends(chain, tmp_path)


def test_a_transposed_convolution_of_sound(tmp_path: Path) -> None:
    chain = Chain(4, 9)
    chain.add("ConvTranspose", chain.weight(4, 2, 5), strides=[3], pads=[1, 2], output_padding=[1])
    ends(chain, tmp_path)


@pytest.mark.parametrize(
    ("add", "says"),
    [
        (lambda c: c.add("ConvTranspose", c.weight(2, 3, 2, 2), output_shape=[9, 9]), "allows at most"),
        (lambda c: c.add("ConvTranspose", c.weight(2, 3, 2, 2), output_shape=[9]), "is not 2 integers"),
        (lambda c: c.add("ConvTranspose", c.weight(3, 3, 2, 2)), "with 1 groups, but"),
        (lambda c: c.add("ConvTranspose", c.weight(2, 3, 2, 2), strides=[2000, 1]), "at most 1024"),
    ],
)  # fmt: skip
def test_unsupported_transposed_convolution_is_refused(add, says: str, tmp_path: Path) -> None:
    chain = Chain(2, 4, 4)
    add(chain)
    with pytest.raises(ModelError, match=says) as error:
        import_network(chain.save(tmp_path, 19))
    assert "\n" not in str(error.value)
