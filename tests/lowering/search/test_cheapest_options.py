"""Choosing the cheapest of several equivalent nodes, unless it saves too little or does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from lowered import graph_of, number_of, pipeline_of
from random_networks import conv, ending_in_dense, model_of
from trninfer.kernels.convolution.forms import Form
from trninfer.kernels.program import Convolution, Copies
from trninfer.kernels.tiling.packing import Taps
from trninfer.lowering.decisions import Choice, Decisions, Kind, Option, Question
from trninfer.lowering.graph.graph import Graph, NodeId, Unsupported
from trninfer.lowering.passes.choose_forms import FORM_GAIN
from trninfer.lowering.passes.pack_taps import pack_taps
from trninfer.lowering.search.cheapest_options import MOST_PRICED, CheapestOptions
from trninfer.lowering.search.cost_model import Cost, CostModel

FORMS = (Form.PAIRS, Form.SQUARES)
NETWORK = ending_in_dense((64, 16, 16), [conv("a", 64, 64, 3), conv("b", 64, 64, 3), conv("c", 64, 32, 3)])


class Tariff(CostModel):
    """A cost model with a table of costs for each form, without simulation; None if a form does not fit."""

    def __init__(self, direct: float, **of_forms: float | None) -> None:
        super().__init__("trn2", 4)
        self.costs = {Form.DIRECT: direct, **{Form(name): cost for name, cost in of_forms.items()}}
        self.asked: list[tuple[int, int]] = []

    def cost(self, graph: Graph, number: int, images: int) -> Cost:
        self.asked.append((number, images))
        operation = graph.nodes[number].operation
        cost = self.costs[operation.form if isinstance(operation, Convolution) else Form.DIRECT]
        if cost is None:
            raise Unsupported("no room")
        return Cost(cost, 1)


def asked() -> Question:
    """Return the choice of a form for layer b."""
    found: list[Question] = []

    def answer(question: Question) -> Option:
        found.append(question)
        return question.options[0]

    pipeline_of(model_of(NETWORK), forms=FORMS).lower(Decisions(), answer)
    return next(each for each in found if each.graph.nodes[each.number].name == "b" and each.kind is Kind.FORM)


def picked(cost_model: CostModel, images: int = 4, refused: Sequence[Choice] = ()) -> Convolution:
    question, cheapest = asked(), CheapestOptions(cost_model, images, refused)
    option = cheapest.answer(question)
    assert cheapest.made == ([question.choice(option)] if option.changed else [])
    return question.graph.replacing(option.changed).nodes[question.number].convolution


def test_the_cheapest_form_is_picked() -> None:
    assert {Form(option.value[0]) for option in asked().options[1:]} == {*FORMS} and asked().options[0].value is None
    assert picked(Tariff(100, pairs=60, squares=50)).form is Form.SQUARES
    assert picked(Tariff(100, pairs=50, squares=60)).form is Form.PAIRS
    assert picked(Tariff(100, pairs=120, squares=110)).form is Form.DIRECT


def test_a_form_that_saves_too_little_is_not_worth_its_errors() -> None:
    least = 100 / FORM_GAIN
    assert picked(Tariff(100, pairs=least + 0.1, squares=99)).form is Form.DIRECT
    assert picked(Tariff(100, pairs=least, squares=99)).form is Form.DIRECT
    assert picked(Tariff(100, pairs=least - 0.1, squares=99)).form is Form.PAIRS


def test_each_option_has_its_own_least_gain() -> None:
    """The quickest option is left out if another one needs less gain and is nearly as quick."""
    question = asked()
    default, *others = question.options
    options = [replace(option, gain=1.5 if option.value[0] == "pairs" else 1.1) for option in others]
    for pairs, squares, form in [
        (70, 80, "squares"),
        (70, 95, None),
        (55, 80, "pairs"),
        (60, 80, "squares"),
        (60, 50, "squares"),
    ]:
        cheapest = CheapestOptions(Tariff(100, pairs=pairs, squares=squares), 4)
        value = cheapest.answer(replace(question, options=(default, *options))).value
        assert (value and value[0]) == form


def test_forms_that_have_no_room_are_left_out() -> None:
    assert picked(Tariff(100, pairs=60, squares=None)).form is Form.PAIRS
    question = asked()
    refused = [question.choice(option) for option in question.options[1:] if option.value[0] == "squares"]
    assert picked(Tariff(100, pairs=60, squares=50), refused=refused).form is Form.PAIRS
    others = [replace(choice, node=NodeId(question.number + 1)) for choice in refused]
    others += [replace(choice, value=("squares", choice.value[1] + 1)) for choice in refused]
    assert picked(Tariff(100, pairs=60, squares=50), refused=others).form is Form.SQUARES


def test_the_forms_of_a_launch_are_those_that_are_predicted_to_be_quickest() -> None:
    """Squares use 16 matrices for 36 taps, so 512 columns of 128 channels are faster in squares."""
    wide = model_of(ending_in_dense((128, 16, 16), [conv("a", 128, 128, 3), conv("b", 128, 128, 3)]))
    cost_model = CostModel("trn2", 4)
    cheapest = CheapestOptions(cost_model, 2)
    layout = pipeline_of(wide, forms=FORMS).lower(Decisions(), cheapest.answer)
    number = number_of(layout.graph, "b")
    (chosen,) = [
        each.value[0] for each in cheapest.made if each.node == layout.graph.nodes[number].id and each.kind is Kind.FORM
    ]
    cost = cost_model.cost(layout.graph, number, 2).nanoseconds
    direct = pipeline_of(wide, forms=FORMS).lower(Decisions()).graph
    assert chosen in {form.value for form in FORMS}
    assert cost < cost_model.cost(direct, number_of(direct, "b"), 2).nanoseconds / FORM_GAIN


@pytest.mark.parametrize(("images", "priced"), [(0, 1), (1, 1), (MOST_PRICED, MOST_PRICED), (100, MOST_PRICED)])
def test_more_images_are_priced_as_a_few(images: int, priced: int) -> None:
    cost_model = Tariff(100, pairs=90, squares=90)
    picked(cost_model, images)
    assert {asked for _, asked in cost_model.asked} == {priced}


def test_copies_are_worth_it_where_they_cost_less_than_they_save() -> None:
    class WithCopies(CostModel):
        """Matmuls with all taps on the partitions cost 40, otherwise 100; copies add `copying`."""

        def __init__(self, copying: float) -> None:
            super().__init__("trn2", 4)
            self.copying = copying

        def cost(self, graph: Graph, number: int, images: int) -> Cost:
            operation = graph.nodes[number].operation
            assert isinstance(operation, Convolution)
            if number == 1:  # the reader, whose input has the copies that it needs
                assert graph.nodes[0].convolution.copies.count == operation.taps.rows
                return Cost(40 if operation.taps.rows > 1 else 100, 1)
            return Cost(200 + self.copying * (operation.copies.count > 1), 1)

    few = ending_in_dense((8, 8, 8), [conv("a", 8, 16, 3), conv("b", 16, 16, 3)])
    for copying, worth in ((59, True), (60, False), (61, False)):
        packed = pack_taps(graph_of(few), CheapestOptions(WithCopies(copying), 4).answer)
        assert (packed.nodes[0].convolution.copies.count > 1) is worth


def test_copies_are_as_many_as_taps_and_as_far_apart_as_the_dilation() -> None:
    seen: list[Copies] = []

    class Watching(CostModel):
        def cost(self, graph: Graph, number: int, images: int) -> Cost:
            seen.append(graph.nodes[0].convolution.copies)
            return Cost(1, 1)

    few = ending_in_dense((8, 12, 12), [conv("a", 8, 16, 3), conv("b", 16, 16, 3, dilation=(2, 1))])
    pack_taps(graph_of(few), CheapestOptions(Watching("trn2", 4), 1).answer)
    assert Copies(3, 2, 32) in seen and Copies() in seen


@pytest.mark.parametrize("channels", [64, 130])
def test_forms_are_priced_with_the_taps_that_they_would_have(channels: int) -> None:
    """Combined values have no copies, and begin at the partitions of their first tile."""
    seen: list[tuple[Convolution, Copies]] = []

    class Watching(CostModel):
        def cost(self, graph: Graph, number: int, images: int) -> Cost:
            operation = graph.nodes[number].operation
            if isinstance(operation, Convolution):
                source = operation.sources[0][0]
                seen.append((operation, graph.nodes[source].operation.copies))  # type: ignore[attr-defined]
            return Cost(1, 1)

    layers = [conv("a", 3, channels, 3, stride=(2, 2)), conv("b", channels, channels, 3)]
    pipeline = pipeline_of(model_of(ending_in_dense((3, 32, 32), layers)), forms=FORMS)
    pipeline.lower(Decisions(), CheapestOptions(Watching("trn2", 4), 1).answer)
    of_forms = [(operation, copies) for operation, copies in seen if operation.form is not Form.DIRECT]
    assert of_forms and all(copies == Copies() for _, copies in of_forms)
    assert {operation.taps for operation, _ in of_forms} == {Taps(1, 1, min(channels, 128))}
    for operation, copies in seen:
        if operation.form is Form.DIRECT and operation.taps.count > 1:
            assert copies == Copies(operation.taps.rows, 1, operation.taps.stride)
        else:
            assert copies == Copies()


def test_a_total_is_the_sum_for_one_image_in_passes_of_fewer_where_all_are_too_many() -> None:
    graph = graph_of(NETWORK)
    whole = CheapestOptions(Tariff(100), 4).total(graph)
    assert whole == len(graph.nodes) * 100 / 4

    class Small(Tariff):
        """A chip on which two images fit."""

        def cost(self, graph: Graph, number: int, images: int) -> Cost:
            if images > 2:
                raise Unsupported("too many")
            return super().cost(graph, number, images)

    assert CheapestOptions(Small(100), 3).total(graph) == len(graph.nodes) * 100 / 2
    with pytest.raises(Unsupported, match="no room"):
        CheapestOptions(Small(None), 4).total(graph)  # type: ignore[arg-type]


def test_a_total_counts_all_images_of_operations_that_have_fewer_on_the_partitions() -> None:
    """Of eight packed images, many channels leave one on the partitions and put eight along the free axis."""
    network = ending_in_dense((3, 16, 16), [conv("a", 3, 16, 3), conv("b", 16, 128, 3), conv("c", 128, 128, 3)])
    graph = pipeline_of(model_of(network)).lower(Decisions((Choice(Kind.PACK_IMAGES, value=8),))).graph
    apart = [graph.packed // graph.packed_in(node) for node in graph.nodes]
    assert graph.packed == 8 and min(apart) == 1 and max(apart) == 8
    tariff = Tariff(100)
    assert CheapestOptions(tariff, 1).total(graph) == sum(100 * more / min(more, MOST_PRICED) for more in apart)
    assert [images for _, images in tariff.asked] == [min(more, MOST_PRICED) for more in apart]
