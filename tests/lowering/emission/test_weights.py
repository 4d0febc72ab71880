"""Weights and constants as kernels load them: every number occurs once, at the position of its load, unit and
partition."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from lowered import ALL, applicable, decide, graph_of, pipeline_of
from random_networks import (
    chains,
    ending_in_dense,
    few_channels,
    graphs,
    joined_channels,
    labels,
    model_of,
    picture,
    residual,
)
from trninfer.kernels.convolution.forms import Form
from trninfer.kernels.program import Affine, Convolution, DenseHead, Norm, Slope, WeightLoad
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.emission.weights import in_pieces, lay_out_weights, loads_of
from trninfer.lowering.graph.lazy import LazyArray
from trninfer.models import load_model
from trninfer.models.layers import Conv2d, Dense, Flatten
from trninfer.models.network import Network
from trninfer.simulator.machine.chip import PARTITIONS

FLOAT32 = np.dtype(np.float32)
NETWORKS = st.one_of(chains(), graphs(), joined_channels(), few_channels())
FLAGS = st.builds(
    decide,
    packs_rows=st.booleans(),
    splits_phases=st.booleans(),
    packed=st.sampled_from([1, 1, 4, 16]),
    copied=st.sampled_from([(), ALL]),
)


@settings(max_examples=40)
@given(NETWORKS, FLAGS)
def test_every_weight_is_there_once(network: Network, flags: Decisions) -> None:
    """A value of a layer's filters occurs once for each image, or row of an image, that has a copy of the filters."""
    layout = pipeline_of(model_of(network)).lower(applicable(network, flags, 16))
    graph = layout.graph
    whole = layout.weights(FLOAT32)
    assert whole.shape == (max(1, layout.numbers),)
    left = np.arange(layout.numbers)
    for node in graph.nodes:
        operation = node.operation
        if not isinstance(operation, (Convolution, DenseHead)):
            continue
        assert node.filters is not None
        places = np.concatenate([_places(load).ravel() for load in operation.weights.loads])
        assert (left[places] >= 0).all()
        left[places] = -1
        times = graph.packed_in(node)
        own, laid_out = (numbers[numbers != 0] for numbers in (node.filters.make(), whole[places]))
        assert len(laid_out) == times * len(own), operation
        np.testing.assert_array_equal(np.unique(laid_out), np.unique(own))
    assert not whole[left[left >= 0]].any()  # the rest pads runs whose loads have fewer partitions


def _places(load: WeightLoad) -> np.ndarray:
    """Return the positions of a load's weights in the array of weights: [partitions, elements]."""
    run = np.arange(load.run.offset, load.run.end).reshape(load.run.rows, load.run.elements)
    return run[: load.rows, load.first : load.first + load.elements]


