"""Costs: the predicted time of a launch, of a single operation, and of loading weights."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from lowered import decide, decided, graph_of, number_of, pipeline_of, tensor_spec
from random_networks import chains, conv, ending_in_dense, graphs, labels, model_of, picture
from trninfer import kernels, simulator
from trninfer.kernels.program import DenseHead
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.graph.graph import Graph, Unsupported
from trninfer.lowering.search import cost_model as cost_models
from trninfer.lowering.search.cost_model import Cost, CostModel, dtype_of
from trninfer.models.layers import Conv2d, Dense, Flatten, Pool
from trninfer.models.network import Network
from trninfer.simulator.timing.constants import changed, machine

NETWORK = ending_in_dense((3, 12, 12), [conv("a", 3, 16, 3), conv("b", 16, 16, 3), conv("c", 16, 32, 3)])
M = machine("trn2")
WIDE = ending_in_dense((64, 28, 28), [conv("a", 64, 128, 3), conv("b", 128, 128, 3), conv("c", 128, 128, 3)])


@pytest.fixture(scope="module")
def cost_model() -> CostModel:
    return CostModel("trn2", 4)


def laid_out(network: Network = NETWORK) -> Graph:
    return pipeline_of(model_of(network)).lower(Decisions()).graph


@pytest.mark.parametrize(("itemsize", "dtype"), [(4, np.float32), (2, ml_dtypes.bfloat16)])
def test_a_size_of_numbers_stands_for_a_dtype(itemsize: int, dtype: type) -> None:
    assert dtype_of(itemsize) == np.dtype(dtype)


@pytest.mark.parametrize(("target", "itemsize"), [("trn1", 4), ("trn2", 2), ("trn3", 4)])
def test_a_launch_costs_what_the_simulator_predicts_beside_the_launch_itself(target: str, itemsize: int) -> None:
    dtype = dtype_of(itemsize).name
    plan = decided(NETWORK, Decisions(), 3, dtype)
    cost = CostModel(target, itemsize).walk(plan.program, plan.layout)
    x = plan.arrange(np.zeros((3, 3, 12, 12), np.float32), (3, 12, 12), np.dtype(dtype))
    operands = plan.layout.operands(np.dtype(dtype))
    specs = {name: tensor_spec(each) for name, each in {"x": x, **operands}.items()}
    kernel = kernels.kernel("run_network")
    run = simulator.run(kernel, **specs, target=target, functional=False, program=plan.program)
    assert cost.nanoseconds == pytest.approx(1000 * (run.latency_us - run.launch_us))
    assert cost.instructions == len(run.program)


def test_the_operations_of_a_launch_cost_about_as_much_as_all_of_it(cost_model: CostModel) -> None:
    """Each operation includes its share of filling the pipeline and loading weights, part of which a launch hides."""
    plan = decided(NETWORK, Decisions(), 2)
    graph = plan.graph
    walked = cost_model.walk(plan.program, plan.layout)
    alone = [cost_model.cost(graph, number, 2) for number in range(len(graph.nodes))]
    assert 0.8 * walked.nanoseconds < sum(cost.nanoseconds for cost in alone) < 2 * walked.nanoseconds
    assert sum(cost.instructions for cost in alone) == pytest.approx(walked.instructions, rel=0.35)
    few, many = (cost_model.cost(graph, number_of(graph, "b"), images).nanoseconds for images in (2, 16))
    assert 4 * few < many < 8.5 * few


def test_operations_that_are_alike_are_walked_once(cost_model: CostModel, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = laid_out(ending_in_dense((3, 12, 12), [conv("a", 3, 16, 3), conv("b", 16, 16, 3), conv("c", 16, 16, 3)]))
    b, c = number_of(graph, "b"), number_of(graph, "c")
    first = cost_model.cost(graph, b, 2)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("walked again")

    monkeypatch.setattr(simulator, "run", refuse)
    assert cost_model.cost(graph, b, 2) == first
    renamed = graph.with_nodes(
        node.changed(name=f"x{n}", bias=n) if n == b else node for n, node in enumerate(graph.nodes)
    )
    assert cost_model.cost(renamed, b, 2) == first
    assert cost_model.cost(graph, c, 2) == first  # a layer of the same size
    with pytest.raises(AssertionError, match="walked again"):
        cost_model.cost(graph, b, 11)


def test_more_columns_and_channels_and_wider_numbers_cost_more() -> None:
    def cost(itemsize: int = 4, side: int = 16, channels: int = 64) -> float:
        network = ending_in_dense((3, side, side), [conv("a", 3, channels, 3), conv("b", channels, channels, 3)])
        graph = replace(laid_out(network), itemsize=itemsize)
        return CostModel("trn2", itemsize).cost(graph, number_of(graph, "b"), 4).nanoseconds

    plain = cost()
    assert cost(side=32) > 2 * plain and cost(channels=256) > 2 * plain
    assert cost(itemsize=2) < 0.5 * plain


def test_an_operation_that_reads_hbm_costs_its_loads(cost_model: CostModel) -> None:
    pipeline = pipeline_of(model_of(ending_in_dense((3, 24, 24), [conv("a", 3, 128, 3), conv("b", 128, 8, 1)])))
    inside = pipeline.lower(Decisions()).graph
    number, source = number_of(inside, "b"), number_of(inside, "a")
    from_hbm = pipeline.lower(decide(inside, in_hbm=(source,))).graph
    plain, loading = (cost_model.cost(graph, number, 4) for graph in (inside, from_hbm))
    assert loading.nanoseconds > plain.nanoseconds and loading.instructions > plain.instructions
    assert loading.nanoseconds > 4 * 128 * 24 * 24 * 4 / M.dma_sustained  # bytes of four images


def test_weights_are_loaded_in_each_pass() -> None:
    """2.4 million weights for 16 columns: loading dominates the time."""
    network = ending_in_dense((512, 4, 4), [conv("a", 512, 512, 1), conv("b", 512, 512, 3)])
    graph = replace(laid_out(network), itemsize=2)
    cost = CostModel("trn2", 2).cost(graph, number_of(graph, "b"), 1)
    loading = 2 * 512 * 512 * 9 / M.dma_sustained
    assert loading < cost.nanoseconds < 1.3 * loading


def test_what_is_too_large_for_sbuf_is_priced_in_bands_of_rows(cost_model: CostModel) -> None:
    """One image with 300 rows and columns takes 360 KB per partition; its time is that of four images of a quarter of
    the size."""
    convolutions = [Conv2d(name, 3, 3, (3, 3), (1, 1, 1, 1)) for name in "ab"]
    graphs = [
        laid_out(ending_in_dense((3, side, 300), [*convolutions, Pool("mean", "average", (side, 300), (1, 1))]))
        for side in (300, 75)
    ]
    whole, band = (cost_model.cost(graph, number_of(graph, "b"), 1) for graph in graphs)
    assert whole.nanoseconds == pytest.approx(4 * band.nanoseconds, rel=0.1)
    assert whole.instructions == pytest.approx(4 * band.instructions, rel=0.1)
    assert whole.multiplying == pytest.approx(4 * band.multiplying, rel=0.1)


def test_large_operations_are_priced_by_a_part_of_their_pixels(
    cost_model: CostModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine images with 96 rows and columns have the same estimate as when all are simulated together."""
    graph = laid_out(ending_in_dense((32, 96, 96), [conv("a", 32, 32, 3), conv("b", 32, 32, 3)]))
    b = number_of(graph, "b")
    part = cost_model.cost(graph, b, 9)
    monkeypatch.setattr(cost_models, "MOST_PIXELS", 10**6)
    whole = CostModel("trn2", 4)._two_passes(cost_models._SingleOperation(graph, b), 9).cost(1)
    for name in ("nanoseconds", "instructions", "multiplying"):
        assert getattr(part, name) == pytest.approx(getattr(whole, name), rel=0.1)


