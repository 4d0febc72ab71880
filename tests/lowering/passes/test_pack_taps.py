"""Taps that share the partitions, and values with copies of themselves for them, shifted by rows."""

import pytest
from lowered import ALL, assert_right, convolution_of, decide, decided, graph_of, nanoseconds, planned
from random_networks import ending_in_dense
from trninfer.kernels.convolution.forms import Form
from trninfer.kernels.program import Convolution, Copies
from trninfer.kernels.tiling.packing import Taps
from trninfer.lowering.decisions import Decisions, Kind, Option, Question
from trninfer.lowering.passes.load_taps import load_taps
from trninfer.lowering.passes.pack_taps import pack_taps, possible_taps
from trninfer.models import load_model
from trninfer.models.layers import Combine, Conv2d, Layer

COPIED = decide(copied=ALL)


def copies_of(decisions: Decisions, batch: int) -> list[int]:
    """Return the number of copies of each convolution's value in digits-cnn."""
    graph = decided(load_model("digits-cnn"), decisions, batch, "bfloat16").graph
    return [node.operation.copies.count for node in graph.nodes if isinstance(node.operation, Convolution)]


def test_copies_take_the_partitions_that_there_are() -> None:
    assert copies_of(COPIED, 1)[:2] == [3, 3]  # for 8 and for 16 channels
    assert copies_of(decide(packed=8, copied=ALL), 16)[0] == 2  # 8 images of 8 channels leave space for one copy,
    assert copies_of(decide(packed=16, copied=ALL), 16)[0] == 1  # and 16 images for none
    assert set(copies_of(Decisions(), 1)) == {1}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.slow
def test_copies_are_made_where_they_save_more_than_they_cost(dtype: str) -> None:
    model = load_model("digits-cnn")
    choice = nanoseconds(planned(model, 1, dtype), dtype)
    assert choice <= min(nanoseconds(decided(model, each, 1, dtype), dtype) for each in (COPIED, Decisions()))


def test_a_pass_asks_whether_copies_are_worth_it() -> None:
    graph = load_taps(graph_of(load_model("digits-cnn")))
    asked, filled = [], []

    def answer(question: Question) -> Option:
        alone, (number, source) = question.options[0], question.priced
        if question.kind is Kind.FILL_TAPS:
            filled.append((question.graph.nodes[source].name, [option.value for option in question.options]))
            return alone
        shared = question.options[1].changed[number].convolution
        asked.append((shared.name, question.graph.nodes[source].name, shared.taps))
        return question.options[1] if shared.name == "conv2" else alone

    packed = pack_taps(graph, answer)
    assert filled == [("conv1", [None, 3, 33])]
    assert asked[0] == ("conv2", "conv1", Taps(3, 1, 32))
    assert len({name for name, *_ in asked}) == len(asked) > 1
    assert convolution_of(packed, "conv1").copies == Copies(3, 1, 32)
    assert convolution_of(packed, "conv2").taps == Taps(3, 1, 32)
    assert convolution_of(packed, "conv3").taps.count == convolution_of(packed, "conv2").copies.count == 1


A = Conv2d("a", 1, 8, (3, 3), (1, 1, 1, 1))
B = Conv2d("b", 8, 8, (3, 3), (1, 1, 1, 1), inputs=("a",))
DILATED = Conv2d("c", 8, 8, (3, 3), (2, 2, 2, 2), dilation=(2, 2), inputs=("a",))


@pytest.mark.parametrize(
    ("layers", "copies"),
    [
        ([Combine("sum", "add", "relu", inputs=("b", "a"))], Copies(3, 1, 32)),
        ([Combine("product", "multiply", "relu", inputs=("b", "a"))], Copies()),
        # the copies that one of two readers needs
        ([DILATED, Combine("sum", "add", "relu", inputs=("b", "c"))], Copies(3, 2, 32)),
    ],
    ids=["a sum", "a product", "rows further apart"],
)
@pytest.mark.parametrize("batch", [1, 2])
def test_only_convolutions_read_what_has_copies(layers: list[Layer], copies: Copies, batch: int) -> None:
    network = ending_in_dense((1, 20, 20), [A, B, *layers])
    plan = assert_right(network, COPIED, batch, tolerance=1e-4)
    assert convolution_of(plan.graph, "a").copies == copies


def test_an_input_in_hbm_is_loaded_once_for_each_tap() -> None:
    graph = graph_of(ending_in_dense((1, 80, 80), [A]))
    assert possible_taps(graph, graph.nodes[0]) == (Taps(3, 3, 14), None)
    two_tiles = graph_of(ending_in_dense((130, 8, 8), [Conv2d("a", 130, 8, (3, 3))]))
    assert possible_taps(two_tiles, two_tiles.nodes[0]) == (Taps(1, 1, 128), None)


@pytest.mark.parametrize("form", [Form.PAIRS, Form.SQUARES])
@pytest.mark.parametrize("batch", [1, 3])
def test_minimal_filtering_reads_a_value_without_its_copies(form: Form, batch: int) -> None:
    network = ending_in_dense((1, 20, 20), [A, B, DILATED, Combine("sum", "add", "relu", inputs=("b", "c"))])
    decisions = decide(copied=ALL, forms=[(node, form.value, 12 * 1024) for node in ALL])
    plan = assert_right(network, decisions, batch, forms=(form,), tolerance=1e-4)
    assert convolution_of(plan.graph, "b").form is form
    assert convolution_of(plan.graph, "a").copies.count > 1
