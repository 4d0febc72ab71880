"""Small images whose taps lie on the partitions, and layers' outputs that lie there again, moved up by rows."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import labels, model_of
from trninfer.models import load_model
from trninfer.models.golden import run_network
from trninfer.models.inputs import ImageInput
from trninfer.models.layers import Combine, Conv2d, Dense, Flatten, Layer
from trninfer.models.network import Network
from trninfer.runtime.network.cut import NetworkPlan
from trninfer.runtime.network.given import Given
from trninfer.runtime.network.program import Planned
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

FLOAT32, BF16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)
TOLERANCES = {"float32": 2e-5, "float16": 1e-2, "bfloat16": 6e-2}


def network(shape: tuple[int, int, int], layers: list[Layer]) -> Network:
    """Those layers and a dense one after them."""
    image = ImageInput(*shape, "none", (0.0,) * shape[0], (1.0,) * shape[0])
    given = {"input": shape}
    before = "input"
    for layer in layers:
        given[layer.name] = layer.output_shape(*[given[name] for name in layer.inputs or (before,)])  # type: ignore[assignment]
        before = layer.name
    dense = Dense("dense", int(np.prod(given[before])), 5)
    return Network("n", image, (*layers, Flatten("flat"), dense), labels(5))


def program(shape: tuple[int, int, int], layers: list[Layer], batch: int = 1) -> list[Planned]:
    (segment,) = NetworkPlan(model_of(network(shape, layers)), FLOAT32).segments
    return segment.launch(batch).laid_out.layers


@st.composite
def few_channels(draw: st.DrawFn) -> Network:
    """Two convolutions of few channels, of any size, movement and padding that leave something."""
    shape = (draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 7, 18, 33])), draw(st.sampled_from([1, 3, 16, 31])))
    layers: list[Layer] = []
    before = shape
    for number in range(2):
        layer = Conv2d(
            f"l{number}",
            before[0],
            draw(st.sampled_from([3, 8, 32, 33, 48])),
            draw(st.tuples(st.integers(1, 5), st.integers(1, 5))),
            draw(st.tuples(*[st.integers(0, 3)] * 4)),
            draw(st.sampled_from([1, 2])),
            "relu",
            stride=draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
            dilation=draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        )
        try:
            before = layer.output_shape(before)  # type: ignore[assignment]
        except ValueError:
            continue
        layers.append(layer)
    if not layers:
        layers = [Conv2d("l", shape[0], 3, (1, 1))]
    return network(shape, layers)


@settings(max_examples=80)
@given(few_channels(), st.sampled_from(["float32", "float16", "bfloat16"]), st.sampled_from([1, 2, 3, 17, 33]))
def test_any_taps_against_the_golden_model(tried: Network, dtype: str, batch: int) -> None:
    model = model_of(tried)
    x = np.random.default_rng(5).standard_normal((batch, *tried.input.shape)).astype(np.float32)
    expected = run_network(tried, model.tensors, x).probabilities
    given = Session(model, SimulatedBackend("trn2"), dtype, batch).run(x).probabilities
    atol = TOLERANCES[dtype] * max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(given, expected, atol=atol, rtol=0)


def test_the_zeros_of_a_small_image_come_with_it() -> None:
    (segment,) = NetworkPlan(load_model("digits-cnn"), FLOAT32).segments
    planned = segment.launch(1)
    assert (planned.image, planned.given) == ((1, 34, 34), Given((1, 1, 1, 1)))
    load, first = segment.launch(1).laid_out.layers[:2]
    assert (load.kind, load.channels, load.copies) == ("taps", 3, (3, 1, 42))  # three columns, and these three rows
    assert (first.kernel, first.padding, first.taps) == ((3, 1), (0, 0, 0, 0), (3, 1, 42))


@pytest.mark.parametrize(
    ("shape", "layer"),
    [
        ((1, 80, 80), Conv2d("a", 1, 8, (3, 3), (1, 1, 1, 1))),  # loaded in groups of rows
        ((16, 8, 8), Conv2d("a", 16, 16, (3, 3), (1, 1, 1, 1))),  # 48 columns of taps would leave room for two images
        ((4, 8, 8), Conv2d("a", 4, 16, (3, 3), (1, 1, 1, 1), groups=2)),
        ((1, 8, 8), Conv2d("a", 1, 8, (3, 1))),  # no columns
    ],
)
def test_other_images_come_as_they_are(shape: tuple[int, int, int], layer: Conv2d) -> None:
    (segment,) = NetworkPlan(model_of(network(shape, [layer])), FLOAT32).segments
    planned = segment.launch(1)
    assert (planned.image, planned.given) == (shape, Given())


def test_copies_are_made_where_they_save_more_than_they_cost() -> None:
    def copies(dtype: np.dtype, batch: int) -> list[int]:  # type: ignore[type-arg]
        (segment,) = NetworkPlan(load_model("digits-cnn"), dtype).segments
        return [layer.copies[0] for layer in segment.launch(batch).laid_out.layers]

    assert copies(FLOAT32, 1)[1] == copies(BF16, 1)[1] == 3  # of 8 channels
    assert copies(BF16, 1)[3] == 1  # matmuls of 16 columns are as quick
    assert copies(FLOAT32, 16)[1] == 2  # 8 images of 8 channels leave room for one copy,
    assert copies(BF16, 64)[1] == 1  # and 16 for none


def test_only_convolutions_read_what_has_copies() -> None:
    a = Conv2d("a", 1, 8, (3, 3), (1, 1, 1, 1))
    b = Conv2d("b", 8, 8, (3, 3), (1, 1, 1, 1), inputs=("a",))
    other = Conv2d("c", 8, 8, (3, 3), (2, 2, 2, 2), dilation=(2, 2), inputs=("a",))
    after = {
        "a sum": [Combine("sum", "add", "relu", inputs=("b", "a"))],
        "a product": [Combine("product", "multiply", "relu", inputs=("b", "a"))],
        "rows further apart": [other, Combine("sum", "add", "relu", inputs=("b", "c"))],
    }
    copies = {name: program((1, 20, 20), [a, b, *layers])[1].copies for name, layers in after.items()}
    assert copies == {"a sum": (3, 1, 32), "a product": (1, 0, 0), "rows further apart": (3, 2, 32)}
    for layers in after.values():
        tried = network((1, 20, 20), [a, b, *layers])
        model = model_of(tried)
        x = np.random.default_rng(5).standard_normal((2, 1, 20, 20)).astype(np.float32)
        given = Session(model, SimulatedBackend("trn2"), "float32", 1).run(x).probabilities
        np.testing.assert_allclose(given, run_network(tried, model.tensors, x).probabilities, atol=1e-4)