def test_what_is_certain_not_to_fit_is_not_simulated_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model, simulated = CostModel("trn2", 4), list[int]()
    run = model._run
    monkeypatch.setattr(
        model, "_run", lambda program, *others: simulated.append(program.pictures) or run(program, *others)
    )
    graph = laid_out(ending_in_dense((8, 231, 231), [conv("a", 8, 16, 3), conv("b", 16, 16, 3)]))
    model.cost(graph, number_of(graph, "b"), 1)
    assert len(simulated) == 1  # in bands


def test_an_operation_that_barely_fits_is_simulated_as_a_whole() -> None:
    graph = laid_out(ending_in_dense((128, 80, 80), [conv("a", 128, 128, 1), conv("b", 128, 128, 1)]))
    cost = CostModel("trn2", 4).cost(graph, number_of(graph, "b"), 8)  # its value takes 204,800 of 212,984 bytes
    assert cost.multiplying > 0  # unknown of bands


def test_an_operation_that_nothing_makes_smaller_does_not_fit(cost_model: CostModel) -> None:
    dense = Network(
        "n", picture(3, 200, 200), (conv("a", 3, 4, 3), Flatten("f"), Dense("d", 4 * 200 * 200, 3)), labels(3)
    )
    graph = graph_of(dense)
    number = next(n for n, node in enumerate(graph.nodes) if isinstance(node.operation, DenseHead))
    with pytest.raises(Unsupported, match="SBUF"):
        cost_model.cost(graph, number, 40)


