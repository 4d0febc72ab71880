"""The advisor: of several nodes that compute the same the cheapest, unless it saves too little or has no room."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from lowered import graph_of, number_of, pipeline_of
from random_networks import conv, ending_in_dense, model_of
from trninfer.kernels.convolution.forms import Form
from trninfer.kernels.program import Convolution, Copies
from trninfer.kernels.tiling.packing import Taps
from trninfer.lowering.decisions import Decisions, forms_of
from trninfer.lowering.graph import DoesNotFit, Graph, Node
from trninfer.lowering.passes.choose_forms import FormChoice
from trninfer.lowering.price import Clock, Price
from trninfer.lowering.pricing import FORM_GAIN, MOST_PRICED, Pricing

FORMS = (Form.PAIRS, Form.SQUARES)
NETWORK = ending_in_dense((64, 16, 16), [conv("a", 64, 64, 3), conv("b", 64, 64, 3), conv("c", 64, 32, 3)])


class Tariff(Clock):
    """A clock by a list of prices: of each form, with nothing walked; None for what does not fit."""

    def __init__(self, direct: float, **of_forms: float | None) -> None:
        super().__init__("trn2", 4)
        self.prices = {Form.DIRECT: direct, **{Form(name): price for name, price in of_forms.items()}}
        self.asked: list[tuple[int, int]] = []

    def price(self, graph: Graph, number: int, images: int) -> Price:
        self.asked.append((number, images))
        operation = graph.nodes[number].operation
        price = self.prices[operation.form if isinstance(operation, Convolution) else Form.DIRECT]
        if price is None:
            raise DoesNotFit("no room")
        return Price(price, 1)


def candidates() -> tuple[Graph, int, Sequence[Node]]:
    """The graph when the pipeline asks for the form of layer b, and the nodes to choose from."""
    found: list[tuple[Graph, int, Sequence[Node]]] = []

    class Asking(Decisions):
        def pick_form(self, graph: Graph, number: int, candidates: Sequence[Node]) -> Node:
            found.append((graph, number, candidates))
            return candidates[0]

    pipeline_of(model_of(NETWORK), forms=FORMS).lower(Decisions(), Asking())
    return next(each for each in found if each[0].nodes[each[1]].name == "b")


def picked(clock: Clock, images: int = 4, refused: Sequence[FormChoice] = ()) -> Convolution:
    operation = Pricing(clock, images, refused).pick_form(*candidates()).operation
    assert isinstance(operation, Convolution)
    return operation


def test_the_cheapest_form_is_picked() -> None:
    assert {node.operation.form for node in candidates()[2]} == {Form.DIRECT, *FORMS}  # type: ignore[attr-defined]
    assert picked(Tariff(100, pairs=60, squares=50)).form is Form.SQUARES
    assert picked(Tariff(100, pairs=50, squares=60)).form is Form.PAIRS
    assert picked(Tariff(100, pairs=120, squares=110)).form is Form.DIRECT


def test_a_form_that_saves_too_little_is_not_worth_its_errors() -> None:
    least = 100 / FORM_GAIN
    assert picked(Tariff(100, pairs=least + 0.1, squares=99)).form is Form.DIRECT
    assert picked(Tariff(100, pairs=least, squares=99)).form is Form.DIRECT
    assert picked(Tariff(100, pairs=least - 0.1, squares=99)).form is Form.PAIRS


def test_forms_that_have_no_room_are_left_out() -> None:
    assert picked(Tariff(100, pairs=60, squares=None)).form is Form.PAIRS
    graph, number, nodes = candidates()
    refused = [
        FormChoice(number, node.operation.form, node.operation.group_bytes)  # type: ignore[attr-defined]
        for node in nodes
        if node.operation.form is Form.SQUARES  # type: ignore[attr-defined]
    ]
    assert picked(Tariff(100, pairs=60, squares=50), refused=refused).form is Form.PAIRS
    others = [FormChoice(number + 1, choice.form, choice.room) for choice in refused]
    others += [FormChoice(number, choice.form, choice.room + 1) for choice in refused]
    assert picked(Tariff(100, pairs=60, squares=50), refused=others).form is Form.SQUARES
    assert isinstance(graph.nodes[number].operation, Convolution)


def test_the_forms_of_a_launch_are_those_that_are_predicted_to_be_quickest() -> None:
    """Squares multiply 16 matrices for 36 taps, so that 512 columns of 128 channels are quicker in them."""
    wide = model_of(ending_in_dense((128, 16, 16), [conv("a", 128, 128, 3), conv("b", 128, 128, 3)]))
    clock = Clock("trn2", 4)
    layout = pipeline_of(wide, forms=FORMS).lower(Decisions(), Pricing(clock, 2))
    number = number_of(layout.graph, "b")
    (chosen,) = [form for n, form, _ in forms_of(layout.graph) if n == number]
    price = clock.price(layout.graph, number, 2).nanoseconds
    direct = pipeline_of(wide, forms=FORMS).lower(Decisions()).graph
    assert chosen in {form.value for form in FORMS}
    assert price < clock.price(direct, number_of(direct, "b"), 2).nanoseconds / FORM_GAIN


@pytest.mark.parametrize(("images", "priced"), [(0, 1), (1, 1), (MOST_PRICED, MOST_PRICED), (100, MOST_PRICED)])
def test_more_images_are_priced_as_a_few(images: int, priced: int) -> None:
    clock = Tariff(100, pairs=90, squares=90)
    picked(clock, images)
    assert {asked for _, asked in clock.asked} == {priced}


def test_copies_are_worth_it_where_they_cost_less_than_they_save() -> None:
    class WithCopies(Clock):
        """Matmuls with all taps side by side cost 40, else 100; copies cost so much more than none."""

        def __init__(self, copying: float) -> None:
            super().__init__("trn2", 4)
            self.copying = copying

        def price(self, graph: Graph, number: int, images: int) -> Price:
            operation = graph.nodes[number].operation
            assert isinstance(operation, Convolution)
            if number == 1:  # the reader, whose input has the copies that it reads
                assert graph.nodes[0].operation.copies.count == operation.taps.rows  # type: ignore[attr-defined]
                return Price(40 if operation.taps.rows > 1 else 100, 1)
            return Price(200 + self.copying * (operation.copies.count > 1), 1)

    few = ending_in_dense((8, 8, 8), [conv("a", 8, 16, 3), conv("b", 16, 16, 3)])
    graph, taps = graph_of(few), Taps(2, 1, 32)
    for copying, worth in ((59, True), (60, False), (61, False)):
        assert Pricing(WithCopies(copying), 4).are_worth_copies(graph, 1, 0, taps) is worth


def test_copies_are_as_many_as_taps_and_as_far_apart_as_the_dilation() -> None:
    seen: list[Copies] = []

    class Watching(Clock):
        def price(self, graph: Graph, number: int, images: int) -> Price:
            seen.append(graph.nodes[0].operation.copies)  # type: ignore[attr-defined]
            return Price(1, 1)

    few = ending_in_dense((8, 12, 12), [conv("a", 8, 16, 3), conv("b", 16, 16, 3, dilation=(2, 1))])
    Pricing(Watching("trn2", 4), 1).are_worth_copies(graph_of(few), 1, 0, Taps(3, 1, 32))
    assert Copies(3, 2, 32) in seen and Copies() in seen


@pytest.mark.parametrize("channels", [64, 130])
def test_forms_are_priced_with_the_taps_that_they_would_have(channels: int) -> None:
    """What is combined has no copies, and begins on the partitions of its first tile."""
    seen: list[tuple[Convolution, Copies]] = []

    class Watching(Clock):
        def price(self, graph: Graph, number: int, images: int) -> Price:
            operation = graph.nodes[number].operation
            assert isinstance(operation, Convolution)
            source = operation.sources[0][0]
            seen.append((operation, graph.nodes[source].operation.copies))  # type: ignore[attr-defined]
            return Price(1, 1)

    layers = [conv("a", 3, channels, 3, stride=(2, 2)), conv("b", channels, channels, 3)]
    pipeline = pipeline_of(model_of(ending_in_dense((3, 32, 32), layers)), forms=FORMS)
    pipeline.lower(Decisions(), Pricing(Watching("trn2", 4), 1))
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
    whole = Pricing(Tariff(100), 4).total(graph)
    assert whole == len(graph.nodes) * 100 / 4

    class Small(Tariff):
        """Two images fit."""

        def price(self, graph: Graph, number: int, images: int) -> Price:
            if images > 2:
                raise DoesNotFit("too many")
            return super().price(graph, number, images)

    assert Pricing(Small(100), 3).total(graph) == len(graph.nodes) * 100 / 2
    with pytest.raises(DoesNotFit, match="no room"):
        Pricing(Small(None), 4).total(graph)  # type: ignore[arg-type]
