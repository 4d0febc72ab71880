"""Minimal filtering in a launch: which convolutions are eligible, and that all forms compute the same results."""

from collections.abc import Sequence

import numpy as np
import pytest
from conv2d_errors import exact
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import (
    ALL,
    after,
    answers,
    assert_right,
    convolution_of,
    decide,
    decided,
    graph_of,
    id_of,
    nanoseconds,
    nodes_of,
)
from random_networks import conv, few_channels, labels, model_of, picture
from trninfer.kernels.convolution.forms import Form
from trninfer.lowering.decisions import Choice, Decisions, Kind, Option, Question
from trninfer.lowering.graph.graph import Graph
from trninfer.lowering.passes import choose_forms as choosing
from trninfer.lowering.passes.add_margins import add_margins
from trninfer.lowering.passes.choose_forms import COMBINED_BYTES, choose_forms
from trninfer.lowering.passes.load_taps import load_taps
from trninfer.lowering.passes.pack_taps import pack_taps
from trninfer.lowering.passes.stream_input import GROUP_BYTES, stream_input
from trninfer.models.layers import Activation, Combine, Concat, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.runtime.backend import DTYPES

TOLERANCES = {"float32": 2e-5, "bfloat16": 5e-2, "float16": 1e-2}
FILTERED = (Form.PAIRS, Form.SQUARES)


def last_option(question: Question) -> Option:
    return question.options[-1]


def wherever(form: Form, *buffers: int) -> Decisions:
    """Return decisions that set a form for every eligible convolution."""
    sizes = (*(buffers or COMBINED_BYTES), GROUP_BYTES)
    return decide(forms=tuple((number, form.value, combined_bytes) for number in ALL for combined_bytes in sizes))


@st.composite
def of_3x3(draw: st.DrawFn) -> Network:
    """Draw 3x3 convolutions with many channels, and pools, residual sums and concatenations between them."""
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
    """Return the number of channels of a convolution, or of a sum or concatenation of several."""
    layer = next(each for each in layers if each.name == name)
    if isinstance(layer, Conv2d):
        return layer.out_channels
    parts = layer.inputs[:1] if isinstance(layer, Combine) else layer.inputs
    return sum(_channels(layers, part) for part in parts)


@pytest.mark.slow
@settings(max_examples=50)
@given(
    st.one_of(of_3x3(), few_channels()),
    st.sampled_from([(1, 1), (1, 1), (2, 2), (5, 2)]),
    st.sampled_from(FILTERED),
    st.sampled_from(["float32", "float32", "bfloat16", "float16"]),
    st.sampled_from([3 * 1024, 28 * 1024]),
    st.booleans(),
)
def test_every_form_computes_what_the_golden_model_does(
    network: Network, images: tuple[int, int], form: Form, dtype: str, combined_bytes: int, rows: bool
) -> None:
    """With SBUF for the transforms of a few rows or of more rows at a time, with and without row packing."""
    batch, at_once = images
    decisions = Decisions((*decide(packs_rows=rows).choices, *wherever(form, combined_bytes).choices))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "COMBINED_BYTES", (combined_bytes,))
        assert_right(network, decisions, batch, dtype, forms=(form,), at_once=at_once, tolerance=TOLERANCES[dtype])


def chosen(graph: Graph, forms: Sequence[Form] = FILTERED) -> dict[str, list[tuple[Form, int]]]:
    """Return the forms and buffer sizes that the pass offers as choices, by layer."""
    asked: dict[str, list[tuple[Form, int]]] = {}

    def last(question: Question) -> Option:
        graphs = [question.graph.replacing(option.changed) for option in question.options]
        operations = [graph.nodes[question.number].convolution for graph in graphs]
        asked[question.graph.nodes[question.number].name] = [(each.form, each.group_bytes) for each in operations]
        return question.options[-1]

    choose_forms(graph, forms, last)
    return asked


