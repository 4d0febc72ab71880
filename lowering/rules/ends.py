"""Lowering rules for the last layer of a network."""

from dataclasses import replace

from ...kernels.program import DenseHead, Ending, Store
from ...kernels.program import PixelArgmax as PixelArgmaxOperation
from ...models.layers import PixelArgmax, Softmax
from ...simulator.machine.chip import PARTITIONS
from ..builder import MOST_SCORES, GraphBuilder, lowers
from ..graph.graph import Node, Unsupported
from .views import keep

SCORES_BYTES = 136 * 1024  # bytes per partition for the weights of the last layer, all of which are resident


@lowers(Softmax)
def softmax(builder: GraphBuilder, layer: Softmax) -> None:
    """Fuse the softmax into the preceding dense layer if possible, else append scores with a softmax."""
    ending, read = Ending.LOG_SOFTMAX if layer.log else Ending.SOFTMAX, layer.inputs[0]
    last = builder.nodes[-1] if builder.is_last(read) and builder.is_read_once(read) else None
    if last is not None and _can_score(last, builder.dtype.itemsize) and _is_linear(last):
        builder.nodes[-1] = _as_scores(last, ending)
        keep(builder, layer)
    else:
        builder.add_scores(layer.name, read, ending)


@lowers(PixelArgmax)
def pixel_argmax(builder: GraphBuilder, layer: PixelArgmax) -> None:
    """Append an operation that returns the class of each pixel; the channels must be in the order of their layer."""
    source = layer.inputs[0]
    builder.make_plain(source)
    builder.add(PixelArgmaxOperation, layer.name, (source,), (1, *builder.shapes[source][1:]), kind=layer.kind)


def end(builder: GraphBuilder) -> None:
    """Mark the values that the network returns as outputs, and convert the primary one to scores if it has classes."""
    network = builder.model.network
    for number, named_output in enumerate(network.named_outputs):
        if number == 0:
            _end_in_scores(builder, named_output.layer)
        channel_map = builder.places[named_output.layer]
        if _is_stored_by_parts(builder, named_output.layer):
            stored_name, shape = builder.inner(named_output.layer), builder.shapes[named_output.layer]
            builder.add(Store, stored_name, (named_output.layer,), shape, kind="store")
            builder.mark_output(stored_name, number)
            continue
        if len(channel_map.parts) > 1 or not channel_map.are_plain or channel_map.parts[0] < 0:
            builder.gather(named_output.layer)
            channel_map = builder.places[named_output.layer]
        if builder.nodes[channel_map.parts[0]].output is not None:
            builder.gather(named_output.layer)
        builder.mark_output(named_output.layer, number)
    answers = {number for number, node in enumerate(builder.nodes) if node.operation.has_answers}
    for node in builder.nodes:
        if any(answers.intersection(parts) for parts in node.sources):
            raise Unsupported(f"layer {node.name!r} ({node.kind}) reads the output of a softmax")


def _is_stored_by_parts(builder: GraphBuilder, name: str) -> bool:
    """True if each part of an output is stored separately, because only the caller reads the output.

    Parts that are copied through HBM are written there directly.
    """
    channel_map = builder.places[name]
    if (
        len(channel_map.parts) == 1
        or min(channel_map.parts) < 0
        or not channel_map.are_plain
        or builder.are_moved(channel_map)
    ):
        return False
    return builder.model.network.readers()[name] == 0


def _end_in_scores(builder: GraphBuilder, name: str) -> None:
    """Convert the primary output to scores, if it has classes or is a dense layer."""
    last = builder.nodes[-1] if builder.nodes else None
    if last is not None and last.operation.has_answers and builder.is_last(name):
        return
    if last is not None and builder.is_last(name) and _can_score(last, builder.dtype.itemsize):
        builder.nodes[-1] = _as_scores(last, Ending.RAW)
    elif builder.model.network.output.is_labelled:
        scores = builder.inner(name)
        builder.add_scores(scores, name, Ending.RAW)
        builder.places[name] = builder.places[scores]


def _is_linear(node: Node) -> bool:
    convolution = node.operation.convolved
    return convolution is not None and convolution.activation.is_identity


def _can_score(node: Node, itemsize: int) -> bool:
    """True if `DenseHead` can compute a layer: its output is one number per channel.

    Larger layers are lowered like other layers, and the head only copies their values.
    """
    operation = node.operation.convolved
    return (
        operation is not None
        and operation.shape[1:] == (1, 1)
        and operation.channels <= MOST_SCORES
        and node.filters is not None
        and node.filters.size * itemsize <= PARTITIONS * SCORES_BYTES
        and (operation.pool_size, operation.groups, len(operation.sources)) == (1, 1, 1)
        and not any(operation.padding)
        and max(operation.dilation) == 1
    )


def _as_scores(node: Node, ending: Ending) -> Node:
    operation = node.convolution
    scores = DenseHead(
        name=operation.name,
        sources=operation.sources,
        channels=operation.channels,
        rows=1,
        columns=1,
        kernel=operation.kernel,
        activation=operation.activation,
        ending=ending,
    )
    return replace(node, operation=scores)
