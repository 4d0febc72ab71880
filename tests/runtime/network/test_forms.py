"""Minimal filtering within a launch: every form gives what the golden model gives, and is taken where it is quicker."""

from collections.abc import Sequence
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from conv2d_errors import exact
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import conv, few_channels, labels, model_of, picture
from trninfer.kernels.convolution.forms import DIRECT, PAIRS, SQUARES
from trninfer.models.files import Model
from trninfer.models.golden import run_network
from trninfer.models.layers import Activation, Combine, Concat, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.launches import plan_launches
from trninfer.runtime.network import forms, plan
from trninfer.runtime.network.cut import NetworkPlan
from trninfer.runtime.network.forms import form_of
from trninfer.runtime.network.program import Planned
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

DTYPES = {"float32": np.dtype(np.float32), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16)}


def taken(network: Network, dtype: str, batch: int, asked: Sequence[str]) -> dict[str, str]:
    """The form of each layer."""
    segments = NetworkPlan(model_of(network), DTYPES[dtype], forms=asked).segments
    return {layer.name: layer.form for segment in segments for layer in segment.launch(batch).laid_out.layers}


def check(model: Model, dtype: str, batch: int, tolerance: float) -> None:
    x = np.maximum(np.random.default_rng(4).standard_normal((batch, *model.network.input.shape)), 0).astype(np.float32)
    result = Session(model, SimulatedBackend("trn2"), dtype, batch).run(x)
    expected = run_network(model.network, model.tensors, x).probabilities
    np.testing.assert_allclose(result.probabilities, expected, atol=tolerance, rtol=0)


def let_win(patch: pytest.MonkeyPatch, form: str) -> None:
    """Let a form be predicted to be the quickest."""
    patch.setattr(forms, "engines_ns", lambda of, *_: (1.0 if of == form else 1e9, 0.0, 0.0, 0.0))
    patch.setattr(forms, "DMA_BYTES_NS", 1e9)


@st.composite
def of_3x3(draw: st.DrawFn) -> Network:
    """3x3 convolutions of many channels, with pools, residual sums and concatenations between."""
    size = st.sampled_from([2, 3, 9, 16, 33])
    image = picture(draw(st.sampled_from([3, 50, 130])), draw(size), draw(size))
    layers: list[Layer] = [conv("stem", image.channels, 48, 3)]
    shape = (48, *image.shape[1:])
    for number in range(draw(st.integers(1, 3))):
        before, name = layers[-1].name, f"l{number}"
        channels = draw(st.sampled_from([44, 64, 129]))
        pool = draw(st.sampled_from([1, 1, 2])) if min(shape[1:]) > 1 else 1
        padding = draw(st.sampled_from([(1, 1, 1, 1), (1, 1, 1, 1), (2, 0, 1, 2)]))
        layers.append(conv(name, shape[0], channels, 3, pool_size=pool, padding=padding))
        shape = layers[-1].output_shape(shape)  # type: ignore[assignment]
        kind = draw(st.sampled_from(["plain", "sum", "join"]))
        if kind == "sum":
            layers.append(Conv2d(f"{name}b", channels, channels, (3, 3), (1, 1, 1, 1)))
            layers.append(Combine(f"{name}s", "add", "relu", inputs=(f"{name}b", name)))
        elif kind == "join" and pool == 1 and padding == (1, 1, 1, 1):
            layers.append(Concat(f"{name}c", inputs=(name, before)))
            shape = (channels + _channels(layers, before), *shape[1:])
    layers += [Pool("mean", "average", shape[1:], (1, 1)), Flatten("flat"), Dense("dense", shape[0], 4)]
    return Network("n", image, tuple(layers), labels(4))


def _channels(layers: Sequence[Layer], name: str) -> int:
    """Output channels of a convolution, or of a sum or concatenation of some."""
    layer = next(each for each in layers if each.name == name)
    if isinstance(layer, Conv2d):
        return layer.out_channels
    parts = layer.inputs[:1] if isinstance(layer, Combine) else layer.inputs
    return sum(_channels(layers, part) for part in parts)


@settings(max_examples=80)
@given(
    st.one_of(of_3x3(), few_channels()),
    st.sampled_from([1, 1, 2, 5]),
    st.sampled_from([PAIRS, SQUARES]),
    st.sampled_from(["float32", "float32", "bfloat16", "float16"]),
    st.sampled_from([3 * 1024, 28 * 1024]),
)
def test_every_form_gives_what_the_golden_model_gives(
    network: Network, batch: int, form: str, dtype: str, room: int
) -> None:
    """With room for the combinations of a few rows at a time, and of more."""
    with pytest.MonkeyPatch.context() as patch:
        let_win(patch, form)
        patch.setattr(plan, "COMBINED_BYTES", (room,))
        check(model_of(network), dtype, batch, {"float32": 2e-5, "bfloat16": 5e-2, "float16": 1e-2}[dtype])