def of_two(channels: int, side: int) -> Network:
    """Return two 3x3 convolutions with the same number of channels, the second followed by a pool."""
    layers = (
        conv("stem", 3, channels, 3),
        conv("a", channels, channels, 3),
        conv("b", channels, channels, 3, pool_size=2),
        Pool("mean", "average", (side // 2, side // 2), (1, 1)),
        Flatten("flat"),
        Dense("dense", channels, 4),
    )
    return Network("two", picture(3, side, side), layers, labels(4))


def ready(network: Network) -> Graph:
    """Return a graph as the pass receives it."""
    return after(graph_of(network), load_taps, stream_input, lambda graph: add_margins(graph, True))


def test_a_choice_is_between_the_direct_form_and_others_with_room_for_some_or_all_combinations() -> None:
    most, some = COMBINED_BYTES
    direct = (Form.DIRECT, 0)
    both = [direct, (Form.PAIRS, most), (Form.PAIRS, some), (Form.SQUARES, most), (Form.SQUARES, some)]
    assert chosen(ready(of_two(256, 56))) == {"a": both, "b": both}
    assert chosen(ready(of_two(256, 56)), [Form.PAIRS]) == {"a": both[:3], "b": both[:3]}
    # All transforms of a small image fit in the smaller buffer.
    assert chosen(ready(of_two(256, 6)))["a"] == [direct, (Form.PAIRS, some), (Form.SQUARES, some)]
    assert chosen(ready(of_two(256, 56)), ()) == {}


@pytest.mark.parametrize(
    ("layer", "forms"),
    [
        (Conv2d("a", 48, 8, (3, 3), (1, 1, 1, 1)), {Form.DIRECT, Form.PAIRS, Form.SQUARES}),
        (Conv2d("a", 48, 8, (1, 3)), {Form.DIRECT, Form.PAIRS}),  # squares combine rows too
        (Conv2d("a", 48, 8, (3, 3), (1, 1, 1, 1), stride=(2, 2)), set()),
        (Conv2d("a", 48, 8, (3, 3), (1, 1, 1, 1), dilation=(2, 1)), set()),
        (Conv2d("a", 48, 8, (3, 3), (1, 1, 1, 1), groups=2), set()),
        (Conv2d("a", 48, 8, (5, 5), (2, 2, 2, 2)), set()),
        (Conv2d("a", 48, 8, (3, 2), (1, 1, 1, 1)), set()),
        (Conv2d("a", 48, 8, (3, 3), (1, 600, 1, 0)), {Form.DIRECT, Form.PAIRS}),  # in squares, a row takes half a bank
        (Conv2d("a", 48, 8, (3, 3), (1, 1020, 1, 0)), set()),
    ],
)
def test_filters_of_three_columns_that_move_by_one_can_be_combined(layer: Conv2d, forms: set[Form]) -> None:
    outputs = int(np.prod(layer.output_shape((48, 20, 20))))
    layers = (Conv2d("stem", 3, 48, (1, 1)), layer, Flatten("flat"), Dense("dense", outputs, 4))
    asked = chosen(ready(Network("n", picture(3, 20, 20), layers, labels(4))))
    assert {form for form, _ in asked.get("a", [])} == forms


def test_an_input_whose_taps_share_the_partitions_is_direct() -> None:
    """Three rows by three columns of 3 channels take 27 rows of the Tensor Engine in one matmul."""
    layers = (Conv2d("a", 3, 16, (3, 3), (1, 1, 1, 1)), Flatten("flat"), Dense("dense", 16 * 400, 4))
    assert chosen(ready(Network("n", picture(3, 20, 20), layers, labels(4)))) == {}


def test_a_form_that_is_chosen_has_zeros_for_an_even_number_of_outputs() -> None:
    layers = (
        conv("stem", 3, 48, 3),
        Conv2d("a", 48, 8, (3, 3), (1, 1, 1, 1)),
        Flatten("flat"),
        Dense("dense", 8 * 21 * 23, 4),
    )
    graph = choose_forms(ready(Network("n", picture(3, 21, 23), layers, labels(4))), [Form.PAIRS], last_option)
    a = convolution_of(graph, "a")
    assert (a.form, a.padding, a.shape) == (Form.PAIRS, (1, 1, 2, 2), (8, 21, 23))
    assert convolution_of(graph, "stem").margin == (1, 1, 2, 2)


@pytest.mark.parametrize(
    ("dtype", "form"), [("bfloat16", Form.PAIRS), ("float32", Form.PAIRS), ("float32", Form.SQUARES)]
)
def test_large_images_of_many_channels_take_less_time(dtype: str, form: Form) -> None:
    network = of_two(256, 56)
    filtered = decided(network, wherever(form, COMBINED_BYTES[0]), dtype=dtype, forms=(form,))
    assert [node.operation.form for name in "ab" for node in nodes_of(filtered.graph, name)] == [form, form]  # type: ignore[attr-defined]
    assert nanoseconds(filtered, dtype) < 0.9 * nanoseconds(decided(network, Decisions(), dtype=dtype), dtype)


@pytest.mark.parametrize("kind", ["relu", "uniform", "normal"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_errors_are_at_most_twice_those_of_the_direct_form(dtype: str, kind: str) -> None:
    """Root mean square errors against float64, with filters before rounding."""
    layers = (Activation("as it is", "identity"), Conv2d("conv", 128, 16, (3, 3)), Flatten("flat"))
    image = picture(128, 5, 12)
    model = model_of(Network("one", image, layers, (), Output("values")))
    rng = np.random.default_rng(1)
    draw = {"relu": lambda shape: np.maximum(rng.standard_normal(shape), 0), "uniform": rng.random}
    x = draw.get(kind, rng.standard_normal)((24, *image.shape)).astype(DTYPES[dtype])
    expected = exact(x, model.tensors["conv.weight"]).reshape(24, -1)
    expected += np.repeat(model.tensors["conv.bias"].astype(np.float64), 30)
    errors = []
    for form in (Form.DIRECT, Form.PAIRS):
        plan = decided(model, wherever(form), 24, dtype, (Form.PAIRS,))
        assert convolution_of(plan.graph, "conv").form is form
        errors.append(np.sqrt(np.square(answers(model, plan, x.astype(np.float32), dtype) - expected).mean()))
    assert errors[0] != errors[1] <= 2 * errors[0]


@pytest.mark.parametrize("form", FILTERED)
def test_an_input_that_is_in_hbm_is_combined_as_it_comes(form: Form) -> None:
    layers = (
        conv("stem", 3, 72, 3),
        conv("a", 72, 48, 3, pool_size=2),
        Pool("mean", "average", (40, 25), (1, 1)),
        Flatten("flat"),
        Dense("dense", 48, 4),
    )
    network = Network("large", picture(3, 80, 50), layers, labels(4))
    decisions = wherever(form).having(Choice(Kind.SPILL, id_of(graph_of(network).with_ids(), "stem")))
    plan = assert_right(network, decisions, 2, forms=(form,), at_once=1)
    a = convolution_of(plan.graph, "a")
    assert (a.form, a.group_bytes) == (form, GROUP_BYTES)


def test_taps_of_the_direct_form_alone_share_the_partitions() -> None:
    layers = (conv("stem", 3, 32, 3), conv("a", 32, 8, 3), Flatten("flat"), Dense("dense", 8 * 400, 4))
    graph = ready(Network("n", picture(3, 20, 20), layers, labels(4)))
    direct = pack_taps(graph, last_option)
    paired = pack_taps(choose_forms(graph, [Form.PAIRS], last_option), last_option)
    assert convolution_of(direct, "a").taps.count == 3
    assert (convolution_of(paired, "a").form, convolution_of(paired, "a").taps.count) == (Form.PAIRS, 1)
