"""Networks lowered with given decisions or with the fastest ones, and the outputs of their launches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from random_networks import labels, model_of, picture
from trninfer import kernels, simulator
from trninfer.kernels.convolution.forms import Form
from trninfer.kernels.program import Convolution, Operation
from trninfer.lowering.config import LoweringConfig
from trninfer.lowering.decisions import Choice, Decisions, Kind
from trninfer.lowering.describe import rows_of
from trninfer.lowering.eight_bits import EightBits
from trninfer.lowering.emission.schedule import Region, Schedule, StageOf
from trninfer.lowering.graph.arrangement import image_of
from trninfer.lowering.graph.graph import Graph, Node, NodeId, Unsupported
from trninfer.lowering.launch_sequence import LaunchSequence, lower_layers
from trninfer.lowering.passes.pack_images import choices_of
from trninfer.lowering.pipeline import LaunchPlan, Pipeline
from trninfer.lowering.plan_cache import PlanCache
from trninfer.lowering.search.cost_model import CostModel
from trninfer.models.checks import INPUT, Shape
from trninfer.models.files import Model
from trninfer.models.golden import probabilities_of, run_network
from trninfer.models.layers import Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.runtime.backend import DTYPES, EIGHT_BITS, NETWORK_DTYPES
from trninfer.simulator.machine.chip import find_target

TOLERANCES = {"float32": 2e-5, "float16": 1e-2, "bfloat16": 6e-2}  # for numbers of magnitude 1, as in all layers
IN_EIGHT_BITS = 0.2  # tolerance of networks in 8 bits
MAGNITUDE = 8.0  # of their values
INSTRUCTIONS = 50_000  # of a launch
ALL = (None,)  # all nodes to which the choice applies

Pass = Callable[[Graph], Graph | None]


def decide(
    graph: Graph | None = None,
    *,
    fills_with_rows: bool = False,
    packs_rows: bool = False,
    pack_depthwise_expansions: bool = False,
    pads_channels: bool = False,
    splits_phases: bool = False,
    splits_means: bool = False,
    turns_scores: bool = False,
    packed: int = 1,
    at_once: int = 0,
    filled_taps: int = 0,
    forms: Iterable[tuple[NodeId | None, str, int]] = (),
    copied: Iterable[NodeId | None] = (),
    fp8: Iterable[NodeId | None] = (),
    in_hbm: Iterable[int] = (),
    regions: Iterable[Region] = (),
    stages: Iterable[StageOf] = (),
    others: Iterable[Choice] = (),
) -> Decisions:
    """Return decisions by kind, for the whole launch, and for some nodes or ALL. Numbers refer to nodes of a graph, or
    to nodes before any pass; `stages` are followed by a last stage of `at_once` images."""

    def named(number: int) -> NodeId:
        return NodeId(number) if graph is None else graph.nodes[number].id

    of_launch = {
        Kind.FILL_WITH_ROWS: fills_with_rows,
        Kind.PACK_ROWS: "expansions" if pack_depthwise_expansions else "few_channels" if packs_rows else "",
        Kind.PAD_CHANNELS: "all" if pads_channels else "",
        Kind.SPLIT_PHASES: splits_phases,
        Kind.SPLIT_MEANS: splits_means,
        Kind.PACK_IMAGES: packed if packed > 1 else 0,
        Kind.STAGE: at_once,
        Kind.FILL_TAPS: filled_taps,
        Kind.CLASSES_ON_PARTITIONS: turns_scores,
    }
    of_nodes = {
        Kind.COPIES: copied,
        Kind.FP8: fp8,
        Kind.SPILL: map(named, in_hbm),
    }
    return Decisions(
        (
            *(Choice(kind, value=value) for kind, value in of_launch.items() if value),
            *(Choice(kind, node) for kind, nodes in of_nodes.items() for node in nodes),
            *(Choice(Kind.FORM, node, (form, budget_bytes)) for node, form, budget_bytes in forms),
            *(Choice(Kind.STAGE, named(stage.end - 1), stage.at_once) for stage in stages),
            *(Choice(Kind.BANDS, named(each.end - 1), (named(each.first), each.bands)) for each in regions),
            *others,
        )
    )


def regions_of(decisions: Decisions, graph: Graph) -> tuple[Region, ...]:
    """Return the regions of a graph that run in bands."""
    return Schedule.of(decisions, graph).regions


def spilled_of(decisions: Decisions, graph: Graph) -> tuple[int, ...]:
    """Return the nodes of a graph whose values are in HBM."""
    return tuple(sorted(graph.numbers[node] for node in decisions.of(Kind.SPILL) if node is not None))


def id_of(graph: Graph, name: str) -> NodeId:
    """Return the id of the last node of a layer."""
    return graph.nodes[number_of(graph, name)].id


def graph_of(network: Network | Model, dtype: str = "float32") -> Graph:
    """Return the graph of a network with random weights before any pass."""
    return lower_layers(network if isinstance(network, Model) else model_of(network), DTYPES[dtype])


def after(graph: Graph, *passes: Pass) -> Graph:
    """Return a graph after some passes, all of which must apply."""
    for run in passes:
        changed = run(graph)
        assert changed is not None
        graph = changed
    return graph


def nodes_of(graph: Graph, name: str) -> list[Node]:
    """Return the nodes of a layer."""
    return [node for node in graph.nodes if node.name == name]


def number_of(graph: Graph, name: str) -> int:
    """Return the number of the last node of a layer."""
    return max(number for number, node in enumerate(graph.nodes) if node.name == name)


def operation_of(graph: Graph, name: str) -> Operation:
    """Return the operation of a layer that is a single node."""
    (node,) = nodes_of(graph, name)
    return node.operation


def convolution_of(graph: Graph, name: str) -> Convolution:
    """Return the only convolution of a layer, ignoring loads and pools."""
    (operation,) = [node.operation for node in nodes_of(graph, name) if isinstance(node.operation, Convolution)]
    return operation


def tensor_spec(spec: Any) -> simulator.TensorSpec:
    """Return the shape and dtype of an array or of its spec, in the simulator's form."""
    return simulator.TensorSpec(spec.shape, np.dtype(spec.dtype).name)