@pytest.mark.parametrize(("itemsize", "target"), [(4, "trn2"), (2, "trn2"), (4, "trn1")])
def test_weights_load_at_the_rate_of_the_dmas(itemsize: int, target: str) -> None:
    cost_model = CostModel(target, itemsize)
    expected = 1_000_000 * itemsize / machine(target).dma_sustained
    assert expected < cost_model.loading(1_000_000) < 2 * expected  # includes the matmuls that wait for them
    assert cost_model.loading(0) == 0 and cost_model.loading(3e6) == pytest.approx(3 * cost_model.loading(1e6))


def test_a_core_of_two_has_half_of_the_stack_of_hbm() -> None:
    one, two = CostModel("trn2", 4), CostModel("trn2", 4, cores=2)
    shared = M.hbm_stack_rate * M.hbm_shared_efficiency / 2
    assert two.loading(1e6) >= 4e6 / shared > 4e6 / M.dma_sustained
    assert one.loading(1e6) < two.loading(1e6)


def test_a_launch_that_needs_more_than_there_is_does_not_fit(cost_model: CostModel) -> None:
    model = model_of(ending_in_dense((3, 64, 64), [conv("a", 3, 64, 3), conv("b", 64, 8, 1)]))
    plan = decided(model, Decisions(), 64)
    with pytest.raises(Unsupported, match="SBUF"):
        cost_model.walk(plan.program, plan.layout)


def least_and_walked(network: Network, images: int = 1, dtype: str = "float32") -> tuple[float, float]:
    """Return the lower bound of a one-pass launch, from the costs of its operations, and its simulated time."""
    model = model_of(network)
    cost_model = CostModel("trn2", np.dtype(np.float32).itemsize if dtype == "float32" else 2)
    plan = decided(model, Decisions(), images, dtype)
    for number in range(len(plan.graph.nodes)):
        cost_model.cost(plan.graph, number, images)
    return cost_model.least(plan.graph, images).nanoseconds, cost_model.walk(plan.program, plan.layout).nanoseconds


@settings(max_examples=15, deadline=None)
@given(chains() | graphs())
def test_no_launch_is_quicker_than_the_least(network: Network) -> None:
    least, walked = least_and_walked(network)
    assert 0 < least <= walked


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_least_is_near_where_the_tensor_engine_is_busy(images: int, dtype: str) -> None:
    least, walked = least_and_walked(WIDE, images, dtype)
    assert walked / 3 < least < walked


def test_of_what_was_never_priced_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    cost_models._known_before.cache_clear()
    monkeypatch.setattr(CostModel, "_two_passes", lambda *_: cost_models._TwoPasses(Cost(4.0, 6, 2.0), 2.0, 1.0))
    cost_model, graph = CostModel("trn2", 4), pipeline_of(model_of(WIDE)).lower(Decisions()).graph
    assert cost_model.least(graph, 3) == Cost(0, 0)
    cost_model.cost(graph, 0, 3)
    assert cost_model.least(graph, 3) == Cost(1.0, 3) == CostModel("trn2", 4).least(graph, 3)
    assert CostModel("trn3", 4).least(graph, 3) == CostModel("trn2", 2).least(graph, 3) == Cost(0, 0)
    with changed("trn2", {"matmul_gap_ns": 9.0}):  # another machine
        assert CostModel("trn2", 4).least(graph, 3) == Cost(0, 0)
    monkeypatch.setattr(cost_models, "MOST_KNOWN", 1)
    cost_model.cost(graph, 1, 3)
    assert cost_model.least(graph, 3) == Cost(2.0, 6)  # for two similar operations
