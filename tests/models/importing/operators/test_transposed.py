"""Transposed convolutions of every stride, padding and size, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from onnx_chain import Chain, assert_imports
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network

SETTINGS = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def ends(chain: Chain, folder: Path, opset: int = 20, batch: int = 2) -> None:
    """Import a graph that ends in features, and compare its output."""
    chain.add("Flatten")
    assert_imports(chain, folder, opset, batch)


@SETTINGS
@example(  # the whole image is cropped, and a row of zeros remains
    side=(1, 1), kernel=(1, 1), strides=(2, 1), dilations=(1, 1), pads=(1, 0, 0, 0), more=(1, 0), groups=1
)
@given(
    side=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilations=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    pads=st.tuples(*[st.integers(0, 3)] * 4),
    more=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    groups=st.sampled_from([1, 2]),
)
def test_transposed_convolutions(side, kernel, strides, dilations, pads, more, groups, tmp_path: Path) -> None:
    more = [min(extra, step - 1) for extra, step in zip(more, strides)]
    reach = [(size - 1) * step for size, step in zip(kernel, dilations)]
    left = [
        (n - 1) * s + r + 1 + e - pads[i] - pads[i + 2]
        for i, (n, s, r, e) in enumerate(zip(side, strides, reach, more))
    ]
    assume(min(left) >= 1)
    chain = Chain(4, *side)
    weight, bias = chain.weight(4, 3, *kernel), chain.weight(3 * groups)
    how = {"strides": strides, "dilations": dilations, "pads": pads, "output_padding": more, "group": groups}
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
        how["output_shape"] = [most - max(fewer, 1 - step) for most, fewer, step in zip(full, less, strides)]
        assume(min(how["output_shape"]) >= 1)
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
def test_what_cannot_be_had_is_refused(add, says: str, tmp_path: Path) -> None:
    chain = Chain(2, 4, 4)
    add(chain)
    with pytest.raises(ModelError, match=says) as error:
        import_network(chain.save(tmp_path, 19))
    assert "\n" not in str(error.value)