@settings(max_examples=40)
@given(NETWORKS, FLAGS)
def test_every_number_has_a_column(network: Network, flags: Decisions) -> None:
    """Biases are on the partitions of their outputs, for each packed image; biases of scores are along the columns."""
    layout = pipeline_of(model_of(network)).lower(applicable(network, flags, 16))
    columns = layout.constants()
    assert columns.shape == (PARTITIONS, layout.columns) and columns.dtype == np.float32
    taken: set[int] = set()
    for node in layout.graph.nodes:
        operation = node.operation
        if isinstance(operation, DenseHead):
            own = columns[:, operation.bias : operation.bias + operation.channels]
            np.testing.assert_array_equal(own, np.tile(node.numbers[0], (PARTITIONS, 1)))
            first, count = operation.bias, operation.channels
        elif isinstance(operation, Convolution):
            first, count = operation.bias, -(-operation.channels // PARTITIONS)
            biases = np.tile(node.numbers[0], operation.packed)
            np.testing.assert_array_equal(columns.T[first:].ravel()[: len(biases)], biases)
        elif isinstance(operation, (Affine, Norm, Slope)) and operation.is_scaled:
            first = operation.constants
            heights = layout.graph.heights(operation.sources[0])
            count = len(heights) * sum(numbers.size // len(numbers) for numbers in node.numbers)
            own = columns[:, first : first + count]
            assert np.isclose(np.abs(own).sum(), operation.packed * sum(np.abs(each).sum() for each in node.numbers))
        else:
            continue
        assert not taken & set(range(first, first + count))
        taken |= set(range(first, first + count))


@settings(max_examples=30)
@given(NETWORKS, FLAGS, FLAGS)
def test_alike_arrangements_have_equal_arrays(network: Network, one: Decisions, other: Decisions) -> None:
    pipeline = pipeline_of(model_of(network))
    layouts = [pipeline.lower(applicable(network, flags, 16)) for flags in (one, other)]
    alike = layouts[0].arrangement == layouts[1].arrangement
    event("alike" if alike else "different")
    assert hash(layouts[0].arrangement) == hash(pipeline.lower(applicable(network, one, 16)).arrangement)
    if alike:
        np.testing.assert_array_equal(layouts[0].weights(FLOAT32), layouts[1].weights(FLOAT32))
        np.testing.assert_array_equal(layouts[0].constants(), layouts[1].constants())


@pytest.mark.parametrize("form", [Form.PAIRS, Form.SQUARES])
def test_forms_have_weights_of_their_own(form: Form) -> None:
    pipeline = pipeline_of(residual(72), forms=(form,))
    direct = pipeline.lower(Decisions())
    buffers = (28 * 1024, 12 * 1024)
    other = pipeline.lower(decide(forms=tuple((n, form.value, budget_bytes) for n in ALL for budget_bytes in buffers)))
    assert direct.arrangement != other.arrangement
    number = next(n for n, node in enumerate(other.graph.nodes) if getattr(node.operation, "form", None) is form)
    each = 12 if form is Form.PAIRS else 16
    assert 9 * other.bytes_of(number)[0] == each * direct.bytes_of(number)[0]


def test_values_in_hbm_are_read_by_weights_of_their_own() -> None:
    pipeline = pipeline_of(residual(72))
    assert pipeline.lower(Decisions()).arrangement != pipeline.lower(decide(in_hbm=(0,))).arrangement


def test_bytes_of_a_partition_are_those_of_all_tiles_and_of_the_largest() -> None:
    layers = (Conv2d("a", 130, 300, (3, 3)), Flatten("flat"), Dense("b", 300 * 4, 3))
    layout = lay_out_weights(graph_of(Network("n", picture(130, 4, 4), layers, labels(3))))
    assert layout.bytes_of(0) == (4 * 2 * 9 * 300, 4 * 2 * 9 * (128 + 44))  # the last two are loaded together
    loads = loads_of(layout.graph, layout.graph.nodes[0])
    assert sum(load.rows * load.elements for load in loads) == 9 * 130 * 300


def test_nothing_is_copied_before_it_is_asked_for() -> None:
    def refuse() -> np.ndarray:
        raise MemoryError

    graph = graph_of(load_model("digits-cnn"))
    unread = graph.with_nodes(replace(node, filters=LazyArray(node.filters.shape, refuse)) for node in graph.nodes)  # type: ignore[union-attr]
    layout = lay_out_weights(unread)
    assert layout.numbers == lay_out_weights(graph).numbers and layout.arrangement == lay_out_weights(graph).arrangement
    with pytest.raises(MemoryError):
        layout.weights(FLOAT32)


def test_an_image_of_phases_has_weights_of_its_own() -> None:
    """Filters with one tap have one tap in the phases, too, but four times the channels."""
    pipeline = pipeline_of(model_of(ending_in_dense((130, 5, 5), [Conv2d("a", 130, 4, (1, 1), stride=(2, 2))])))
    plain, phases = (pipeline.lower(decide(splits_phases=splits)) for splits in (False, True))
    assert plain.arrangement != phases.arrangement and plain.numbers < phases.numbers


def test_packed_images_of_several_pieces() -> None:
    """Rows are (piece, image, channel), numbered as (image, channel)."""
    assert in_pieces([2, 1], 2).tolist() == [0, 1, 3, 4, 2, 5]
    assert in_pieces([3], 2).tolist() == list(range(6))
    assert sorted(in_pieces([4, 1, 7], 3)) == list(range(36))
