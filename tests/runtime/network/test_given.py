"""How the host gives the input of a launch: zeros around it, and phases of filters that move by several pixels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import conv, labels, model_of, picture
from trninfer.models.golden import run_network
from trninfer.models.layers import Combine, Conv2d, Dense, Flatten
from trninfer.models.network import Network
from trninfer.runtime.network.cut import NetworkPlan
from trninfer.runtime.network.given import Given
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

FLOAT32 = np.dtype(np.float32)


def strided(shape: tuple[int, int, int], first: Conv2d) -> Network:
    outputs = int(np.prod(first.output_shape(shape)))
    return Network("n", picture(*shape), (first, Flatten("flat"), Dense("dense", outputs, 4)), labels(4))


def test_an_image_is_given_as_its_phases_with_zeros_around_it() -> None:
    value = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 3, 4)
    arranged = Given((1, 0, 0, 2), (2, 3)).arranged(value, 2, FLOAT32)
    whole = np.zeros((2, 1, 4, 6), np.float32)
    whole[0, 0, 1:, :4] = value[0, 0]
    expected = [whole[:, 0, row::2, column::3] for row in range(2) for column in range(3)]
    np.testing.assert_array_equal(arranged, np.stack(expected, 1))
    cut = Given((0, 0, -1, -2), (2, 2)).arranged(value, 1, FLOAT32)
    np.testing.assert_array_equal(cut, value[:, :, :2, :2].reshape(1, 4, 1, 1))
    assert Given().arranged(value, 1, FLOAT32) is value


@settings(max_examples=60)
@given(
    st.tuples(st.sampled_from([1, 3, 5]), st.integers(1, 40), st.integers(1, 40)),
    st.tuples(*[st.integers(1, 9)] * 2),
    st.tuples(*[st.integers(1, 8)] * 2),
    st.tuples(*[st.integers(0, 3)] * 4),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 3]),
    st.sampled_from(["float32", "bfloat16"]),
)
def test_first_filters_of_any_stride_against_the_golden_model(
    shape: tuple[int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    pool_size: int,
    batch: int,
    dtype: str,
) -> None:
    first = Conv2d("first", shape[0], 6, kernel, padding, pool_size, "relu", stride=stride)
    try:
        network = strided(shape, first)
    except ValueError:  # nothing is left of it
        return
    model = model_of(network)
    x = np.random.default_rng(6).standard_normal((batch, *shape)).astype(np.float32)
    given = Session(model, SimulatedBackend("trn2"), dtype, batch).run(x).probabilities
    expected = run_network(network, model.tensors, x).probabilities
    np.testing.assert_allclose(given, expected, atol=2e-5 if dtype == "float32" else 6e-2, rtol=0)


@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "phases"),
    [
        (3, (3, 3), (2, 2), (2, 2)),  # 12 channels of two taps a side
        (3, (11, 11), (4, 4), (4, 4)),
        (3, (3, 3), (1, 1), (1, 1)),
        (64, (3, 3), (2, 2), (1, 1)),  # 256 channels of two taps a side would take more matmuls
    ],
)
def test_phases_are_given_where_they_take_no_more_matmuls(
    channels: int, kernel: tuple[int, int], stride: tuple[int, int], phases: tuple[int, int]
) -> None:
    network = strided((channels, 40, 40), Conv2d("first", channels, 8, kernel, stride=stride))
    (segment,) = NetworkPlan(model_of(network), FLOAT32).segments
    assert segment.launch(1).given.phases == phases
    assert segment.launch(1).image[0] == channels * phases[0] * phases[1]


def test_what_is_read_twice_comes_as_it_is() -> None:
    first = conv("first", 3, 8, 3, stride=(2, 2))
    other = Conv2d("other", 3, 8, (3, 3), (1, 1, 1, 1), stride=(2, 2), inputs=("input",))
    both = Combine("sum", "add", "relu", inputs=("first", "other"))
    layers = (first, other, both, Flatten("flat"), Dense("dense", 8 * 400, 4))
    (segment,) = NetworkPlan(model_of(Network("n", picture(3, 40, 40), layers, labels(4))), FLOAT32).segments
    planned = segment.launch(1)
    assert (planned.image, planned.given) == ((3, 40, 40), Given())