def planned(
    network: Network | Model, batch: int = 1, dtype: str = "float32", target: str = "trn2", forms: Sequence[Form] = ()
) -> LaunchPlan:
    """Return the fastest launch of a network that is a single launch."""
    model = network if isinstance(network, Model) else model_of(network)
    config = LoweringConfig(target, DTYPES[dtype].itemsize, tuple(forms), PlanCache(None))
    (segment,) = LaunchSequence(model, DTYPES[dtype], config, INSTRUCTIONS).segments
    return segment.plan(batch)


def pipeline_of(model: Model, dtype: str = "float32", target: str = "trn2", forms: Sequence[Form] = ()) -> Pipeline:
    """Return the pipeline that lowers a network as one launch, assuming that 8-bit values have a largest magnitude of
    MAGNITUDE."""
    eight_bits = EightBits(lambda name: MAGNITUDE, values=True) if dtype == EIGHT_BITS else None
    graph = lower_layers(model, NETWORK_DTYPES[dtype], eight_bits)
    return Pipeline(graph, tuple(forms), find_target(target).usable_sbuf_bytes)


def decided(
    network: Network | Model,
    decisions: Decisions,
    batch: int = 1,
    dtype: str = "float32",
    forms: Sequence[Form] = (),
    at_once: int = 0,
) -> LaunchPlan:
    """Return the launch of a network with the given decisions, in passes of `at_once` images, or of all that are not
    packed."""
    model = network if isinstance(network, Model) else model_of(network)
    pipeline = pipeline_of(model, dtype, forms=forms)
    if not decisions.of(Kind.STAGE):
        images = -(-batch // decisions.value(Kind.PACK_IMAGES, default=1))
        decisions = decisions.having(Choice(Kind.STAGE, value=at_once or images))
    return pipeline.launch(decisions, batch)


def applicable(network: Network | Model, decisions: Decisions, batch: int = 1) -> Decisions:
    """Remove decisions that do not apply to a network: phases, padded channels, or the number of packed images."""
    pipeline = pipeline_of(network if isinstance(network, Model) else model_of(network))
    packed = decisions.value(Kind.PACK_IMAGES, default=1)
    decisions = decisions.without(Kind.PACK_IMAGES)
    for kind in (Kind.SPLIT_PHASES, Kind.PAD_CHANNELS):
        try:
            pipeline.run(decisions)
        except Unsupported:
            decisions = decisions.without(kind)
    graph = dict(pipeline.run(decisions))["load_taps"]
    images = max((images for images in choices_of(graph, batch) if images <= packed), default=1)
    return decisions if images == 1 else decisions.having(Choice(Kind.PACK_IMAGES, value=images))


def nanoseconds(plan: LaunchPlan, dtype: str = "float32", target: str = "trn2") -> float:
    """Return the predicted time of a launch."""
    return CostModel(target, DTYPES[dtype].itemsize).walk(plan.program, plan.layout).nanoseconds


def answers(model: Model, plan: LaunchPlan, x: np.ndarray, dtype: str = "float32", target: str = "trn2") -> np.ndarray:
    """Return the outputs of a launch in the form of the network's outputs, concatenated."""
    image = image_of(model)
    numbers = NETWORK_DTYPES[dtype]
    given, operands = plan.arrange(image.of(x.astype(numbers)), image.shape, numbers), plan.layout.operands(numbers)
    with np.errstate(all="ignore"):
        kernel = kernels.kernel("run_network")
        run = simulator.run(kernel, given, **operands, target=target, program=plan.program)
    returned = [np.asarray(values)[: len(x)].reshape(len(x), -1) for values, _ in plan.outputs(run.outputs)]
    outputs = [named.output for named in model.network.named_outputs]
    found = [probabilities_of(each.astype(np.float32), output) for each, output in zip(returned, outputs, strict=True)]
    return np.concatenate(found, axis=1)


def assert_right(
    network: Network | Model,
    decisions: Decisions,
    batch: int = 1,
    dtype: str = "float32",
    *,
    target: str = "trn2",
    forms: Sequence[Form] = (),
    at_once: int = 0,
    tolerance: float = 0.0,
) -> LaunchPlan:
    """Return the launch of a network with the given decisions, checking that it agrees with the golden model."""
    model = network if isinstance(network, Model) else model_of(network)
    plan = decided(model, decisions, batch, dtype, forms, at_once)
    x = np.random.default_rng(4).standard_normal((batch, *model.network.input.shape)).astype(np.float32)
    expected = np.concatenate([each.probabilities for each in run_network(model.network, model.tensors, x).outputs], 1)
    share = IN_EIGHT_BITS if dtype == EIGHT_BITS else TOLERANCES[dtype]
    atol = tolerance or share * max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(answers(model, plan, x, dtype, target), expected, atol=atol, rtol=0)
    return plan


def kinds_of(layers: Sequence[Layer], channels: int = 3, *, ends: bool = True, batch: int = 2) -> list[str]:
    """Return the kinds of the nodes of layers on a small image, checking that the outputs agree with the golden model
    in all dtypes.

    `ends`: append global average pooling and a dense layer.
    """
    image = picture(channels, 6)
    shapes: dict[str, Shape] = {INPUT: image.shape}
    for layer, before in zip(layers, [INPUT, *(layer.name for layer in layers)]):
        shapes[layer.name] = layer.output_shape(*[shapes[name] for name in layer.inputs or (before,)])
    last = shapes[layers[-1].name]
    if ends:
        mean = Pool("mean", "average", last[1:], (1, 1))  # type: ignore[arg-type]
        layers, last = [*layers, mean, Flatten("flat"), Dense("dense", last[0], 4)], (4,)
    network = Network("n", image, tuple(layers), labels(last[0]))
    for dtype in TOLERANCES:
        assert_right(network, Decisions(), batch, dtype)
    graph = graph_of(network)
    known = {name: shape for name, shape in network.shapes().items() if len(shape) == 3}
    for row in rows_of(graph):  # tables show shapes as in the network
        assert row.name not in known or row.after in (known[row.name], (known[row.name][0], 1, 1))
    return [node.kind for node in graph.nodes]