def of_two(channels: int, side: int) -> Network:
    """Two 3x3 convolutions of as many channels, the second with a pool."""
    layers = (
        conv("stem", 3, channels, 3),
        conv("a", channels, channels, 3),
        conv("b", channels, channels, 3, pool_size=2),
        Pool("mean", "average", (side // 2, side // 2), (1, 1)),
        Flatten("flat"),
        Dense("dense", channels, 4),
    )
    return Network("two", picture(3, side, side), layers, labels(4))


def test_large_images_of_many_channels_take_fewer_matmuls() -> None:
    direct = {"stem": DIRECT, "mean": DIRECT, "dense": DIRECT}
    network = of_two(256, 56)
    assert taken(network, "bfloat16", 1, (PAIRS,)) == {**direct, "a": PAIRS, "b": PAIRS}
    assert taken(network, "float32", 1, (PAIRS, SQUARES)) == {**direct, "a": SQUARES, "b": SQUARES}
    assert set(taken(network, "bfloat16", 1, ()).values()) == {DIRECT}
    assert set(taken(of_two(512, 14), "bfloat16", 1, (PAIRS,)).values()) == {DIRECT}  # loading filters takes longer


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_filtered_network_is_quicker_and_right(dtype: str, batch: int) -> None:
    model, backend = model_of(of_two(256, 56)), SimulatedBackend("trn2")
    quickest = Session(model, backend, dtype, batch)
    direct = Session(model, backend, dtype, batch, LaunchOptions(form="direct"))
    assert quickest.time(batch).total_us < 0.9 * direct.time(batch).total_us
    check(model, dtype, batch, {"float32": 2e-5, "bfloat16": 5e-2, "float16": 1e-2}[dtype])


@pytest.mark.parametrize("kind", ["relu", "uniform", "normal"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_errors_are_at_most_twice_those_of_the_direct_form(dtype: str, kind: str) -> None:
    """Root mean square, against float64 with the filters before any rounding."""
    layers = (Activation("as it is", "identity"), Conv2d("conv", 128, 16, (3, 3)), Flatten("flat"))
    image = picture(128, 11, 12)
    model = model_of(Network("one", image, layers, (), Output("values")))
    rng = np.random.default_rng(1)
    draw = {"relu": lambda shape: np.maximum(rng.standard_normal(shape), 0), "uniform": rng.random}
    x = draw.get(kind, rng.standard_normal)((8, *image.shape)).astype(DTYPES[dtype])
    expected = exact(x, model.tensors["conv.weight"]).reshape(8, -1)
    expected += np.repeat(model.tensors["conv.bias"].astype(np.float64), 90)
    errors = []
    for form in (DIRECT, PAIRS):
        with pytest.MonkeyPatch.context() as patch:
            let_win(patch, form)
            given = Session(model, SimulatedBackend("trn2"), dtype, 8).run(x.astype(np.float32)).probabilities
            errors.append(np.sqrt(np.square(given - expected).mean()))
    assert errors[0] != errors[1] <= 2 * errors[0]


def test_an_input_that_lies_in_hbm_is_combined_as_it_comes() -> None:
    layers = (
        conv("stem", 3, 48, 3),
        conv("a", 48, 48, 3, pool_size=2),
        conv("b", 48, 8, 3, pool_size=2),
        Pool("mean", "average", (55, 55), (1, 1)),
        Flatten("flat"),
        Dense("dense", 8, 4),
    )
    network = Network("large", picture(3, 220, 220), layers, labels(4))
    programs = NetworkPlan(model_of(network), DTYPES["float32"], forms=(PAIRS, SQUARES)).segments
    layers = {layer.name: layer for layer in programs[0].launch(1).laid_out.layers}
    assert layers["stem"].in_hbm and layers["a"].form != DIRECT
    check(model_of(network), "float32", 1, 2e-5)


@pytest.mark.parametrize(("target", "dtype"), [("trn1", "bfloat16"), ("trn1", "float32"), ("trn3", "float16")])
def test_targets_take_the_forms_that_pay_there(target: str, dtype: str) -> None:
    model, info = model_of(of_two(256, 56)), SimulatedBackend(target).info
    backend = SimulatedBackend(target)
    totals = [
        sum(time.latency_us for time in plan_launches(model, dtype, info, LaunchOptions(form=form)).time(backend, 1)[0])
        for form in ("quickest", "direct")
    ]
    assert totals[0] == totals[1] if (target, dtype) == ("trn1", "bfloat16") else totals[0] < totals[1]


def test_what_is_told_of_a_layer_is_how_it_multiplies_its_filters() -> None:
    conv = Planned("conv2d", "a", ((-1,),), 8)
    taps = Planned("taps", "a", ((-1,),), 3, (3, 3))
    assert form_of([Planned("max_pool", "a", ((-1,),), 8)]) is None
    assert form_of([conv]) == "direct"
    assert form_of([replace(conv, form="pairs", blank=(1, 0, 2)), Planned("folded_pool", "a", ((0,),), 8)]) == (
        "pairs, 2 rows side by side"
    )
    assert form_of([taps, replace(conv, taps=(3, 1, 42), together=2)]) == (
        "direct, 9 taps a matmul, 2 images side by side"
    )
    assert form_of([replace(conv, groups=8), replace(conv, groups=8, taps=(3, 1, 32))]) == (
        "direct, diagonals, 3 taps a matmul"
    )
    assert form_of([replace(conv, unfold=4)]) == "direct, 4 rows side by side"
